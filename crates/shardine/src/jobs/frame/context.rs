//! What a job runs with.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Engine, Error};

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct JobProgress {
    /// The array or scale being worked on, by its path below the data set. Empty for the data set
    /// itself.
    pub part: String,
    /// Steps done: chunks of a grid, objects, or values.
    pub done: u64,
    /// Total steps, as far as known.
    pub total: u64,
    /// Bytes done, where they are counted.
    pub bytes: u64,
    /// Total bytes, as far as known.
    pub total_bytes: u64,
}

impl JobProgress {
    /// Progress in steps alone, without bytes.
    pub(crate) fn steps(part: &str, done: u64, total: u64) -> Self {
        Self { part: part.to_owned(), done, total, bytes: 0, total_bytes: 0 }
    }
}

/// Stops a job from another thread, or from a signal handler.
///
/// The job ends with [`Error::Cancelled`] before it begins its next object. Its data is then valid,
/// and running the same job again resumes it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops all jobs that hold this token.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A progress callback.
type Report = Arc<dyn Fn(JobProgress) + Send + Sync>;

/// What a job runs with: an engine, a progress callback, and a token that stops it.
///
/// Most jobs take one, or an engine alone:
///
/// ```
/// use shardine::jobs::{CancelToken, JobContext};
/// use shardine::{Engine, Error};
///
/// let token = CancelToken::new();
/// let context = JobContext::new(&Engine::shared()?)
///     .progress(|now| println!("{}: {} of {}", now.part, now.done, now.total))
///     .cancel(&token);
/// token.cancel();
/// assert!(matches!(context.check(), Err(Error::Cancelled)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct JobContext {
    engine: Arc<Engine>,
    report: Option<Report>,
    token: CancelToken,
}

impl JobContext {
    /// Runs on this engine, without progress reports or cancellation.
    pub fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::clone(engine), report: None, token: CancelToken::new() }
    }

    /// Reports progress to `callback`, from any thread.
    pub fn progress(mut self, callback: impl Fn(JobProgress) + Send + Sync + 'static) -> Self {
        self.report = Some(Arc::new(callback));
        self
    }

    /// Stops the job when `token` is cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.token = token.clone();
        self
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Fails with [`Error::Cancelled`] if the job should stop. Jobs call this before each object.
    pub fn check(&self) -> Result<(), Error> {
        if self.token.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Whether there is a progress callback, so that progress is worth computing.
    pub(crate) fn is_watched(&self) -> bool {
        self.report.is_some()
    }

    /// Reports progress.
    pub(crate) fn report(&self, progress: JobProgress) {
        if let Some(report) = &self.report {
            report(progress);
        }
    }
}

impl From<&Arc<Engine>> for JobContext {
    fn from(engine: &Arc<Engine>) -> Self {
        Self::new(engine)
    }
}

impl From<&JobContext> for JobContext {
    fn from(context: &JobContext) -> Self {
        context.clone()
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("cancelled", &self.token.is_cancelled())
            .finish_non_exhaustive()
    }
}
