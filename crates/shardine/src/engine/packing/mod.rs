//! Which objects hold the cells of a grid: the part of a data set's format that reading needs.

mod key_shards;
mod uint64;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use shardine_store::{Key, Object, ReadRange, Store, StoreError};

use super::Engine;
use crate::Error;

pub(crate) use key_shards::{KeyShard, shard_box, shard_numbers};
pub(crate) use uint64::PackedCells;

/// How cells are packed into objects. Unless a packing says otherwise, each cell is an object of its own.
pub(crate) trait Packing: Debug + Send + Sync {
    /// The key of the object that holds a cell.
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError>;

    /// The objects that are stored, in the order of their places. An error if the store cannot list.
    fn list(&self, engine: &Engine, store: &dyn Store) -> Result<Vec<StoredObject>, Error>;

    /// The places of all objects that there may be; `None` if these are the cells of the grid.
    fn places(&self) -> Option<Box<dyn Iterator<Item = Vec<u64>> + '_>> {
        None
    }

    /// The key of the object at a place.
    fn key_at(&self, place: &[u64]) -> Result<Key, StoreError> {
        self.key(place)
    }

    /// Whether several cells may be in one object.
    fn shares_objects(&self) -> bool {
        false
    }

    /// The number of the object that a cell shares with others; `None` if it has one of its own.
    fn shared_object(&self, _cell: &[u64]) -> Option<u64> {
        None
    }

    /// Opens an object that cells share, and tells where each of these is in it; `None` if there is no such object.
    ///
    /// With `trust`, one that was open before need not be the current one: the caller asks it after reading.
    fn open_shared(
        &self,
        _number: u64,
        _cells: &[&[u64]],
        _trust: bool,
    ) -> Result<Option<SharedObject>, StoreError> {
        Ok(None)
    }

    /// Has what leads to cells read, many at the same time: from a far store each would be a time to wait.
    fn prepare(&self, _cells: &[&[u64]], _at_once: usize) {}

    /// Forgets what is known of a shared object.
    fn forget(&self, _number: u64) {}
}

/// An object of an array: a shard, or a chunk of an array that is not sharded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredObject {
    /// Its key.
    pub key: Key,
    /// Its place in the grid of objects. Of shards by 64-bit key whose chunks are no box, its number.
    pub cell: Vec<u64>,
    /// Its length in bytes.
    pub len: u64,
}

/// What the index of a shard says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardEntries {
    /// The shard's key.
    pub key: Key,
    /// Its length in bytes.
    pub len: u64,
    /// Where the index lies; of a shard by 64-bit key, the table that leads to its indexes.
    pub index_range: Range<u64>,
    /// Entries along each axis of the array. Of shards by 64-bit key whose chunks are no box, how many chunks are stored.
    pub grid: Vec<u64>,
    /// Where each chunk lies (each inner shard, where the chunks are in shards in shards), in C order along
    /// the axes of the array; `None` for absent ones. Where chunks are no box, those that are stored, by key.
    pub entries: Vec<Option<Range<u64>>>,
    /// Bytes that neither the index nor an entry refers to.
    pub gap_bytes: u64,
}

/// An object that several cells share.
#[derive(Debug)]
pub(crate) struct SharedObject {
    pub object: Arc<dyn Object>,
    /// Where the cells are; `None` for one that is not stored.
    pub ranges: Vec<Option<Range<u64>>>,
    /// Whether it was open before, and may be out of date.
    pub kept: bool,
}

/// The bytes of a cell, or of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct StoredBytes {
    pub object: Arc<dyn Object>,
    /// `None` if it is all of the object, whose length may not be known yet.
    pub range: Option<Range<u64>>,
}

impl StoredBytes {
    /// Which bytes to ask for.
    pub fn read_range(&self) -> ReadRange {
        match &self.range {
            Some(range) => ReadRange::Bounded(range.clone()),
            None => ReadRange::All,
        }
    }

    /// What brings chunks of one object together, in the order in which they lie there.
    pub fn place(&self) -> (usize, u64) {
        let start = self.range.as_ref().map_or(0, |range| range.start);
        (Arc::as_ptr(&self.object).cast::<()>().addr(), start)
    }
}

/// Finds a cell of a grid; `None` if it is not stored.
///
/// In a far store a cell that is an object of its own is not asked for here: its first read tells whether it is there.
pub(super) fn find(
    packing: &dyn Packing,
    store: &dyn Store,
    cell: &[u64],
) -> Result<Option<StoredBytes>, StoreError> {
    if let Some(number) = packing.shared_object(cell) {
        let Some(shared) = packing.open_shared(number, &[cell], false)? else { return Ok(None) };
        let range = shared.ranges.into_iter().next().flatten();
        return Ok(range.map(|range| StoredBytes { object: shared.object, range: Some(range) }));
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
