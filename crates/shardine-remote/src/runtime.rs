//! The runtime on which all requests are made.

use std::future::Future;
use std::io;
use std::sync::{OnceLock, mpsc};

use tokio::runtime::{Builder, Runtime};

/// Threads that move bytes between sockets and memory. They do no other work, so a few are enough.
const THREADS: usize = 2;

/// A runtime, and the process that started it.
struct Started {
    process: u32,
    runtime: Runtime,
    /// That of a process forked from this one.
    next: OnceLock<Box<Started>>,
}

/// The runtime of this process. Threads do not survive a fork, so a forked process starts another
/// one. The one that it has inherited is never dropped, as threads that are gone may hold its locks.
fn runtime() -> io::Result<&'static Runtime> {
    static FIRST: OnceLock<Box<Started>> = OnceLock::new();
    let process = std::process::id();
    let mut slot = &FIRST;
    loop {
        match slot.get() {
            Some(started) if started.process == process => return Ok(&started.runtime),
            Some(inherited) => slot = &inherited.next,
            None => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(THREADS).thread_name("shardine-io").enable_all();
                let (runtime, next) = (builder.build()?, OnceLock::new());
                if let Err(surplus) = slot.set(Box::new(Started { process, runtime, next })) {
                    // Another thread was faster. A runtime cannot be dropped in every context.
                    surplus.runtime.shutdown_background();
                }
            }
        }
    }
}

/// The future result of a task.
#[derive(Debug)]
pub(crate) struct Waiting<T>(mpsc::Receiver<T>);

impl<T> Waiting<T> {
    /// Waits for the result.
    pub fn wait(self) -> io::Result<T> {
        self.0.recv().map_err(|_| io::Error::other("the request was dropped"))
    }
}

/// Starts a task.
pub(crate) fn begin<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> io::Result<Waiting<T>> {
    let (answer, waiting) = mpsc::sync_channel(1);
    spawn(async move {
        // The answer may no longer be needed.
        drop(answer.send(task.await));
    })?;
    Ok(Waiting(waiting))
}

/// Starts a task that nobody waits for.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    runtime()?.spawn(task);
    Ok(())
}

/// Runs a task and waits for it. Not `block_on`, which must not be called on a thread of another
/// runtime.
pub(crate) fn run<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    begin(task)?.wait()
}
