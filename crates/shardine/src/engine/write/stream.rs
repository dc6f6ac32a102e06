//! A large shard on its way out: encoded by many, laid down in order.

use std::ops::Range;
use std::sync::atomic::Ordering;

use shardine_store::{Buffer, Condition, CreateOptions, Key, Object, ReadRange};

use super::{Writing, add, bytes_of, read};
use crate::Error;
use crate::engine::budget::Permit;
use crate::engine::sequencer::{Batch, Piece, Sequencer};
use crate::layout::{Action, ShardLayout, SourceView, Update, UpdatePlan};
use crate::selection::Cell;
use crate::shard::{IndexLocation, ShardIndex, WriteOrder};

/// Decoded bytes of a piece of work for one worker.
const PIECE: u64 = 64 << 10;

/// Entries that are kept, in one piece of work.
const KEPT: usize = 4096;

/// One shard being streamed.
pub(super) struct Stream<'a> {
    pub writing: &'a Writing<'a>,
    pub shard: &'a ShardLayout,
    pub key: &'a Key,
    pub cell: &'a Cell,
    pub old: Option<&'a dyn Object>,
}

/// An entry on its way to a worker.
type Task = (usize, Action);

impl Stream<'_> {
    pub(super) fn run(
        &self,
        old_index: Option<&ShardIndex>,
        bounds: &[u64],
        condition: Condition,
        covered: bool,
    ) -> Result<(), Error> {
        let (writing, shard) = (self.writing, self.shard);
        let selection = shard.selection_to_stored(&self.cell.selection);
        let bounds = shard.to_stored(bounds);
        let order = writing.options.order;
        let damaged = |source| Error::Shard {
            object: self.key.clone(),
            shard: self.cell.index.to_vec(),
            source: Box::new(source),
        };
        let plan =
            UpdatePlan::new(shard, old_index, &selection, &bounds, order).map_err(damaged)?;
        let options = CreateOptions { head: shard.index.head(), condition: condition.clone() };
        let writer = writing.grid.store.create(self.key, options)?;
        let any_order = order == WriteOrder::Arrival;
        let sequencer =
            Sequencer::new(writing.engine, &*writer, self.old, shard.chunks(), any_order);
        self.encode_all(&plan, &sequencer, damaged)?;
        writing.check()?;

        let (index, bytes) = sequencer.into_index();
        if index.all_absent() && !writing.options.store_empty {
            drop(writer);
            return writing.remove(self.key, covered, self.old.is_some(), &condition);
        }
        let encoded = writing
            .engine
            .with_context(|context| shard.index.encode(context, &index))
            .map_err(|e| writing.encode_error(self.key, &self.cell.index, &[], e.into()))?;
        let staged = match shard.index.location() {
            IndexLocation::Start => writer.finish(&encoded)?,
            IndexLocation::End => {
                writer.append(&encoded)?;
                writer.finish(&[])?
            }
        };
        writing.publish(staged, covered)?;
        add(&writing.counters.bytes_written, bytes + encoded.len() as u64);
        Ok(())
    }

    /// Hands the entries out to the workers, as many at once as the budget allows.
    fn encode_all(
        &self,
        plan: &UpdatePlan<'_>,
        sequencer: &Sequencer<'_>,
        damaged: impl Fn(crate::shard::ShardError) -> Error,
    ) -> Result<(), Error> {
        let engine = self.writing.engine;
        let chunk = self.shard.inner.decoded_len();
        // Decoded elements and their encoded form; an old chunk beside them where there is one.
        let cost = chunk.saturating_mul(if self.old.is_some() { 3 } else { 2 });
        let inline = engine.on_worker();
        let mut result = Ok(());
        engine.pool.in_place_scope(|scope| {
            let mut tasks: Vec<Task> = Vec::new();
            let mut encoded = 0u64;
            let mut number = 0;
            let mut hand_out = |tasks: Vec<Task>, encoded: u64| {
                let permit = engine.budget.acquire(cost.saturating_mul(encoded));
                let batch = number;
                number += 1;
                let work = move || {
                    if self.writing.failed.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Err(error) = self.encode_batch(batch, tasks, permit, sequencer) {
                        self.writing.fail(error);
                    }
                };
                if inline { work() } else { scope.spawn(move |_| work()) }
            };
            for &entry in plan.entries() {
                if self.writing.failed.load(Ordering::Relaxed) {
                    break;
                }
                match plan.action(entry as usize) {
                    Ok(None) => continue,
                    Ok(Some(action)) => {
                        encoded += u64::from(matches!(action, Action::Encode { .. }));
                        tasks.push((entry as usize, action));
                    }
                    Err(error) => {
                        result = Err(damaged(error));
                        self.writing.failed.store(true, Ordering::Relaxed);
                        return;
                    }
                }
                if encoded.saturating_mul(chunk) >= PIECE || tasks.len() >= KEPT {
                    hand_out(std::mem::take(&mut tasks), std::mem::take(&mut encoded));
                }
            }
            if !tasks.is_empty() {
                hand_out(tasks, encoded);
            }
        });
        result
    }

    /// Encodes consecutive entries and lays them down.
    fn encode_batch(
        &self,
        number: usize,
        tasks: Vec<Task>,
        permit: Permit,
        sequencer: &Sequencer<'_>,
    ) -> Result<(), Error> {
        let writing = self.writing;
        let mut pieces = Vec::with_capacity(tasks.len());
        let mut done = 0;
        let source = SourceView::new(writing.source, self.cell.at.iter().copied().collect());
        let source = source.to_stored(self.shard);
        let encoded = writing.engine.with_context(|context| {
            let mut out = context.take_buffer();
            for (entry, action) in tasks {
                match action {
                    Action::Keep { old } => {
                        pieces.push(Piece::Kept { entry, range: old });
                        add(&writing.counters.chunks_kept, 1);
                    }
                    Action::Encode { cell, bounds, old } => {
                        let old = self.old_chunk(old)?;
                        let start = out.len();
                        let update = Update {
                            selection: &cell.selection,
                            bounds: &bounds,
                            source: source.advance(&cell.at),
                            options: writing.encode,
                        };
                        let inner = &self.shard.inner;
                        let outcome = inner
                            .update(context, old.as_deref(), &update, &mut out)
                            .map_err(|source| {
                                let path = [entry as u32];
                                writing.encode_error(self.key, &self.cell.index, &path, source)
                            })?;
                        done += bytes_of(&cell.selection, inner.element_size());
                        writing.counters.chunks(outcome);
                        if outcome.stored {
                            pieces.push(Piece::New { entry, range: start..out.len() });
                        }
                    }
                }
            }
            Ok::<_, Error>(out)
        })?;
        sequencer.finish(number, Batch { pieces, encoded, _permit: permit })?;
        writing.progress(done);
        Ok(())
    }

    /// The bytes of a chunk that is updated in part.
    fn old_chunk(&self, range: Option<Range<u64>>) -> Result<Option<Buffer>, Error> {
        match (range, self.old) {
            (Some(range), Some(old)) => Ok(Some(read(old, ReadRange::Bounded(range))?)),
            _ => Ok(None),
        }
    }
}
