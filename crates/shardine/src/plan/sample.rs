//! Measures the actual encoded size of an array's chunks.

use std::ops::ControlFlow;

use shardine_store::{Key, StoreError};

use crate::engine::{GridKey, in_order};
use crate::source::PartOfSource;
use crate::stored::PossibleObject;
use crate::{
    Array, Axis, ElementSize, EngineError, Error, Region, Selection, Source, WriteOptions,
};

/// The most objects whose length is requested.
const ASKED: usize = 128;

/// The most shards whose index is read, and the most bytes of indexes.
const INDEXES: usize = 32;
const INDEX_BYTES: u64 = 8 << 20;

/// Fewer objects than this do not make a sample.
const ENOUGH: usize = 8;

/// The most folders listed at one depth, and in total, where probing found too little.
const LISTED: usize = 16;
const ALL_LISTED: usize = 128;

/// Memory assumed for one response.
const ANSWER: u64 = 256 << 10;

/// The encoded sizes of some stored chunks of an array.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// The shape of what was measured, in elements: a chunk, or where only the length of something
    /// larger is known without decoding it, an inner shard or a shard that is encoded as a whole.
    pub shape: Vec<u64>,
    /// How many were found and measured.
    pub count: u64,
    /// How many were looked for, as far as known: absent ones hold the fill value.
    pub looked: u64,
    /// Stored objects that were looked at.
    pub objects: u64,
    /// Their mean encoded size in bytes.
    pub mean: u64,
    /// Their median encoded size in bytes.
    pub median: u64,
    /// The largest.
    pub max: u64,
    /// The compression ratio: decoded to encoded size; `None` for variable-length types.
    pub ratio: Option<f64>,
}

impl Sample {
    /// The encoded size of something of this shape (a chunk, a shard), if it is like what was
    /// measured.
    pub fn bytes_of(&self, shape: &[u64]) -> u64 {
        scaled(self.mean, shape, &self.shape)
    }

    /// The fraction of what was looked for that was present, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.count as f64 / self.looked.max(self.count).max(1) as f64
    }
}

/// Scales bytes by the ratio of two shapes.
pub(super) fn scaled(bytes: u64, shape: &[u64], of: &[u64]) -> u64 {
    let elements = |shape: &[u64]| shape.iter().fold(1.0, |n, &length| n * length.max(1) as f64);
    if shape == of {
        return bytes;
    }
    // Saturates at 2^64.
    (bytes as f64 * (elements(shape) / elements(of))).round() as u64
}

/// Measures the encoded size of an array's chunks from a few that lie far apart; `None` if none was
/// found.
///
/// For a sharded array the indexes of at most 32 shards are read, otherwise the lengths of at most
/// 128 objects are requested: one request each, many in parallel. Only if that finds next to
/// nothing, because most chunks are absent, are some folders listed, at most 128. No chunk is read,
/// and shards with a damaged index do not count. The same array gives the same sample.
pub fn sample(array: &Array) -> Result<Option<Sample>, Error> {
    // For shards by key, the cells of the grid are the chunks.
    let sharded = array.entry_shape().is_some() && array.chunks.packing.shared().is_none();
    let most = match array.chunks.layout.addressable() {
        Some(shard) => {
            usize::try_from(INDEX_BYTES / shard.index.len().max(1)).unwrap_or(1).clamp(1, INDEXES)
        }
        None => ASKED,
    };
    let measure = |objects: &[PossibleObject]| match sharded {
        true => entries(array, objects),
        false => lengths(array, objects),
    };
    let cells = array.cells();
    let all = cells.count <= most as u64;
    let cells = if all { cells.collect() } else { spread(&object_grid(array), most) };
    let objects = cells.into_iter().map(|cell| {
        let key = array.chunks.packing.key(&cell)?;
        Ok(PossibleObject::new(key, cell, None))
    });
    let mut found = measure(&objects.collect::<Result<Vec<_>, Error>>()?)?;
    // The length of an object that chunks share says nothing about a single chunk.
    let is_shared = array.chunks.packing.shared().is_some();
    if !all && !is_shared && found.objects < ENOUGH.min(most) as u64 {
        match listed(array) {
            Ok(objects) => {
                let listed = measure(&thinned(objects, most))?;
                // Unsuccessful lookups still say how much is there.
                found = Measured { looked: found.looked.max(listed.looked), ..listed };
            }
            Err(Error::Store(StoreError::Unsupported { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    let shape = array.entry_shape().unwrap_or(array.cell_shape()).to_vec();
    let element = match array.data_type().size() {
        ElementSize::Fixed(size) => Some(size),
        ElementSize::Variable => None,
    };
    Ok(found.sample(shape, element))
}

/// How many chunks of a source are encoded to measure their size.
const ENCODED: usize = 16;

/// Measures the encoded size that chunks of a source would have, from a few that lie far apart;
/// `None` if there are none.
///
/// `array` is a private, unsharded array in memory; the chunks stay in it. Encodes at most 16 of
/// them.
pub(crate) fn sample_of_source(
    array: &Array,
    source: &dyn Source,
) -> Result<Option<Sample>, Error> {
    let chunk = array.cell_shape();
    let grid = object_grid(array);
    if grid.contains(&0) {
        return Ok(None);
    }
    let mut found = Measured::default();
    for cell in spread(&grid, ENCODED) {
        let axes = cell.iter().zip(chunk).zip(array.shape()).map(|((&i, &n), &length)| {
            let start = i.saturating_mul(n);
            Axis { start, step: 1, count: n.min(length.saturating_sub(start)) }
        });
        let selection = Selection { axes: axes.collect() };
        let start = selection.axes.iter().map(|axis| axis.start).collect();
        let options = WriteOptions::new().store_empty(true);
        let part = PartOfSource { source, start };
        let report = array.write_from(Region::from(&selection), &part, &options)?;
        found.looked += 1;
        found.objects += 1;
        found.sizes.push(report.bytes_written);
    }
    let element = match array.data_type().size() {
        ElementSize::Fixed(size) => Some(size),
        ElementSize::Variable => None,
    };
    Ok(found.sample(chunk.to_vec(), element))
}

/// What was measured.
#[derive(Debug, Default)]
struct Measured {
    sizes: Vec<u64>,
    looked: u64,
    objects: u64,
}

impl Measured {
    fn sample(mut self, shape: Vec<u64>, element: Option<usize>) -> Option<Sample> {
        self.sizes.sort_unstable();
        let max = *self.sizes.last()?;
        let median = *self.sizes.get((self.sizes.len() - 1) / 2)?;
        let total: u128 = self.sizes.iter().map(|&n| u128::from(n)).sum();
        // No more than the largest.
        let mean = (total / self.sizes.len() as u128) as u64;
        let ratio = element.filter(|_| total > 0).map(|size| {
            let decoded = shape.iter().fold(size as f64, |n, &length| n * length as f64);
            decoded * self.sizes.len() as f64 / total as f64
        });
        let count = self.sizes.len() as u64;
        let (looked, objects) = (self.looked, self.objects);
        Some(Sample { shape, count, looked, objects, mean, median, max, ratio })
    }
}

/// Objects along each axis.
fn object_grid(array: &Array) -> Vec<u64> {
    let axes = array.shape().iter().zip(array.cell_shape());
    axes.map(|(&length, &n)| length.div_ceil(n.max(1))).collect()
}

/// Cells of a grid that lie far apart: each of `count` equal parts of every axis contains one of
/// them.
fn spread(grid: &[u64], count: usize) -> Vec<Vec<u64>> {
    // A lattice: along each axis the parts come in an order of its own, in steps that are powers of
    // a number coprime to the count, so that none is left out.
    let n = count.max(1) as u64;
    let golden = (n as f64 * 0.618).round() as u64;
    let step = (golden.max(1)..).find(|&step| coprime(step, n)).unwrap_or(1) % n;
    let mut steps = Vec::with_capacity(grid.len());
    let mut power = 1 % n;
    for _ in grid {
        steps.push(power);
        power = power * step % n;
    }
    let cell = |i: u64| {
        let at = |(&step, &cells): (&u64, &u64)| {
            // The middle of a part.
            let twice = 2 * (i * step % n) + 1;
            (u128::from(twice) * u128::from(cells) / u128::from(2 * n)) as u64
        };
        steps.iter().zip(grid).map(at).collect::<Vec<u64>>()
    };
    let mut cells: Vec<Vec<u64>> = (0..n).map(cell).collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

fn coprime(a: u64, b: u64) -> bool {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// At most this many items of a list, evenly spaced.
pub(super) fn thinned<T>(list: Vec<T>, most: usize) -> Vec<T> {
    let every = list.len().div_ceil(most.max(1)).max(1);
    list.into_iter().skip(every / 2).step_by(every).collect()
}

/// What the indexes of shards say.
fn entries(array: &Array, objects: &[PossibleObject]) -> Result<Measured, Error> {
    let (mut found, mut failed) = (Measured::default(), None);
    array.each_shard(objects, &mut |object, shard| {
        match shard {
            Ok(Some(shard)) => {
                found.objects += 1;
                found.looked += inside(array, &object.cell, shard.entries.len());
                found
                    .sizes
                    .extend(shard.entries.iter().flatten().map(|range| range.end - range.start));
            }
            Ok(None) => found.looked += inside(array, &object.cell, usize::MAX),
            Err(Error::Engine(EngineError::Shard { .. })) => {}
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    failed.map_or(Ok(found), Err)
}

/// Entries of a shard whose chunks lie in the array; the others are absent in every edge shard.
fn inside(array: &Array, cell: &[u64], most: usize) -> u64 {
    let bounds = array.chunks.bounds(cell);
    let axes = bounds.iter().zip(array.entry_shape().unwrap_or_default());
    let count = axes.fold(1u64, |n, (&b, &c)| n.saturating_mul(b.div_ceil(c.max(1))));
    count.min(most as u64)
}

/// The lengths of objects: as listed, or one request each.
fn lengths(array: &Array, objects: &[PossibleObject]) -> Result<Measured, Error> {
    let (mut found, mut failed) = (Measured::default(), None);
    let most = match objects.first() {
        Some(PossibleObject { listed: None, .. }) => {
            array.engine().at_once(&*array.chunks.store, 1)
        }
        _ => 1,
    };
    let ask = |i: usize| match objects[i].listed {
        Some(len) => Ok(Some(len)),
        None => array.chunks.cell_length(&objects[i].cell),
    };
    in_order(most, objects.len(), &ask, &mut |_, length| match length {
        Ok(length) => {
            found.looked += 1;
            found.objects += u64::from(length.is_some());
            found.sizes.extend(length);
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error.into());
            ControlFlow::Break(())
        }
    });
    failed.map_or(Ok(found), Err)
}

/// Objects of some folders, from the outermost inwards: at each depth a few that lie far apart.
fn listed(array: &Array) -> Result<Vec<PossibleObject>, Error> {
    let (location, packing) = (array.location(), &array.chunks.packing);
    let grid = object_grid(array);
    let store = &*location.store;
    let at_once = array.engine().at_once(store, ANSWER);
    let (mut objects, mut left) = (Vec::new(), ALL_LISTED);
    let mut folders: Vec<Option<Key>> = vec![location.path.clone()];
    while !folders.is_empty() && left > 0 {
        let these = thinned(std::mem::take(&mut folders), LISTED.min(left));
        left -= these.len();
        let mut failed = None;
        let list = |i: usize| store.list(these[i].as_ref());
        in_order(at_once, these.len(), &list, &mut |_, listing| {
            let listing = match listing {
                Ok(listing) => listing,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            };
            for (key, len) in listing.objects {
                if let GridKey::Object(cell) = packing.named(&key)
                    && cell.iter().zip(&grid).all(|(i, n)| i < n)
                {
                    objects.push(PossibleObject::new(key, cell, Some(len)));
                }
            }
            let inside = |key: &Key| matches!(packing.named(key), GridKey::Folder(_));
            let inner = listing.folders.into_iter().filter(inside);
            folders.extend(inner.map(Some));
            ControlFlow::Continue(())
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    objects.sort_by(|a, b| a.cell.cmp(&b.cell));
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_lie_apart_along_every_axis() {
        let cells = spread(&[64, 64, 64], 32);
        assert_eq!(cells.len(), 32);
        for k in 0..3 {
            let mut quarters = [0; 4];
            for cell in &cells {
                quarters[cell[k] as usize / 16] += 1;
            }
            assert_eq!(quarters, [8; 4], "{k}");
        }
        assert!(spread(&[u64::MAX; 64], 9).iter().all(|cell| cell.len() == 64));
        assert_eq!(spread(&[], 9), [[0u64; 0]]);
        assert_eq!(spread(&[1, 2], 9), [[0, 0], [0, 1]]);
        for count in 1..200 {
            assert_eq!(spread(&[1000, 1000], count).len(), count);
        }
    }

    #[test]
    fn a_list_is_thinned_evenly() {
        assert_eq!(thinned((0..10).collect(), 3), [2, 6]);
        assert_eq!(thinned((0..10).collect(), 10), (0..10).collect::<Vec<_>>());
        assert_eq!(thinned((0..3).collect(), 0), [1]);
        assert!(thinned(Vec::<u8>::new(), 3).is_empty());
    }
}
