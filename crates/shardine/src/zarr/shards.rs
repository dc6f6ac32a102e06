use std::ops::Range;

use shardine_codec::Context;
use shardine_store::{Key, Object, ReadRange, Recovery, StoreError};

use super::Array;
use super::metadata::{ChunkKeyEncoding, Separator};
use crate::shard::Gaps;
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
    /// Entries along each axis of the array.
    pub grid: Vec<u64>,
    /// Where each chunk lies (each inner shard, where the chunks are in shards in shards), in C order along
    /// the axes of the array; `None` for absent ones.
    pub entries: Vec<Option<Range<u64>>>,
    /// Bytes that neither the index nor an entry refers to.
    pub gap_bytes: u64,
}

impl Array {
    /// The objects of the grid that are stored, in the order of their keys. Listings only.
    pub fn objects(&self) -> Result<Vec<StoredObject>, Error> {
        let rank = self.shape().len();
        let mut objects =
            GridContents::list(&self.location, self.metadata.key_encoding(), rank)?.objects;
        let shape = self.metadata.chunk_shape();
        objects.retain(|object| {
            let axes = object.cell.iter().zip(shape).zip(self.shape());
            axes.clone().all(|((&i, &n), &len)| i < len.div_ceil(n))
        });
        Ok(objects)
    }

    /// What the index of the shard at `cell` says; `None` if there is no such shard, or the array is not sharded.
    ///
    /// One open and one read. Of shards in shards the outer ones are told; [`entry_shape`](Self::entry_shape)
    /// is the shape of what their entries hold.
    pub fn shard_entries(&self, cell: &[u64]) -> Result<Option<ShardEntries>, Error> {
        let Some(shard) = self.grid.layout.addressable() else { return Ok(None) };
        let key = self.grid.keys.key(cell)?;
        let damaged = |source| Error::Shard {
            object: key.clone(),
            shard: cell.to_vec(),
            source: Box::new(source),
        };
        let read_index = |object: &dyn Object| {
            let len = match object.len() {
                Some(len) => len,
                None => object.read(ReadRange::All)?.len() as u64,
            };
            let index_range = shard.index.range(len).map_err(damaged)?;
            let bytes = object.read(ReadRange::Bounded(index_range.clone()))?;
            let index = shard.index.decode(&mut Context::new(), &bytes, len).map_err(damaged)?;
            Ok::<_, Error>((index, index_range, len))
        };
        let store = &self.grid.store;
        let mut object = match store.open(&key, None) {
            Ok(object) => object,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut found = read_index(&*object);
        if matches!(found, Err(Error::Shard { .. })) {
            // It may be being changed in place, or have been when its writer died.
            match store.recover(&key)? {
                Recovery::Nothing => {}
                Recovery::Done => object = store.open(&key, None)?,
                Recovery::Before(before) => object = before,
            }
            found = read_index(&*object);
        }
        let (index, index_range, len) = found?;
        let mut entries = vec![None; index.len()];
        let grid = shard.to_array_order(&shard.grid);
        for entry in 0..index.len() {
            let Some(range) = index.get(entry).map_err(damaged)? else { continue };
            let cell = shard.to_array_order(&shard.cell(entry));
            let at = cell.iter().zip(&grid).fold(0, |n, (&i, &g)| n * g as usize + i as usize);
            entries[at] = Some(range);
        }
        let gap_bytes = Gaps::find(&index, &index_range).map_err(damaged)?.total();
        Ok(Some(ShardEntries { key, len, index_range, grid, entries, gap_bytes }))
    }
}

/// What there is of a grid below a place.
#[derive(Debug, Default)]
pub(super) struct GridContents {
    /// The objects whose keys name cells, by cell.
    pub objects: Vec<StoredObject>,
    /// The folders that such keys go through, each before those inside it.
    pub folders: Vec<Key>,
}

impl GridContents {
    /// Finds them by names alone: a listing for the place and one for each folder.
    pub fn list(
        location: &Location,
        encoding: &ChunkKeyEncoding,
        rank: usize,
    ) -> Result<Self, Error> {
        let skip = location.path.as_ref().map_or(0, |path| path.as_str().len() + 1);
        let mut found = Self::default();
        let mut waiting = vec![location.path.clone()];
        while let Some(folder) = waiting.pop() {
            let listing = location.store.list(folder.as_ref())?;
            for (key, len) in listing.objects {
                if let Some(cell) = encoding.parse(&key.as_str()[skip..], rank) {
                    found.objects.push(StoredObject { key, cell, len });
                }
            }
            let inside = listing.folders.into_iter();
            waiting.extend(
                inside
                    .filter(|key| is_grid_folder(encoding, &key.as_str()[skip..], rank))
                    .map(Some),
            );
            found.folders.extend(folder.filter(|folder| Some(folder) != location.path.as_ref()));
        }
        found.objects.sort_by(|a, b| a.cell.cmp(&b.cell));
        Ok(found)
    }
}

/// Whether keys of cells of `rank` numbers can go through a folder of this name.
fn is_grid_folder(encoding: &ChunkKeyEncoding, name: &str, rank: usize) -> bool {
    grid_folder(encoding, name, rank).is_some()
}

/// The numbers that a folder of this name has in common with the cells whose keys go through it; `None` if none do.
pub(crate) fn grid_folder(
    encoding: &ChunkKeyEncoding,
    name: &str,
    rank: usize,
) -> Option<Vec<u64>> {
    let numbers = match encoding {
        ChunkKeyEncoding::Default { separator: Separator::Slash } if name == "c" => {
            return (rank > 0).then(Vec::new);
        }
        ChunkKeyEncoding::Default { separator: Separator::Slash } => name.strip_prefix("c/"),
        ChunkKeyEncoding::V2 { separator: Separator::Slash } => Some(name),
        _ => None,
    }?;
    // As many numbers as the folder has are one axis less than the key, or more.
    let parts = numbers.split('/').count();
    let v2 = ChunkKeyEncoding::V2 { separator: Separator::Slash };
    if parts < rank { v2.parse(numbers, parts) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_keys_go_through_are_of_the_grid() {
        let slash = ChunkKeyEncoding::default();
        for name in ["c", "c/0", "c/0/18446744073709551615"] {
            assert!(is_grid_folder(&slash, name, 3), "{name}");
        }
        for name in ["0", "c/0/0/0", "c/x", "c/00", "c/+1", "c/-1", "c/", "d", "c/c", "c0"] {
            assert!(!is_grid_folder(&slash, name, 3), "{name}");
        }
        assert!(!is_grid_folder(&slash, "c", 0));
        let v2 = ChunkKeyEncoding::V2 { separator: Separator::Slash };
        assert!(is_grid_folder(&v2, "1/2", 3) && !is_grid_folder(&v2, "1/2/3", 3));
        assert!(!is_grid_folder(&v2, "c", 3));
        let separator = Separator::Dot;
        assert!(!is_grid_folder(&ChunkKeyEncoding::Default { separator }, "c", 3));
        assert!(!is_grid_folder(&ChunkKeyEncoding::V2 { separator }, "1", 3));
    }
}
