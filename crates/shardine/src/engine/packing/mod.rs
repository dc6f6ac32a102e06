//! Which objects hold the cells of a grid: the part of a data set's format that reading needs.

mod key_shards;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{Key, Object, ReadRange, Store, StoreError};

use crate::keyed::KeyedShards;
use crate::shard::uint64::MortonCode;
use key_shards::key_shards;

pub(crate) use key_shards::{KeyShard, shard_box};

/// How cells are packed into objects. Unless a packing says otherwise, each cell is an object of its own.
pub(crate) trait Packing: Debug + Send + Sync {
    /// The key of the object that holds a cell.
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError>;

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

/// Cells that are packed into shards by number, whatever their place.
#[derive(Debug, Clone)]
pub(crate) struct PackedCells {
    /// Where they are.
    pub shards: Arc<KeyedShards>,
    /// The numbers of cells, by their first three coordinates.
    pub code: MortonCode,
}

impl PackedCells {
    /// The number of a cell.
    pub fn number(&self, cell: &[u64]) -> u64 {
        self.code.encode(std::array::from_fn(|axis| cell.get(axis).copied().unwrap_or(0)))
    }

    /// Chunks along each axis of a shard; `None` if the chunks of a shard are no box.
    pub fn shard_box(&self) -> Option<[u64; 3]> {
        shard_box(&self.shards.sharding, self.code)
    }

    /// All shards that have room for a cell, each with all its keys. Memory is that of the keys of one shard, or where shards
    /// are no boxes of about a million of them.
    pub fn all_shards(&self) -> Box<dyn Iterator<Item = KeyShard> + Send + '_> {
        key_shards(&self.shards.sharding, self.code)
    }

    fn numbers(&self, cells: &[&[u64]]) -> Vec<u64> {
        cells.iter().map(|cell| self.number(cell)).collect()
    }
}

impl Packing for PackedCells {
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError> {
        self.shards.shard_key(self.shards.sharding.place(self.number(cell)).shard)
    }

    fn shares_objects(&self) -> bool {
        true
    }

    fn shared_object(&self, cell: &[u64]) -> Option<u64> {
        Some(self.shards.sharding.place(self.number(cell)).shard)
    }

    fn open_shared(
        &self,
        number: u64,
        cells: &[&[u64]],
        trust: bool,
    ) -> Result<Option<SharedObject>, StoreError> {
        let keys = self.numbers(cells);
        let found = self.shards.find_in(number, &keys, trust, &mut Context::default())?;
        Ok(found.map(|(shard, ranges, kept)| {
            let kept = kept && shard.object.can_be_kept();
            SharedObject { object: Arc::clone(&shard.object), ranges, kept }
        }))
    }

    fn prepare(&self, cells: &[&[u64]], at_once: usize) {
        self.shards.prepare(&self.numbers(cells), at_once);
    }

    fn forget(&self, number: u64) {
        self.shards.forget(number);
    }
}
