//! Writes the chunks of a new object in order while workers finish them in any order.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use shardine_codec::Context;
use shardine_store::{Object, StoreError};

use super::Opening;
use crate::shard::ShardIndex;

/// Bytes to be written: a chunk, or bytes that belong to one without being part of it, which get no
/// entry.
#[derive(Debug)]
pub enum Piece {
    /// Encoded bytes: a part of the batch's buffer.
    New {
        /// Its number in the index.
        entry: Option<usize>,
        /// Which part.
        range: Range<usize>,
    },
    /// Bytes of one of the batch's objects.
    Moved {
        /// Its number in the index.
        entry: Option<usize>,
        /// Which of the objects.
        object: usize,
        /// Which bytes of it.
        range: Range<u64>,
    },
}

/// Consecutive pieces that one worker has finished.
#[derive(Debug, Default)]
pub struct Batch {
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
    /// The encoded bytes that new pieces are parts of.
    pub encoded: Vec<u8>,
    /// The objects that bytes are moved from.
    pub objects: Vec<Arc<dyn Object>>,
    /// Whether others may change these objects meanwhile, so that they are checked after the move.
    pub unlocked: bool,
}

impl Batch {
    /// Adds bytes from memory.
    pub fn push_bytes(&mut self, entry: Option<usize>, bytes: &[u8]) {
        let start = self.encoded.len();
        self.encoded.extend_from_slice(bytes);
        let range = start..self.encoded.len();
        self.pieces.push(Piece::New { entry, range });
    }

    /// Adds what was appended to the encoded bytes from `start` on.
    pub fn push_made(&mut self, entry: Option<usize>, start: usize) {
        let range = start..self.encoded.len();
        self.pieces.push(Piece::New { entry, range });
    }

    /// Adds bytes of an object.
    pub fn push_moved(&mut self, entry: Option<usize>, from: &Arc<dyn Object>, range: Range<u64>) {
        let known = self.objects.iter().rposition(|known| Arc::ptr_eq(known, from));
        let object = known.unwrap_or_else(|| {
            self.objects.push(Arc::clone(from));
            self.objects.len() - 1
        });
        self.pieces.push(Piece::Moved { entry, object, range });
    }
}

/// A new object being written.
pub(super) struct Sequencer<'a> {
    writer: &'a Opening<'a>,
    /// Whether batches are written in the order they arrive.
    any_order: bool,
    state: Mutex<State>,
    /// Notified when batches have been written.
    moved_on: Condvar,
}

struct State {
    places: ShardIndex,
    next: usize,
    waiting: HashMap<usize, Batch>,
    bytes: u64,
    /// Batches that have their place but are not written yet.
    ready: VecDeque<(u64, Batch)>,
    /// Whether a thread is writing them. Two would only wait for each other in the kernel.
    writing: bool,
    /// The bytes that were moved last, and their destination.
    moved: Option<Moved>,
    /// The number of batches written.
    written: usize,
    /// Memory of batches that have been written, for reuse.
    spare: Vec<Vec<u8>>,
    /// A worker failed: nobody should wait any more.
    given_up: bool,
    /// Number of threads waiting for their turn: a notification costs a system call even if nobody
    /// waits.
    early: usize,
}

/// Bytes of an object that were moved.
struct Moved {
    /// Kept open, so that no other object gets its address.
    object: Arc<dyn Object>,
    range: Range<u64>,
    to: u64,
}

impl<'a> Sequencer<'a> {
    pub fn new(writer: &'a Opening<'a>, places: ShardIndex, any_order: bool) -> Self {
        let state = State {
            places,
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
        Self { writer, any_order, state, moved_on }
    }

    /// Waits until batch `number` is among the next `window`, so that few batches wait to be
    /// written, and gives the context the memory of a written one. `false` means that the batch is
    /// no longer needed because a worker failed.
    ///
    /// The worker with the next batch has already started and never waits here.
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

    /// Makes sure that nobody waits for a batch that will never arrive, or starts another one.
    pub fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
        self.moved_on.notify_all();
    }

    /// Takes batch `number` and writes what can be written.
    ///
    /// Never blocks: an early batch is kept, and written by the worker that delivers the missing
    /// one or is already writing.
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
            let bytes = new_bytes(&batch).and_then(|bytes| batch.encoded.get(bytes));
            let result = match bytes {
                Some(bytes) => {
                    self.writer.get().and_then(|writer| writer.write_reserved(offset, bytes))
                }
                None => Err(self.impossible("a batch has lost its bytes")),
            };
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

    /// Assigns a batch its place. If the store can write it later, without the lock, it is queued
    /// for that.
    fn lay_down(&self, state: &mut State, batch: Batch) -> Result<(), StoreError> {
        if let Some(bytes) = new_bytes(&batch)
            && let Some(offset) = self.writer.get()?.reserve(bytes.len() as u64)?
        {
            state.bytes += bytes.len() as u64;
            for piece in &batch.pieces {
                if let Piece::New { entry: Some(entry), range } = piece {
                    let at = offset + (range.start - bytes.start) as u64;
                    state.places.set(*entry, at..at + range.len() as u64);
                }
            }
            state.ready.push_back((offset, batch));
            return Ok(());
        }
        self.write(state, &batch)?;
        self.has_written(state, batch);
        Ok(())
    }

    /// The places of everything written, and the total number of bytes; `None` if a batch still
    /// waits for another, or to be written.
    pub fn into_places(self) -> Option<(ShardIndex, u64)> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done = state.waiting.is_empty() && state.ready.is_empty();
        done.then_some((state.places, state.bytes))
    }

    /// Writes a batch; adjacent pieces go in one call.
    fn write(&self, state: &mut State, batch: &Batch) -> Result<(), StoreError> {
        let mut pieces = batch.pieces.as_slice();
        while let Some(first) = pieces.first() {
            let run = pieces.windows(2).take_while(|pair| adjacent(&pair[0], &pair[1])).count() + 1;
            let (now, rest) = pieces.split_at(run);
            match first {
                Piece::New { range, .. } => {
                    let end = range.start + now.iter().map(Piece::len).sum::<u64>() as usize;
                    let bytes = batch.encoded.get(range.start..end);
                    let bytes = bytes.ok_or_else(|| self.impossible("a chunk has no bytes"))?;
                    let at = self.writer.get()?.append(bytes)?;
                    state.set_run(now, at);
                    state.bytes += bytes.len() as u64;
                }
                Piece::Moved { entry, object, range } => {
                    let object = batch.objects.get(*object);
                    let object = object.ok_or_else(|| self.impossible("a chunk has no object"))?;
                    if let Some(moved) = &state.moved
                        && moved.range == *range
                        && Arc::ptr_eq(&moved.object, object)
                    {
                        // Entries that shared the same bytes still do.
                        let at = moved.to;
                        if let Some(entry) = entry {
                            state.places.set(*entry, at..at + (range.end - range.start));
                        }
                        pieces = &pieces[1..];
                        continue;
                    }
                    let len = now.iter().map(Piece::len).sum::<u64>();
                    let start = range.start;
                    // An empty piece can lie anywhere, even past the end.
                    let at = match len {
                        0 => self.writer.get()?.append(&[])?,
                        _ => self.writer.get()?.append_from(&**object, start..start + len)?,
                    };
                    if batch.unlocked {
                        object.check_unchanged()?;
                    }
                    state.set_run(now, at);
                    state.bytes += len;
                    if let Some(Piece::Moved { range, .. }) = now.last() {
                        let (range, to) = (range.clone(), at + (range.start - start));
                        state.moved = Some(Moved { object: Arc::clone(object), range, to });
                    }
                }
            }
            pieces = rest;
        }
        Ok(())
    }

    /// A bug of ours, which must not become an index that points to the wrong bytes.
    fn impossible(&self, reason: &str) -> StoreError {
        StoreError::Damaged { key: self.writer.key().clone(), reason: reason.to_owned() }
    }
}

impl State {
    /// Records the places of pieces that lie one after another from `at` on.
    fn set_run(&mut self, run: &[Piece], mut at: u64) {
        for piece in run {
            let end = at + piece.len();
            if let Some(entry) = piece.entry() {
                self.places.set(entry, at..end);
            }
            at = end;
        }
    }
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::New { range, .. } => range.len() as u64,
            Self::Moved { range, .. } => range.end - range.start,
        }
    }

    fn entry(&self) -> Option<usize> {
        match self {
            Self::New { entry, .. } | Self::Moved { entry, .. } => *entry,
        }
    }
}

/// The range of a batch's bytes, if it has only encoded ones, without gaps.
fn new_bytes(batch: &Batch) -> Option<Range<usize>> {
    let (Some(Piece::New { range: first, .. }), Some(Piece::New { range: last, .. })) =
        (batch.pieces.first(), batch.pieces.last())
    else {
        return None;
    };
    let whole = batch.pieces.windows(2).all(|pair| adjacent(&pair[0], &pair[1]));
    whole.then_some(first.start..last.end)
}

/// Whether the bytes of `b` directly follow those of `a`.
fn adjacent(a: &Piece, b: &Piece) -> bool {
    match (a, b) {
        (Piece::New { range: a, .. }, Piece::New { range: b, .. }) => a.end == b.start,
        (
            Piece::Moved { object: of_a, range: a, .. },
            Piece::Moved { object: of_b, range: b, .. },
        ) => of_a == of_b && a.end == b.start,
        _ => false,
    }
}
