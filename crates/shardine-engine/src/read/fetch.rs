//! Reads what was planned, and has it decoded.

use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;
use shardine_store::{Buffer, NextRead, Read, ReadBuffer, ReadRange, Reads, StoreError, StoreExt};

use super::plan::{Fetch, Node, Plan};
use super::{Lost, Opened, Reading};
use crate::Error;
use crate::budget::Permit;
use crate::engine::PoolWorkers;
use crate::tuning::INLINE_READ;

/// Uses the bytes of the read with this number.
type UseBytes<'a> = dyn Fn(usize, &[u8]) -> Result<(), Error> + Sync + 'a;

/// A worker's buffer for bytes that it reads and decodes right away.
#[derive(Default)]
pub(super) struct Scratch(pub ReadBuffer);

impl<'a> Reading<'a> {
    /// Reads what is needed, merged where that is cheaper, and decodes it.
    pub(super) fn fetch(
        &self,
        opened: &[Opened],
        wanted: &mut Vec<Node<'a>>,
        inline: bool,
    ) -> Result<(), Error> {
        if wanted.is_empty() {
            return Ok(());
        }
        let plan = self.merge(std::mem::take(wanted));
        // One chunk cannot be split among workers, and a small amount is decoded here; but requests
        // in flight still pay off.
        let few = plan.fetches.len() == 1 || self.local;
        let inline = inline || (few && (plan.work <= INLINE_READ || plan.is_one_chunk()));
        let parallel = !self.engine.on_worker() && plan.work > INLINE_READ;
        let known = plan.fetches.iter().all(|fetch| fetch.range.is_some());
        if !(self.local && known) {
            let read = |fetch: &Fetch| {
                let range = fetch.range.clone().map_or(ReadRange::All, ReadRange::Bounded);
                (fetch.object, range, plan.memory(fetch))
            };
            self.batch(opened, plan.fetches.iter().map(read).collect(), inline, &|i, bytes| {
                self.decode_all(opened, &plan, &[(&plan.fetches[i], bytes)], parallel);
                Ok(())
            });
        } else if inline || !parallel {
            self.local(opened, &plan, 1);
        } else if plan.is_coarse(4 * self.engine.threads()) {
            self.local_in_two_steps(opened, &plan);
        } else {
            self.local(opened, &plan, self.engine.threads());
        }
        self.check()
    }

    /// Has each fetch read and decoded by the same worker, while it is in that core's cache.
    fn local(&self, opened: &[Opened], plan: &Plan<'a>, workers: usize) {
        let longest = plan.longest();
        let workers = workers.min((self.engine.budget.total() / longest.max(1)).max(1) as usize);
        // Something this small need not be accounted for.
        let small = workers == 1 && longest <= INLINE_READ;
        let _permit = if small { None } else { self.engine.admit(longest * workers as u64) };
        self.engine.share(workers, plan.fetches.len(), &|i, context| {
            if self.is_over() {
                return;
            }
            let fetch = &plan.fetches[i];
            let result = self.read_and_decode(opened, plan, fetch, context);
            if let Err(error) = result {
                self.failed(opened, fetch.object, error);
            }
        });
    }

    fn read_and_decode(
        &self,
        opened: &[Opened],
        plan: &Plan<'a>,
        fetch: &Fetch,
        context: &mut Context,
    ) -> Result<(), Error> {
        let Some(range) = &fetch.range else { return Ok(()) };
        let object = &*opened[fetch.object].object;
        // SAFETY: by the contract of `read` the window belongs to this read alone, and each chunk's
        // box in it belongs to that chunk.
        if let Some(out) = unsafe { self.straight_into(plan, fetch) }
            && !ReadBuffer::is_better_than(out, range.start)
        {
            return Ok(object.read_into(range.start, out)?);
        }
        let Ok(len) = usize::try_from(fetch.len()) else {
            return Err(self.no_memory(opened, fetch));
        };
        let mut scratch = std::mem::take(context.slot::<Scratch>());
        let result = match scratch.0.room(len, range.start) {
            Ok(room) => object
                .read_into(range.start, room)
                .map_err(Error::from)
                .and_then(|()| self.decode_here(opened, plan, fetch, room, context)),
            Err(_) => Err(self.no_memory(opened, fetch)),
        };
        // Together, all workers keep at most half of what may be in flight.
        if fetch.len() <= self.engine.budget.total() / self.engine.threads() as u64 / 2 {
            *context.slot::<Scratch>() = scratch;
        }
        result
    }

    fn no_memory(&self, opened: &[Opened], fetch: &Fetch) -> Error {
        let source = std::io::ErrorKind::OutOfMemory.into();
        let path = opened[fetch.object].key.to_string();
        StoreError::Io { operation: "read", path, source }.into()
    }

    /// Reads first and decodes afterwards, both in parallel: for a few reads of many chunks each.
    fn local_in_two_steps(&self, opened: &[Opened], plan: &Plan<'a>) {
        let total = plan.fetches.iter().map(Fetch::len).fold(0, u64::saturating_add);
        if total > self.engine.budget.total() {
            return self.local(opened, plan, self.engine.threads());
        }
        let _permit = self.engine.admit(total);
        let buffers: Vec<Mutex<Option<Buffer>>> =
            plan.fetches.iter().map(|_| Mutex::new(None)).collect();
        self.engine.share(self.engine.threads(), plan.fetches.len(), &|i, _| {
            if self.is_over() {
                return;
            }
            let fetch = &plan.fetches[i];
            let range = fetch.range.clone().map_or(ReadRange::All, ReadRange::Bounded);
            match opened[fetch.object].object.read(range) {
                Ok(buffer) => {
                    *buffers[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(buffer);
                }
                Err(error) => self.failed(opened, fetch.object, error.into()),
            }
        });
        let buffers: Vec<Option<Buffer>> = buffers
            .into_iter()
            .map(|buffer| buffer.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let fetches = plan.fetches.iter().zip(&buffers);
        let fetches: Vec<(&Fetch, &[u8])> = fetches
            .filter_map(|(fetch, buffer)| buffer.as_ref().map(|buffer| (fetch, &**buffer)))
            .collect();
        self.decode_all(opened, plan, &fetches, true);
    }

    /// Records what went wrong with an object: it changed, it is gone, or the whole read has
    /// failed.
    pub(super) fn failed(&self, opened: &[Opened], object: usize, error: Error) {
        match error {
            Error::Store(StoreError::Changed { .. }) => self.lose(object, Lost::Changed),
            Error::Store(StoreError::NotFound { .. }) => self.lose(object, Lost::Missing),
            error => {
                if let Err(error) = self.settle(opened, object, error) {
                    self.first_error.set(error);
                }
            }
        }
    }

    /// Runs reads within the memory budget and passes each result to `use_bytes`.
    pub(super) fn batch(
        &self,
        opened: &[Opened],
        reads: Vec<(usize, ReadRange, u64)>,
        inline: bool,
        use_bytes: &UseBytes<'_>,
    ) {
        let objects: Vec<usize> = reads.iter().map(|(object, ..)| *object).collect();
        let deliver = |i: usize, answer: Result<Buffer, StoreError>| {
            if self.is_over() {
                return;
            }
            let result = answer.map_err(Error::from).and_then(|bytes| use_bytes(i, &bytes));
            if let Err(error) = result {
                self.failed(opened, objects[i], error);
            }
        };
        if inline {
            for (i, (object, range, len)) in reads.into_iter().enumerate() {
                if self.is_over() {
                    return;
                }
                let _permit = self.engine.admit(len);
                deliver(i, opened[object].object.read(range));
            }
            return;
        }
        let permits: Vec<Mutex<Option<Permit>>> = reads.iter().map(|_| Mutex::new(None)).collect();
        let reads = reads.into_iter().enumerate().peekable();
        let mut reads = Admitted { reading: self, opened, reads, permits: &permits };
        self.grid.store.read_batch(&PoolWorkers(&self.engine.pool), &mut reads, &|i, answer| {
            deliver(i, answer);
            permits[i].lock().unwrap_or_else(PoisonError::into_inner).take();
        });
    }
}

/// Yields reads as memory becomes available.
struct Admitted<'b, 'a, I: Iterator> {
    reading: &'b Reading<'a>,
    opened: &'b [Opened],
    reads: std::iter::Peekable<I>,
    permits: &'b [Mutex<Option<Permit>>],
}

impl<I: Iterator<Item = (usize, (usize, ReadRange, u64))>> Reads for Admitted<'_, '_, I> {
    fn next_read(&mut self, may_wait: bool) -> NextRead {
        let Some(&(i, (_, _, len))) = self.reads.peek() else { return NextRead::End };
        let engine = self.reading.engine;
        let permit = if engine.on_worker() {
            None
        } else if may_wait {
            Some(engine.budget.acquire(len))
        } else {
            let Some(permit) = engine.budget.try_acquire(len) else { return NextRead::Later };
            Some(permit)
        };
        *self.permits[i].lock().unwrap_or_else(PoisonError::into_inner) = permit;
        match self.reads.next() {
            // After a failure, or if cancelled, the remaining reads are not requested.
            Some(_) if self.reading.is_over() => NextRead::End,
            Some((_, (object, range, _))) => {
                let object = std::sync::Arc::clone(&self.opened[object].object);
                NextRead::Read(Read { object, range })
            }
            None => NextRead::End,
        }
    }
}
