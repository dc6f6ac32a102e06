//! Lays the chunks of a new shard down in order, while workers finish them in any order.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use shardine_codec::Context;
use shardine_store::{Object, ObjectWriter, StoreError};

use crate::shard::{ShardError, ShardIndex};

/// What becomes of one entry.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Encoded bytes: a part of the batch's buffer.
    New { entry: usize, range: Range<usize> },
    /// Bytes of the old shard.
    Kept { entry: usize, range: Range<u64> },
}

/// Consecutive entries that one worker has finished.
#[derive(Debug)]
pub(crate) struct Batch {
    pub pieces: Vec<Piece>,
    pub encoded: Vec<u8>,
}

/// A new shard in the making.
pub(crate) struct Sequencer<'a> {
    writer: &'a dyn ObjectWriter,
    old: Option<&'a dyn Object>,
    /// Whether batches are laid down as they come.
    any_order: bool,
    state: Mutex<State>,
    /// Told when batches were laid down.
    moved_on: Condvar,
}

struct State {
    index: ShardIndex,
    next: usize,
    waiting: HashMap<usize, Batch>,
    bytes: u64,
    /// Batches that have their place and are not written yet.
    ready: VecDeque<(u64, Batch)>,
    /// Whether somebody writes them. Two at once would only wait for each other in the kernel.
    writing: bool,
    /// The bytes of the old shard that were moved last, and where to.
    moved: Option<(Range<u64>, u64)>,
    /// How many batches are written.
    written: usize,
    /// Memory of batches that are written.
    spare: Vec<Vec<u8>>,
    /// Somebody failed: nobody is to wait any more.
    given_up: bool,
    /// How many wait for their turn. Waking nobody would still be a system call.
    early: usize,
}

impl<'a> Sequencer<'a> {
    pub fn new(
        writer: &'a dyn ObjectWriter,
        old: Option<&'a dyn Object>,
        chunks: usize,
        any_order: bool,
    ) -> Result<Self, ShardError> {
        let index = ShardIndex::empty(chunks)?;
        let state = State {
            index,
            next: 0,
            waiting: HashMap::new(),
            bytes: 0,
            ready: VecDeque::new(),
            writing: false,
            moved: None,
            written: 0,
            spare: Vec::new(),
            given_up: false,
            early: 0,
        };
        let (state, moved_on) = (Mutex::new(state), Condvar::new());
        Ok(Self { writer, old, any_order, state, moved_on })
    }

    /// Waits until batch `number` is among the `window` next ones, so that few wait to be written, and gives it the
    /// memory of one that is. `false` means that it is not wanted any more: somebody failed.
    ///
    /// Whoever brings the next batch has begun already, and does not wait here.
    pub fn wait_for_turn(&self, number: usize, window: usize, context: &mut Context) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while number >= state.written.saturating_add(window) && !state.given_up {
            state.early += 1;
            state = self.moved_on.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.early -= 1;
        }
        if let Some(memory) = state.spare.pop() {
            context.give_buffer(memory);
        }
        !state.given_up
    }

    /// Keeps everybody from waiting for a batch that will not come, and from beginning with others.
    pub fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
        self.moved_on.notify_all();
    }

    /// Takes batch number `number`, and writes what can be written.
    ///
    /// Nobody waits: a batch that is early is kept, and whoever brings the missing one, or is writing already,
    /// writes it too.
    pub fn finish(&self, number: usize, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.any_order {
            state.next += 1;
            self.lay_down(&mut state, batch)?;
        } else {
            state.waiting.insert(number, batch);
            while let Some(batch) = {
                let next = state.next;
                state.waiting.remove(&next)
            } {
                state.next += 1;
                self.lay_down(&mut state, batch)?;
            }
        }
        if state.writing {
            return Ok(());
        }
        state.writing = true;
        while let Some((offset, batch)) = state.ready.pop_front() {
            drop(state);
            let bytes = new_bytes(&batch).unwrap_or_default();
            let result = self.writer.write_reserved(offset, &batch.encoded[bytes]);
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if result.is_err() {
                state.writing = false;
                return result;
            }
            self.has_written(&mut state, batch);
        }
        state.writing = false;
        Ok(())
    }

    fn has_written(&self, state: &mut State, batch: Batch) {
        state.written += 1;
        state.spare.push(batch.encoded);
        if state.early > 0 {
            self.moved_on.notify_all();
        }
    }

    /// Gives a batch its place. Where the store can take it later, without the lock, it is made ready for that.
    fn lay_down(&self, state: &mut State, batch: Batch) -> Result<(), StoreError> {
        if let Some(bytes) = new_bytes(&batch)
            && let Some(offset) = self.writer.reserve(bytes.len() as u64)?
        {
            state.bytes += bytes.len() as u64;
            for piece in &batch.pieces {
                if let Piece::New { entry, range } = piece {
                    let at = offset + (range.start - bytes.start) as u64;
                    state.index.set(*entry, at..at + range.len() as u64);
                }
            }
            state.ready.push_back((offset, batch));
            return Ok(());
        }
        self.write(state, &batch)?;
        self.has_written(state, batch);
        Ok(())
    }

    /// The index of all that was laid down, and its bytes; `None` if a batch still waits for another, or to be written.
    pub fn into_index(self) -> Option<(ShardIndex, u64)> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done = state.waiting.is_empty() && state.ready.is_empty();
        done.then_some((state.index, state.bytes))
    }

    /// Writes a batch; neighbours go in one call.
    fn write(&self, state: &mut State, batch: &Batch) -> Result<(), StoreError> {
        let mut pieces = batch.pieces.as_slice();
        while let Some(first) = pieces.first() {
            if let (Piece::Kept { entry, range }, Some((moved, at))) = (first, &state.moved)
                && range == moved
            {
                // Entries that meant the same bytes still do.
                let at = *at;
                state.index.set(*entry, at..at + (range.end - range.start));
                pieces = &pieces[1..];
                continue;
            }
            let run = pieces.windows(2).take_while(|pair| adjacent(&pair[0], &pair[1])).count() + 1;
            let (now, rest) = pieces.split_at(run);
            let last = &now[run - 1];
            let (at, start) = match (first, last) {
                (Piece::New { range: a, .. }, Piece::New { range: b, .. }) => {
                    let bytes = &batch.encoded[a.start..b.end];
                    (self.writer.append(bytes)?, a.start as u64)
                }
                (Piece::Kept { range: a, .. }, Piece::Kept { range: b, .. }) => match self.old {
                    Some(old) => (self.writer.append_from(old, a.start..b.end)?, a.start),
                    None => (0, a.start),
                },
                // `adjacent` never joins the two kinds.
                _ => (0, 0),
            };
            for piece in now {
                let (entry, range) = match piece {
                    Piece::New { entry, range } => (*entry, range.start as u64..range.end as u64),
                    Piece::Kept { entry, range } => {
                        state.moved = Some((range.clone(), at + (range.start - start)));
                        (*entry, range.clone())
                    }
                };
                state.bytes += range.end - range.start;
                state.index.set(entry, at + (range.start - start)..at + (range.end - start));
            }
            pieces = rest;
        }
        Ok(())
    }
}

/// Where the bytes of a batch are, if it has nothing but encoded ones, without gaps.
fn new_bytes(batch: &Batch) -> Option<Range<usize>> {
    let (Some(Piece::New { range: first, .. }), Some(Piece::New { range: last, .. })) =
        (batch.pieces.first(), batch.pieces.last())
    else {
        return None;
    };
    let whole = batch.pieces.windows(2).all(|pair| adjacent(&pair[0], &pair[1]));
    whole.then_some(first.start..last.end)
}

fn adjacent(a: &Piece, b: &Piece) -> bool {
    match (a, b) {
        (Piece::New { range: a, .. }, Piece::New { range: b, .. }) => a.end == b.start,
        (Piece::Kept { range: a, .. }, Piece::Kept { range: b, .. }) => a.end == b.start,
        _ => false,
    }
}
