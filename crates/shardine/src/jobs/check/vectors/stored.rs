//! The cells of an array for which something is stored.

use std::collections::HashSet;
use std::ops::ControlFlow;

use shardine_geometry::zarr_vectors::{ChunkCoords, GridDocument};

use crate::vectors::within_shard;
use crate::{ArrayNode, Error, ErrorKind};

/// The chunks that objects and the indexes of shards have, whatever a list says.
///
/// Takes 48 bytes for each chunk.
#[derive(Debug, Default)]
pub(in crate::jobs) struct StoredCells {
    /// In ascending order, with how many bytes each has, as stored.
    cells: Vec<(ChunkCoords, u64)>,
    /// Shards whose index could not be read: what they hold is not known.
    unread: HashSet<Vec<u64>>,
}

impl StoredCells {
    /// Lists the objects of an array, and reads the index of each shard.
    ///
    /// A shard whose index is damaged is skipped: the check of its array says so. An error means
    /// that something could not be listed or read.
    pub fn find(array: &ArrayNode, grid: &GridDocument) -> Result<Self, Error> {
        let mut found = Self::default();
        if array.shard_shape().is_none() {
            for object in array.objects()? {
                if let Some(chunk) = inside(array, grid, &object.cell) {
                    found.cells.push((chunk, object.len));
                }
            }
        } else {
            let objects = array.possible_objects()?;
            let mut failed = Ok(());
            array.each_shard(&objects, &mut |object, entries| {
                match entries {
                    Err(error) if error.kind() == ErrorKind::Damaged => {
                        found.unread.insert(object.cell.clone());
                    }
                    Err(error) => {
                        failed = Err(error);
                        return ControlFlow::Break(());
                    }
                    Ok(None) => {}
                    Ok(Some(entries)) => {
                        for (number, entry) in (0..).zip(&entries.entries) {
                            let Some(range) = entry else { continue };
                            let cell = within_shard(&object.cell, &entries.grid, number);
                            if let Some(chunk) = cell.and_then(|cell| inside(array, grid, &cell)) {
                                let len = range.end.saturating_sub(range.start);
                                found.cells.push((chunk, len));
                            }
                        }
                    }
                }
                ControlFlow::Continue(())
            });
            failed?;
        }
        found.cells.sort_unstable();
        Ok(found)
    }

    /// Whether something is stored for a chunk.
    pub fn has(&self, chunk: &ChunkCoords) -> bool {
        self.place(chunk).is_some()
    }

    /// How many bytes are stored for a chunk; 0 if none are.
    pub fn len_of(&self, chunk: &ChunkCoords) -> u64 {
        self.place(chunk).map_or(0, |(_, len)| *len)
    }

    fn place(&self, chunk: &ChunkCoords) -> Option<&(ChunkCoords, u64)> {
        let at = self.cells.binary_search_by(|(known, _)| known.cmp(chunk)).ok()?;
        self.cells.get(at)
    }

    /// Whether all indexes could be read.
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty()
    }

    /// Whether a cell lies in a shard that could not be looked into.
    pub fn is_unknown(&self, array: &ArrayNode, cell: &[u64]) -> bool {
        !self.unread.is_empty() && self.unread.contains(&object_place(array, cell))
    }

    /// The chunks, in ascending order.
    pub fn sorted(&self) -> Vec<ChunkCoords> {
        self.cells.iter().map(|(chunk, _)| chunk.clone()).collect()
    }

    /// The chunks in the order in which they are best read: shard by shard.
    pub fn in_order(&self, array: &ArrayNode, grid: &GridDocument) -> Vec<ChunkCoords> {
        let mut chunks = self.sorted();
        if array.shard_shape().is_some() {
            chunks.sort_by_cached_key(|chunk| {
                let cell = grid.cell(chunk, array.shape()).unwrap_or_default();
                (object_place(array, &cell), chunk.clone())
            });
        }
        chunks
    }
}

/// The object that holds a cell.
pub(super) fn object_place(array: &ArrayNode, cell: &[u64]) -> Vec<u64> {
    match array.shard_shape() {
        Some(shard) => cell.iter().zip(shard).map(|(at, len)| at / len.max(&1)).collect(),
        None => cell.to_vec(),
    }
}

/// The chunk of a cell, if the array has such a cell.
fn inside(array: &ArrayNode, grid: &GridDocument, cell: &[u64]) -> Option<ChunkCoords> {
    let is_inside = cell.iter().zip(array.shape()).all(|(at, len)| at < len);
    if is_inside { grid.chunk(cell) } else { None }
}
