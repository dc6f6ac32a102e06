//! Lays the chunks of a new shard down in order, while workers finish them in any order.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use shardine_store::{Object, ObjectWriter, StoreError};

use super::Engine;
use super::budget::Permit;
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
    /// Held until the bytes are written.
    pub _permit: Option<Permit>,
}

/// A new shard in the making.
pub(crate) struct Sequencer<'a> {
    writer: &'a dyn ObjectWriter,
    old: Option<&'a dyn Object>,
    engine: &'a Engine,
    /// Whether batches are laid down as they come.
    any_order: bool,
    state: Mutex<State>,
}

struct State {
    index: ShardIndex,
    next: usize,
    waiting: HashMap<usize, Batch>,
    bytes: u64,
}

impl<'a> Sequencer<'a> {
    pub fn new(
        engine: &'a Engine,
        writer: &'a dyn ObjectWriter,
        old: Option<&'a dyn Object>,
        chunks: usize,
        any_order: bool,
    ) -> Result<Self, ShardError> {
        let index = ShardIndex::empty(chunks)?;
        let state = State { index, next: 0, waiting: HashMap::new(), bytes: 0 };
        Ok(Self { writer, old, engine, any_order, state: Mutex::new(state) })
    }

    /// Takes batch number `number`, and writes what can be written.
    ///
    /// Nobody waits: a batch that is early is kept, and whoever brings the missing one writes it too.
    pub fn finish(&self, number: usize, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.any_order {
            state.next += 1;
            return self.write(&mut state, batch);
        }
        state.waiting.insert(number, batch);
        while let Some(batch) = {
            let next = state.next;
            state.waiting.remove(&next)
        } {
            state.next += 1;
            self.write(&mut state, batch)?;
        }
        Ok(())
    }

    /// The index of all that was laid down, and its bytes; `None` unless that is all of `batches`.
    pub fn into_index(self, batches: usize) -> Option<(ShardIndex, u64)> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.next == batches).then_some((state.index, state.bytes))
    }

    /// Writes a batch; neighbours go in one call.
    fn write(&self, state: &mut State, batch: Batch) -> Result<(), StoreError> {
        let mut pieces = batch.pieces.as_slice();
        while let Some(first) = pieces.first() {
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
                    Piece::Kept { entry, range } => (*entry, range.clone()),
                };
                state.bytes += range.end - range.start;
                state.index.set(entry, at + (range.start - start)..at + (range.end - start));
            }
            pieces = rest;
        }
        self.engine.with_context(|context| context.give_buffer(batch.encoded));
        Ok(())
    }
}

fn adjacent(a: &Piece, b: &Piece) -> bool {
    match (a, b) {
        (Piece::New { range: a, .. }, Piece::New { range: b, .. }) => a.end == b.start,
        (Piece::Kept { range: a, .. }, Piece::Kept { range: b, .. }) => a.end == b.start,
        _ => false,
    }
}
