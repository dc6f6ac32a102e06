//! The report: one table for each workload.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::plan::{FULL, QUICK, SUBJECTS, Scale, WORKLOADS, Workload};
use crate::record::{Record, Run, mebibytes, share};

/// Writes `remote-results.md` and the runs behind it.
pub fn write(record: &Record, out: &Path) -> Result {
    fs::create_dir_all(out)?;
    fs::write(out.join("remote-results.md"), text(record)?)?;
    record.save(&out.join("remote-runs.json"))
}

fn text(record: &Record) -> Result<String> {
    let scale = if record.scale == QUICK.name { QUICK } else { FULL };
    let Record {
        date, processor, cores, memory_gib, kernel, compiler, repeats, latency_ms, ..
    } = record;
    let [a, b, c] = scale.shape;
    let mut versions: Vec<&str> = Vec::new();
    for run in &record.runs {
        let version = run.measured.version.as_str();
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions.sort_by_key(|version| {
        SUBJECTS.iter().position(|s| version.split(' ').next() == s.split('+').next())
    });
    let mut text = String::new();
    writeln!(text, "# Results on a remote store\n")?;
    writeln!(
        text,
        "Made by `cargo xtask bench --remote` on {date}: {processor}, {cores} cores, {memory_gib} GiB, {kernel}, {compiler}; \
         server, proxy and client share the machine.\n\
         {repeats} repeats, {latency_ms} ms of latency before each answer; uint16 {a} x {b} x {c}, zstd makes it {:.2} times smaller. \
         Compared: {}. [How it is measured](remote.md).\n",
        record.ratio,
        versions.join(", "),
    )?;
    writeln!(text, "## Wall time / shardine's\n")?;
    overview(&mut text, record, &scale)?;
    for workload in &WORKLOADS {
        table(&mut text, record, &scale, workload)?;
    }
    Ok(text)
}

/// All ratios at a glance.
fn overview(text: &mut String, record: &Record, scale: &Scale) -> Result {
    let subjects = || SUBJECTS.iter().filter(|&&subject| subject != "shardine");
    writeln!(
        text,
        "| | shardine, s |{}",
        subjects().map(|s| format!(" {s} |")).collect::<String>()
    )?;
    writeln!(text, "|---|---|{}", subjects().map(|_| "---|").collect::<String>())?;
    for workload in &WORKLOADS {
        let ours = record.of(workload.name, "shardine");
        if ours.is_empty() {
            continue;
        }
        let seconds = share(ours.iter().map(|run| run.measured.wall), 0.5);
        write!(
            text,
            "| **{}** {}: {} | {seconds:.3} |",
            workload.name,
            workload.title,
            scale.amount(workload)
        )?;
        for subject in subjects() {
            match ratios(record, workload, subject).as_slice() {
                [] => write!(text, " |")?,
                all => write!(text, " {} |", figure(share(all.iter().copied(), 0.5)))?,
            }
        }
        writeln!(text)?;
    }
    Ok(())
}

fn table(text: &mut String, record: &Record, scale: &Scale, workload: &Workload) -> Result {
    if !record.runs.iter().any(|run| run.workload == workload.name) {
        return Ok(());
    }
    writeln!(text, "\n## {}: {}, {}\n", workload.name, workload.title, scale.amount(workload))?;
    writeln!(
        text,
        "| | runs | wall s | quartiles | / shardine | quartiles | requests | MiB in | MiB out | CPU s | peak MiB | without results | process MiB |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    for subject in SUBJECTS {
        let runs = record.of(workload.name, subject);
        if runs.is_empty() {
            continue;
        }
        let at = |of: &dyn Fn(&Run) -> f64, part| share(runs.iter().map(|run| of(run)), part);
        let wall = |part| at(&|run| run.measured.wall, part);
        let ratios = ratios(record, workload, subject);
        let ratio = |part| share(ratios.iter().copied(), part);
        let growth = at(&|run| mebibytes(run.growth()), 0.5);
        let own = at(&|run| mebibytes(run.growth().saturating_sub(run.measured.output)), 0.5);
        writeln!(
            text,
            "| {subject} | {} | {:.3} | {:.3}..{:.3} | {} | {}..{} | {:.0} | {:.1} | {:.1} | {:.3} | {growth:.0} | {own:.0} | {:.0} |",
            runs.len(),
            wall(0.5),
            wall(0.25),
            wall(0.75),
            figure(ratio(0.5)),
            figure(ratio(0.25)),
            figure(ratio(0.75)),
            at(&|run| run.requests as f64, 0.5),
            at(&|run| mebibytes(run.received), 0.5),
            at(&|run| mebibytes(run.sent), 0.5),
            at(&Run::cpu, 0.5),
            at(&|run| mebibytes(run.measured.peak), 0.5),
        )?;
    }
    Ok(())
}

/// The times of an implementation over shardine's in the same repeat.
fn ratios(record: &Record, workload: &Workload, subject: &str) -> Vec<f64> {
    let ours = record.of(workload.name, "shardine");
    let ratio = |run: &&Run| {
        let same = ours.iter().find(|other| other.repeat == run.repeat)?;
        Some(run.measured.wall / same.measured.wall)
    };
    record.of(workload.name, subject).iter().filter_map(ratio).collect()
}

fn figure(number: f64) -> String {
    match number {
        n if n.is_nan() => "-".to_owned(),
        n if n >= 10.0 => format!("{n:.0}"),
        n => format!("{n:.2}"),
    }
}
