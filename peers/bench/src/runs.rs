//! Processes that were measured, and on what: kept as JSON, so that a report can be made again.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::host::Host;
use crate::process::Usage;

/// One process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub work: String,
    pub subject: String,
    pub round: usize,
    /// Whether the result was compared with the source after this run.
    pub checked: bool,
    /// The largest difference of an element to what it should be, where methods differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<u64>,
    #[serde(flatten)]
    pub usage: Usage,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { wall, sync, peak, .. } = self.usage;
        write!(
            f,
            "  {:8} {:18} {wall:8.3} s + sync {sync:7.3} s  cpu {:8.3} s  {:5} MiB",
            self.work,
            self.subject,
            self.usage.cpu(),
            peak >> 20,
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
    pub file_system: String,
    pub versions: Vec<String>,
    /// Bytes of the source that is sharded.
    pub stored: u64,
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
    pub fn of(&self, work: &str, subject: &str) -> Vec<&Run> {
        let wanted = |run: &&Run| run.work == work && run.subject == subject;
        self.runs.iter().filter(wanted).collect()
    }

    /// What someone took over what another took in the same round, by some measure.
    pub fn ratios(
        &self,
        work: &str,
        subject: &str,
        other: &str,
        measure: fn(&Usage) -> f64,
    ) -> Vec<f64> {
        let others = self.of(work, other);
        let beside = |run: &Run| others.iter().find(|other| other.round == run.round).copied();
        let ratio = |run: &Run| Some(measure(&run.usage) / measure(&beside(run)?.usage));
        self.of(work, subject).into_iter().filter_map(ratio).collect()
    }
}
