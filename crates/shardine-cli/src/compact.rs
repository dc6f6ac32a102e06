//! `shardine compact`: squeezes gaps out of shards.

use std::io::{self, Write};

use clap::Args;
use serde_json::json;
use shardine::jobs::{CompactOptions, JobContext, compact as compact_all};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine compact image.zarr
  shardine compact images.zarr --dry-run
  shardine compact image.zarr --min-gap 10%
  shardine compact segmentation.precomputed

Gaps are bytes of a shard that no index entry refers to; in-place updates leave them behind. Chunks
are moved without decoding. Each shard is replaced in one step: an interrupted run leaves every
shard either old or new.";

/// Remove the gaps from the shards of an array, group or precomputed volume
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compact {
    /// Path or URL of the array, group or volume
    url: String,
    /// Report what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Skip shards with a smaller share of gaps: a percentage, or a number from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = units::parse_share)]
    min_gap: f64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Compact, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let location = machine.location(&args.url)?;
    let progress = Progress::things("compacting", 0);
    let bar = progress.clone();
    let options = CompactOptions::new().dry_run(args.dry_run).min_gap(args.min_gap);
    let context = JobContext::new(&engine).progress(move |now| bar.hear(&now));
    let mut shards = Vec::new();
    let mut failed = Vec::new();
    let mut written = Ok(());
    let summary = compact_all(&context, &location, &options, &mut |result| match result {
        Ok(done) if args.json => shards.push(done.to_json()),
        Ok(done) => {
            let line = || {
                writeln!(
                    said::words(),
                    "{} (shard {}): {} -> {}",
                    done.object,
                    units::shape_argument(&done.shard),
                    units::size(done.before),
                    units::size(done.after)
                )
            };
            if written.is_ok() {
                written = progress.suspend(line);
            }
        }
        Err(error) => failed.push(error),
    })?;
    progress.finish();
    written?;
    if args.json {
        let failures: Vec<String> = failed.iter().map(ToString::to_string).collect();
        let report = json!({
            "dry_run": args.dry_run,
            "compacted": shards,
            "failed": failures,
            "summary": summary.to_json(),
        });
        writeln!(io::stdout(), "{report}")?;
    } else {
        let verb = if args.dry_run { "would be compacted" } else { "compacted" };
        writeln!(
            said::words(),
            "{} of {} {verb}, {} freed",
            summary.compacted,
            units::count(summary.shards, "shard"),
            units::size(summary.before.saturating_sub(summary.after))
        )?;
    }
    match failed.into_iter().next() {
        None => Ok(()),
        Some(first) => {
            let count = units::count(summary.failed, "object");
            let message = format!("{count} could not be compacted; the first error: {first}");
            Err(Failure::new(message).hint("run `shardine verify` to see what is wrong with them"))
        }
    }
}
