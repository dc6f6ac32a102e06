//! The report: tables in Markdown, a plot, and all runs as JSON.

mod plot;
mod standing;
mod support;
mod table;

use std::fs;
use std::path::Path;

use super::calls::Counts;
use super::record::{Record, Run, middle};
use crate::Result;
use crate::measure::quantile;

/// Writes `README.md`, `bench.svg` and `runs.json` into a folder; shows the system calls that were
/// counted there before.
pub fn write(record: &Record, out: &Path) -> Result {
    fs::create_dir_all(out)?;
    let counts = Counts::load(out)?;
    fs::write(out.join("README.md"), table::markdown(record, counts.as_ref()))?;
    fs::write(out.join("bench.svg"), plot::svg(record))?;
    record.save(&out.join("runs.json"))
}

/// One implementation at one workload on one array: medians over the repeats.
pub struct Cell {
    /// How many repeats it ran in.
    pub runs: usize,
    pub cpu: f64,
    pub wall: f64,
    /// To the floor's run of the same repeat.
    pub cpu_ratio: Spread,
    pub wall_ratio: Spread,
    /// Shardine's CPU time over this one's, in the same repeat; and the same of wall time.
    pub shardine: Option<f64>,
    pub shardine_wall: Option<f64>,
    pub peak: f64,
    pub stored: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    /// Of the median latencies.
    pub p50_ratio: Option<Spread>,
}

/// A median, and the quartiles around it.
#[derive(Clone, Copy)]
pub struct Spread {
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    fn of(mut numbers: Vec<f64>) -> Option<Self> {
        numbers.sort_by(f64::total_cmp);
        let at = |share| quantile(&numbers, share);
        (!numbers.is_empty()).then(|| Self { middle: at(0.5), low: at(0.25), high: at(0.75) })
    }
}

impl Cell {
    /// `None` if it was not run.
    pub fn of(record: &Record, workload: &str, variant: &str, subject: &str) -> Option<Self> {
        let mut cpu = Vec::new();
        let mut wall = Vec::new();
        let mut peak = Vec::new();
        let mut stored = Vec::new();
        let (mut shardine, mut shardine_wall) = (Vec::new(), Vec::new());
        let (mut p50, mut p99) = (Vec::new(), Vec::new());
        let (mut cpu_ratio, mut wall_ratio, mut p50_ratio) = (Vec::new(), Vec::new(), Vec::new());
        for run in record.of(workload, variant, subject) {
            cpu.push(run.cpu());
            wall.push(run.wall());
            peak.push(run.measured.peak_growth as f64);
            stored.extend(run.stored.map(|bytes| bytes as f64));
            p50.extend(run.measured.p50);
            p99.extend(run.measured.p99);
            let beside = |other| {
                let mut runs = record.of(workload, variant, other);
                runs.find(|other| other.repeat == run.repeat)
            };
            if let Some(own) = beside("shardine") {
                shardine.push(own.cpu() / run.cpu());
                shardine_wall.push(own.wall() / run.wall());
            }
            if let Some(floor) = beside("floor") {
                cpu_ratio.push(run.cpu() / floor.cpu());
                wall_ratio.push(run.wall() / floor.wall());
                let latencies = run.measured.p50.zip(floor.measured.p50);
                p50_ratio.extend(latencies.map(|(own, floor)| own / floor));
            }
        }
        let some = |numbers: Vec<f64>| (!numbers.is_empty()).then(|| middle(numbers));
        Some(Self {
            cpu_ratio: Spread::of(cpu_ratio)?,
            wall_ratio: Spread::of(wall_ratio)?,
            p50_ratio: Spread::of(p50_ratio),
            runs: cpu.len(),
            cpu: some(cpu)?,
            wall: some(wall)?,
            shardine: some(shardine),
            shardine_wall: some(shardine_wall),
            peak: some(peak)?,
            stored: some(stored),
            p50: some(p50),
            p99: some(p99),
        })
    }

    /// The ratio that counts: of latencies where these are measured, else of CPU time.
    pub fn ratio(&self) -> Spread {
        self.p50_ratio.unwrap_or(self.cpu_ratio)
    }
}

/// One implementation at two workloads or on two arrays: the ratio of its times, repeat by repeat.
pub struct Pair {
    pub cpu: Spread,
    pub wall: Spread,
}

impl Pair {
    /// `None` if one of them was not run.
    pub fn of(
        record: &Record,
        (workload, variant): (&str, &str),
        (base, base_variant): (&str, &str),
        subject: &str,
    ) -> Option<Self> {
        let bases: Vec<&Run> = record.of(base, base_variant, subject).collect();
        let (mut cpu, mut wall) = (Vec::new(), Vec::new());
        for run in record.of(workload, variant, subject) {
            if let Some(base) = bases.iter().find(|base| base.repeat == run.repeat) {
                cpu.push(run.cpu() / base.cpu());
                wall.push(run.wall() / base.wall());
            }
        }
        Some(Self { cpu: Spread::of(cpu)?, wall: Spread::of(wall)? })
    }
}

/// Whether a ratio is within its goal, with the digits that [`ratio`] shows.
pub fn reached(number: f64, goal: f64) -> bool {
    let digit = if goal < 0.1 { 1000.0 } else { 100.0 };
    (number * digit).round() <= (goal * digit).round()
}

/// A ratio with as many digits as it deserves.
pub fn ratio(number: f64) -> String {
    match number {
        n if n < 0.1 => format!("{n:.3}"),
        n if n < 10.0 => format!("{n:.2}"),
        n => format!("{n:.0}"),
    }
}
