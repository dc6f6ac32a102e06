//! The report: a table for each kind of work.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::plan::{CASES, CHUNK, Case, FULL, QUICK, Subject, Work};
use super::record::{Record, Run};
use crate::Result;
use crate::drive::middle;
use crate::host::Host;

/// Writes `precomputed-results.md` and the runs behind it.
pub fn write(record: &Record, out: &Path) -> Result {
    fs::create_dir_all(out)?;
    fs::write(out.join("precomputed-results.md"), text(record)?)?;
    record.save(&out.join("precomputed-runs.json"))
}

fn text(record: &Record) -> Result<String> {
    let quick = record.scale == QUICK.name;
    let edge = if quick { QUICK.edge } else { FULL.edge };
    let Host { date, processor, cores, memory_gib, kernel, compiler } = &record.host;
    let mut versions: Vec<&str> =
        record.runs.iter().map(|run| run.measured.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    versions.retain(|version| *version != "floor");
    let levels: Vec<String> =
        record.levels.iter().map(|(case, level)| format!("{case} {level}")).collect();
    let mut text = String::new();
    writeln!(
        text,
        "# Results on precomputed volumes\n\n\
         Made by `cargo xtask bench --precomputed{}` on {date}: {processor}, {cores} cores, {memory_gib} GiB, {kernel}, {compiler}.\n\
         Rounds: {}. Volumes of {edge}^3, chunks of {CHUNK}^3, eight shards, files in the page cache. Compared: {}.\n\n\
         Everyone reads the volumes that TensorStore has written. Seconds are the middle of all rounds, ratios the middle of those within a \
         round: above 1, shardine is quicker. TensorStore and cloud-volume write with gzip 9, shardine and the floor with the \
         lowest level whose files are at most 3 % larger than TensorStore's, or 9 if none is ({}). The floor reads the same bytes, decompresses them with libdeflate on all \
         cores and copies them once, or compresses, writes and syncs them; it neither decodes nor encodes compressed_segmentation, so there \
         no program gets near it. All but cloud-volume read the whole into memory that was used before. What is read and written was compared with the source in each first round; the floor's copies of \
         compressed_segmentation cannot be.\n",
        if quick { " --quick" } else { "" },
        record.rounds,
        versions.join(", "),
        if levels.is_empty() { "none here".to_owned() } else { levels.join(", ") },
    )?;
    for work in Work::ALL {
        table(&mut text, record, work)?;
    }
    Ok(text)
}

fn table(text: &mut String, record: &Record, work: Work) -> Result {
    if !record.runs.iter().any(|run| run.work == work.name()) {
        return Ok(());
    }
    let size = if work == Work::Write { " stored MB |" } else { "" };
    let line = if work == Work::Write { "---|" } else { "" };
    writeln!(text, "## {}: {}\n", work.name(), work.title())?;
    writeln!(
        text,
        "| volume | who | seconds | least..most | / shardine | / floor | peak MiB |{size}\n|---|---|---|---|---|---|---|{line}"
    )?;
    for case in &CASES {
        for subject in Subject::ALL {
            row(text, record, work, case, subject)?;
        }
    }
    writeln!(text)?;
    Ok(())
}

fn row(text: &mut String, record: &Record, work: Work, case: &Case, subject: Subject) -> Result {
    let runs = record.of(case, work, subject);
    if runs.is_empty() {
        return Ok(());
    }
    let all = |of: &dyn Fn(&Run) -> f64| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
    let seconds = all(&Run::seconds);
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = seconds.iter().copied().fold(0.0, f64::max);
    let ratio = |other| match record.ratio(case, work, subject, other) {
        Some(ratio) if subject != other => format!("{ratio:.2}"),
        _ => String::new(),
    };
    write!(
        text,
        "| {} | {} | {:.2} | {least:.2}..{most:.2} | {} | {} | {:.0} |",
        case.title,
        subject.name(),
        middle(seconds),
        ratio(Subject::Shardine),
        ratio(Subject::Floor),
        middle(all(&|run| (run.measured.peak_growth >> 20) as f64)),
    )?;
    if let Some(stored) = runs.iter().find_map(|run| run.stored) {
        write!(text, " {:.1} |", stored as f64 / 1e6)?;
    }
    Ok(writeln!(text)?)
}
