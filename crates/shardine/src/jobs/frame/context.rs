//! What a job runs with.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::CancelToken;
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
    /// How much of the whole job is done, out of [`job_total`](Self::job_total). The same as `done`
    /// of `total` unless the job works on several parts.
    pub job_done: u64,
    /// The size of the whole job, in units of its own; 0 where it is not known.
    pub job_total: u64,
}

impl JobProgress {
    /// Progress in steps alone, without bytes.
    pub(crate) fn steps(part: &str, done: u64, total: u64) -> Self {
        Self { part: part.to_owned(), done, total, ..Self::default() }
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
    steps: Option<Arc<Steps>>,
    command: Option<Arc<str>>,
}

/// The progress of a job that works on one part after another.
#[derive(Debug, Default)]
struct Steps {
    total: u64,
    done: AtomicU64,
    /// The size of the current step.
    current: AtomicU64,
    /// Bytes of the finished steps.
    bytes: AtomicU64,
}

impl Steps {
    /// Turns the progress of one step into that of the whole job.
    fn place(&self, progress: &mut JobProgress) {
        let done = self.done.load(Ordering::Relaxed);
        let current = self.current.load(Ordering::Relaxed);
        let part = u128::from(current) * u128::from(progress.job_done);
        let part = part.checked_div(u128::from(progress.job_total)).unwrap_or(0);
        progress.job_done = done.saturating_add(u64::try_from(part).unwrap_or(current));
        progress.job_total = self.total;
        progress.bytes = progress.bytes.saturating_add(self.bytes.load(Ordering::Relaxed));
    }
}

impl JobContext {
    /// Runs on this engine, without progress reports or cancellation.
    pub fn new(engine: &Arc<Engine>) -> Self {
        let (report, token, steps, command) = (None, CancelToken::new(), None, None);
        Self { engine: Arc::clone(engine), report, token, steps, command }
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

    /// Sets the command that began the job.
    ///
    /// It is stored with an unfinished job, so that messages about that job can name it. It must not
    /// contain secrets.
    pub fn command(mut self, command: &str) -> Self {
        self.command = Some(command.into());
        self
    }

    /// The token that stops it.
    pub fn token(&self) -> &CancelToken {
        &self.token
    }

    /// The command that began the job.
    pub(crate) fn begun_by(&self) -> Option<&str> {
        self.command.as_deref()
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

    /// The same without a progress callback, for one of several steps that run in parallel.
    pub(crate) fn unwatched(&self) -> Self {
        Self { report: None, steps: None, ..self.clone() }
    }

    /// For a job whose steps have this size in total. Announce each one with
    /// [`begin_step`](Self::begin_step), one after the other; a step may have steps of its own.
    pub(crate) fn of_steps(&self, total: u64) -> Self {
        let above = self.clone();
        let report: Report = Arc::new(move |progress| above.report(progress));
        let steps = Some(Arc::new(Steps { total, ..Steps::default() }));
        Self { report: self.is_watched().then_some(report), steps, ..self.clone() }
    }

    /// Begins a step of this size. The previous one has ended, and counted `bytes_before` bytes.
    pub(crate) fn begin_step(&self, size: u64, bytes_before: u64) {
        let Some(steps) = &self.steps else { return };
        steps.done.fetch_add(steps.current.swap(size, Ordering::Relaxed), Ordering::Relaxed);
        steps.bytes.fetch_add(bytes_before, Ordering::Relaxed);
    }

    /// Reports progress.
    pub(crate) fn report(&self, mut progress: JobProgress) {
        let Some(report) = &self.report else { return };
        if progress.job_total == 0 {
            (progress.job_done, progress.job_total) = match progress.total {
                0 => (progress.bytes, progress.total_bytes),
                total => (progress.done, total),
            };
        }
        if let Some(steps) = &self.steps {
            steps.place(&mut progress);
        }
        report(progress);
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn steps_of_steps_add_up_to_the_whole_job() {
        let engine = Engine::new(&crate::EngineOptions::new().threads(1)).unwrap();
        let seen: Arc<Mutex<Vec<(u64, u64, u64)>>> = Arc::default();
        let heard = Arc::clone(&seen);
        let context = JobContext::new(&engine).progress(move |now| {
            heard.lock().unwrap().push((now.job_done, now.job_total, now.bytes));
        });
        let job = context.of_steps(100);
        job.begin_step(60, 0);
        let inner = job.of_steps(20);
        inner.begin_step(10, 0);
        inner.report(JobProgress { bytes: 7, ..JobProgress::steps("a", 1, 2) });
        inner.begin_step(10, 9);
        inner.report(JobProgress::steps("b", 4, 4));
        job.begin_step(40, 10);
        job.report(JobProgress { bytes: 3, total_bytes: 4, ..JobProgress::default() });
        assert_eq!(*seen.lock().unwrap(), [(15, 100, 7), (60, 100, 9), (90, 100, 13)]);
    }
}
