//! Arrays, whatever format they are stored in.
//!
//! An [`Array`] knows its shape and how its chunks are encoded and packed into objects, and that is
//! all it needs to read and write them. The documents that describe it belong to its format; what
//! an open array still needs from them is behind [`ArrayFormat`].

mod current;
#[cfg(feature = "ndarray")]
mod nd;
mod objects;
mod pick;
mod read;
mod span;
mod typed;
mod write;

use std::fmt::Debug;
use std::sync::Arc;

use shardine_codec::{CodecSpec, DataType, FillValue};

use crate::anchor::Anchor;
use crate::engine::{ChunkSet, is_streamed};
use crate::layout::{Layout, ShardLayout};
use crate::{Engine, Error, Location};

pub use current::HeldArray;
use current::Successor;
pub use pick::Pick;

/// An n-dimensional array of chunks, stored in any format.
///
/// [`Array::open`] opens one of any format, [`Array::builder`] creates a new one. Elements are read
/// and written as Rust values, and a region is given as ranges:
///
/// ```
/// use shardine::{Array, Location};
///
/// let place = Location::memory();
/// Array::builder([100, 100], "uint8").chunks([16, 16]).shards([64, 64]).create(&place)?;
///
/// let array = Array::open(&place)?;
/// array.write((90.., 90..), &[7u8; 100])?;
/// assert_eq!(array.read::<u8>((89..91, 99))?, [0, 7]);
/// # Ok::<(), shardine::Error>(())
/// ```
///
/// What only Zarr arrays have, such as attributes and resizing, is in
/// [`ArrayNode`](crate::ArrayNode). The scales of a precomputed volume come from
/// [`DataSet::array`](crate::DataSet::array).
#[derive(Debug)]
pub struct Array {
    location: Location,
    /// The shape that callers see. That of `chunks` is larger while planes are written that are not
    /// committed yet.
    shape: Vec<u64>,
    pub(crate) chunks: ChunkSet,
    codecs: Vec<CodecSpec>,
    chunk_shape: Vec<u64>,
    entry_shape: Option<Vec<u64>>,
    shard_shape: Option<Vec<u64>>,
    axis_names: Option<Vec<Option<String>>>,
    format: Box<dyn ArrayFormat>,
    /// Detects that another array has replaced this one, where that can happen.
    anchor: Option<Arc<Anchor>>,
    /// The array that has replaced this one.
    successor: Successor,
}

/// What an open array needs from the format it is stored in.
pub(crate) trait ArrayFormat: Debug + Send + Sync {
    /// Opens the array that is now at the location of one that was replaced.
    fn reopen(&self, engine: &Arc<Engine>, location: &Location) -> Result<Array, Error>;

    /// An error if elements must not be written.
    fn check_writable(&self, _location: &Location) -> Result<(), Error> {
        Ok(())
    }
}

impl Array {
    /// An array of these chunks, the innermost of which go through `codecs`. `location` is the data
    /// set whose documents describe the array. Makes no requests.
    pub(crate) fn new(
        location: &Location,
        chunks: ChunkSet,
        codecs: Vec<CodecSpec>,
        format: Box<dyn ArrayFormat>,
    ) -> Self {
        let layout = &chunks.layout;
        let cell = chunks.cell_shape();
        let (entry_shape, shard_shape) = match chunks.packing.shared() {
            Some(shared) => {
                let elements = |cells: &[u64]| {
                    cell.iter().zip(cells).map(|(&n, &cells)| n.saturating_mul(cells)).collect()
                };
                (Some(cell.to_vec()), shared.object_shape().map(|cells| elements(&cells)))
            }
            None => {
                let entry = |shard: &ShardLayout| shard.to_array_order(&shard.chunk_shape);
                let is_shard = !matches!(layout, Layout::Chunk(_));
                (layout.addressable().map(entry), is_shard.then(|| cell.to_vec()))
            }
        };
        Self {
            location: location.clone(),
            shape: chunks.shape.clone(),
            chunk_shape: layout.innermost_chunk_shape(),
            entry_shape,
            shard_shape,
            chunks,
            codecs,
            axis_names: None,
            format,
            anchor: None,
            successor: Successor::default(),
        }
    }

    /// The same array with names for its axes.
    pub(crate) fn with_axis_names(mut self, names: Option<Vec<Option<String>>>) -> Self {
        self.axis_names = names;
        self
    }

    /// The same array, with `anchor` to detect that it was replaced.
    pub(crate) fn with_anchor(mut self, anchor: Option<Arc<Anchor>>) -> Self {
        self.anchor = anchor;
        self
    }

    /// The anchor that detects that this array was replaced.
    pub(crate) fn shared_anchor(&self) -> Option<Arc<Anchor>> {
        self.anchor.clone()
    }

    /// Changes the shape, after the documents have been updated.
    pub(crate) fn set_shape(&mut self, shape: &[u64]) {
        self.shape = shape.to_vec();
        // Cells keep their positions and keys in a grid of any shape, so what the engine has cached
        // stays valid.
        self.chunks.shape = shape.to_vec();
    }

    /// The engine that reads and writes it.
    pub fn engine(&self) -> &Arc<Engine> {
        self.chunks.engine()
    }

    /// The data set whose documents describe it: the array itself, or the volume it is a scale of.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Elements along each axis.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Bytes of all its elements, or the most that can be counted.
    pub(crate) fn decoded_len(&self) -> u64 {
        let element = self.chunks.layout.element_size() as u64;
        self.shape.iter().fold(element, |n, &len| n.saturating_mul(len))
    }

    /// The type of its elements.
    pub fn data_type(&self) -> &DataType {
        &self.chunks.layout.spec().data_type
    }

    /// The value of elements that were never written.
    pub fn fill(&self) -> &FillValue {
        &self.chunks.layout.spec().fill
    }

    /// The names of its axes, in order; `None` if its format does not name them.
    pub fn axis_names(&self) -> Option<&[Option<String>]> {
        self.axis_names.as_deref()
    }

    /// The shape of its chunks: the innermost ones, where it is sharded.
    ///
    /// Where a shard can only be decoded whole (a codec such as `delta` before it), that is the
    /// shard's shape.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// All codecs that an innermost chunk goes through, in encoding order: those around shards come
    /// before and after those inside.
    pub fn codecs(&self) -> &[CodecSpec] {
        &self.codecs
    }

    /// Whether chunks at the end of an axis are stored clipped to the array, as in volumes.
    /// Otherwise they are padded to the chunk shape.
    pub fn cuts_edges(&self) -> bool {
        self.chunks.cuts_edges()
    }

    /// The shape of its shards; `None` if it is not sharded, or if the chunks of a shard do not
    /// form a box, as in some volumes.
    pub fn shard_shape(&self) -> Option<&[u64]> {
        self.shard_shape.as_deref()
    }

    /// The shape of a grid cell: a shard, or a chunk where chunks are objects of their own or are
    /// packed into shards by 64-bit key.
    pub fn cell_shape(&self) -> &[u64] {
        self.chunks.cell_shape()
    }

    /// The shape of what an entry of a shard's index refers to: a chunk, or in nested shards the
    /// next inner shard. `None` if the array is not sharded, or a codec encodes whole shards,
    /// including the index.
    ///
    /// [`shard_entries`](Self::shard_entries) returns the entries.
    pub fn entry_shape(&self) -> Option<&[u64]> {
        self.entry_shape.as_deref()
    }

    /// Whether writes stream objects instead of encoding them in memory.
    pub(crate) fn streams(&self) -> bool {
        is_streamed(&self.chunks.layout)
    }
}
