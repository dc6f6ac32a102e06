//! A progress bar on the terminal for slow operations; nothing when not on a terminal.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardine::Engine;
use shardine::jobs::JobContext;

use crate::{interrupt, said};

/// A bar on standard error. It is hidden when that is not a terminal, and removed when it is
/// dropped.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Counts bytes up to `total`.
    pub fn bytes(what: &'static str, total: u64) -> Self {
        Self::with(
            what,
            total,
            "{msg} [{wide_bar}] {percent}% of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left",
        )
    }

    /// Counts items up to `total`.
    pub fn things(what: &'static str, total: u64) -> Self {
        Self::with(what, total, "{msg} [{wide_bar}] {percent}%, {pos} of {len}, {eta} left")
    }

    /// Counts bytes of something whose end is unknown.
    pub fn stream(what: &'static str) -> Self {
        Self::with(what, 0, "{msg} {binary_bytes}, {binary_bytes_per_sec}")
    }

    /// Counts objects and their bytes; both totals grow on the way.
    pub fn objects(what: &'static str) -> Self {
        let template = "{prefix} [{wide_bar}] {percent}% of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left, {msg}";
        let progress = Self::with("", 0, template);
        progress.bar.set_prefix(what);
        progress
    }

    fn with(what: &'static str, total: u64, template: &str) -> Self {
        let bar = ProgressBar::new(total).with_message(what);
        if said::is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Self { bar }
    }

    /// Adds to what is done.
    pub fn add(&self, done: u64) {
        self.bar.inc(done);
    }

    /// Sets what is done, out of what is known so far.
    pub fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Sets the message beside the bar.
    pub fn say(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Whether the bar is not visible.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Runs something that writes to the terminal, with the bar out of the way.
    pub fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    /// The context for a job that moves this bar and that Ctrl-C stops: the data is valid then, and
    /// the same command resumes.
    pub fn context(&self, engine: &Arc<Engine>) -> JobContext {
        let context = JobContext::new(engine).cancel(&interrupt::token());
        if self.is_hidden() {
            return context;
        }
        let bar = self.clone();
        context.progress(move |now| {
            bar.set(now.done, now.total);
            if !now.part.is_empty() {
                bar.say(now.part);
            }
        })
    }

    /// The context for a job that counts bytes, or elements where their bytes are not known.
    pub fn context_of_bytes(&self, engine: &Arc<Engine>) -> JobContext {
        self.of_bytes(JobContext::new(engine).cancel(&interrupt::token()))
    }

    /// The context for a job that waits for a stream, which only the end of the program can
    /// interrupt.
    pub fn context_of_stream(&self, engine: &Arc<Engine>) -> JobContext {
        self.of_bytes(JobContext::new(engine))
    }

    fn of_bytes(&self, context: JobContext) -> JobContext {
        if self.is_hidden() {
            return context;
        }
        let bar = self.clone();
        context.progress(move |now| match (now.total_bytes, now.total) {
            // The total is unknown.
            (0, 0) => bar.bar.set_position(now.bytes),
            (0, total) => bar.set(now.done, total),
            (total, _) => bar.set(now.bytes, total),
        })
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
