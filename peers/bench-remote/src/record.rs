//! What was measured, on what: kept as JSON, so that a report can be made again.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::job::Measured;
use crate::measure::quantile;

/// One process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub workload: String,
    pub subject: String,
    pub repeat: usize,
    /// What the proxy counted from the start of the clock.
    pub requests: u64,
    /// Bytes of bodies, to and from the server.
    pub sent: u64,
    pub received: u64,
    #[serde(flatten)]
    pub measured: Measured,
}

impl Run {
    pub fn cpu(&self) -> f64 {
        self.measured.user + self.measured.system
    }

    /// By how many bytes memory grew, results included.
    pub fn growth(&self) -> u64 {
        self.measured.peak.saturating_sub(self.measured.resident)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {} {:20} wall {:8.3} s  cpu {:8.3} s  {:5} requests  {:6.1} MiB in  {:6.1} MiB out  +{:4} MiB",
            self.workload,
            self.subject,
            self.measured.wall,
            self.cpu(),
            self.requests,
            mebibytes(self.received),
            mebibytes(self.sent),
            self.growth() >> 20,
        )
    }
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The number below which a share of some numbers lies.
pub fn share(numbers: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    quantile(&numbers, share)
}

/// A whole benchmark.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    pub scale: String,
    pub repeats: usize,
    pub latency_ms: f64,
    pub date: String,
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    pub compiler: String,
    /// Raw bytes per stored byte.
    pub ratio: f64,
    pub runs: Vec<Run>,
}

impl Record {
    pub fn new(scale: &str, repeats: usize, latency_ms: f64, ratio: f64) -> Result<Self> {
        let processor = fs::read_to_string("/proc/cpuinfo")?;
        let model = processor.lines().find_map(|line| line.strip_prefix("model name"));
        let memory = fs::read_to_string("/proc/meminfo")?;
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        Ok(Self {
            scale: scale.to_owned(),
            repeats,
            latency_ms,
            date: said("date", &["+%F"]),
            processor: model.unwrap_or("unknown").trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get),
            memory_gib: (total.unwrap_or(0) + (1 << 19)) >> 20,
            kernel: said("uname", &["-sr"]),
            compiler: said("rustc", &["--version"]),
            ratio,
            runs: Vec::new(),
        })
    }

    pub fn save(&self, path: &Path) -> Result {
        Ok(fs::write(path, serde_json::to_vec(self)?)?)
    }

    pub fn load(path: &Path) -> Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// The runs of one implementation and workload.
    pub fn of(&self, workload: &str, subject: &str) -> Vec<&Run> {
        let wanted = |run: &&Run| run.workload == workload && run.subject == subject;
        self.runs.iter().filter(wanted).collect()
    }
}

/// What a program prints, or nothing if it cannot be asked.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}
