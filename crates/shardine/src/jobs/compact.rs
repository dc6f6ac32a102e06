//! Removes the gaps from shards.

use std::ops::ControlFlow;

use shardine_store::{Key, StoreError};

use super::span::job_span;
use super::walk::each_array_or_scale;
use super::{JobContext, JobProgress};
use crate::stored::{PossibleObject, ShardEntries};
use crate::{Array, Error, Location};

/// How to compact.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// Shards with a smaller share of gaps are left alone.
    pub min_gap: f64,
}

impl CompactOptions {
    /// Compacts all shards that have a gap.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to check everything and change nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Leaves shards alone whose share of gaps is smaller, from 0 to 1.
    pub fn min_gap(mut self, share: f64) -> Self {
        self.min_gap = share;
        self
    }
}

/// A shard that was compacted, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The shard.
    pub object: Key,
    /// Its position in the array's grid of shards.
    pub shard: Vec<u64>,
    /// Its length before.
    pub before: u64,
    /// Its length after; in a dry run, the length it would have.
    pub after: u64,
}

/// The result of compacting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CompactSummary {
    /// Arrays checked.
    pub arrays: u64,
    /// Shards checked.
    pub shards: u64,
    /// Shards that were compacted, or would be.
    pub compacted: u64,
    /// Their total bytes before.
    pub before: u64,
    /// Their total bytes after.
    pub after: u64,
    /// Shards and arrays that could not be compacted.
    pub failed: u64,
}

/// Removes the gaps from the shards of an array, of all arrays below a group, or of the scales of a
/// precomputed volume.
///
/// Chunks are moved without decoding, in the kernel where possible, and keep their order. Each
/// shard is replaced atomically, and its other writers wait. `tell` is called with each shard, or
/// with an error: a damaged shard is left alone and the others are still compacted. Gaps inside
/// nested shards stay.
///
/// Costs one read for the index of each shard, many in parallel in a remote store, and for shards
/// with gaps one read of their bytes. A job that is stopped leaves each shard either old or new.
pub fn compact(
    context: impl Into<JobContext>,
    location: &Location,
    options: &CompactOptions,
    tell: &mut dyn FnMut(Result<Compacted, Error>),
) -> Result<CompactSummary, Error> {
    let _span = job_span("compact", location);
    let context = &context.into();
    let mut summary = CompactSummary::default();
    let (mut done, mut found) = (0, 0);
    each_array_or_scale(context.engine(), location, &mut |array| {
        context.check()?;
        let array = match array {
            Ok(array) => array,
            Err(error) => {
                summary.failed += 1;
                tell(Err(error));
                return Ok(());
            }
        };
        summary.arrays += 1;
        // An index must not be used on a shard of another array.
        let held = array.hold()?;
        let array = held.array();
        let objects = match array.possible_objects() {
            // A link among its shards; the other arrays can be compacted.
            Err(error @ Error::Store(StoreError::Unlisted { .. })) => {
                summary.failed += 1;
                tell(Err(error));
                return Ok(());
            }
            objects => objects?,
        };
        found += objects.len() as u64;
        array.each_shard(&objects, &mut |object, entries| {
            let exists = object.listed.is_some() || !matches!(entries, Ok(None));
            match entries.and_then(|entries| compact_shard(array, object, entries, options)) {
                Ok(None) => summary.shards += u64::from(exists),
                Ok(Some(compacted)) => {
                    summary.shards += 1;
                    summary.compacted += 1;
                    summary.before += compacted.before;
                    summary.after += compacted.after;
                    tell(Ok(compacted));
                }
                Err(Error::Store(StoreError::NotFound { .. })) => {}
                Err(error) => {
                    summary.failed += 1;
                    tell(Err(error));
                }
            }
            done += 1;
            context.report(JobProgress::steps("", done, found));
            match context.check() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        context.check()
    })?;
    Ok(summary)
}

fn compact_shard(
    array: &Array,
    object: &PossibleObject,
    entries: Option<ShardEntries>,
    options: &CompactOptions,
) -> Result<Option<Compacted>, Error> {
    let Some(found) = entries else { return Ok(None) };
    let share = found.gap_bytes as f64 / found.len.max(1) as f64;
    if found.gap_bytes == 0 || share < options.min_gap {
        return Ok(None);
    }
    let mut after = found.len - found.gap_bytes;
    if !options.dry_run {
        array.chunks.compact(&object.cell)?;
        after = array.shard_entries(&object.cell)?.map_or(0, |found| found.len);
    }
    let shard = object.cell.clone();
    Ok(Some(Compacted { object: found.key, shard, before: found.len, after }))
}
