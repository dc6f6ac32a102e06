use std::fmt;
use std::sync::Arc;

use crate::jobs::frame::{CancelToken, Part};
use crate::jobs::rebuild::PartOutcome;

/// How a copy is checked before it counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CopyCheck {
    /// Not at all: what the target store has called published is believed.
    None,
    /// The length of every object in the target, by one listing for each folder.
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

/// How far a copy is. What is found grows while folders are still being listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Objects that are in the target.
    pub objects: u64,
    /// Bytes that are in the target, or on their way.
    pub bytes: u64,
    /// Objects found in the source so far.
    pub objects_found: u64,
    /// Bytes found in the source so far, of objects whose length is known beforehand.
    pub bytes_found: u64,
}

/// How to copy.
#[derive(Clone)]
#[non_exhaustive]
pub struct CopyOptions {
    /// How many objects, or pieces of large ones, are under way at once. Between local files no more than `threads`.
    pub requests: usize,
    /// Threads of a copy between local files; 0 means one per core.
    pub threads: usize,
    /// Memory for bytes under way. Stores may keep some of their own beside it.
    pub memory: u64,
    /// Remove the data set that is at the target.
    pub overwrite: bool,
    /// How the copy is checked.
    pub check: CopyCheck,
    /// Stops the copy. What is there then is resumed by the same call.
    pub cancel: CancelToken,
    /// Which part of the objects this process copies; `None` for all of them.
    pub part: Option<Part>,
    /// Take the process that was making the target for dead, where that cannot be told.
    pub take_over: bool,
    /// Told how far the copy is. May be called from any thread.
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

    /// With so many objects or pieces under way at once; at least one.
    pub fn requests(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// With so many threads for local files; 0 is one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// With so much memory for bytes under way.
    pub fn memory(mut self, memory: u64) -> Self {
        self.memory = memory;
        self
    }

    /// With the data set at the target removed first, or not.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Checked in this way.
    pub fn check(mut self, check: CopyCheck) -> Self {
        self.check = check;
        self
    }

    /// Stops when `token` says so.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// With only this part of the objects copied.
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    /// Reports progress to `progress`, from any thread.
    pub fn progress(mut self, progress: impl Fn(CopyProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
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
    /// Their bytes.
    pub bytes_copied: u64,
    /// Objects that an earlier run had copied.
    pub objects_skipped: u64,
    /// Their bytes.
    pub bytes_skipped: u64,
    /// Whether an earlier run was gone on with.
    pub resumed: bool,
    /// How the target was checked.
    pub check: CopyCheck,
    /// Whether the copy is whole, or waits for other parts.
    pub outcome: PartOutcome,
}
