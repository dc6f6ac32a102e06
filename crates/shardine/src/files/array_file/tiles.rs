//! Parts of a file that are kept because several chunks lie in them side by side.
//!
//! A row of a chunk is short, and between two of them lie those of its neighbours: read chunk by
//! chunk, a file is read many times over. A tile is as long as several chunks along the axis whose
//! elements are neighbours in the file.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use shardine_codec::strided::Placement;

use crate::source::SourceError;

/// Where a tile lies and what it extends over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub start: Vec<u64>,
    pub shape: Vec<u64>,
}

/// The bytes of a tile; empty until somebody has read them.
type Bytes = Arc<RwLock<Vec<u8>>>;

/// Reads what lies at a place.
type ReadTile<'a> = dyn FnMut(&Place, &mut Vec<u8>) -> Result<(), SourceError> + 'a;

/// Tiles in memory, the last used first.
#[derive(Debug)]
pub struct Tiles {
    /// The axis whose elements are neighbours in the file.
    axis: usize,
    /// Elements along it.
    length: u64,
    /// How many there may be.
    most: usize,
    kept: Mutex<VecDeque<(Place, Bytes)>>,
}

/// How chunks are asked for, and how much memory there is for what lies around them.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours<'a> {
    pub chunk: &'a [u64],
    /// Chunks per shard along each axis: these are asked for in Morton order.
    pub per_shard: &'a [u64],
    pub memory: u64,
}

impl Tiles {
    /// Tiles for a file of this shape whose elements are neighbours along `axis`; `None` if they
    /// would not pay.
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
        // On its way along a Morton curve a cube of chunks is done before the next, so a tile for
        // each row of it is needed.
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

    /// The tile that holds all of a box; `None` if there is none.
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

    /// Hands over the bytes of a tile, which are read if they are not there. Who comes meanwhile
    /// waits for them.
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
                // Nobody may take it for what is in the file.
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
            // Memory that nobody has a hold of is used again.
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

/// The places of a box's elements in memory if they come in the order of the file, and how many
/// bytes they are.
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
