//! What the figures rest on: the floor beside the machine, and the system calls of all.

use std::fmt::{Result, Write};

use super::{Cell, ratio};
use crate::block::product;
use crate::drive::SUBJECTS;
use crate::drive::calls::{Count, Counts};
use crate::drive::plan::{FULL, QUICK, Variant, WORKLOADS};
use crate::drive::record::Record;
use crate::job::Compressor;

/// The floor beside what its parts take by themselves: if it were far from that, ratios to it would
/// mean nothing.
pub fn floor(text: &mut String, record: &Record) -> Result {
    let figures = &record.figures;
    let scale = if record.scale == QUICK.name { QUICK } else { FULL };
    let expected = |workload: &str, variant: &Variant| -> Option<f64> {
        let find = |list: &[(String, f64)], name: &str| {
            list.iter().find(|(other, _)| other == name).map(|&(_, figure)| figure)
        };
        let raw = (product(scale.shape(variant.content)) * variant.element()) as f64 / 1e9;
        let decode = match variant.compressor {
            Compressor::None => 0.0,
            _ => raw / find(&figures.decode, variant.title)?,
        };
        let copy = if workload == "W2F" { figures.turn } else { figures.scatter };
        let read = raw / find(&figures.stored, variant.name)? / figures.pread;
        Some(read + decode + raw / copy)
    };
    let mut lines = String::new();
    for workload in ["W2b", "W2F"] {
        for name in ["zstd", "lz4", "none"] {
            let cell = Cell::of(record, workload, name, "floor");
            let expected = Variant::named(name).and_then(|variant| expected(workload, variant));
            if let Some((cell, expected)) = cell.zip(expected) {
                let share = ratio(cell.cpu / expected);
                writeln!(
                    lines,
                    "| {workload} {name} | {expected:.4} | {:.4} | {share} |",
                    cell.cpu
                )?;
            }
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "## The floor beside the machine

CPU seconds that reading, decoding and copying take by the figures above, each measured by itself on one core, beside what the floor takes with
two threads.

| | by the figures | the floor | ratio |
|---|---|---|---|
{lines}"
    )
}

/// The system calls of one iteration.
pub fn calls(text: &mut String, counts: &Counts) -> Result {
    let present = |subject: &&&str| counts.counts.iter().any(|count| count.subject == **subject);
    let subjects: Vec<&str> = SUBJECTS.iter().filter(present).copied().collect();
    let scale = if counts.scale == QUICK.name { QUICK } else { FULL };
    let [a, b, c] = scale.image;
    writeln!(
        text,
        "## System calls

Of one pass over the blocks of a workload, on the image of {a} x {b} x {c}; counted on {} by `strace` in runs of their own, with
the most frequent ones. `cargo xtask bench --syscalls` counts them again.

| | {} |
|---|{}",
        counts.date,
        subjects.join(" | "),
        "---|".repeat(subjects.len())
    )?;
    let show = |count: &Count| {
        let most: Vec<String> =
            count.calls.iter().take(3).map(|(name, calls)| format!("{name} {calls}")).collect();
        if most.is_empty() {
            count.total.to_string()
        } else {
            format!("{}: {}", count.total, most.join(", "))
        }
    };
    for workload in &WORKLOADS {
        for variant in workload.variants {
            let of = |subject: &&str| counts.of(workload.name, variant, subject);
            let cells: Vec<Option<&Count>> = subjects.iter().map(of).collect();
            if cells.iter().any(Option::is_some) {
                let words: Vec<String> =
                    cells.iter().map(|cell| cell.map_or(String::new(), show)).collect();
                writeln!(text, "| **{}** {variant} | {} |", workload.name, words.join(" | "))?;
            }
        }
    }
    writeln!(text)
}
