//! What was measured, on what: kept as JSON, so that a report can be made again.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::plan::{Case, Subject, Work};
use crate::Result;
use crate::drive::middle;
use crate::host::Host;
use crate::job::Measured;

/// One process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub case: String,
    pub work: String,
    pub subject: String,
    pub round: usize,
    /// Bytes that a write left.
    pub stored: Option<u64>,
    #[serde(flatten)]
    pub measured: Measured,
}

impl Run {
    /// Seconds of the middle iteration.
    pub fn seconds(&self) -> f64 {
        middle(self.measured.wall.clone())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu: f64 = self.measured.user.iter().chain(&self.measured.system).sum();
        write!(
            f,
            "  {:10} {:7} {:13} {:8.3} s  cpu {:8.3} s  +{:4} MiB",
            self.case,
            self.work,
            self.subject,
            self.seconds(),
            cpu / self.measured.wall.len().max(1) as f64,
            self.measured.peak_growth >> 20,
        )
    }
}

/// A whole benchmark.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    pub scale: String,
    pub rounds: usize,
    #[serde(flatten)]
    pub host: Host,
    /// The level of gzip that Shardine and the floor write with, by case.
    pub levels: Vec<(String, u8)>,
    pub runs: Vec<Run>,
}

impl Record {
    pub fn save(&self, path: &Path) -> Result {
        Ok(fs::write(path, serde_json::to_vec(self)?)?)
    }

    pub fn load(path: &Path) -> Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// The runs of someone at some work.
    pub fn of(&self, case: &Case, work: Work, subject: Subject) -> Vec<&Run> {
        let wanted = |run: &&Run| {
            (run.case.as_str(), run.work.as_str(), run.subject.as_str())
                == (case.name, work.name(), subject.name())
        };
        self.runs.iter().filter(wanted).collect()
    }

    /// What someone took over what another took in the same round; the middle of all rounds.
    pub fn ratio(&self, case: &Case, work: Work, subject: Subject, other: Subject) -> Option<f64> {
        let others = self.of(case, work, other);
        let beside = |run: &Run| others.iter().find(|other| other.round == run.round).copied();
        let ratio = |run: &Run| Some(run.seconds() / beside(run)?.seconds());
        let ratios: Vec<f64> = self.of(case, work, subject).into_iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| middle(ratios))
    }
}
