//! `shardine copy`: a whole data set to another location, byte for byte.

use std::io::{self, Write};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use shardine::jobs::{CopyCheck, CopyOptions, Part, copy as copy_all};

use crate::cli::{Machine, Places};
use crate::failure::Failure;
use crate::interrupt;
use crate::packing::waiting;
use crate::progress::Progress;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine copy image.zarr backup.zarr
  shardine copy image.zarr backup.zarr --verify content
  shardine copy image.zarr backup.zarr --overwrite
  shardine copy image.zarr s3://bucket/image.zarr
  shardine copy s3://bucket/image.zarr az://container/image.zarr --source-option aws_region=eu-west-1
  shardine copy https://example.org/volume volume

Everything below SRC is copied unchanged: metadata, shards and any other objects. Objects appear
complete or not at all, and metadata appears after the data it describes. Run the same command again
to resume an interrupted copy: objects that already have the right length are kept. Until it is
finished, .shardine-copy.json in DST records it.

See docs/copy.md for details.";

/// Copy a data set byte for byte
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Copy {
    /// Zarr array or group, precomputed volume, or other data set with metadata at its root
    #[arg(value_name = "SRC")]
    source: String,
    /// Where to write the copy; must be empty, or hold an unfinished copy of SRC
    #[arg(value_name = "DST")]
    target: String,
    #[command(flatten)]
    places: Places,
    /// Replace an existing data set at DST
    #[arg(long)]
    overwrite: bool,
    /// Transfer up to N objects, or pieces of large ones, in parallel; between local files no more
    /// than --threads
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_requests, help_heading = "Job")]
    requests: usize,
    /// Choose how to check the copy
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Check::Size, help_heading = "Job")]
    verify: Check,
    /// Copy only part I of N of the objects, so that N processes can share the work, in any order
    /// and on any machines that see the storage. The last one finishes the copy; `finish` only
    /// finishes it
    #[arg(long, value_name = "I/N|finish", help_heading = "Job")]
    part: Option<Part>,
    /// Take over a job from another process, if it cannot be determined here whether that process
    /// is still running
    #[arg(long, help_heading = "Job")]
    take_over: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// How a copy is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// Do not check
    None,
    /// Compare the length of every object
    Size,
    /// Read every byte back and compare it, so elements are equal too
    #[value(aliases = ["bytes", "elements"])]
    Content,
}

fn parse_requests(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(requests @ 1..=1024) => Ok(requests),
        _ => Err(format!("\"{text}\" is not a number from 1 to 1024")),
    }
}

pub fn run(args: &Copy, machine: &Machine) -> Result<(), Failure> {
    machine.check_memory()?;
    let start = Instant::now();
    let source = args.places.source(machine, &args.source)?;
    let target = args.places.target(machine, &args.target)?;
    let progress = Progress::bytes("copying", 0);
    let bar = progress.clone();
    let mut options = CopyOptions::new()
        .requests(args.requests)
        .threads(machine.threads)
        .memory(machine.memory - machine.memory / 8)
        .overwrite(args.overwrite)
        .cancel(&interrupt::token())
        .check(match args.verify {
            Check::None => CopyCheck::None,
            Check::Size => CopyCheck::Size,
            Check::Content => CopyCheck::Content,
        });
    options.part = args.part;
    options.take_over = args.take_over;
    if !progress.is_hidden() {
        options = options.progress(move |now| {
            let objects = format!("{} of {} objects", now.objects, now.objects_found);
            bar.set(now.bytes, now.bytes_found.max(now.bytes), &objects);
        });
    }
    let result = copy_all(&source, &target, &options);
    progress.finish();
    let report = result?;
    let waits = waiting(args.part, &report.outcome);
    if waits.is_none() {
        crate::consolidate::renew_above(&target);
    }
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        let mut members = report.to_json();
        members.insert("part".to_owned(), json!(args.part.map(|part| part.to_string())));
        members.insert("parts_missing".to_owned(), json!(report.outcome.missing()));
        members.insert("seconds".to_owned(), json!(seconds));
        writeln!(io::stdout(), "{}", Value::Object(members))?;
        return Ok(());
    }
    let mut line = format!(
        "copied {}, {} in {} ({}/s)",
        units::count(report.objects_copied, "object"),
        units::size(report.bytes_copied),
        units::duration(seconds),
        units::size((report.bytes_copied as f64 / seconds.max(1e-9)) as u64)
    );
    if report.resumed {
        line += &format!(
            "; {}, {} already there",
            units::count(report.objects_skipped, "object"),
            units::size(report.bytes_skipped)
        );
    }
    line += match report.check {
        CopyCheck::Size => "; all lengths checked",
        CopyCheck::Content => "; all bytes read back and compared",
        _ => "; not checked",
    };
    writeln!(said::words(), "{line}")?;
    if let Some(waits) = waits {
        writeln!(said::words(), "{waits}")?;
    }
    Ok(())
}
