//! Streams a large shard: encoded by many workers, written in order.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::{CodecError, Context};
use shardine_store::{Buffer, Condition, Key, Object, ReadRange, StoreError};
use smallvec::SmallVec;

use super::task::Task;
use super::{Writing, add, read};
use crate::Error;
use crate::layout::{Action, EncodedChunks, Outcome, ShardLayout, SourceView, Update, UpdatePlan};
use crate::object::{Batch, Finished, IndexedFrame, NewObject, Piece, Sink, Slots, Taken};
use crate::shard::{ShardError, WriteOrder};
use crate::tuning::STREAM;

/// One shard being streamed.
pub(super) struct Stream<'a, 't> {
    pub writing: &'a Writing<'a>,
    pub shard: &'a ShardLayout,
    pub key: &'a Key,
    pub task: &'a Task<'t>,
    pub old: Option<&'a Arc<dyn Object>>,
}

/// Counts of the chunks of one attempt.
#[derive(Default)]
struct Tally {
    chunks: Mutex<Outcome>,
}

impl Tally {
    fn into_outcome(self) -> Outcome {
        self.chunks.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entries ordered so that those that are cheaper to get together are adjacent.
struct Grouped<'e> {
    entries: Cow<'e, [u32]>,
    /// The size of each group; empty if it does not matter.
    groups: Vec<usize>,
}

impl Stream<'_, '_> {
    pub(super) fn damaged(&self, source: ShardError) -> Error {
        Error::shard(self.key, &self.task.index, source)
    }

    /// Writes a new shard, which replaces the old one if there is one.
    pub(super) fn rewrite(
        &self,
        plan: &UpdatePlan<'_>,
        condition: Condition,
        covered: bool,
    ) -> Result<(), Error> {
        let writing = self.writing;
        let frame = IndexedFrame { shard: self.shard, key: self.key, cell: &self.task.index };
        let new = NewObject {
            store: &*writing.grid.store,
            key: self.key,
            condition: condition.clone(),
            frame: &frame,
            any_order: plan.order() == WriteOrder::Arrival,
        };
        let tally = Tally::default();
        let Grouped { entries, groups } = self.grouped(plan, plan.entries())?;
        let is_touched = |&entry: &u32| plan.touches(entry as usize);
        let slots = self.slots(&entries, groups, &is_touched);
        let laid_down = new.lay_down(writing.engine, slots, &|context, taken| {
            self.encode_batch(context, plan, taken, &tally)
        })?;
        let chunks = tally.into_outcome();
        if laid_down.is_empty() && !writing.options.store_empty {
            match writing.remove(self.key, covered, self.old.is_some(), &condition) {
                // A shard that cannot be removed safely becomes a shard without chunks.
                Err(Error::Store(StoreError::Unsupported { .. })) if !covered => {}
                removed => {
                    writing.counters.chunks(chunks);
                    return removed;
                }
            }
        }
        let Finished { staged, len } = laid_down.finish(writing.engine)?;
        writing.publish(staged, covered, len)?;
        writing.counters.chunks(chunks);
        add(&writing.counters.bytes_written, len);
        Ok(())
    }

    /// Encodes entries of the plan and passes them to the sink.
    ///
    /// Returns the outcome for the chunks; all of them are finished.
    pub(super) fn encode_all(
        &self,
        plan: &UpdatePlan<'_>,
        entries: &[u32],
        sink: &dyn Sink,
    ) -> Result<Outcome, Error> {
        let tally = Tally::default();
        let Grouped { entries, groups } = self.grouped(plan, entries)?;
        let is_touched = |&entry: &u32| plan.touches(entry as usize);
        let slots = self.slots(&entries, groups, &is_touched);
        slots.make_all(
            self.writing.engine,
            self.key,
            &|context, taken| self.encode_batch(context, plan, taken, &tally),
            sink,
        )?;
        Ok(tally.into_outcome())
    }

    fn slots<'s>(
        &self,
        entries: &'s [u32],
        groups: Vec<usize>,
        is_touched: &'s (dyn Fn(&u32) -> bool + Sync),
    ) -> Slots<'s, u32> {
        Slots {
            slots: entries,
            is_made: is_touched,
            groups,
            chunk: self.shard.inner.decoded_len(),
            // Decoded elements and their encoded form, plus the old chunk if there is one.
            copies: if self.old.is_some() { 3 } else { 2 },
            // The shard's lock is held here. Workers that write small shards wait for that lock
            // while they hold memory of the budget, so the holder must wait neither for workers nor
            // for memory.
            inline: self.writing.grid.layout.decoded_len() <= STREAM,
        }
    }

    /// The entries of the plan grouped by the source's key, if it has one.
    fn grouped<'e>(&self, plan: &UpdatePlan<'_>, entries: &'e [u32]) -> Result<Grouped<'e>, Error> {
        let as_they_are = Grouped { entries: Cow::Borrowed(entries), groups: Vec::new() };
        // What is kept from an old shard has its own order.
        let ([part], None) = (&*self.task.parts, self.old) else { return Ok(as_they_are) };
        let view = part.view();
        if view.source.together(&view.start()).is_none() {
            return Ok(as_they_are);
        }
        let view = view.to_stored(self.shard);
        let mut ranks: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut ranked = Vec::with_capacity(entries.len());
        for &entry in entries {
            let action = plan.action(entry as usize).map_err(|source| self.damaged(source))?;
            let Some(Action::Encode { cells, .. }) = action else { continue };
            let [(_, cell)] = &*cells else { continue };
            let group = view.source.together(&view.advance(&cell.at).start()).unwrap_or_default();
            let next = ranks.len();
            ranked.push((*ranks.entry(group).or_insert(next), entry));
        }
        // In the order of each group's first entry; within a group unchanged.
        ranked.sort_by_key(|(rank, _)| *rank);
        let mut groups = vec![0; ranks.len()];
        for (rank, _) in &ranked {
            groups[*rank] += 1;
        }
        let entries = ranked.into_iter().map(|(_, entry)| entry).collect();
        Ok(Grouped { entries, groups })
    }

    /// Encodes consecutive entries.
    fn encode_batch(
        &self,
        context: &mut Context,
        plan: &UpdatePlan<'_>,
        taken: &Taken<'_, u32>,
        tally: &Tally,
    ) -> Result<Batch, Error> {
        let writing = self.writing;
        writing.check()?;
        let mut batch = Batch::default();
        let mut chunks = Outcome::default();
        let mut done = 0;
        let parts = self.task.parts.iter();
        let sources: SmallVec<[SourceView<'_>; 1]> =
            parts.map(|part| part.view().to_stored(self.shard)).collect();
        let no_memory =
            |error: CodecError| writing.encode_error(self.key, &self.task.index, &[], error.into());
        let inner = &self.shard.inner;
        let mut out = EncodedChunks::new(inner, taken.made, context).map_err(no_memory)?;
        for &entry in taken.slots {
            let action = plan.action(entry as usize).map_err(|source| self.damaged(source))?;
            let entry = entry as usize;
            match action {
                None => {}
                Some(Action::Keep { old: range }) => {
                    let unfinished = || Error::Unfinished { object: self.key.clone() };
                    let old = self.old.ok_or_else(unfinished)?;
                    batch.push_moved(Some(entry), old, range);
                    chunks.kept += 1;
                }
                Some(Action::Encode { cells, bounds, old }) => {
                    let old = self.old_chunk(old)?;
                    let updates: SmallVec<[Update<'_>; 1]> = cells
                        .iter()
                        .map(|(part, cell)| Update {
                            selection: &cell.selection,
                            bounds: &bounds,
                            source: sources[*part].advance(&cell.at),
                            options: writing.encode,
                        })
                        .collect();
                    let added = out.add(context, old.as_deref(), &updates).map_err(|source| {
                        let path = [entry as u32];
                        writing.encode_error(self.key, &self.task.index, &path, source)
                    });
                    let (outcome, range) = added?;
                    let written = cells.iter().map(|(_, cell)| &cell.selection);
                    done += written.map(|s| s.bytes(inner.element_size())).sum::<u64>();
                    chunks.add(outcome);
                    if outcome.stored {
                        batch.pieces.push(Piece::New { entry: Some(entry), range });
                    }
                }
            }
        }
        tally.chunks.lock().unwrap_or_else(PoisonError::into_inner).add(chunks);
        writing.progress(done);
        batch.encoded = out.into_bytes();
        Ok(batch)
    }

    /// The bytes of a chunk that is partly updated.
    fn old_chunk(&self, range: Option<Range<u64>>) -> Result<Option<Buffer>, Error> {
        match (range, self.old) {
            (Some(range), Some(old)) => Ok(Some(read(&**old, ReadRange::Bounded(range))?)),
            _ => Ok(None),
        }
    }
}
