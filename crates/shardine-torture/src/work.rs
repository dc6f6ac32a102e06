//! One writer, which may die or stop at a chosen step.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};

use crate::options::Options;
use crate::plan::{Plan, Scenario};
use crate::setup::{self, Setup, told};
use crate::{Result, process, slices};

/// What happens at the chosen step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Never,
    Before,
    Midway,
    Stop,
}

/// Counts the steps, and dies at one of them.
#[derive(Debug)]
struct Fate {
    at: u64,
    end: End,
    count: AtomicU64,
    /// A letter for each step.
    steps: Mutex<String>,
}

impl DiskObserver for Fate {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        let letter = match step {
            DiskStep::Write { path, .. } if process::is_own(path) => 'w',
            DiskStep::Write { .. } => 'W',
            DiskStep::Rename { .. } | DiskStep::Remove { .. } => 'R',
            DiskStep::SyncFile { .. } | DiskStep::SyncFolder { .. } => 's',
            _ => 'o',
        };
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        if self.count.fetch_add(1, Ordering::SeqCst) != self.at || self.end == End::Never {
            return Verdict::Go;
        }
        if let (End::Midway, DiskStep::Write { path, offset, data }) = (self.end, step)
            && let Ok(file) = File::options().write(true).open(path)
        {
            let _ = file.write_all_at(&data[..data.len() / 2], offset);
        }
        process::signal(
            std::process::id(),
            if self.end == End::Stop { libc::SIGSTOP } else { libc::SIGKILL },
        );
        Verdict::Go
    }
}

pub fn main(options: &Options) -> Result {
    let folder: PathBuf = options.path("folder")?;
    let setup: Setup = options.need("setup")?;
    let scenario: Scenario = options.need("scenario")?;
    let plan = Plan::new(&setup, scenario, options.need("seed")?);
    let mut log = Log::open(options.path("log")?)?;

    let (at, end) = match (options.get("die-at")?, options.get("stop-at")?) {
        (Some(at), _) if options.is_set("midway") => (at, End::Midway),
        (Some(at), _) => (at, End::Before),
        (None, Some(at)) => (at, End::Stop),
        (None, None) => (0, End::Never),
    };
    let fate = Fate { at, end, count: AtomicU64::new(0), steps: Mutex::default() };
    let fate = Arc::new(fate);
    let watched = || {
        let fate = Arc::clone(&fate) as Arc<dyn DiskObserver>;
        setup::open_in(Arc::new(FileStore::observed(&folder, fate)), 2)
    };
    if scenario == Scenario::Slices {
        slices::write(watched()?, &plan, &mut log)?;
    } else {
        let mut array = setup::open(&folder, 2)?;
        for (i, op) in plan.ops.iter().enumerate() {
            if i == plan.prepared && !options.is_set("plain") {
                array = watched()?;
            }
            log.line(&format!("begin {i}"))?;
            if let Err(error) = setup::write(&array, op.range.start, &op.values(), &op.options()) {
                return log.line(&format!("error in update {i}: {}", told(&error)));
            }
            log.line(&format!("end {i}"))?;
        }
    }
    let steps = fate.steps.lock().unwrap_or_else(PoisonError::into_inner).clone();
    log.line(&format!("steps {steps}"))
}

/// A log that has each line as soon as it is written.
pub struct Log(File);

impl Log {
    pub fn open(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.map(Self).map_err(|e| format!("{}: {e}", path.display()))
    }

    pub fn line(&mut self, text: &str) -> Result {
        self.0.write_all(format!("{text}\n").as_bytes()).map_err(|e| format!("the log: {e}"))
    }
}
