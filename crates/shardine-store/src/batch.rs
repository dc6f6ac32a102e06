//! Runs a batch of reads.

use std::io;
use std::sync::mpsc;

use crate::{Buffer, NextRead, Reads, StoreError};

/// Threads that work in parallel on the answers of a batch of reads.
///
/// Implemented by callers for their own pool of threads, which the store knows nothing about.
pub trait Workers {
    /// Calls `next` on the calling thread until it returns `None`, and runs `task` on a worker for
    /// each item as soon as it is available. Returns when all tasks are done.
    fn run<T: Send>(&self, next: impl FnMut() -> Option<T>, task: impl Fn(T) + Sync);
}

pub(crate) type Deliver<'a> = &'a (dyn Fn(usize, Result<Buffer, StoreError>) + Sync);

/// Each read is made by the worker that uses its answer, right after the read.
pub(crate) fn by_workers(workers: &impl Workers, reads: &mut dyn Reads, deliver: Deliver<'_>) {
    let mut count = 0;
    let next = || match reads.next_read(true) {
        NextRead::Read(read) => {
            count += 1;
            Some((count - 1, read))
        }
        NextRead::Later | NextRead::End => None,
    };
    workers.run(next, |(i, read)| deliver(i, read.object.read(read.range)));
}

/// Keeps up to `most` reads in flight and hands each answer to a worker as it arrives.
///
/// Only the calling thread draws reads and receives answers. It waits for memory only when no
/// answer is outstanding, so batches that share a budget cannot deadlock.
pub(crate) fn in_flight(
    workers: &impl Workers,
    reads: &mut dyn Reads,
    deliver: Deliver<'_>,
    most: usize,
) {
    let (answers, arriving) = mpsc::channel();
    let (mut count, mut under_way, mut more) = (0, 0, true);
    let next = || {
        while more && under_way < most.max(1) {
            match reads.next_read(under_way == 0) {
                NextRead::Read(read) => {
                    let (i, answers) = (count, answers.clone());
                    count += 1;
                    under_way += 1;
                    let mut sender = Sender { i, answers, sent: false };
                    let done = move |answer| sender.send(answer);
                    read.object.read_then(read.range, Box::new(done));
                }
                NextRead::Later => break,
                NextRead::End => more = false,
            }
        }
        if under_way == 0 {
            // With nothing in flight the source of reads was allowed to wait, so it is exhausted.
            return None;
        }
        under_way -= 1;
        arriving.recv().ok()
    };
    workers.run(next, |(i, answer)| deliver(i, answer));
}

/// Passes on an answer, or an error if it is dropped without one.
struct Sender {
    i: usize,
    answers: mpsc::Sender<(usize, Result<Buffer, StoreError>)>,
    sent: bool,
}

impl Sender {
    fn send(&mut self, answer: Result<Buffer, StoreError>) {
        self.sent = true;
        // The receiver lives until all answers have arrived.
        drop(self.answers.send((self.i, answer)));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.sent {
            let (path, source) =
                ("an object".to_owned(), io::Error::other("the request was dropped"));
            self.send(Err(StoreError::Io { operation: "read", path, source }));
        }
    }
}
