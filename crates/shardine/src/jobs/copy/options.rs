use std::fmt;
use std::sync::Arc;

use crate::jobs::frame::{CancelToken, JobContext, JobProgress, Part};
use crate::jobs::rebuild::PartOutcome;

/// How a copy is checked before it counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CopyCheck {
    /// Not at all: the target store's confirmation is trusted.
    None,
    /// The length of every object in the target, with one listing per folder.
    #[default]
    Size,
    /// Every byte: each object is read back from the target.
    Content,
}

impl CopyCheck {
    /// Its name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Size => "size",
            Self::Content => "content",
        }
    }
}

/// The progress of a copy. The numbers found grow while folders are still being listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Objects in the target.
    pub objects: u64,
    /// Bytes in the target, or on their way.
    pub bytes: u64,
    /// Objects found in the source so far.
    pub objects_found: u64,
    /// Bytes found in the source so far, in objects whose length is known in advance.
    pub bytes_found: u64,
}

/// How to copy.
#[derive(Clone)]
#[non_exhaustive]
pub struct CopyOptions {
    /// How many objects, or pieces of large ones, are in flight. Between local files no more than
    /// `threads`.
    pub requests: usize,
    /// Threads of a copy between local files; 0 means one per core.
    pub threads: usize,
    /// Memory for bytes in flight. Stores may use more for themselves.
    pub memory: u64,
    /// Remove the data set at the target.
    pub overwrite: bool,
    /// How the copy is checked.
    pub check: CopyCheck,
    /// Stops the copy. The same call resumes it.
    pub cancel: CancelToken,
    /// The part of the objects this process copies; `None` for all of them.
    pub part: Option<Part>,
    /// Assume that the process writing the target is dead, where that cannot be checked.
    pub take_over: bool,
    /// Called with the progress of the copy, from any thread.
    pub progress: Option<Arc<dyn Fn(CopyProgress) + Send + Sync>>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            requests: 32,
            threads: 0,
            memory: 64 << 20,
            overwrite: false,
            check: CopyCheck::default(),
            cancel: CancelToken::new(),
            part: None,
            take_over: false,
            progress: None,
        }
    }
}

impl CopyOptions {
    /// 32 requests, 64 MiB, nothing overwritten, lengths checked.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many objects or pieces are in flight; at least one.
    pub fn requests(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// Sets the threads for local files; 0 means one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the memory for bytes in flight.
    pub fn memory(mut self, memory: u64) -> Self {
        self.memory = memory;
        self
    }

    /// Sets whether the data set at the target is removed first.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets how the copy is checked.
    pub fn check(mut self, check: CopyCheck) -> Self {
        self.check = check;
        self
    }

    /// Stops the copy when `token` is cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// Copies only this part of the objects.
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    /// Reports progress to `progress`, from any thread.
    pub fn progress(mut self, progress: impl Fn(CopyProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Stops when the token of a context is cancelled, and reports progress to its callback, with
    /// bytes as the measure of the whole job.
    pub fn context(self, context: &JobContext) -> Self {
        let stopped = self.cancel(context.token());
        if !context.is_watched() {
            return stopped;
        }
        let context = context.clone();
        stopped.progress(move |now| {
            let total_bytes = now.bytes_found.max(now.bytes);
            context.report(JobProgress {
                done: now.objects,
                total: now.objects_found,
                bytes: now.bytes,
                total_bytes,
                job_done: now.bytes,
                job_total: total_bytes,
                ..JobProgress::default()
            });
        })
    }
}

impl fmt::Debug for CopyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyOptions")
            .field("requests", &self.requests)
            .field("threads", &self.threads)
            .field("memory", &self.memory)
            .field("overwrite", &self.overwrite)
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// What a copy has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CopyReport {
    /// Objects that this run copied.
    pub objects_copied: u64,
    /// Their total bytes.
    pub bytes_copied: u64,
    /// Objects that an earlier run had copied.
    pub objects_skipped: u64,
    /// Their total bytes.
    pub bytes_skipped: u64,
    /// Whether this run resumed an earlier one.
    pub resumed: bool,
    /// How the target was checked.
    pub check: CopyCheck,
    /// Whether the copy is complete, or waits for other parts.
    pub outcome: PartOutcome,
}
