//! Cells in shards by 64-bit key.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{Key, Store, StoreError};
use smallvec::SmallVec;

use super::key_shards::{key_shards, shard_box, shard_numbers};
use super::{
    GridKey, ObjectCells, Packing, ShardEntries, SharedObject, SharedPacking, StoredObject,
};
use crate::Engine;
use crate::Error;
use crate::keyed::{Change, ChangeReport, KeyedShards, change_shard};
use crate::shard::uint64::MortonCode;
use crate::tuning::STREAM;
use crate::tuning::TOLD_BY_PLACE;

/// Bytes of memory per entry: encoded, decoded, and as reported.
const ENTRY: u64 = 64;

/// Cells packed into shards by number rather than by position.
#[derive(Debug, Clone)]
pub struct Uint64Packing {
    /// The shards.
    pub shards: Arc<KeyedShards>,
    /// The numbers of cells, by their first three coordinates.
    pub code: MortonCode,
    /// Axes of the grid; all but the first three have one cell.
    pub rank: usize,
}

impl Uint64Packing {
    /// Chunks along each axis of a shard; `None` if the chunks of a shard do not form a box.
    fn shard_box(&self) -> Option<[u64; 3]> {
        shard_box(&self.shards.sharding, self.code)
    }

    /// Cells that a shard has room for.
    fn capacity(&self) -> u64 {
        let cells = |shape: [u64; 3]| shape.into_iter().fold(1u64, u64::saturating_mul);
        self.shard_box().map_or(u64::MAX, cells)
    }

    fn numbers(&self, cells: &[&[u64]]) -> Vec<u64> {
        cells.iter().map(|cell| self.number(cell)).collect()
    }

    /// The first cell of a shard that is a box.
    fn first_cell(&self, shard: u64) -> Option<[u64; 3]> {
        let sharding = &self.shards.sharding;
        let low = sharding.preshift_bits.saturating_add(sharding.minishard_bits);
        let key = match shard.checked_shl(low) {
            Some(key) => Some(key).filter(|key| key >> low == shard),
            // All keys are in one shard.
            None => (shard == 0).then_some(0),
        };
        self.code.decode(key?)
    }

    /// The position of a shard: in the grid of shards if they are boxes, otherwise its number.
    /// `None` if no cell is in it.
    fn place_of(&self, shard: u64) -> Option<Vec<u64>> {
        let Some(shape) = self.shard_box() else { return Some(vec![shard]) };
        let first = self.first_cell(shard)?;
        let mut place: Vec<u64> = first.iter().zip(shape).map(|(&i, n)| i / n.max(1)).collect();
        place.resize(self.rank.max(place.len()), 0);
        Some(place)
    }

    /// The values of a shard by position in its box, in C order.
    fn in_box(
        &self,
        shard: u64,
        shape: [u64; 3],
        values: Vec<(u64, Range<u64>)>,
    ) -> (Vec<u64>, Vec<Option<Range<u64>>>) {
        let first = self.first_cell(shard).unwrap_or_default();
        let all = self.code.grid();
        // A box may extend far beyond the volume.
        let mut grid: Vec<u64> =
            (0..3).map(|axis| shape[axis].min(all[axis].saturating_sub(first[axis]))).collect();
        let mut entries = vec![None; grid.iter().product::<u64>() as usize];
        for (key, range) in values {
            let Some(cell) = self.code.decode(key) else { continue };
            let inside = (0..3).try_fold(0u64, |at, axis| {
                let i = cell[axis].checked_sub(first[axis]).filter(|&i| i < grid[axis])?;
                Some(at * grid[axis] + i)
            });
            if let Some(entry) = inside.and_then(|at| entries.get_mut(at as usize)) {
                *entry = Some(range);
            }
        }
        grid.resize(self.rank.max(grid.len()), 1);
        (grid, entries)
    }
}

/// The number of bytes covered by at least one of the ranges.
fn union(mut ranges: Vec<Range<u64>>) -> u64 {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let (mut total, mut end) = (0u64, 0u64);
    for range in ranges {
        let start = range.start.max(end);
        total += range.end.saturating_sub(start);
        end = end.max(range.end);
    }
    total
}

impl Packing for Uint64Packing {
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError> {
        self.shards.shard_key(self.shards.sharding.place(self.number(cell)).shard)
    }

    fn named(&self, key: &Key) -> GridKey {
        let name = match &self.shards.folder {
            Some(folder) => {
                key.as_str().strip_prefix(folder.as_str()).and_then(|n| n.strip_prefix('/'))
            }
            None => Some(key.as_str()),
        };
        let shard = name.and_then(|name| self.shards.number_of(name));
        shard.and_then(|shard| self.place_of(shard)).map_or(GridKey::Other, GridKey::Object)
    }

    fn list(&self, _: &Engine, store: &dyn Store) -> Result<Vec<StoredObject>, Error> {
        let listing = store.list(self.shards.folder.as_ref())?;
        listing.refuse_unlisted(|name| self.shards.number_of(name).is_some())?;
        // In its older form a shard is two objects; it is listed under the name of its index.
        let mut found: BTreeMap<Vec<u64>, StoredObject> = BTreeMap::new();
        for (key, len) in listing.objects {
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            let is_data = name.ends_with(".data");
            let number = self
                .shards
                .number_of(name)
                .or_else(|| self.shards.sharding.shard_number(name.strip_suffix(".data")?));
            let Some(cell) = number.and_then(|number| self.place_of(number)) else { continue };
            let stored = StoredObject { key, cell: cell.clone(), len: 0 };
            let known = found.entry(cell).or_insert_with(|| stored.clone());
            known.len = known.len.saturating_add(len);
            if !is_data {
                known.key = stored.key;
            }
        }
        Ok(found.into_values().collect())
    }

    fn shared(&self) -> Option<&dyn SharedPacking> {
        Some(self)
    }
}

impl SharedPacking for Uint64Packing {
    fn number(&self, cell: &[u64]) -> u64 {
        self.code.encode(std::array::from_fn(|axis| cell.get(axis).copied().unwrap_or(0)))
    }

    fn cell(&self, number: u64) -> Option<SmallVec<[u64; 4]>> {
        let cell = self.code.decode(number)?;
        Some((0..self.rank).map(|axis| cell.get(axis).copied().unwrap_or(0)).collect())
    }

    fn object_of(&self, number: u64) -> u64 {
        self.shards.sharding.place(number).shard
    }

    fn object_shape(&self) -> Option<SmallVec<[u64; 4]>> {
        let cells = self.shard_box()?;
        Some((0..self.rank).map(|axis| cells.get(axis).copied().unwrap_or(1)).collect())
    }

    fn object_key(&self, object: u64) -> Result<Key, StoreError> {
        self.shards.shard_key(object)
    }

    fn object_at(&self, place: &[u64]) -> Option<u64> {
        let Some(shape) = self.shard_box() else { return place.first().copied() };
        let mut first = [0; 3];
        for (axis, at) in first.iter_mut().enumerate() {
            *at = place.get(axis)?.checked_mul(shape[axis])?;
            if *at >= self.code.grid()[axis] {
                return None;
            }
        }
        Some(self.shards.sharding.place(self.code.encode(first)).shard)
    }

    fn places(&self) -> Box<dyn Iterator<Item = Vec<u64>> + '_> {
        let shards = shard_numbers(&self.shards.sharding, self.code);
        Box::new(shards.filter_map(|shard| self.place_of(shard)))
    }

    /// Memory is that of the keys of one shard or, if shards are not boxes, of about a million
    /// keys.
    fn all_objects(&self) -> Box<dyn Iterator<Item = ObjectCells> + Send + '_> {
        let sharding = &self.shards.sharding;
        Box::new(key_shards(sharding, self.code).map(|mut shard| {
            shard.cells.sort_unstable_by_key(|&key| (sharding.place(key).minishard, key));
            shard
        }))
    }

    fn is_small(&self, cell_bytes: u64) -> bool {
        self.capacity().saturating_mul(cell_bytes) <= STREAM
    }

    fn index_bytes(&self) -> u64 {
        let entries = self.capacity().min(TOLD_BY_PLACE).saturating_mul(ENTRY);
        self.shards.sharding.table_len().saturating_add(entries)
    }

    fn entries(&self, engine: &Engine, place: &[u64]) -> Result<Option<ShardEntries>, Error> {
        let Some(number) = self.object_at(place) else { return Ok(None) };
        let key = self.shards.shard_key(number)?;
        let Some(object) = self.shards.open_object(number)? else { return Ok(None) };
        let read = |context: &mut Context| self.shards.read_indexes(&key, &*object, context);
        let indexes = engine.with_context(read)?;
        object.check_unchanged()?;
        let mut taken: Vec<Range<u64>> = indexes.index_ranges.clone();
        taken.push(0..indexes.table_len);
        let mut values = Vec::new();
        for (_, entry) in indexes.entries() {
            let range = indexes.range(entry).map_err(|error| StoreError::Damaged {
                key: key.clone(),
                reason: error.to_string(),
            })?;
            taken.push(range.clone());
            values.push((entry.key, range));
        }
        let few = |shape: &[u64; 3]| shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let few = |shape: &[u64; 3]| few(shape).is_some_and(|cells| cells <= TOLD_BY_PLACE);
        let (grid, entries) = match self.shard_box().filter(few) {
            Some(shape) => self.in_box(number, shape, values),
            None => {
                values.sort_unstable_by_key(|(key, _)| *key);
                let entries: Vec<_> = values.into_iter().map(|(_, range)| Some(range)).collect();
                (vec![entries.len() as u64], entries)
            }
        };
        let (len, index_range) = (indexes.len, 0..indexes.table_len);
        let gap_bytes = len.saturating_sub(union(taken));
        Ok(Some(ShardEntries { key, len, index_range, grid, entries, gap_bytes }))
    }

    fn stored_cells(&self, engine: &Engine, place: &[u64]) -> Result<Vec<u64>, Error> {
        let Some(number) = self.object_at(place) else { return Ok(Vec::new()) };
        let key = self.shards.shard_key(number)?;
        let Some(object) = self.shards.open_object(number)? else { return Ok(Vec::new()) };
        let read = |context: &mut Context| self.shards.read_indexes(&key, &*object, context);
        let indexes = engine.with_context(read)?;
        object.check_unchanged()?;
        Ok(indexes.entries().map(|(_, entry)| entry.key).collect())
    }

    fn open(
        &self,
        object: u64,
        cells: &[&[u64]],
        trust: bool,
    ) -> Result<Option<SharedObject>, StoreError> {
        let keys = self.numbers(cells);
        let found = self.shards.find_in(object, &keys, trust, &mut Context::default())?;
        Ok(found.map(|(shard, ranges, kept)| {
            let kept = kept && shard.object.can_be_kept();
            SharedObject { object: Arc::clone(&shard.object), ranges, kept }
        }))
    }

    fn prepare(&self, cells: &[&[u64]], at_once: usize) {
        self.shards.prepare(&self.numbers(cells), at_once);
    }

    fn forget(&self, object: u64) {
        self.shards.forget(object);
    }

    fn in_place_refusal(&self) -> &'static str {
        "its shards have no checksum, so a torn write would go unnoticed"
    }

    fn change(&self, engine: &Engine, change: &Change<'_>) -> Result<ChangeReport, Error> {
        change_shard(engine, &self.shards, change)
    }
}
