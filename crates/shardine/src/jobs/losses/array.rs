//! Which chunks of an array are still as `repair` left them.

use std::ops::Range;

use shardine_codec::Context;
use shardine_store::{Key, Object, ReadRange, StoreError};

use super::{Fingerprint, Losses, ObjectLosses};
use crate::engine::GridKey;
use crate::engine::tuning::SCANNED;
use crate::jobs::check::indexed::read_index;
use crate::layout::{Layout, ShardLayout};
use crate::shard::ShardIndex;
use crate::{Array, Error};

/// Part of an array that is still lost, or unproved.
pub(in crate::jobs) struct ArrayLoss {
    pub object: Key,
    pub cell: Vec<u64>,
    /// The entries that lead to it; none for the whole object, and for unproved chunks.
    pub path: Vec<u32>,
    /// The number of lost chunks.
    pub lost: u64,
    /// The number of chunks restored from an older index.
    pub unproved: u64,
}

/// The number of innermost chunks inside the array below a path of entries. `bounds` is by axis of
/// the array.
pub(in crate::jobs) fn chunks_below(layout: &Layout, path: &[u32], bounds: &[u64]) -> u64 {
    let (layout, bounds) = below(layout, path, bounds);
    let shape = layout.innermost_chunk_shape();
    let along = |(&bound, &chunk): (&u64, &u64)| bound.div_ceil(chunk.max(1));
    bounds.iter().zip(&shape).map(along).fold(1, u64::saturating_mul)
}

/// What a path leads to, and how much of it is inside the array.
fn below<'a>(layout: &'a Layout, path: &[u32], bounds: &[u64]) -> (&'a Layout, Vec<u64>) {
    let (Layout::Shard(shard), [entry, rest @ ..]) = (layout, path) else {
        return (layout, bounds.to_vec());
    };
    let inside = shard.chunk_bounds(&shard.cell(*entry as usize), &shard.to_stored(bounds));
    below(&shard.inner, rest, &inside)
}

/// What is recorded and still as it was left. Reads the indexes of its objects, and unproved
/// chunks.
pub(in crate::jobs) fn in_array(array: &Array, losses: &Losses) -> Result<Vec<ArrayLoss>, Error> {
    let mut found = Vec::new();
    for (name, lost) in &losses.objects {
        // A name that is not a cell of this array is none of its chunks.
        let Ok(key) = array.location().key(name) else { continue };
        let GridKey::Object(cell) = array.chunks.packing.named(&key) else { continue };
        let bounds = array.chunks.bounds(&cell);
        if bounds.contains(&0) {
            continue;
        }
        let object = array.chunks.packing.key(&cell)?;
        in_object(array, object, cell, &bounds, lost, &mut found)?;
    }
    Ok(found)
}

fn in_object(
    array: &Array,
    key: Key,
    cell: Vec<u64>,
    bounds: &[u64],
    lost: &ObjectLosses,
    found: &mut Vec<ArrayLoss>,
) -> Result<(), Error> {
    let layout = &array.chunks.layout;
    let about = |path: &[u32], lost: u64, unproved: u64| ArrayLoss {
        object: key.clone(),
        cell: cell.clone(),
        path: path.to_vec(),
        lost,
        unproved,
    };
    let whole = lost.whole.then(Vec::new);
    let paths = || whole.iter().chain(&lost.entries);
    let object = match open(array, &key)? {
        Some(object) => object,
        None => {
            let all = paths().map(|path| about(path, chunks_below(layout, path, bounds), 0));
            found.extend(all.filter(|loss| loss.lost > 0));
            return Ok(());
        }
    };
    // What is encoded as a whole was written again as a whole.
    let Some(shard) = layout.addressable() else { return Ok(()) };
    let mut walk = Walk { object: &*object, open: Vec::new() };
    let top = object.len().map_or(0..0, |len| 0..len);
    for path in paths() {
        let count = match walk.find(shard, top.clone(), path)? {
            // An unreadable index is reported as damage; what is behind it is unknown.
            Place::Unknown | Place::Absent => chunks_below(layout, path, bounds),
            Place::At(range) => {
                let (layout, bounds) = below(layout, path, bounds);
                walk.absent(layout, range, &bounds)?
            }
        };
        if count > 0 {
            found.push(about(path, count, 0));
        }
    }
    let mut unproved = 0;
    for fingerprint in &lost.unproved {
        if let Place::At(range) = walk.find(shard, top.clone(), &fingerprint.entries)?
            && range.end - range.start == fingerprint.len
            && hash(&*object, range)? == fingerprint.fnv1a
        {
            unproved += 1;
        }
    }
    if lost.all_unproved {
        unproved = chunks_below(layout, &[], bounds);
    }
    if unproved > 0 {
        found.push(about(&[], 0, unproved));
    }
    Ok(())
}

fn open(array: &Array, key: &Key) -> Result<Option<std::sync::Arc<dyn Object>>, StoreError> {
    let store = &array.chunks.store;
    let opened = store.open(key, None).and_then(|object| {
        if object.len().is_none() {
            object.read(ReadRange::Bounded(0..0))?;
        }
        Ok(object)
    });
    match opened {
        Ok(object) => Ok(Some(object)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The fingerprints of all innermost chunks of a shard; `None` if there are too many.
pub(in crate::jobs) fn fingerprints(
    layout: &Layout,
    object: &dyn Object,
    at: Range<u64>,
) -> Result<Option<Vec<Fingerprint>>, Error> {
    let mut found = Vec::new();
    let complete = collect(layout, object, at, &mut Vec::new(), &mut found)?;
    Ok(complete.then_some(found))
}

impl Fingerprint {
    /// The fingerprint of a chunk at these bytes.
    pub fn of(object: &dyn Object, entries: Vec<u32>, at: Range<u64>) -> Result<Self, StoreError> {
        let len = at.end - at.start;
        Ok(Self { entries, len, fnv1a: hash(object, at)? })
    }
}

fn collect(
    layout: &Layout,
    object: &dyn Object,
    at: Range<u64>,
    path: &mut Vec<u32>,
    found: &mut Vec<Fingerprint>,
) -> Result<bool, Error> {
    let Some(shard) = layout.addressable() else {
        found.push(Fingerprint::of(object, path.clone(), at)?);
        return Ok(found.len() <= super::MOST);
    };
    // What cannot be read is damage, and reported as such.
    let Some(index) = index_at(shard, object, &at)? else { return Ok(true) };
    for entry in 0..index.len() {
        let Ok(Some(range)) = index.get(entry) else { continue };
        path.push(entry as u32);
        let inside = at.start + range.start..at.start + range.end;
        let goes_on = collect(&shard.inner, object, inside, path, found)?;
        path.pop();
        if !goes_on {
            return Ok(false);
        }
    }
    Ok(true)
}

fn hash(object: &dyn Object, range: Range<u64>) -> Result<u64, StoreError> {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, range.start);
    while at < range.end {
        let end = range.end.min(at + SCANNED);
        for &byte in object.read(ReadRange::Bounded(at..end))?.iter() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        at = end;
    }
    Ok(hash)
}

/// The index of a shard at these bytes; `None` if it is unreadable.
fn index_at(
    shard: &ShardLayout,
    object: &dyn Object,
    at: &Range<u64>,
) -> Result<Option<ShardIndex>, StoreError> {
    let read = |range| object.read(ReadRange::Bounded(range));
    let indexed = read_index(shard, at, &mut Context::new(), read)?;
    Ok(indexed.ok().map(|indexed| indexed.index))
}

/// What a path of entries leads to.
enum Place {
    At(Range<u64>),
    Absent,
    Unknown,
}

/// Follows paths of entries in one object; caches the indexes along the last path.
struct Walk<'a> {
    object: &'a dyn Object,
    /// For each depth: the entries that lead there, the byte range, and the index, if readable.
    open: Vec<(Vec<u32>, Range<u64>, Option<ShardIndex>)>,
}

impl Walk<'_> {
    fn find(
        &mut self,
        shard: &ShardLayout,
        at: Range<u64>,
        path: &[u32],
    ) -> Result<Place, StoreError> {
        let (mut shard, mut at) = (shard, at);
        for depth in 0..path.len() {
            let known = self.open.get(depth).is_some_and(|(of, ..)| of[..] == path[..depth]);
            if !known {
                self.open.truncate(depth);
                let index = index_at(shard, self.object, &at)?;
                self.open.push((path[..depth].to_vec(), at.clone(), index));
            }
            let Some((_, base, Some(index))) = self.open.get(depth) else {
                return Ok(Place::Unknown);
            };
            let range = match index.get(path[depth] as usize) {
                Ok(Some(range)) => range,
                Ok(None) => return Ok(Place::Absent),
                Err(_) => return Ok(Place::Unknown),
            };
            at = base.start + range.start..base.start + range.end;
            if depth + 1 == path.len() {
                return Ok(Place::At(at));
            }
            match shard.inner.addressable() {
                Some(inner) => shard = inner,
                None => return Ok(Place::Unknown),
            }
        }
        Ok(Place::At(at))
    }

    /// How many innermost chunks inside the array are absent from something that exists.
    fn absent(
        &mut self,
        layout: &Layout,
        at: Range<u64>,
        bounds: &[u64],
    ) -> Result<u64, StoreError> {
        let Some(shard) = layout.addressable() else { return Ok(0) };
        let Some(index) = index_at(shard, self.object, &at)? else {
            return Ok(chunks_below(layout, &[], bounds));
        };
        let stored = shard.to_stored(bounds);
        let mut absent = 0u64;
        for entry in 0..index.len() {
            let inside = shard.chunk_bounds(&shard.cell(entry), &stored);
            if inside.contains(&0) {
                continue;
            }
            absent = absent.saturating_add(match index.get(entry) {
                Ok(Some(range)) => {
                    let range = at.start + range.start..at.start + range.end;
                    self.absent(&shard.inner, range, &inside)?
                }
                Ok(None) => chunks_below(&shard.inner, &[], &inside),
                // That is damage of its own.
                Err(_) => 0,
            });
        }
        Ok(absent)
    }
}
