//! Parts of a file that are kept because several neighbouring chunks lie in them.
//!
//! A row of a chunk is short, and the rows of its neighbours lie between two of its own: read chunk
//! by chunk, a file is read many times over. A tile is as long as several chunks along the axis
//! whose elements are adjacent in the file.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use shardine_codec::strided::Placement;

use crate::source::SourceError;

/// Where a tile lies and what it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub start: Vec<u64>,
    pub shape: Vec<u64>,
}

/// The bytes of a tile; empty until they have been read.
type Bytes = Arc<RwLock<Vec<u8>>>;

/// Reads the tile at a place.
type ReadTile<'a> = dyn FnMut(&Place, &mut Vec<u8>) -> Result<(), SourceError> + 'a;

/// Tiles in memory, most recently used first.
#[derive(Debug)]
pub struct Tiles {
    /// The axis whose elements are adjacent in the file.
    axis: usize,
    /// Elements along it.
    length: u64,
    /// The maximum number of tiles.
    most: usize,
    kept: Mutex<VecDeque<(Place, Bytes)>>,
}

/// How chunks are requested, and how much memory there is for their surroundings.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours<'a> {
    pub chunk: &'a [u64],
    /// Chunks per shard along each axis: within a shard they are requested in Morton order.
    pub per_shard: &'a [u64],
    pub memory: u64,
}

impl Tiles {
    /// Tiles for a file of this shape whose elements are adjacent along `axis`; `None` if they
    /// would not pay off.
    pub fn new(
        shape: &[u64],
        axis: usize,
        element: usize,
        neighbours: Neighbours<'_>,
    ) -> Option<Self> {
        let Neighbours { chunk, per_shard, memory } = neighbours;
        let (&edge, &length) = (chunk.get(axis)?, shape.get(axis)?);
        let sides = chunk.iter().zip(shape).map(|(&c, &n)| c.min(n).max(1));
        let bytes = sides.fold(element as u64, u64::saturating_mul);
        // A Morton curve finishes one cube of chunks before the next, so a tile is needed for each
        // row of the cube.
        let rows = |wide: u64| {
            let others = per_shard.iter().enumerate().filter(|&(k, _)| k != axis);
            others.fold(1u64, |n, (_, &m)| n.saturating_mul(m.min(wide).max(1)))
        };
        let sharded = per_shard.iter().any(|&n| n > 1);
        let cells = length.div_ceil(edge.max(1));
        let most = if sharded { cells.min(*per_shard.get(axis)?) } else { cells };
        let fits = |wide: u64| rows(wide).saturating_mul(wide).saturating_mul(bytes) <= memory;
        let mut wide = 1;
        while wide < most && fits((2 * wide).min(most)) {
            wide = (2 * wide).min(most);
        }
        if wide < 2 {
            return None;
        }
        let length = edge.checked_mul(wide)?;
        let most = usize::try_from(rows(wide)).ok()?;
        Some(Self { axis, length, most, kept: Mutex::default() })
    }

    /// The tile that contains a whole box; `None` if there is none.
    pub fn place(&self, start: &[u64], shape: &[u64], file: &[u64]) -> Option<Place> {
        let at = start.get(self.axis)? / self.length * self.length;
        let end = at.saturating_add(self.length).min(*file.get(self.axis)?);
        if start[self.axis].checked_add(shape[self.axis])? > end {
            return None;
        }
        let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
        (start[self.axis], shape[self.axis]) = (at, end - at);
        Some(Place { start, shape })
    }

    /// Passes the bytes of a tile to `take`, reading them first if needed. Concurrent callers wait
    /// for that read.
    pub fn with(
        &self,
        place: Place,
        len: usize,
        read: &mut ReadTile<'_>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let bytes = self.find(&place);
        let found = bytes.read().unwrap_or_else(PoisonError::into_inner);
        if found.len() == len {
            return take(&found);
        }
        drop(found);
        let mut own = bytes.write().unwrap_or_else(PoisonError::into_inner);
        if own.len() != len {
            own.clear();
            own.resize(len, 0);
            if let Err(error) = read(&place, &mut own) {
                // Nobody may mistake it for what is in the file.
                own.clear();
                return Err(error);
            }
        }
        take(&own)
    }

    fn find(&self, place: &Place) -> Bytes {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(other, _)| other == place)
            && let Some((place, bytes)) = kept.remove(at)
        {
            kept.push_front((place, Arc::clone(&bytes)));
            return bytes;
        }
        let mut bytes = Bytes::default();
        while kept.len() >= self.most.max(1) {
            // Reuse memory that nobody holds any more.
            if let Some((_, old)) = kept.pop_back()
                && let Ok(old) = Arc::try_unwrap(old)
            {
                let mut old = old.into_inner().unwrap_or_else(PoisonError::into_inner);
                old.clear();
                bytes = Arc::new(RwLock::new(old));
            }
        }
        kept.push_front((place.clone(), Arc::clone(&bytes)));
        bytes
    }
}

/// Where the elements of a box lie in memory when stored in file order, and how many bytes they
/// take.
pub fn in_file_order(shape: &[u64], strides: &[u64], element: usize) -> Option<(Placement, usize)> {
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    axes.sort_by_key(|&k| (strides[k], std::cmp::Reverse(k)));
    let mut place = Placement::contiguous(shape, element)?;
    let mut stride = element;
    for k in axes {
        place.strides[k] = stride;
        stride = stride.checked_mul(usize::try_from(shape[k]).ok()?)?;
    }
    Some((place, stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiles(shape: &[u64], chunk: &[u64], per_shard: &[u64], memory: u64) -> Option<(u64, usize)> {
        let neighbours = Neighbours { chunk, per_shard, memory };
        let tiles = Tiles::new(shape, shape.len() - 1, 2, neighbours)?;
        Some((tiles.length, tiles.most))
    }

    #[test]
    fn as_many_chunks_are_in_a_tile_as_there_is_memory_for() {
        let (shape, chunk) = ([512, 1024, 1024], [64, 64, 64]);
        // Chunks of 512 KiB, along a Morton curve: 4 x 4 rows of 4.
        assert_eq!(tiles(&shape, &chunk, &[4, 4, 8], 32 << 20), Some((256, 16)));
        assert_eq!(tiles(&shape, &chunk, &[4, 4, 8], 64 << 20), Some((512, 16)));
        assert_eq!(tiles(&shape, &chunk, &[4, 4, 8], 1 << 30), Some((512, 16)));
        assert_eq!(tiles(&shape, &chunk, &[4, 4, 8], 1 << 20), None);
        // Row by row.
        assert_eq!(tiles(&shape, &chunk, &[1, 1, 1], 8 << 20), Some((1024, 1)));
        assert_eq!(tiles(&[7, 7], &[7, 7], &[1, 1], 8 << 20), None);
    }
}
