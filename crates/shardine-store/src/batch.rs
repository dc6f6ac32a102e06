//! How a batch of reads is run.

use std::io;
use std::sync::mpsc;

use crate::{Buffer, NextRead, Reads, StoreError};

/// Threads that work in parallel on the answers of a batch of reads.
///
/// Implemented by callers for their own pool of threads, which the store knows nothing about.
pub trait Workers {
    /// Calls `next` on the calling thread until it returns `None`, and runs `task` on a worker for
    /// each item as soon as it is there. Returns when all tasks are done.
    fn run<T: Send>(&self, next: impl FnMut() -> Option<T>, task: impl Fn(T) + Sync);
}

pub(crate) type Deliver<'a> = &'a (dyn Fn(usize, Result<Buffer, StoreError>) + Sync);

/// Each read is made by a worker, who uses it at once.
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

/// Up to `most` reads are under way at once, and each answer is handed to a worker when it comes.
///
/// The calling thread alone draws reads and takes answers. It waits for memory only when it has no
/// answer to wait for, so that batches that share a budget cannot wait for each other.
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
            // With nothing under way the source of reads may wait, so it has come to its end.
            return None;
        }
        under_way -= 1;
        arriving.recv().ok()
    };
    workers.run(next, |(i, answer)| deliver(i, answer));
}

/// Passes an answer on; also that there will be none.
struct Sender {
    i: usize,
    answers: mpsc::Sender<(usize, Result<Buffer, StoreError>)>,
    sent: bool,
}

impl Sender {
    fn send(&mut self, answer: Result<Buffer, StoreError>) {
        self.sent = true;
        // The receiver lives until all answers are in.
        drop(self.answers.send((self.i, answer)));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.sent {
            let (path, source) = ("an object".to_owned(), io::Error::other("it was given up"));
            self.send(Err(StoreError::Io { operation: "read", path, source }));
        }
    }
}
