//! Work without the interpreter lock, which Ctrl-C ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use shardine::Error;
use shardine::jobs::CancelToken;

use crate::error;

/// How often a long call looks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// Runs work that ends within milliseconds on the calling thread, without the interpreter lock.
pub fn short<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|error| error::to_py(py, &error))
}

/// Runs work of any length without the interpreter lock. On Ctrl-C, or any signal whose handler
/// raises, it is cancelled, and the handler's exception is raised once it has ended.
///
/// The work runs on a thread of its own: only the calling thread can run signal handlers, and it
/// looks for them meanwhile. Reads and writes that the work makes on its thread end early when the
/// token is cancelled, and a job takes it in its context.
pub fn long<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&CancelToken) -> Result<T, Error> + Send,
) -> PyResult<T> {
    watched(py, |_| Ok(()), work)
}

/// Like [`long`]; calls `look` on the calling thread from time to time, which cancels the work if it
/// raises.
pub fn watched<T: Send>(
    py: Python<'_>,
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce(&CancelToken) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let token = CancelToken::new();
    let outcome = thread::scope(|scope| {
        let (done, mut ended) = sync_channel(1);
        let cancel = &token;
        let worker = thread::Builder::new().name("shardine-call".to_owned());
        let spawned = worker.spawn_scoped(scope, move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| cancel.watch(|| work(cancel))));
            // The receiver lives until the thread has ended.
            let _ = done.send(outcome);
        });
        spawned?;
        let mut raised = None;
        loop {
            // Exclusive, as a receiver cannot be shared with another thread.
            let ended = &mut ended;
            match py.detach(move || ended.recv_timeout(LOOK)) {
                Ok(outcome) => return Ok((outcome, raised)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(std::io::Error::other("a worker thread ended without a result"));
                }
            }
            if raised.is_none()
                && let Err(error) = py.check_signals().and_then(|()| look(py))
            {
                token.cancel();
                raised = Some(error);
            }
        }
    });
    match outcome? {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(_), Some(raised)) => Err(raised),
        (Ok(outcome), None) => outcome.map_err(|error| error::to_py(py, &error)),
    }
}
