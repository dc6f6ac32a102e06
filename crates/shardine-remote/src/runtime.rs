//! The runtime on which all requests are made.

use std::future::Future;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

use tokio::runtime::{Builder, Runtime};

/// Threads that move bytes between sockets and memory. They do no other work, so a few are enough.
const THREADS: usize = 2;

fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // One at a time: a surplus runtime cannot be dropped in every context.
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).thread_name("shardine-io").enable_all();
    let runtime = builder.build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
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
