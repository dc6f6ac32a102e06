//! The chunks of one object: distributed over workers in batches, and delivered in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;
use shardine_store::{Key, StoreError};

use super::sequencer::{Batch, Sequencer};
use crate::Engine;
use crate::Error;
use crate::first_error::FirstError;
use crate::tuning::{BATCH_BYTES, BATCH_MADE, BATCH_SLOTS, OVERHEAD};

/// Receives finished batches.
pub trait Sink: Sync {
    /// Waits until batch `number` is among the next `window`. `false` means that it is no longer
    /// needed.
    fn wait_for_turn(&self, number: usize, window: usize, context: &mut Context) -> bool;

    /// Takes batch `number`.
    fn finish(&self, number: usize, batch: Batch) -> Result<(), StoreError>;

    /// Makes sure that nobody waits for a batch that will never arrive.
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

/// If a worker panics, nobody waits for its batch.
struct GiveUp<'a>(&'a dyn Sink);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

/// What is written to the places of an object, in order.
pub struct Slots<'a, S> {
    /// One item for each place.
    pub slots: &'a [S],
    /// Whether a worker makes the bytes of a slot, rather than only naming bytes to be moved.
    pub is_made: &'a (dyn Fn(&S) -> bool + Sync),
    /// How many slots go to one worker, group by group; empty if that does not matter.
    pub groups: Vec<usize>,
    /// Memory for one chunk that a worker makes.
    pub chunk: u64,
    /// How many times that is needed: for elements, their encoded form, the previous contents.
    pub copies: u64,
    /// Whether the calling thread does everything, and waits neither for workers nor for memory.
    pub inline: bool,
}

/// Consecutive slots for one worker.
pub struct Taken<'a, S> {
    number: usize,
    /// The number of the first one.
    pub first: usize,
    /// The slots.
    pub slots: &'a [S],
    /// How many of them are made.
    pub made: usize,
}

/// Makes a batch.
pub type MakeBatch<'m, S, E> = dyn Fn(&mut Context, &Taken<'_, S>) -> Result<Batch, E> + Sync + 'm;

/// The slots that no worker has started.
struct Rest<'a, S> {
    slots: &'a [S],
    first: usize,
    count: usize,
    groups: std::vec::IntoIter<usize>,
}

impl<'a, S> Rest<'a, S> {
    fn next(&mut self, chunk: u64, is_made: &dyn Fn(&S) -> bool) -> Option<Taken<'a, S>> {
        if self.slots.is_empty() {
            return None;
        }
        let mut made = 0u64;
        let end = match self.groups.next() {
            Some(group) => {
                let end = group.min(self.slots.len());
                made = self.slots[..end].iter().filter(|slot| is_made(slot)).count() as u64;
                end
            }
            None => {
                let full = self.slots.iter().take(BATCH_SLOTS).position(|slot| {
                    made += u64::from(is_made(slot));
                    made.saturating_mul(chunk) >= BATCH_BYTES || made >= BATCH_MADE
                });
                full.map_or(self.slots.len().min(BATCH_SLOTS), |last| last + 1)
            }
        };
        let (slots, rest) = self.slots.split_at(end);
        let taken = Taken { number: self.count, first: self.first, slots, made: made as usize };
        self.slots = rest;
        self.first += end;
        self.count += 1;
        Some(taken)
    }
}

impl<'a, S: Sync> Slots<'a, S> {
    /// Slots that are all made by workers, from a source held in memory beside their elements and
    /// their encoded form.
    pub fn made(slots: &'a [S], chunk: u64) -> Self {
        Self { slots, is_made: &|_| true, groups: Vec::new(), chunk, copies: 3, inline: false }
    }

    /// Has the workers make batches, as many in parallel as the budget allows, and pass them to the
    /// sink.
    ///
    /// Returns when all of them are finished.
    pub fn make_all<E: From<Error> + Send>(
        self,
        engine: &Engine,
        key: &Key,
        make: &MakeBatch<'_, S, E>,
        sink: &dyn Sink,
    ) -> Result<(), E> {
        let Self { slots, is_made, groups, chunk, copies, inline } = self;
        let largest = groups.iter().max().map_or(0, |&n| (n as u64).saturating_mul(chunk));
        let batch = BATCH_BYTES.max(largest).saturating_add(chunk);
        let cost = batch.saturating_mul(copies).saturating_add(OVERHEAD);
        let affordable = (engine.memory_in_flight() / cost).max(1) as usize;
        let workers = if inline { 1 } else { engine.threads().min(affordable) };
        // Batches being made, and a few that are early.
        let window = affordable.min(workers * 4);
        let _permit = if inline { None } else { engine.admit(cost.saturating_mul(window as u64)) };
        let first_error = FirstError::default();
        let rest = Mutex::new(Rest { slots, first: 0, count: 0, groups: groups.into_iter() });
        let finished = AtomicUsize::new(0);
        engine.share(workers, workers, &|_, context| {
            let _guard = GiveUp(sink);
            while !first_error.is_set() {
                let next = rest.lock().unwrap_or_else(PoisonError::into_inner).next(chunk, is_made);
                let Some(taken) = next else { break };
                let number = taken.number;
                if !sink.wait_for_turn(number, window, context) {
                    break;
                }
                let made = make(context, &taken);
                match made
                    .and_then(|batch| sink.finish(number, batch).map_err(|e| Error::from(e).into()))
                {
                    Ok(()) => _ = finished.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        first_error.set(error);
                        sink.give_up();
                    }
                }
            }
        });
        let count = rest.into_inner().unwrap_or_else(PoisonError::into_inner).count;
        first_error.into_result()?;
        if finished.into_inner() != count {
            return Err(Error::Unfinished { object: key.clone() }.into());
        }
        Ok(())
    }
}
