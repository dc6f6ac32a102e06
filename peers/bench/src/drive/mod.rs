//! The driver: makes the data, runs every implementation in a process of its own, in turns, and
//! reports.

mod calls;
mod data;
mod machine;
mod options;
mod plan;
mod record;
mod report;
mod run;

use std::path::Path;
use std::time::Instant;

use crate::Result;
use machine::Figures;
use options::Options;
use plan::{VARIANTS, Variant, WORKLOADS, Workload};
use record::{Record, Run};
use run::Runner;

pub use record::middle;
pub use run::{Workers, folder_size, warm};

/// The implementations, in the order of the report.
pub const SUBJECTS: [&str; 7] = [
    "floor",
    "shardine",
    "zarrs",
    "zarrs-append",
    "tensorstore",
    "zarr-python+zarrs",
    "zarr-python",
];

/// Runs only if it is asked for: the Python package, for a report of its own.
pub const ASKED_FOR: &str = "shardine-python";

/// Takes so long that it runs in three repeats only, and not in all rows.
const SLOWEST: &str = "zarr-python";

/// Takes long too: runs in six repeats of ten.
const SLOW: &str = "zarr-python+zarrs";

/// Updates shards in place, which matters to one workload only.
const UPDATES_ONLY: &str = "zarrs-append";

/// Runs the benchmark as the options say.
pub fn main(arguments: &[&str]) -> Result {
    let options = Options::parse(arguments)?;
    let used: Vec<_> = VARIANTS.iter().filter(|v| options.uses(v)).collect();
    let runner = Runner::new(&options);
    data::ensure(&runner, &used)?;
    if options.syscalls {
        return calls::count(&options, &runner);
    }
    let figures = Figures::measure(&runner, &used)?;
    println!("\n{figures}\n{}\n", machine::REFERENCE);
    let mut record = Record::new(&options, figures)?;
    for repeat in 0..options.repeats {
        println!("repeat {} of {}", repeat + 1, options.repeats);
        let start = Instant::now();
        for workload in &WORKLOADS {
            for variant in used.iter().filter(|v| options.runs(workload, v)) {
                let subjects = turn(&options, workload, variant, repeat);
                for subject in subjects {
                    let job = options.scale.job(&options.folder, subject, workload, variant);
                    let begun = Instant::now();
                    let (measured, stored) = runner.measure(&job)?;
                    let run = Run {
                        workload: workload.name.to_owned(),
                        variant: variant.name.to_owned(),
                        subject: subject.to_owned(),
                        repeat,
                        stored,
                        took: begun.elapsed().as_secs_f64(),
                        measured,
                    };
                    println!("{run}");
                    record.runs.push(run);
                }
            }
        }
        println!("repeat {} took {:.0} s", repeat + 1, start.elapsed().as_secs_f64());
        // Kept after each repeat, so that a long run that is stopped is not lost.
        record.save(&options.folder.join(&options.runs))?;
    }
    if options.runs != options::RUNS {
        // Runs of their own have a report of their own.
        record.save(&options.out.join(&options.runs))?;
        println!("\nthe runs are in {}", options.out.display());
        return Ok(());
    }
    report::write(&record, &options.out)?;
    println!("\nthe report is in {}", options.out.display());
    Ok(())
}

/// Writes the report of runs that were kept before.
pub fn report(runs: &Path, out: &Path) -> Result {
    report::write(&Record::load(runs)?, out)
}

/// Who runs in a repeat: another one first each time, so that none always runs on a warm or a tired
/// machine.
///
/// All of them in all rows of ten repeats would take hours.
fn turn<'a>(
    options: &'a Options,
    workload: &Workload,
    variant: &Variant,
    repeat: usize,
) -> Vec<&'a str> {
    let thrice = repeat.is_multiple_of(3) && repeat < 9;
    let aside = workload.aside(variant);
    let mut subjects: Vec<&str> = options.peers.iter().map(String::as_str).collect();
    subjects.retain(|&subject| match subject {
        "floor" | "shardine" => true,
        SLOWEST => thrice && workload.threads > 1 && (!aside || variant.chunk == 32),
        UPDATES_ONLY => workload.name == "W6",
        _ if aside => thrice,
        SLOW => thrice || repeat.is_multiple_of(2),
        _ => true,
    });
    let by = repeat % subjects.len().max(1);
    subjects.rotate_left(by);
    subjects
}
