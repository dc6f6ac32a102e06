//! Prefetching an object in a remote store: merged ranges, several pieces in parallel.

use std::ops::{ControlFlow, Range};

use shardine_store::{Buffer, ReadRange, StoreError};

use super::entries::Placed;
use super::{Check, Source};
use crate::Array;
use crate::engine::{Crew, in_order};
use crate::jobs::check::Run;
use crate::layout::Layout;

/// The bytes for which another request in flight is worthwhile.
const WORTH: u64 = 1 << 20;

/// Entries checked after one step of prefetching.
const ENTRIES: usize = 1 << 16;

/// How the objects of a remote store are read.
#[derive(Debug, Clone, Copy)]
pub(in crate::jobs) struct Pace {
    /// Objects checked in parallel.
    pub objects: usize,
    /// Parallel reads of each.
    reads: usize,
    /// The most bytes in one read.
    pub piece: u64,
    /// The most bytes prefetched from an object.
    part: u64,
    /// Gaps that are cheaper to read than to skip.
    gap: u64,
}

impl Run<'_> {
    /// How to check `count` objects of an array within the budget; `None` if they are local.
    pub fn pace(&self, array: &Array, count: usize) -> Option<Pace> {
        let store = &*array.chunks.store;
        let cost = store.read_cost();
        if cost.local {
            return None;
        }
        let budget = self.engine.memory_in_flight();
        let in_flight = self.engine.at_once(store, 1);
        let largest = self.engine.max_merged_read();
        let piece = (budget / 2 / in_flight as u64).clamp(WORTH.min(largest), largest);
        let mut each = memory(&array.chunks.layout, self.scope.decode);
        if self.scope.decode {
            each = each.saturating_add(piece);
        }
        let objects = self.engine.at_once(store, each).min(count.max(1));
        let part = (budget / 2 / objects as u64).max(piece);
        let reads = in_flight.div_ceil(objects);
        Some(Pace { objects, reads, piece, part, gap: cost.request_in_bytes })
    }

    /// The crew that checks `count` objects of an array at this pace.
    pub fn crew(&self, array: &Array, pace: Option<Pace>, count: usize) -> Crew {
        match pace {
            Some(pace) => Crew::Waiting(pace.objects),
            // Leaves the workers to the chunks of each object.
            None if count < self.engine.threads() => Crew::Workers(1),
            None => Crew::Workers(self.workers(array)),
        }
    }

    /// How many objects can be checked in parallel with the memory of their indexes and chunks
    /// within the budget.
    pub fn workers(&self, array: &Array) -> usize {
        self.engine.workers_within(memory(&array.chunks.layout, self.scope.decode))
    }
}

/// The memory that the check of an object takes, in addition to what is prefetched.
fn memory(layout: &Layout, decode: bool) -> u64 {
    // The index as read, as decoded, and its entries by position.
    let index = layout.addressable().map_or(0, |shard| shard.index.len().saturating_mul(4));
    let payload = if decode { payload(layout).saturating_mul(2) } else { 0 };
    index.saturating_add(payload).max(1)
}

/// The size of what is decoded at a time.
fn payload(layout: &Layout) -> u64 {
    match layout {
        Layout::Shard(shard) if shard.after.is_empty() => payload(&shard.inner),
        Layout::Staged(staged) => payload(&staged.inner),
        layout => layout.decoded_len(),
    }
}

/// Prefetched bytes of an object.
#[derive(Debug)]
pub(in crate::jobs) struct Held {
    pub range: Range<u64>,
    pub bytes: Buffer,
}

impl Held {
    /// These bytes, if they are among those held, which are sorted.
    pub fn find<'a>(held: &'a [Self], range: &Range<u64>) -> Option<&'a [u8]> {
        let after = held.partition_point(|held| held.range.start <= range.start);
        let held = held.get(after.checked_sub(1)?)?;
        let start = usize::try_from(range.start - held.range.start).ok()?;
        let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        held.bytes.get(start..start.checked_add(len)?)
    }
}

impl<'a> Source<'a> {
    /// The same with these prefetched bytes, if there are any.
    pub fn with<'b>(self, ahead: &'b [Held]) -> Source<'b>
    where
        'a: 'b,
    {
        match self {
            Self::Object { object, .. } if !ahead.is_empty() => {
                Source::Object { object, held: ahead }
            }
            source => source,
        }
    }
}

impl Check<'_, '_> {
    /// What will be read of something at these bytes: all of it if it is decoded and small, else
    /// its index.
    pub fn wanted(&self, layout: &Layout, at: Range<u64>) -> Option<Range<u64>> {
        let pace = self.pace?;
        let len = at.end - at.start;
        if self.run.scope.decode && len <= pace.piece {
            return Some(at);
        }
        let index = layout.addressable()?.index.range(len).ok()?;
        Some(at.start + index.start..at.start + index.end)
    }

    /// How many of these entries, which are sorted, are checked after one step of prefetching: all,
    /// if nothing is prefetched.
    pub fn entries_ahead(&self, placed: &[Placed]) -> usize {
        let Some(pace) = self.pace else { return placed.len() };
        let (mut bytes, mut end) = (0u64, None);
        let fits = |placed: &&Placed| {
            let gap = end.map_or(0, |end| placed.start.saturating_sub(end).min(pace.gap));
            bytes = bytes.saturating_add(gap).saturating_add(placed.end - placed.start);
            end = Some(placed.end);
            bytes <= pace.part
        };
        placed.iter().take(ENTRIES).take_while(fits).count().max(1)
    }

    /// Prefetches ranges of a remote object, which are sorted and do not overlap. Those that are
    /// too large are left for their user to read.
    pub fn read_ahead(
        &self,
        source: Source<'_>,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Held>, StoreError> {
        let (Some(pace), Source::Object { object, held }) = (self.pace, source) else {
            return Ok(Vec::new());
        };
        if ranges.iter().all(|range| Held::find(held, range).is_some()) {
            return Ok(Vec::new());
        }
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges.iter().filter(|range| range.end - range.start <= pace.part) {
            match merged.last_mut() {
                Some(last)
                    if range.start.saturating_sub(last.end) <= pace.gap
                        && range.end.saturating_sub(last.start) <= pace.piece =>
                {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range.clone()),
            }
        }
        let mut ahead = Vec::with_capacity(merged.len());
        let mut failed = None;
        let read = |i: usize| object.read(ReadRange::Bounded(merged[i].clone()));
        in_order(pace.reads, merged.len(), &read, &mut |i, bytes| match bytes {
            Ok(bytes) => {
                ahead.push(Held { range: merged[i].clone(), bytes });
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        failed.map_or(Ok(ahead), Err)
    }
}
