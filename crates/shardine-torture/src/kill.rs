//! Writers that are killed, at a given step or at a random time.

use std::fmt;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::judge::{Progress, Remains};
use crate::peer::Peer;
use crate::plan::{Plan, Random, Scenario};
use crate::process::{self, words};
use crate::setup::{self, Setup};
use crate::{Result, slices};

/// The maximum duration of a writer.
const LIMIT: Duration = Duration::from_secs(60);

/// When a writer is killed.
#[derive(Debug, Clone, Copy)]
pub enum When {
    Never,
    /// Before a step.
    Before(usize),
    /// In the middle of a writing step.
    Midway(usize),
    /// After this many microseconds.
    After(u64),
}

/// One writer and its end.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    pub setup: Setup,
    pub scenario: Scenario,
    pub seed: u64,
    pub when: When,
    /// Whether the shard itself, rather than a file next to it, is cut in the middle of a write.
    pub torn: bool,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setup, scenario, seed, .. } = self;
        write!(f, "--setup {setup} --scenario {scenario} --seed {seed}")?;
        match self.when {
            When::Never => Ok(()),
            When::Before(step) => write!(f, " --die-at {step}"),
            When::Midway(step) => write!(f, " --die-at {step} --midway"),
            When::After(_) => write!(f, " --plain"),
        }
    }
}

impl Kill {
    /// Runs the writer and judges what it leaves behind. Returns its steps if it finished.
    pub fn run(&self, peer: Option<&mut Peer>, on_disk: bool) -> Result<Option<String>> {
        let folder = process::folder(on_disk)?;
        let outcome = self.run_in(folder.path(), peer);
        outcome.map_err(|why| {
            let kept = folder.keep();
            let after = match self.when {
                When::After(time) => format!(", killed after {time} µs"),
                _ => String::new(),
            };
            format!("{why}\n  the writer: work {self}{after}\n  what is left: {}", kept.display())
        })
    }

    fn run_in(&self, folder: &Path, peer: Option<&mut Peer>) -> Result<Option<String>> {
        let plan = Plan::new(&self.setup, self.scenario, self.seed);
        let (array, log) = (folder.join("array"), folder.join("log"));
        setup::create(&array, &plan.shape, &self.setup, plan.len)?;
        let mut arguments = words(&format!("work {self}"));
        for (name, path) in [("--folder", &array), ("--log", &log)] {
            arguments.extend([name.to_owned(), path.display().to_string()]);
        }
        let mut child = process::start(&arguments)?;
        if let When::After(time) = self.when {
            thread::sleep(Duration::from_micros(time));
            child.kill().map_err(|e| format!("kill: {e}"))?;
        }
        process::finish(child, LIMIT)?;
        let progress = Progress::read(&log)?;
        if matches!(self.when, When::Never) && progress.steps.is_none() {
            return Err("the writer failed".to_owned());
        }
        // Kept next to the remains, for the investigation of a violation.
        let before = folder.join("before");
        copy(&array, &before)?;
        let remains = Remains {
            folder: &array,
            setup: &self.setup,
            plan: &plan,
            progress: &progress,
            readable: self.setup.is_always_readable() && !self.torn,
            writer_first: self.is_writer_first(),
        };
        match self.scenario {
            Scenario::Slices => slices::judge(&remains, peer)?,
            _ => remains.judge(peer)?,
        }
        Ok(progress.steps)
    }

    fn is_writer_first(&self) -> bool {
        match self.when {
            When::Never => false,
            When::Before(step) | When::Midway(step) => step % 2 == 1,
            When::After(time) => time % 2 == 1,
        }
    }

    /// All kills at a step of one writer, which has already run to the end once.
    pub fn at_every_step(&self, steps: &str) -> Vec<Self> {
        let mut all = Vec::new();
        for (step, letter) in steps.chars().enumerate() {
            all.push(Self { when: When::Before(step), ..*self });
            if letter.eq_ignore_ascii_case(&'w') {
                all.push(Self { when: When::Midway(step), torn: letter == 'W', ..*self });
            }
        }
        all
    }

    /// A kill at a random time.
    pub fn at_random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let setups = Setup::all();
        let setup = setups[random.below(setups.len())];
        let after = 3000 + random.below(80_000) as u64;
        Self { setup, scenario: Scenario::Random, seed, when: When::After(after), torn: false }
    }
}

/// Copies all files of a folder.
fn copy(from: &Path, to: &Path) -> Result {
    for file in process::files(from) {
        let Ok(name) = file.strip_prefix(from) else { continue };
        let target = to.join(name);
        let folder = target.parent().unwrap_or(to);
        fs::create_dir_all(folder)
            .and_then(|()| fs::copy(&file, &target))
            .map_err(|e| format!("cannot copy {}: {e}", file.display()))?;
    }
    Ok(())
}
