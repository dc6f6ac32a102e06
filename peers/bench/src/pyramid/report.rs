//! The report: what was to be shown, and a table.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::plan::{FULL, Scale, Subject, WORK};
use crate::Result;
use crate::drive::middle;
use crate::host::Host;
use crate::process::Usage;
use crate::repack::report::{figure, goal, mebibytes};
use crate::runs::{Record, Run};

/// What is to be reached.
const CPU_TO_FLOOR: f64 = 1.3;
const MEMORY: u64 = 256 << 20;
const PEER_TO_SHARDINE: f64 = 3.0;

/// Writes `pyramid-results.md` and the runs behind it.
pub fn write(record: &Record, out: &Path) -> Result {
    fs::create_dir_all(out)?;
    fs::write(out.join("pyramid-results.md"), text(record)?)?;
    record.save(&out.join("pyramid-runs.json"))
}

fn text(record: &Record) -> Result<String> {
    let scale = Scale::named(&record.scale).unwrap_or(FULL);
    let Host { date, processor, cores, memory_gib, kernel, compiler } = &record.host;
    let [a, b, c] = scale.shape;
    let size = if scale.name == FULL.name { "" } else { " --size small" };
    let mut text = String::new();
    writeln!(
        text,
        "# Results of making pyramids\n\n\
         Made by `cargo xtask bench --pyramid{size}` on {date}: {processor}, {cores} cores, \
         {memory_gib} GiB, {kernel}, {}, {compiler}. uint16 {a} x {b} x {c} in chunks of 64^3 and \
         shards of {}^3, zstd 3, {:.0} MiB stored of {:.0}; {} lower levels, down to one chunk. \
         Rounds: {}. Compared: {}. [How it is measured](pyramid.md).\n",
        record.file_system,
        scale.shard()[0],
        mebibytes(record.stored),
        mebibytes(a * b * c * 2),
        scale.levels().len(),
        record.rounds,
        record.versions.join(", "),
    )?;
    writeln!(text, "## Goals\n\n| | figure | goal | reached |\n|---|---|---|---|")?;
    goals(&mut text, record)?;
    table(&mut text, record)?;
    Ok(text)
}

/// What one took over what another took in the same round, the middle of all rounds.
fn ratio(record: &Record, one: Subject, other: Subject, measure: fn(&Usage) -> f64) -> Option<f64> {
    let ratios = record.ratios(WORK, one.name(), other.name(), measure);
    (!ratios.is_empty()).then(|| middle(ratios))
}

fn goals(text: &mut String, record: &Record) -> Result {
    if let Some(cpu) = ratio(record, Subject::Shardine, Subject::Floor, Usage::cpu) {
        let most = format!("at most {CPU_TO_FLOOR}");
        goal(text, "CPU time / floor", &figure(cpu), &most, cpu <= CPU_TO_FLOOR)?;
    }
    let runs = record.of(WORK, Subject::Shardine.name());
    if let Some(peak) = runs.iter().map(|run| run.usage.peak).max() {
        let (found, below) =
            (format!("{:.0} MiB", mebibytes(peak)), format!("below {} MiB", MEMORY >> 20));
        goal(text, "peak memory", &found, &below, peak < MEMORY)?;
    }
    let seconds = |peer| Some((peer, ratio(record, peer, Subject::Shardine, Usage::seconds)?));
    let quickest = Subject::PEERS.into_iter().filter_map(seconds);
    if let Some((peer, ratio)) = quickest.min_by(|a, b| a.1.total_cmp(&b.1)) {
        let what = format!("time of the quickest peer ({}) / shardine", peer.name());
        let least = format!("at least {PEER_TO_SHARDINE}");
        goal(text, &what, &figure(ratio), &least, ratio >= PEER_TO_SHARDINE)?;
    }
    // An element that differs ends the benchmark, so that there is no report of it.
    if runs.iter().any(|run| run.checked) {
        goal(text, "elements, compared with TensorStore's", "equal", "equal", true)?;
    }
    Ok(())
}

fn table(text: &mut String, record: &Record) -> Result {
    writeln!(
        text,
        "\n## The runs\n\n| | runs | seconds | least..most | of which sync | / shardine | CPU s | \
         CPU / floor | peak MiB | elements |\n|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for subject in Subject::ALL {
        let runs = record.of(WORK, subject.name());
        if runs.is_empty() {
            continue;
        }
        let all = |of: &dyn Fn(&Run) -> f64| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
        let seconds = all(&|run| run.usage.seconds());
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = seconds.iter().copied().fold(0.0, f64::max);
        let beside = |other, measure| {
            ratio(record, subject, other, measure).map_or_else(String::new, figure)
        };
        let elements = match runs.iter().find_map(|run| run.difference) {
            None => String::new(),
            Some(0) => "equal".to_owned(),
            Some(difference) => format!("another mean, at most {difference} apart"),
        };
        writeln!(
            text,
            "| {} | {} | {:.2} | {least:.2}..{most:.2} | {:.2} | {} | {:.2} | {} | {:.0} | \
             {elements} |",
            subject.name(),
            runs.len(),
            middle(seconds),
            middle(all(&|run| run.usage.sync)),
            beside(Subject::Shardine, Usage::seconds),
            middle(all(&|run| run.usage.cpu())),
            beside(Subject::Floor, Usage::cpu),
            middle(all(&|run| mebibytes(run.usage.peak))),
        )?;
    }
    Ok(())
}
