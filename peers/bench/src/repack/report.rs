//! The report: what was to be shown, then a table for each kind of work.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::plan::{FULL, RECODING_MEMORY, Scale, Subject, WORKS, Work};
use crate::Result;
use crate::drive::middle;
use crate::host::Host;
use crate::process::Usage;
use crate::runs::{Record, Run};

/// What is to be reached.
const MOVING_TO_COPY: f64 = 1.5;
const MOVING_MEMORY: u64 = 64 << 20;
const PEER_TO_SHARDINE: f64 = 5.0;
const RECODING_TO_FLOOR: f64 = 1.2;

/// Writes `repack-results.md` and the runs behind it.
pub fn write(record: &Record, out: &Path) -> Result {
    fs::create_dir_all(out)?;
    fs::write(out.join("repack-results.md"), text(record)?)?;
    record.save(&out.join("repack-runs.json"))
}

fn text(record: &Record) -> Result<String> {
    let scale = Scale::named(&record.scale).unwrap_or(FULL);
    let Record { host, rounds, file_system, versions, .. } = record;
    let Host { date, processor, cores, memory_gib, kernel, compiler } = host;
    let [a, b, c] = scale.shape;
    let raw = (a * b * c * 2) as f64;
    let mut text = String::new();
    writeln!(
        text,
        "# Results of packing chunks in another way\n\n\
         Made by `cargo xtask bench --repack{}` on {date}: {processor}, {cores} cores, {memory_gib} GiB, {kernel}, {file_system}, {compiler}.\n\
         Rounds: {rounds}. uint16 {a} x {b} x {c}, chunks of 64^3, {:.0} MiB stored of {:.0}. Compared: {}. [How it is measured](repack.md).\n",
        if scale.name == FULL.name { String::new() } else { format!(" --size {}", scale.name) },
        record.stored as f64 / f64::from(1 << 20),
        raw / f64::from(1 << 20),
        versions.join(", "),
    )?;
    writeln!(text, "## Goals\n")?;
    goals(&mut text, record)?;
    for work in &WORKS {
        table(&mut text, record, &scale, work)?;
    }
    Ok(text)
}

/// What someone took until all was on the disk, over what another took in the same round.
fn ratios(record: &Record, work: &Work, subject: Subject, other: Subject) -> Vec<f64> {
    record.ratios(work.name, subject.name(), other.name(), Usage::seconds)
}

/// One line of the goals.
pub fn goal(
    text: &mut String,
    what: &str,
    figure: &str,
    goal: &str,
    reached: bool,
) -> std::fmt::Result {
    let reached = if reached { "yes" } else { "**no**" };
    writeln!(text, "| {what} | {figure} | {goal} | {reached} |")
}

fn goals(text: &mut String, record: &Record) -> Result {
    writeln!(text, "| | figure | goal | reached |\n|---|---|---|---|")?;
    for work in &WORKS {
        for subject in [Subject::Shardine, Subject::ShardineInPlace] {
            let what = |of: &str| format!("**{}** {}: {of}", work.name, subject.name());
            let runs = record.of(work.name, subject.name());
            let Some(peak) = runs.iter().map(|run| run.usage.peak).max() else { continue };
            let (beside, most, memory) = if work.moves {
                (Subject::Copy, MOVING_TO_COPY, MOVING_MEMORY)
            } else {
                (Subject::Floor, RECODING_TO_FLOOR, RECODING_MEMORY)
            };
            let ratios = ratios(record, work, subject, beside);
            if !ratios.is_empty() {
                let ratio = middle(ratios);
                let what = what(&format!("time / {}", beside.name()));
                goal(text, &what, &figure(ratio), &format!("at most {most}"), ratio <= most)?;
            }
            let mebibytes =
                (format!("{:.0} MiB", mebibytes(peak)), format!("below {} MiB", memory >> 20));
            goal(text, &what("peak memory"), &mebibytes.0, &mebibytes.1, peak < memory)?;
            // A result that differs ends the benchmark, so that there is no report of it.
            if work.moves && runs.iter().any(|run| run.checked) {
                goal(text, &what("encoded chunks"), "identical", "identical", true)?;
            }
        }
        if let Some((peer, ratio)) = quickest(record, work).filter(|_| work.moves) {
            goal(
                text,
                &format!("**{}** quickest peer ({}) / shardine", work.name, peer.name()),
                &figure(ratio),
                &format!("at least {PEER_TO_SHARDINE}"),
                ratio >= PEER_TO_SHARDINE,
            )?;
        }
    }
    Ok(())
}

/// The peer that takes the least time, and that over shardine's.
fn quickest(record: &Record, work: &Work) -> Option<(Subject, f64)> {
    let ratio = |peer| {
        let ratios = ratios(record, work, peer, Subject::Shardine);
        (!ratios.is_empty()).then(|| (peer, middle(ratios)))
    };
    Subject::PEERS.into_iter().filter_map(ratio).min_by(|a, b| a.1.total_cmp(&b.1))
}

fn table(text: &mut String, record: &Record, scale: &Scale, work: &Work) -> Result {
    if !record.runs.iter().any(|run| run.work == work.name) {
        return Ok(());
    }
    writeln!(text, "\n## {}: {}\n", work.name, work.title)?;
    let arguments = scale.shardine_arguments(work).join(" ");
    writeln!(text, "`shardine {arguments} {}`\n", work.source.name())?;
    writeln!(
        text,
        "| | runs | seconds | least..most | of which sync | / cp | / shardine | CPU s | peak MiB |\n|---|---|---|---|---|---|---|---|---|"
    )?;
    for subject in Subject::ALL {
        let runs = record.of(work.name, subject.name());
        if runs.is_empty() {
            continue;
        }
        let all = |of: &dyn Fn(&Run) -> f64| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
        let seconds = all(&|run| run.usage.seconds());
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = seconds.iter().copied().fold(0.0, f64::max);
        let ratio = |other| match ratios(record, work, subject, other) {
            none if none.is_empty() => String::new(),
            ratios => figure(middle(ratios)),
        };
        writeln!(
            text,
            "| {} | {} | {:.2} | {least:.2}..{most:.2} | {:.2} | {} | {} | {:.2} | {:.0} |",
            subject.name(),
            runs.len(),
            middle(seconds),
            middle(all(&|run| run.usage.sync)),
            ratio(Subject::Copy),
            ratio(Subject::Shardine),
            middle(all(&|run| run.usage.cpu())),
            middle(all(&|run| mebibytes(run.usage.peak))),
        )?;
    }
    Ok(())
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub fn figure(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}
