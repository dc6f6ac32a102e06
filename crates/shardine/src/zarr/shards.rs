use std::ops::Range;

use shardine_codec::Context;
use shardine_store::{Key, ReadRange, StoreError};

use super::Array;
use super::metadata::ChunkKeyEncoding;
use crate::{Error, Location};

/// An object of an array's grid: a shard, or a chunk of an array that is not sharded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredObject {
    /// Its key.
    pub key: Key,
    /// Its place in the grid.
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
    /// Where the index lies.
    pub index_range: Range<u64>,
    /// Chunks along each axis of the array.
    pub grid: Vec<u64>,
    /// Where each chunk lies, in C order along the axes of the array; `None` for absent ones.
    pub entries: Vec<Option<Range<u64>>>,
    /// Bytes that neither the index nor an entry refers to.
    pub gap_bytes: u64,
}

impl Array {
    /// The objects of the grid that are stored, in the order of their keys. Listings only.
    pub fn objects(&self) -> Result<Vec<StoredObject>, Error> {
        let mut objects =
            stored_objects(&self.location, self.metadata.key_encoding(), self.shape().len())?;
        let shape = self.metadata.chunk_shape();
        objects.retain(|object| {
            let axes = object.cell.iter().zip(shape).zip(self.shape());
            axes.clone().all(|((&i, &n), &len)| i < len.div_ceil(n))
        });
        Ok(objects)
    }

    /// What the index of the shard at `cell` says; `None` if there is no such shard, or the array is not sharded.
    ///
    /// One open and one read. Of shards in shards the outer ones are told.
    pub fn shard_entries(&self, cell: &[u64]) -> Result<Option<ShardEntries>, Error> {
        let Some(shard) = self.grid.layout.addressable() else { return Ok(None) };
        let key = self.grid.keys.key(cell)?;
        let damaged = |source| Error::Shard {
            object: key.clone(),
            shard: cell.to_vec(),
            source: Box::new(source),
        };
        let object = match self.grid.store.open(&key, None) {
            Ok(object) => object,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let len = match object.len() {
            Some(len) => len,
            None => object.read(ReadRange::All)?.len() as u64,
        };
        let index_range = shard.index.range(len).map_err(damaged)?;
        let bytes = object.read(ReadRange::Bounded(index_range.clone()))?;
        let index = shard.index.decode(&mut Context::new(), &bytes, len).map_err(damaged)?;
        let mut entries = vec![None; index.len()];
        let grid = shard.to_array_order(&shard.grid);
        let mut used = vec![index_range.clone()];
        for entry in 0..index.len() {
            let Some(range) = index.get(entry).map_err(damaged)? else { continue };
            let cell = shard.to_array_order(&shard.cell(entry));
            let at = cell.iter().zip(&grid).fold(0, |n, (&i, &g)| n * g as usize + i as usize);
            used.push(range.clone());
            entries[at] = Some(range);
        }
        let gap_bytes = len - covered_bytes(used);
        Ok(Some(ShardEntries { key, len, index_range, grid, entries, gap_bytes }))
    }
}

/// Bytes that at least one of the ranges holds.
fn covered_bytes(mut ranges: Vec<Range<u64>>) -> u64 {
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut covered, mut end) = (0, 0);
    for range in ranges {
        covered += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    covered
}

/// The objects below a place whose keys name cells of a grid.
pub(super) fn stored_objects(
    location: &Location,
    encoding: &ChunkKeyEncoding,
    rank: usize,
) -> Result<Vec<StoredObject>, Error> {
    let skip = location.path.as_ref().map_or(0, |path| path.as_str().len() + 1);
    let mut objects = Vec::new();
    let mut folders = vec![(location.path.clone(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let listing = location.store.list(folder.as_ref())?;
        for (key, len) in listing.objects {
            if let Some(cell) = encoding.parse(&key.as_str()[skip..], rank) {
                objects.push(StoredObject { key, cell, len });
            }
        }
        // A key has one part more than the array has axes at the most, so nothing deeper can be one.
        if depth < rank {
            let inside = listing.folders.into_iter().filter(|folder| {
                let name = &folder.as_str()[skip..];
                name == "c" || name.rsplit('/').next().is_some_and(|n| n.parse::<u64>().is_ok())
            });
            folders.extend(inside.map(|folder| (Some(folder), depth + 1)));
        }
    }
    objects.sort_by(|a, b| a.cell.cmp(&b.cell));
    Ok(objects)
}
