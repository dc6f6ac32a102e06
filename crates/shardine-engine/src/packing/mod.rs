//! Which objects hold the cells of a grid: the part of a format that reading needs.

mod key_shards;
mod uint64;
mod wkw;
mod wkw_cubes;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use shardine_store::{Key, Object, ReadRange, Store, StoreError};

use smallvec::SmallVec;

use super::Engine;
use crate::Error;
use crate::keyed::{Change, ChangeReport};
use crate::layout::ShardLayout;
use crate::shard::{Gaps, ShardError, ShardIndex};
use crate::tuning::COMPARED;

pub use key_shards::{shard_box, shard_numbers};
pub use uint64::Uint64Packing;
pub use wkw::WkwPacking;
pub use wkw_cubes::wkw_cubes;

/// How cells are packed into objects. Unless [`shared`](Self::shared) says otherwise, each cell is
/// an object of its own.
pub trait Packing: Debug + Send + Sync {
    /// The key of the object that holds a cell.
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError>;

    /// What the object or folder with this key is to the grid.
    fn named(&self, key: &Key) -> GridKey;

    /// The stored objects, in grid order. An error if the store cannot list.
    fn list(&self, engine: &Engine, store: &dyn Store) -> Result<Vec<StoredObject>, Error>;

    /// How cells share objects; `None` if each has its own.
    fn shared(&self) -> Option<&dyn SharedPacking> {
        None
    }
}

/// A packing of several cells into one object; the object's number and position follow from the
/// cells.
pub trait SharedPacking: Send + Sync {
    /// The number of a cell, by which it is found in its object.
    fn number(&self, cell: &[u64]) -> u64;

    /// The cell with this number; `None` if it is outside the grid.
    fn cell(&self, number: u64) -> Option<SmallVec<[u64; 4]>>;

    /// The object that holds the cell with this number.
    fn object_of(&self, number: u64) -> u64;

    /// Cells along each axis of an object; `None` if the cells of an object do not form a box.
    fn object_shape(&self) -> Option<SmallVec<[u64; 4]>>;

    /// The key of an object.
    fn object_key(&self, object: u64) -> Result<Key, StoreError>;

    /// The object at a position in the grid of objects or, if objects are not boxes, with this
    /// number; `None` if there is no such position.
    fn object_at(&self, place: &[u64]) -> Option<u64>;

    /// The positions of all objects that may exist.
    fn places(&self) -> Box<dyn Iterator<Item = Vec<u64>> + '_>;

    /// All objects that have room for a cell, each with all its cells in the order in which they
    /// are written.
    fn all_objects(&self) -> Box<dyn Iterator<Item = ObjectCells> + Send + '_>;

    /// Whether objects are so small that several are written in parallel, each by one worker.
    fn is_small(&self, cell_bytes: u64) -> bool;

    /// Bytes of memory for the contents of an object's index.
    fn index_bytes(&self) -> u64;

    /// The entries in the index of the object at this position; `None` if it is not stored.
    fn entries(&self, engine: &Engine, place: &[u64]) -> Result<Option<ShardEntries>, Error>;

    /// The numbers of the cells stored in the object at this position.
    ///
    /// For objects whose cells do not form a box, where the position alone does not determine them.
    fn stored_cells(&self, engine: &Engine, place: &[u64]) -> Result<Vec<u64>, Error>;

    /// Opens an object and finds these cells in it; `None` if there is no such object.
    ///
    /// With `trust`, one that was open before may be out of date: the caller checks after reading.
    fn open(
        &self,
        object: u64,
        cells: &[&[u64]],
        trust: bool,
    ) -> Result<Option<SharedObject>, StoreError>;

    /// Prefetches what leads to these cells, many in parallel: every request to a remote store
    /// costs a round trip.
    fn prepare(&self, cells: &[&[u64]], at_once: usize);

    /// Forgets what is known about an object.
    fn forget(&self, object: u64);

    /// Why objects cannot be changed in place.
    fn in_place_refusal(&self) -> &'static str;

    /// Changes an object atomically. Other writers wait; if another writer was faster, its change
    /// is kept and this one is made on top of it.
    fn change(&self, engine: &Engine, change: &Change<'_>) -> Result<ChangeReport, Error>;
}

/// A shared object and the numbers of cells in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectCells {
    /// The number of the object.
    pub object: u64,
    /// The numbers of the cells.
    pub cells: Vec<u64>,
}

/// What a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GridKey {
    /// The object at this position, which may lie outside the grid.
    Object(Vec<u64>),
    /// A folder on the path to objects whose positions start with these coordinates.
    Folder(Vec<u64>),
    /// Not part of the grid.
    Other,
}

/// An object of an array: a shard, or a chunk of an array that is not sharded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredObject {
    /// Its key.
    pub key: Key,
    /// Its position in the grid of objects; for shards by 64-bit key whose chunks do not form a
    /// box, its number.
    pub cell: Vec<u64>,
    /// Its length in bytes.
    pub len: u64,
}

/// The contents of a shard's index.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardEntries {
    /// The shard's key.
    pub key: Key,
    /// Its length in bytes.
    pub len: u64,
    /// Where the index lies; for a shard by 64-bit key, the table that leads to its indexes.
    pub index_range: Range<u64>,
    /// Entries along each axis of the array; for shards by 64-bit key whose chunks do not form a
    /// box, the number of stored chunks.
    pub grid: Vec<u64>,
    /// Where each chunk lies (each inner shard, if shards are nested), in C order along the axes of
    /// the array; `None` for absent ones. If chunks do not form a box, only those that are stored,
    /// by key.
    pub entries: Vec<Option<Range<u64>>>,
    /// Bytes that neither the index nor an entry refers to.
    pub gap_bytes: u64,
}

impl StoredObject {
    /// An object at this position, with its length in bytes.
    pub fn new(key: Key, cell: Vec<u64>, len: u64) -> Self {
        Self { key, cell, len }
    }
}

impl ShardEntries {
    /// The contents of an indexed shard's index, which lies at `index_range`.
    pub fn of_index(
        key: &Key,
        shard: &ShardLayout,
        index: &ShardIndex,
        index_range: Range<u64>,
        len: u64,
    ) -> Result<Self, ShardError> {
        let mut entries = vec![None; index.len()];
        let grid = shard.to_array_order(&shard.grid);
        for entry in 0..index.len() {
            let Some(range) = index.get(entry)? else { continue };
            let cell = shard.to_array_order(&shard.cell(entry));
            let at = cell.iter().zip(&grid).fold(0, |n, (&i, &g)| n * g as usize + i as usize);
            entries[at] = Some(range);
        }
        let gap_bytes = Gaps::find(index, &index_range)?.total();
        Ok(Self { key: key.clone(), len, index_range, grid, entries, gap_bytes })
    }
}

/// An object shared by several cells.
#[derive(Debug)]
pub struct SharedObject {
    /// The open object.
    pub object: Arc<dyn Object>,
    /// Where the cells are; `None` for one that is not stored.
    pub ranges: Vec<Option<Range<u64>>>,
    /// Whether it was open before, and may be out of date.
    pub kept: bool,
}

/// The bytes of a cell, or of a chunk.
#[derive(Debug, Clone)]
pub struct StoredBytes {
    /// The object that holds them.
    pub object: Arc<dyn Object>,
    /// `None` for the whole object, whose length may not be known yet.
    pub range: Option<Range<u64>>,
}

impl StoredBytes {
    /// The range to request.
    pub fn read_range(&self) -> ReadRange {
        match &self.range {
            Some(range) => ReadRange::Bounded(range.clone()),
            None => ReadRange::All,
        }
    }

    /// The same range extended to the `bytes` before it.
    pub fn starting_before(self, bytes: u64) -> Self {
        let range = self.range.map(|range| range.start.saturating_sub(bytes)..range.end);
        Self { range, ..self }
    }

    /// Whether the two hold the same bytes. They are read piece by piece, so that both pieces are
    /// still in the cache when they are compared.
    pub fn has_bytes_of(&self, other: &Self) -> Result<bool, StoreError> {
        let (Some(a), Some(b)) = (&self.range, &other.range) else {
            // The length of a remote object is not known before it is read.
            let here = self.object.read(self.read_range());
            return match (here, other.object.read(other.read_range())) {
                (here, Err(StoreError::NotFound { .. })) => {
                    Ok(matches!(here, Err(StoreError::NotFound { .. })))
                }
                (here, there) => Ok(*here? == *there?),
            };
        };
        let len = a.end - a.start;
        if len != b.end - b.start {
            return Ok(false);
        }
        let mut at = 0;
        while at < len {
            let piece = COMPARED.min(len - at);
            let read = |object: &dyn Object, start: u64| {
                object.read(ReadRange::Bounded(start + at..start + at + piece))
            };
            if *read(&*self.object, a.start)? != *read(&*other.object, b.start)? {
                return Ok(false);
            }
            at += piece;
        }
        Ok(true)
    }

    /// A sort key that groups chunks by object, in the order in which they lie there.
    pub fn place(&self) -> (usize, u64) {
        let start = self.range.as_ref().map_or(0, |range| range.start);
        (Arc::as_ptr(&self.object).cast::<()>().addr(), start)
    }
}

/// Finds a cell of a grid; `None` if it is not stored.
///
/// In a remote store this makes no request for a cell that is an object of its own: its first read
/// shows whether it exists.
pub(super) fn find(
    packing: &dyn Packing,
    store: &dyn Store,
    cell: &[u64],
) -> Result<Option<StoredBytes>, StoreError> {
    if let Some(shared) = packing.shared() {
        let object = shared.object_of(shared.number(cell));
        let Some(found) = shared.open(object, &[cell], false)? else { return Ok(None) };
        let range = found.ranges.into_iter().next().flatten();
        return Ok(range.map(|range| StoredBytes { object: found.object, range: Some(range) }));
    }
    match store.open(&packing.key(cell)?, None) {
        Ok(object) => {
            let range = object.len().map(|len| 0..len);
            Ok(Some(StoredBytes { object, range }))
        }
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
