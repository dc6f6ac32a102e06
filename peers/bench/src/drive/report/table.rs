//! The tables.

use std::fmt::Write;

use super::{Cell, ratio, reached, standing, support};
use crate::drive::SUBJECTS;
use crate::drive::calls::Counts;
use crate::drive::machine::REFERENCE;
use crate::drive::plan::{FULL, QUICK, VARIANTS, WORKLOADS, Workload};
use crate::drive::record::Record;

/// The three codecs of the summary.
const SUMMARY: [&str; 3] = ["zstd", "lz4", "none"];

pub fn markdown(record: &Record, counts: Option<&Counts>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = introduction(&mut text, record);
    let _ = summary(&mut text, record);
    let _ = standing::best(&mut text, record);
    let _ = standing::fortran(&mut text, record);
    let _ = standing::threads(&mut text, record);
    let _ = support::floor(&mut text, record);
    if let Some(counts) = counts {
        let _ = support::calls(&mut text, counts);
    }
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
    let stored = &record.figures.stored;
    let compressed = stored.iter().find(|(name, _)| name == "zstd").map(|&(_, ratio)| ratio);
    writeln!(
        text,
        "# Benchmark

Made by `cargo xtask bench{quick}` on {date}: {processor}, {cores} cores, {memory} GiB, {kernel}, {compiler}.
{repeats}.

{figures}. {REFERENCE}.

Compared: {versions}. Each may use two threads, and is told so in every way it knows; it also has no more cores than threads.

**Data.** An image of {a} x {b} x {c} uint16 (smooth structure with four bits of noise, made from a fixed seed{compressed}) in shards
of 256^3 and inner chunks of 32^3, and a segmentation of {d} x {e} x {g} uint64 in shards of 128^3. Shardine wrote the arrays, with the chunks
of a shard in Morton order; every implementation read all of every array right before it was timed.

**Floor.** A minimal program: `pread`, the C codec with contexts and buffers that are used again, descriptors and indexes kept, rows copied to
the output. It is a reference, not a proven bound. All ratios are to its run in the same repeat.

**Runs.** One process per implementation, workload and codec, which warms up, compares a sample of its results with the source, and only
then starts its clock. In each repeat all run one after the other, another one first each time. The floor and shardine run in
every repeat of every row. zarrs and tensorstore run in every repeat of W1 to W7 on zstd, lz4 and none; in the other rows, which tell
about shardine first of all, in three repeats of ten. zarr-python with the zarrs pipeline runs in six and three; zarr-python alone in three, and not with one thread nor on
chunks of 64^3: it would take hours. The tables tell how many runs are behind each line. Files are
in the page cache. A ratio is the median over the repeats, the range behind it the quartiles. Memory is the growth of the
resident set at its peak, results included.

**Durability.** The same for all: the file of every shard that is written has been through `fsync` before the next shard is begun, inside the timed part. The
floor, shardine, zarrs and tensorstore sync by themselves; for zarr-python, with either pipeline, the worker does. Shardine, tensorstore and zarr-python's
own pipeline write under another name and rename; shardine and tensorstore also sync the folder, and shardine every new folder above it.
",
        quick = if record.scale == QUICK.name { " --quick" } else { "" },
        date = record.host.date,
        processor = record.host.processor,
        cores = record.host.cores,
        memory = record.host.memory_gib,
        kernel = record.host.kernel,
        compiler = record.host.compiler,
        repeats = if record.repeats == 1 { "1 repeat".to_owned() } else { format!("{} repeats", record.repeats) },
        figures = record.figures,
        versions = versions.join(", "),
        compressed = compressed.map_or(String::new(), |ratio| format!("; zstd makes it {ratio:.2} times smaller")),
    )
}

fn summary(text: &mut String, record: &Record) -> std::fmt::Result {
    writeln!(text, "## CPU time / floor: zstd 3 / blosc-lz4 5 / uncompressed\n")?;
    writeln!(text, "W4b: median latency / floor. *Goal*: what shardine is to reach.\n")?;
    let subjects = &SUBJECTS[1..];
    let present = |subject: &&&str| record.runs.iter().any(|run| run.subject == **subject);
    let subjects: Vec<&str> = subjects.iter().filter(present).copied().collect();
    writeln!(text, "| | {} | *goal* | reached |", subjects.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(subjects.len() + 2))?;
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
        let judge = |variant: &&str| {
            let own = Cell::of(record, workload.name, variant, "shardine");
            match own.zip(workload.goal(variant)) {
                Some((own, goal)) if reached(own.ratio().middle, goal) => "yes",
                Some(_) => "**no**",
                None => "-",
            }
        };
        let judged: Vec<&str> = variants.iter().map(judge).collect();
        let note = match variants.as_slice() {
            [one] => format!(" ({one})"),
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
        writeln!(text, " {} | {} |", goals.join(" / "), judged.join(" / "))?;
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
        "runs",
        "CPU s",
        "CPU / floor",
        "quartiles",
        "shardine's CPU / this",
        "wall s",
        "wall / floor",
        "shardine's wall / this",
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
        let goal = workload.goal(variant.name).map(|goal| {
            let own = Cell::of(record, workload.name, variant.name, "shardine");
            let judged = own.map_or(String::new(), |own| {
                let middle = own.ratio().middle;
                let word = if reached(middle, goal) { "reached" } else { "**missed**" };
                format!(", {word} with {}", ratio(middle))
            });
            format!("; shardine's goal {}{judged}", ratio(goal))
        });
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
                cell.runs.to_string(),
                format!("{:.4}", cell.cpu),
                ratio(spread.middle),
                format!("{}..{}", ratio(spread.low), ratio(spread.high)),
                cell.shardine.map_or(String::new(), ratio),
                format!("{:.4}", cell.wall),
                ratio(cell.wall_ratio.middle),
                cell.shardine_wall.map_or(String::new(), ratio),
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
