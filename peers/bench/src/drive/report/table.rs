//! The tables.

use std::fmt::Write;

use super::{Cell, ratio};
use crate::drive::SUBJECTS;
use crate::drive::machine::REFERENCE;
use crate::drive::plan::{FULL, QUICK, VARIANTS, WORKLOADS, Workload};
use crate::drive::record::Record;

/// The three codecs of the summary.
const SUMMARY: [&str; 3] = ["zstd", "lz4", "none"];

pub fn markdown(record: &Record) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = introduction(&mut text, record);
    let _ = summary(&mut text, record);
    let _ = efficiency(&mut text, record);
    for workload in &WORKLOADS {
        let _ = details(&mut text, record, workload);
    }
    text
}

fn introduction(text: &mut String, record: &Record) -> std::fmt::Result {
    let scale = if record.scale == QUICK.name { QUICK } else { FULL };
    let [a, b, c] = scale.image;
    let [d, e, g] = scale.segmentation;
    let mut versions: Vec<&str> = Vec::new();
    for subject in SUBJECTS {
        let of = record.runs.iter().find(|run| run.subject == subject);
        versions.extend(of.map(|run| run.measured.version.as_str()));
    }
    versions.dedup();
    writeln!(
        text,
        "# Benchmark

Made by `cargo xtask bench{quick}` on {date}: {processor}, {cores} cores, {memory} GiB, {kernel}, {compiler}.
{repeats}.

{figures}. {REFERENCE}.

Compared: {versions}. Each may use two threads.

**Data.** An image of {a} x {b} x {c} uint16 (smooth structure with four bits of noise, made from a fixed seed) in shards
of 256^3 and inner chunks of 32^3, and a segmentation of {d} x {e} x {g} uint64 in shards of 128^3. Shardine wrote the arrays, with the chunks
of a shard in Morton order; every implementation read all of every array right before it was timed.

**Floor.** A minimal program: `pread`, the C codec with contexts and buffers that are used again, descriptors and indexes kept, rows copied to
the output. It is a reference, not a proven bound. All ratios are to its run in the same repeat.

**Runs.** One process per implementation, workload and codec, which warms up, compares a sample of its results with the source, and only
then starts its clock. In each repeat all run one after the other, another one first each time; zarr-python runs in every third repeat. Files are
in the page cache. A ratio is the median over the repeats, the range behind it the quartiles. Memory is the growth of the
resident set at its peak, results included.

**Durability.** Every shard that is written is synced before the next one. Shardine, zarrs and tensorstore sync by themselves (shardine
and tensorstore sync folders too); for zarr-python the worker calls `fsync`, inside the timed part.
",
        quick = if record.scale == QUICK.name { " --quick" } else { "" },
        date = record.date,
        processor = record.processor,
        cores = record.cores,
        memory = record.memory_gib,
        kernel = record.kernel,
        compiler = record.compiler,
        repeats = if record.repeats == 1 { "1 repeat".to_owned() } else { format!("{} repeats", record.repeats) },
        figures = record.figures,
        versions = versions.join(", "),
    )
}

fn summary(text: &mut String, record: &Record) -> std::fmt::Result {
    writeln!(text, "## CPU time / floor: zstd 3 / blosc-lz4 5 / uncompressed\n")?;
    writeln!(text, "W4b: median latency / floor. *Goal*: what shardine is to reach.\n")?;
    let subjects = &SUBJECTS[1..];
    let present = |subject: &&&str| record.runs.iter().any(|run| run.subject == **subject);
    let subjects: Vec<&str> = subjects.iter().filter(present).copied().collect();
    writeln!(text, "| | {} | *goal* |", subjects.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(subjects.len() + 1))?;
    for workload in &WORKLOADS {
        let variants: Vec<&str> = if workload.variants.contains(&SUMMARY[1]) {
            SUMMARY.to_vec()
        } else {
            workload.variants.to_vec()
        };
        let cells = |subject: &str| -> Option<String> {
            let of = |variant: &&str| Cell::of(record, workload.name, variant, subject);
            let cells: Vec<_> = variants.iter().map(of).collect();
            cells.iter().any(Option::is_some).then(|| {
                let show = |cell: &Option<Cell>| {
                    cell.as_ref().map_or("-".to_owned(), |cell| ratio(cell.ratio().middle))
                };
                cells.iter().map(show).collect::<Vec<_>>().join(" / ")
            })
        };
        if cells("floor").is_none() {
            continue;
        }
        let of = |variant: &&str| workload.goal(variant).map_or("-".to_owned(), ratio);
        let goals: Vec<String> = variants.iter().map(of).collect();
        let note = match variants.as_slice() {
            [one] if *one != "zstdF" => format!(" ({one})"),
            [_, _] => format!(" ({})", variants.join(" / ")),
            _ => String::new(),
        };
        write!(text, "| **{}** {}{note} |", workload.name, workload.title)?;
        for subject in &subjects {
            let mark = if *subject == "shardine" { "**" } else { "" };
            match cells(subject) {
                Some(cells) => write!(text, " {mark}{cells}{mark} |")?,
                None => write!(text, " |")?,
            }
        }
        writeln!(text, " {} |", goals.join(" / "))?;
    }
    writeln!(text)
}

/// How much of two threads is used: the time of one over twice the time of two.
fn efficiency(text: &mut String, record: &Record) -> std::fmt::Result {
    let pairs = [("W1", "W1t1"), ("W2", "W2t1")];
    if !record.runs.iter().any(|run| run.workload == pairs[0].1 || run.workload == pairs[1].1) {
        return Ok(());
    }
    writeln!(
        text,
        "## Parallel efficiency\n\nWall time with one thread / (2 x wall time with two).\n"
    )?;
    writeln!(text, "| | write zstd | write uncompressed | read zstd | read uncompressed |")?;
    writeln!(text, "|---|---|---|---|---|")?;
    for subject in SUBJECTS {
        let mut cells = Vec::new();
        for (two, one) in pairs {
            for variant in ["zstd", "none"] {
                let wall = |workload| Cell::of(record, workload, variant, subject).map(|c| c.wall);
                let share = wall(one).zip(wall(two)).map(|(one, two)| one / (2.0 * two));
                cells.push(share.map_or("-".to_owned(), |share| format!("{share:.2}")));
            }
        }
        if cells.iter().any(|cell| cell != "-") {
            writeln!(text, "| {subject} | {} |", cells.join(" | "))?;
        }
    }
    writeln!(text)
}

fn details(text: &mut String, record: &Record, workload: &Workload) -> std::fmt::Result {
    if !record.runs.iter().any(|run| run.workload == workload.name) {
        return Ok(());
    }
    writeln!(text, "## {}: {}\n", workload.name, workload.title)?;
    let write = record.runs.iter().any(|run| run.workload == workload.name && run.stored.is_some());
    let mut heads = vec![
        "",
        "CPU s",
        "CPU / floor",
        "quartiles",
        "shardine's CPU / this",
        "wall s",
        "wall / floor",
        "peak MiB",
    ];
    if workload.latency {
        heads.extend(["p50 us", "p99 us", "p50 / floor"]);
    }
    if write {
        heads.push("stored MiB");
    }
    for variant in &VARIANTS {
        if Cell::of(record, workload.name, variant.name, "floor").is_none() {
            continue;
        }
        let goal = workload.goal(variant.name).map(|goal| format!("; goal {}", ratio(goal)));
        writeln!(text, "**{}**{}\n", variant.title, goal.unwrap_or_default())?;
        writeln!(text, "| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()))?;
        for subject in SUBJECTS {
            let Some(cell) = Cell::of(record, workload.name, variant.name, subject) else {
                continue;
            };
            let mib = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
            let spread = cell.cpu_ratio;
            let mut words = vec![
                subject.to_owned(),
                format!("{:.4}", cell.cpu),
                ratio(spread.middle),
                format!("{}..{}", ratio(spread.low), ratio(spread.high)),
                cell.shardine.map_or(String::new(), ratio),
                format!("{:.4}", cell.wall),
                ratio(cell.wall_ratio.middle),
                mib(cell.peak),
            ];
            if workload.latency {
                let show =
                    |number: Option<f64>| number.map_or(String::new(), |n| format!("{n:.1}"));
                words.extend([show(cell.p50), show(cell.p99), ratio(cell.ratio().middle)]);
            }
            if write {
                words.push(cell.stored.map_or(String::new(), mib));
            }
            writeln!(text, "| {} |", words.join(" | "))?;
        }
        writeln!(text)?;
    }
    Ok(())
}
