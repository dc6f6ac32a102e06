//! The command line of the driver.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::plan::{FULL, QUICK, Scale, Variant, Workload};
use super::{ASKED_FOR, SUBJECTS};
use crate::Result;

/// The arrays on which system calls are counted unless others are asked for: codecs make none.
const COUNTED: [&str; 2] = ["zstd", "none"];

/// What to run, and where everything is.
pub struct Options {
    pub quick: bool,
    pub scale: Scale,
    pub repeats: usize,
    only: Vec<String>,
    codecs: Vec<String>,
    pub peers: Vec<String>,
    /// Where the volumes and arrays are kept.
    pub folder: PathBuf,
    pub out: PathBuf,
    pub python: PathBuf,
    pub worker: PathBuf,
    pub syscalls: bool,
    /// The name of the file that the runs are kept in.
    pub runs: String,
}

/// The runs that the report is made of.
pub const RUNS: &str = "runs.json";

impl Options {
    pub fn parse(arguments: &[&str]) -> Result<Self> {
        let quick = arguments.contains(&"--quick");
        let scale = if quick { QUICK } else { FULL };
        let mut options = Self {
            quick,
            scale,
            repeats: if quick { 2 } else { 10 },
            only: Vec::new(),
            codecs: Vec::new(),
            peers: SUBJECTS.map(str::to_owned).to_vec(),
            folder: PathBuf::new(),
            out: PathBuf::new(),
            python: PathBuf::new(),
            worker: PathBuf::new(),
            syscalls: false,
            runs: RUNS.to_owned(),
        };
        let mut data = PathBuf::new();
        let mut rest = arguments.iter().copied();
        while let Some(option) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{option} needs a value"));
            match option {
                "--quick" => {}
                "--syscalls" => options.syscalls = true,
                "--repeats" => options.repeats = number(option, value()?)?,
                "--min-seconds" => options.scale.min_seconds = number(option, value()?)?,
                "--only" => options.only = list(value()?),
                "--codec" => options.codecs = list(value()?),
                "--peers" => options.peers = list(value()?),
                "--runs" => options.runs = value()?.to_owned(),
                "--data" => data = PathBuf::from(value()?),
                "--out" => options.out = PathBuf::from(value()?),
                "--python" => options.python = PathBuf::from(value()?),
                "--worker" => options.worker = PathBuf::from(value()?),
                _ => return Err(format!("bench does not take \"{option}\"").into()),
            }
        }
        options.folder = data.join(scale.name);
        options.check()?;
        Ok(options)
    }

    fn check(&mut self) -> Result {
        for name in &self.only {
            Workload::named(name).ok_or_else(|| format!("there is no workload {name}"))?;
        }
        for name in &self.codecs {
            Variant::named(name).ok_or_else(|| format!("there is no codec {name}"))?;
        }
        for name in &self.peers {
            if !SUBJECTS.contains(&name.as_str()) && name != ASKED_FOR {
                return Err(format!("there is no implementation {name}; {SUBJECTS:?}").into());
            }
        }
        // Without the floor there is nothing to compare with.
        if !self.peers.iter().any(|name| name == "floor") {
            self.peers.insert(0, "floor".to_owned());
        }
        Ok(())
    }

    /// Whether a workload runs on a variant.
    pub fn runs(&self, workload: &Workload, variant: &Variant) -> bool {
        let named = self.codecs.is_empty() || self.codecs.iter().any(|name| name == variant.name);
        // What is asked for by name runs in a quick run too.
        let asked = !self.only.is_empty() || !self.codecs.is_empty();
        if self.syscalls && !asked && (workload.threads == 1 || !COUNTED.contains(&variant.name)) {
            return false;
        }
        let variants = if self.quick && !asked { workload.quick } else { workload.variants };
        let only = self.only.is_empty() || self.only.iter().any(|name| name == workload.name);
        named && only && variants.contains(&variant.name)
    }

    /// Whether a variant is needed at all.
    pub fn uses(&self, variant: &Variant) -> bool {
        super::WORKLOADS.iter().any(|workload| self.runs(workload, variant))
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

fn number<T: FromStr>(option: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| format!("{option}: \"{text}\" will not do").into())
}

/// A path as the reader of a report may see it: below the repository.
pub fn short(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let from = parts.iter().rposition(|part| part == "target").unwrap_or(0);
    parts[from..].join("/")
}
