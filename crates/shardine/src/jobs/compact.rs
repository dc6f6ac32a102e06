//! Squeezes gaps out of shards.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use shardine_store::{Key, StoreError};

use super::span::job_span;
use super::walk::each_array_or_scale;
use crate::stored::{PossibleObject, ShardEntries};
use crate::{Array, Engine, Error, Location};

/// How to compact.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Only tell what would be done.
    pub dry_run: bool,
    /// Shards of which a smaller share is gaps are left as they are.
    pub min_gap: f64,
    /// Told how many objects have been looked at, and how many there are so far.
    pub progress: Option<Arc<dyn Fn(u64, u64) + Send + Sync>>,
}

impl CompactOptions {
    /// All shards that have a gap.
    pub fn new() -> Self {
        Self::default()
    }

    /// With everything looked at and nothing changed, or not.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// With shards left as they are of which a smaller share is gaps, from 0 to 1.
    pub fn min_gap(mut self, share: f64) -> Self {
        self.min_gap = share;
        self
    }

    /// With somebody who is told the objects looked at, and the objects there are so far.
    pub fn progress(mut self, progress: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }
}

impl fmt::Debug for CompactOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactOptions")
            .field("dry_run", &self.dry_run)
            .field("min_gap", &self.min_gap)
            .finish_non_exhaustive()
    }
}

/// A shard that was compacted, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The shard.
    pub object: Key,
    /// Its place in the grid of its array.
    pub shard: Vec<u64>,
    /// Its length before.
    pub before: u64,
    /// Its length after; in a dry run the length that it would have.
    pub after: u64,
}

/// What came of compacting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CompactSummary {
    /// Arrays that were looked at.
    pub arrays: u64,
    /// Shards that were looked at.
    pub shards: u64,
    /// Shards that were compacted, or would be.
    pub compacted: u64,
    /// Their bytes before.
    pub before: u64,
    /// Their bytes after.
    pub after: u64,
    /// Shards and arrays that could not be compacted.
    pub failed: u64,
}

/// Squeezes the gaps out of the shards of an array, of all arrays below a group, or of the scales of a precomputed volume.
///
/// Chunks are moved as they are, in the kernel where that can be, and keep their order; nothing is decoded. Each shard
/// is replaced in one step, and other writers of it wait. `tell` hears of each shard, or of an error: a damaged shard
/// is left as it is and the others are still done. Gaps inside of shards in shards stay.
///
/// Costs one read for the index of each shard, many at once in a remote store, and for those with gaps their bytes once.
pub fn compact(
    engine: &Arc<Engine>,
    location: &Location,
    options: &CompactOptions,
    tell: &mut dyn FnMut(Result<Compacted, Error>),
) -> Result<CompactSummary, Error> {
    let _span = job_span("compact", location);
    let mut summary = CompactSummary::default();
    let (mut done, mut found) = (0, 0);
    each_array_or_scale(engine, location, &mut |array| {
        let array = match array {
            Ok(array) => array,
            Err(error) => {
                summary.failed += 1;
                tell(Err(error));
                return Ok(());
            }
        };
        summary.arrays += 1;
        // What its index says of a shard must not be used on a shard of another array.
        let held = array.hold()?;
        let array = held.array();
        let objects = match array.possible_objects() {
            // A link stands among its shards; the other arrays can be compacted.
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
            if let Some(progress) = &options.progress {
                progress(done, found);
            }
            ControlFlow::Continue(())
        });
        Ok(())
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
