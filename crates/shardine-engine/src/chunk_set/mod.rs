//! The chunks of an array as they are stored.

mod edges;
mod objects;
mod shards;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_codec::strided::{Axes, Placement};
use shardine_store::{Store, StoreError};

use crate::layout::{Layout, Target};
use crate::packing::{self, Packing, StoredBytes};
use crate::selection::Selection;
use crate::write::Patch;
use crate::{Engine, Error, WriteOptions, WriteReport, read, write};

pub use edges::EdgeLayouts;
pub use objects::PossibleObject;
pub use shards::{First, IndexedShard, actual_length, first_read};

/// The chunks of an array: where their objects live, which object holds which chunk, and how chunks
/// are encoded.
///
/// The array is divided into a grid of *cells*. The packing defines what a cell is: an object of
/// its own (a chunk or a shard), or a chunk that shares an object with others.
#[derive(Debug)]
pub struct ChunkSet {
    /// Unique among the chunk sets of an engine.
    pub(crate) id: u64,
    engine: Arc<Engine>,
    /// Where the objects live.
    pub store: Arc<dyn Store>,
    /// Which object holds which cell.
    pub packing: Box<dyn Packing>,
    /// The array's shape.
    pub shape: Vec<u64>,
    /// How each cell is encoded; its shape is that of a cell.
    pub layout: Layout,
    /// How clipped cells at the end of the array are encoded, if there are any.
    edges: Option<EdgeLayouts>,
    /// How many times an object was looked up by its key to be read. An object that was open before
    /// cannot have become another array's.
    pub(crate) lookups: AtomicU64,
}

impl ChunkSet {
    /// The chunks of an array of this shape. No request is made.
    pub fn new(
        engine: &Arc<Engine>,
        store: Arc<dyn Store>,
        packing: Box<dyn Packing>,
        shape: Vec<u64>,
        layout: Layout,
    ) -> Self {
        let (id, engine, lookups) = (engine.next_array(), Arc::clone(engine), AtomicU64::new(0));
        Self { id, engine, store, packing, shape, layout, edges: None, lookups }
    }

    /// The same, with cells clipped at the end of the array.
    pub fn with_edges(mut self, edges: EdgeLayouts) -> Self {
        self.edges = Some(edges);
        self
    }

    /// The engine that reads and writes them.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// How many times an object was looked up by its key to be read.
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Where a cell is stored; `None` if it is not.
    ///
    /// In a remote store this makes no request for a cell that is an object of its own: its first
    /// read shows whether it exists.
    pub fn find(&self, cell: &[u64]) -> Result<Option<StoredBytes>, StoreError> {
        packing::find(&*self.packing, &*self.store, cell)
    }

    /// The shape of a cell.
    pub fn cell_shape(&self) -> &[u64] {
        &self.layout.spec().shape
    }

    /// Whether cells are clipped at the end of an axis instead of padded.
    pub fn cuts_edges(&self) -> bool {
        self.edges.is_some()
    }

    /// How a cell is encoded.
    pub fn layout_of(&self, cell: &[u64]) -> &Layout {
        self.edges.as_ref().and_then(|edges| edges.get(cell)).unwrap_or(&self.layout)
    }

    /// How much of a cell lies inside the array.
    pub fn bounds(&self, cell: &[u64]) -> Axes<u64> {
        let axes = cell.iter().zip(self.cell_shape()).zip(&self.shape);
        axes.map(|((&i, &n), &len)| n.min(len.saturating_sub(i.saturating_mul(n)))).collect()
    }

    /// Reads the selected elements of the array, each selection to its own place in `target`.
    ///
    /// What several selections need from one object is read together.
    ///
    /// # Safety
    /// Nobody else may touch the target's window at the same time, and no two elements may share a
    /// place.
    pub unsafe fn read(
        &self,
        wanted: &[(Selection, Placement)],
        target: &Target<'_>,
    ) -> Result<(), Error> {
        // SAFETY: upheld by the caller.
        unsafe { read::read(&self.engine, self, wanted, target) }
    }

    /// Writes elements to selections of the array; where they overlap, the later one wins.
    ///
    /// Each object changes atomically.
    pub fn write(
        &self,
        patches: &[Patch<'_>],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        write::write(&self.engine, self, patches, options)
    }

    /// Removes the gaps from the object of this cell, if it exists. Nothing is decoded, and other
    /// writers wait.
    pub fn compact(&self, place: &[u64]) -> Result<(), Error> {
        write::compact(&self.engine, self, place)
    }
}

impl Drop for ChunkSet {
    fn drop(&mut self) {
        self.engine.close_array(self.id);
    }
}
