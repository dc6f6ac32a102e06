//! Searches for an index in a shard whose own is unreadable.

use std::ops::Range;

use shardine_codec::Context;
use shardine_store::{Object, ReadRange};

use crate::Error;
use crate::engine::tuning::SCANNED;
use crate::jobs::check::indexed::{Indexed, read_index};
use crate::jobs::check::overlapping;
use crate::layout::{Layout, ShardLayout};
use crate::shard::{ChecksumScan, IndexLocation, ShardIndex};

/// Where the last index begins that is valid and has consistent entries.
pub(super) fn find_last_index(
    shard: &ShardLayout,
    object: &dyn Object,
    len: u64,
) -> Result<Option<u64>, Error> {
    // An index at the start has one place, and only a journal could have another copy.
    if shard.index.location() == IndexLocation::Start || !shard.index.ends_with_crc32c() {
        return Ok(None);
    }
    let Some(mut scan) = ChecksumScan::new(shard.index.len()) else { return Ok(None) };
    let mut found = Vec::new();
    let mut at = 0;
    while at < len {
        let end = len.min(at + SCANNED);
        let bytes = object.read(ReadRange::Bounded(at..end))?;
        scan.take(&bytes, |at| found.push(at));
        at = end;
    }
    for at in found.into_iter().rev() {
        if is_sound(shard, object, 0..at + shard.index.len())? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Whether there is a shard at these bytes with consistent entries, at least one of which leads to
/// what it should.
///
/// The index of an inner shard has a valid checksum too, and so has a chunk that ends in one; if it
/// is all ones, it even looks like an index without entries.
fn is_sound(shard: &ShardLayout, object: &dyn Object, at: Range<u64>) -> Result<bool, Error> {
    let read = |range| object.read(ReadRange::Bounded(range));
    let indexed = read_index(shard, &at, &mut Context::new(), read)?;
    let Ok(Indexed { index, range }) = indexed else { return Ok(false) };
    let Some(entries) = holding(&index, &range) else { return Ok(false) };
    for entry in entries {
        let place = at.start + entry.start..at.start + entry.end;
        if leads_to(&shard.inner, object, place)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn leads_to(layout: &Layout, object: &dyn Object, at: Range<u64>) -> Result<bool, Error> {
    match layout {
        Layout::Shard(shard) if shard.after.is_empty() => is_sound(shard, object, at),
        Layout::Staged(staged) => leads_to(&staged.inner, object, at),
        // Whether it can be decoded is checked when the index is in place.
        Layout::Shard(_) | Layout::Chunk(_) => Ok(true),
    }
}

/// The entries of an index, if all lie outside of it, and no two overlap partially.
fn holding(index: &ShardIndex, own: &Range<u64>) -> Option<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    for entry in 0..index.len() {
        let Some(range) = index.get(entry).ok()? else { continue };
        if range.start < own.end && range.end > own.start {
            return None;
        }
        ranges.push(range);
    }
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut holds = true;
    let stored = ranges.iter().filter(|range| !range.is_empty());
    overlapping(stored.map(|range| (range.clone(), ())), |first, next| holds &= first.0 == next.0);
    holds.then_some(ranges)
}
