//! A large shard on its way out: encoded by many, laid down in order.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use shardine_codec::{CodecError, Context};
use shardine_store::{Buffer, Condition, CreateOptions, Key, Object, ReadRange, StoreError};
use smallvec::SmallVec;

use super::task::Task;
use super::{OVERHEAD, STREAM, Writing, add, read};
use crate::Error;
use crate::engine::first_error::FirstError;
use crate::engine::sequencer::{Batch, Piece, Sequencer};
use crate::layout::{Action, EncodedChunks, Outcome, ShardLayout, SourceView, Update, UpdatePlan};
use crate::shard::{IndexLocation, ShardError, WriteOrder};

/// Decoded bytes of a piece of work for one worker.
const PIECE: u64 = 256 << 10;

/// The most entries in one piece of work.
const KEPT: usize = 4096;

/// The most entries to be encoded in one piece of work.
const ENCODED: u64 = 1024;

/// One shard being streamed.
pub(super) struct Stream<'a, 't> {
    pub writing: &'a Writing<'a>,
    pub shard: &'a ShardLayout,
    pub key: &'a Key,
    pub task: &'a Task<'t>,
    pub old: Option<&'a dyn Object>,
}

/// What is known of the chunks of one attempt.
#[derive(Default)]
struct Tally {
    chunks: Mutex<Outcome>,
}

/// The entries that nobody has begun with.
struct Batches<'a> {
    rest: &'a [u32],
    count: usize,
    /// How many of them are to go to one worker, one group after the other; empty if it does not matter.
    groups: std::vec::IntoIter<usize>,
}

impl<'a> Batches<'a> {
    fn next(&mut self, plan: &UpdatePlan<'_>, chunk: u64) -> Option<Entries<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(group) = self.groups.next() {
            let touched = |entries: &[u32]| {
                entries.iter().filter(|&&entry| plan.touches(entry as usize)).count()
            };
            let (entries, rest) = self.rest.split_at(group.min(self.rest.len()));
            self.rest = rest;
            self.count += 1;
            return Some(Entries { number: self.count - 1, entries, encoded: touched(entries) });
        }
        let mut encoded = 0u64;
        let end = self.rest.iter().take(KEPT).position(|&entry| {
            encoded += u64::from(plan.touches(entry as usize));
            encoded.saturating_mul(chunk) >= PIECE || encoded >= ENCODED
        });
        let end = end.map_or(self.rest.len().min(KEPT), |last| last + 1);
        let (entries, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.count += 1;
        Some(Entries { number: self.count - 1, entries, encoded: encoded as usize })
    }
}

/// Entries in an order in which those are together that are cheaper had together.
struct Grouped {
    entries: Vec<u32>,
    /// How many are in each group.
    groups: Vec<usize>,
}

/// Consecutive entries for one worker.
struct Entries<'a> {
    number: usize,
    entries: &'a [u32],
    /// How many of them are touched.
    encoded: usize,
}

/// Who takes the encoded chunks.
pub(super) trait Sink: Sync {
    /// Waits until batch `number` is among the `window` next ones. `false` means that it is not wanted any more.
    fn wait_for_turn(&self, number: usize, window: usize, context: &mut Context) -> bool;

    /// Takes batch number `number`.
    fn finish(&self, number: usize, batch: Batch) -> Result<(), StoreError>;

    /// Keeps everybody from waiting for a batch that will not come.
    fn give_up(&self);
}

impl Sink for Sequencer<'_> {
    fn wait_for_turn(&self, number: usize, window: usize, context: &mut Context) -> bool {
        self.wait_for_turn(number, window, context)
    }

    fn finish(&self, number: usize, batch: Batch) -> Result<(), StoreError> {
        self.finish(number, batch)
    }

    fn give_up(&self) {
        self.give_up();
    }
}

/// Where a worker panics, nobody waits for what it was to bring.
struct GiveUp<'a>(&'a dyn Sink);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

impl Stream<'_, '_> {
    pub(super) fn damaged(&self, source: ShardError) -> Error {
        let (object, shard) = (self.key.clone(), self.task.index.to_vec());
        Error::Shard { object, shard, source: Box::new(source) }
    }

    /// Writes a new shard, which takes the place of the old one if there is one.
    pub(super) fn rewrite(
        &self,
        plan: &UpdatePlan<'_>,
        condition: Condition,
        covered: bool,
    ) -> Result<(), Error> {
        let (writing, shard) = (self.writing, self.shard);
        let order = plan.order();
        let damaged = |source| self.damaged(source);
        let options = CreateOptions { head: shard.index.head(), condition: condition.clone() };
        let writer = writing.grid.store.create(self.key, options)?;
        let any_order = order == WriteOrder::Arrival;
        let sequencer =
            Sequencer::new(&*writer, self.old, shard.chunks(), any_order).map_err(damaged)?;
        let chunks = self.encode_all(plan, plan.entries(), &sequencer)?;
        let unfinished = || Error::Unfinished { object: self.key.clone() };
        let (index, bytes) = sequencer.into_index().ok_or_else(unfinished)?;
        if index.all_absent() && !writing.options.store_empty {
            match writing.remove(self.key, covered, self.old.is_some(), &condition) {
                // What cannot be removed safely becomes a shard without chunks.
                Err(Error::Store(StoreError::Unsupported { .. })) if !covered => {}
                removed => {
                    writing.counters.chunks(chunks);
                    return removed;
                }
            }
        }
        let encoded = writing
            .engine
            .with_context(|context| shard.index.encode(context, &index))
            .map_err(|e| writing.encode_error(self.key, &self.task.index, &[], e.into()))?;
        let staged = match shard.index.location() {
            IndexLocation::Start => writer.finish(&encoded)?,
            IndexLocation::End => {
                writer.append(&encoded)?;
                writer.finish(&[])?
            }
        };
        writing.publish(staged, covered)?;
        writing.counters.chunks(chunks);
        add(&writing.counters.bytes_written, bytes + encoded.len() as u64);
        Ok(())
    }

    /// Has the workers encode entries of the plan, as many at once as the budget allows, and hand them to the sink.
    ///
    /// Returns what became of the chunks; all of them are finished.
    pub(super) fn encode_all(
        &self,
        plan: &UpdatePlan<'_>,
        entries: &[u32],
        sink: &dyn Sink,
    ) -> Result<Outcome, Error> {
        let tally = Tally::default();
        let engine = self.writing.engine;
        let chunk = self.shard.inner.decoded_len();
        let grouped = self.grouped(plan, entries)?;
        let (entries, groups) = match &grouped {
            Some(Grouped { entries, groups }) => (entries.as_slice(), groups.clone()),
            None => (entries, Vec::new()),
        };
        let largest = groups.iter().max().map_or(0, |&n| (n as u64).saturating_mul(chunk));
        // Decoded elements and their encoded form; an old chunk beside them where there is one.
        let copies = if self.old.is_some() { 3 } else { 2 };
        let piece = PIECE.max(largest);
        let cost = piece.saturating_add(chunk).saturating_mul(copies).saturating_add(OVERHEAD);
        let affordable = (engine.budget.total() / cost).max(1) as usize;
        // The lock of a shard is held here. Of small shards others wait for it who are workers and have memory of the
        // budget, so that whoever has the lock must wait for neither.
        let small = self.writing.grid.layout.decoded_len() <= STREAM;
        let workers = if small { 1 } else { engine.threads().min(affordable) };
        // Batches that are being encoded, and some that are early.
        let window = affordable.min(workers * 4);
        let _permit = if small { None } else { engine.admit(cost.saturating_mul(window as u64)) };
        // Of this attempt alone: another one starts afresh.
        let first_error = FirstError::default();
        let groups = groups.into_iter();
        let batches = Mutex::new(Batches { rest: entries, count: 0, groups });
        let finished = AtomicUsize::new(0);
        engine.share(workers, workers, &|_, context| {
            let _guard = GiveUp(sink);
            while !first_error.is_set() {
                let next = batches.lock().unwrap_or_else(PoisonError::into_inner).next(plan, chunk);
                let Some(batch) = next else { break };
                let number = batch.number;
                if !sink.wait_for_turn(number, window, context) {
                    break;
                }
                let result = self.encode_batch(context, plan, &batch, &tally);
                let result = result.and_then(|batch| Ok(sink.finish(number, batch)?));
                match result {
                    Ok(()) => {
                        finished.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        first_error.set(error);
                        sink.give_up();
                    }
                }
            }
        });
        let count = batches.into_inner().unwrap_or_else(PoisonError::into_inner).count;
        first_error.into_result()?;
        if finished.into_inner() != count {
            return Err(Error::Unfinished { object: self.key.clone() });
        }
        Ok(tally.chunks.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// The entries of the plan by what they have in common; `None` if that does not matter.
    fn grouped(&self, plan: &UpdatePlan<'_>, entries: &[u32]) -> Result<Option<Grouped>, Error> {
        // What is kept of an old shard has its own order.
        let ([part], None) = (&*self.task.parts, self.old) else { return Ok(None) };
        let view = part.view();
        if view.source.together(&view.start()).is_none() {
            return Ok(None);
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
        // In the order in which each group comes first; inside of a group as they were.
        ranked.sort_by_key(|(rank, _)| *rank);
        let mut groups = vec![0; ranks.len()];
        for (rank, _) in &ranked {
            groups[*rank] += 1;
        }
        let entries = ranked.into_iter().map(|(_, entry)| entry).collect();
        Ok(Some(Grouped { entries, groups }))
    }

    /// Encodes consecutive entries.
    fn encode_batch(
        &self,
        context: &mut Context,
        plan: &UpdatePlan<'_>,
        batch: &Entries<'_>,
        tally: &Tally,
    ) -> Result<Batch, Error> {
        let writing = self.writing;
        let mut pieces = Vec::new();
        let mut chunks = Outcome::default();
        let mut done = 0;
        let parts = self.task.parts.iter();
        let sources: SmallVec<[SourceView<'_>; 1]> =
            parts.map(|part| part.view().to_stored(self.shard)).collect();
        let no_memory =
            |error: CodecError| writing.encode_error(self.key, &self.task.index, &[], error.into());
        let inner = &self.shard.inner;
        let mut out = EncodedChunks::new(inner, batch.encoded, context).map_err(no_memory)?;
        for &entry in batch.entries {
            let action = plan.action(entry as usize).map_err(|source| self.damaged(source))?;
            let entry = entry as usize;
            match action {
                None => {}
                Some(Action::Keep { old }) => {
                    pieces.push(Piece::Kept { entry, range: old });
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
                        pieces.push(Piece::New { entry, range });
                    }
                }
            }
        }
        tally.chunks.lock().unwrap_or_else(PoisonError::into_inner).add(chunks);
        writing.progress(done);
        Ok(Batch { pieces, encoded: out.into_bytes() })
    }

    /// The bytes of a chunk that is updated in part.
    fn old_chunk(&self, range: Option<Range<u64>>) -> Result<Option<Buffer>, Error> {
        match (range, self.old) {
            (Some(range), Some(old)) => Ok(Some(read(old, ReadRange::Bounded(range))?)),
            _ => Ok(None),
        }
    }
}
