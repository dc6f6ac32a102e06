//! What was measured, on what: kept as JSON, so that a report can be made again.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::machine::Figures;
use super::options::Options;
use crate::Result;
use crate::host::Host;
use crate::job::Measured;
use crate::measure::quantile;

/// One process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub workload: String,
    pub variant: String,
    pub subject: String,
    pub repeat: usize,
    /// Bytes stored by a write.
    pub stored: Option<u64>,
    /// Seconds of the whole process, with its start, warm-up and checks: how long a run
    /// makes one wait.
    #[serde(default)]
    pub took: f64,
    #[serde(flatten)]
    pub measured: Measured,
}

impl Run {
    /// CPU seconds of the middle iteration.
    pub fn cpu(&self) -> f64 {
        let both = self.measured.user.iter().zip(&self.measured.system);
        middle(both.map(|(user, system)| user + system).collect())
    }

    /// Seconds on the wall of the middle iteration.
    pub fn wall(&self) -> f64 {
        middle(self.measured.wall.clone())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {:5} {:7} {:18} cpu {:8.4} s  wall {:8.4} s  +{:4} MiB",
            self.workload,
            self.variant,
            self.subject,
            self.cpu(),
            self.wall(),
            self.measured.peak_growth >> 20,
        )?;
        if let (Some(p50), Some(p99)) = (self.measured.p50, self.measured.p99) {
            write!(f, "  p50 {p50:.1} us  p99 {p99:.1} us")?;
        }
        Ok(())
    }
}

/// The median of some numbers.
pub fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    quantile(&numbers, 0.5)
}

/// A whole benchmark.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    pub scale: String,
    pub repeats: usize,
    #[serde(flatten)]
    pub host: Host,
    pub figures: Figures,
    pub runs: Vec<Run>,
}

impl Record {
    pub fn new(options: &Options, figures: Figures) -> Result<Self> {
        Ok(Self {
            scale: options.scale.name.to_owned(),
            repeats: options.repeats,
            host: Host::ask()?,
            figures,
            runs: Vec::new(),
        })
    }

    pub fn save(&self, path: &Path) -> Result {
        Ok(fs::write(path, serde_json::to_vec(self)?)?)
    }

    pub fn load(path: &Path) -> Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// The runs of one implementation, workload and variant.
    pub fn of<'a>(
        &'a self,
        workload: &'a str,
        variant: &'a str,
        subject: &'a str,
    ) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| {
            run.workload == workload && run.variant == variant && run.subject == subject
        })
    }
}
