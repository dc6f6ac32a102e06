//! System calls, counted apart from the runs that are timed: `strace` slows everything down.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::options::Options;
use super::plan::{VARIANTS, WORKLOADS};
use super::record::Record;
use super::run::Runner;
use crate::Result;
use crate::host::said;

/// The name that the counts are kept under, beside the runs.
pub const FILE: &str = "syscalls.json";

/// The system calls of one iteration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Count {
    pub workload: String,
    pub variant: String,
    pub subject: String,
    pub total: u64,
    /// Those that are made often, the most frequent first.
    pub calls: Vec<(String, u64)>,
}

/// All that were counted at once.
#[derive(Debug, Serialize, Deserialize)]
pub struct Counts {
    pub scale: String,
    pub date: String,
    pub counts: Vec<Count>,
}

impl Counts {
    /// What an earlier count left in a folder, if there was one.
    pub fn load(folder: &Path) -> Result<Option<Self>> {
        match fs::read(folder.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn of(&self, workload: &str, variant: &str, subject: &str) -> Option<&Count> {
        self.counts.iter().find(|count| {
            count.workload == workload && count.variant == variant && count.subject == subject
        })
    }
}

/// Counts the system calls of one iteration of each workload, keeps them in the folder of the
/// report, and makes the report that may be there anew.
pub fn count(options: &Options, runner: &Runner) -> Result {
    let mut counts = Counts {
        scale: options.scale.name.to_owned(),
        date: said("date", &["+%F"]),
        counts: Vec::new(),
    };
    for workload in &WORKLOADS {
        for variant in VARIANTS.iter().filter(|v| options.runs(workload, v)) {
            println!("\n{} {}: {}", workload.name, variant.name, workload.title);
            for subject in super::turn(options, workload, variant, 0) {
                let job = options.scale.job(&options.folder, subject, workload, variant);
                let (total, calls) = runner.syscalls(&job)?;
                let most: Vec<String> =
                    calls.iter().map(|(name, calls)| format!("{name} {calls}")).collect();
                println!("  {subject:18} {total} calls: {}", most.join(", "));
                counts.counts.push(Count {
                    workload: workload.name.to_owned(),
                    variant: variant.name.to_owned(),
                    subject: subject.to_owned(),
                    total,
                    calls,
                });
            }
        }
    }
    fs::create_dir_all(&options.out)?;
    fs::write(options.out.join(FILE), serde_json::to_vec(&counts)?)?;
    let runs = options.out.join("runs.json");
    if runs.exists() {
        super::report::write(&Record::load(&runs)?, &options.out)?;
    }
    println!("\nthe counts are in {}", options.out.display());
    Ok(())
}
