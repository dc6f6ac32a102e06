//! `shardine migrate`: from Zarr version 2 to version 3, metadata only.

use std::io::{self, Write};

use clap::Args;
use serde_json::{Value, json};
use shardine::Error;
use shardine::jobs::{MigrateError, MigrateOptions, MigrateSummary, migrate as migrate_all};

use crate::cli::Machine;
use crate::consolidate;
use crate::failure::Failure;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine migrate image.zarr --dry-run
  shardine migrate image.zarr
  shardine migrate image.zarr --remove-v2

Chunks are not touched: each array and group gets a zarr.json beside its .zarray or .zgroup that
describes the same chunks in version 3. Nothing is written if any array has no equivalent in version
3. Run the same command again to resume an interrupted run. OME-Zarr metadata stays in its 0.4 form.";

/// Write Zarr v3 metadata for a Zarr v2 array or hierarchy
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Migrate {
    /// Path or URL of the array or group
    url: String,
    /// Report what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove the version 2 metadata once equivalent version 3 metadata is there
    #[arg(long)]
    remove_v2: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Migrate, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let location = machine.location(&args.url)?;
    let options = MigrateOptions::new().dry_run(args.dry_run).remove_v2(args.remove_v2);
    let (mut written, mut removed) = (Vec::new(), Vec::new());
    let result = migrate_all(&engine, &location, &options, &mut |done| {
        let list = if done.removed { &mut removed } else { &mut written };
        list.push(done.object.clone());
    });
    let mut out = said::out(args.json);
    let refused = match &result {
        Err(Error::Migrate(MigrateError::Refused { nodes })) => nodes.as_slice(),
        _ => &[],
    };
    if args.json {
        let refused: Vec<Value> =
            refused.iter().map(|node| json!({ "node": node.at, "reason": node.reason })).collect();
        let summary = result.as_ref().ok().map(|summary| {
            json!({
                "arrays": summary.arrays,
                "groups": summary.groups,
                "ome": summary.ome,
            })
        });
        let report = json!({
            "dry_run": args.dry_run,
            "written": written,
            "removed": removed,
            "refused": refused,
            "summary": summary,
        });
        writeln!(out, "{report:#}")?;
    } else {
        for node in refused {
            writeln!(out, "refused {}: {}", node.at, node.reason)?;
        }
        if args.dry_run {
            for object in &written {
                writeln!(out, "would write {object}")?;
            }
            for object in &removed {
                writeln!(out, "would remove {object}")?;
            }
        }
        if let Ok(summary) = &result {
            tell(&mut out, summary, args.dry_run)?;
        }
    }
    result?;
    if !args.dry_run {
        consolidate::renew_above(&location);
    }
    Ok(())
}

fn tell(out: &mut dyn Write, summary: &MigrateSummary, dry_run: bool) -> io::Result<()> {
    let nodes = format!(
        "{} and {}",
        units::count(summary.arrays, "array"),
        units::count(summary.groups, "group")
    );
    if summary.written == 0 && summary.removed == 0 {
        writeln!(out, "{nodes}: all have version 3 metadata already, nothing to do")?;
    } else {
        let would = if dry_run { " would be" } else { "" };
        writeln!(
            out,
            "{nodes}: {}{would} written, {} of version 2{would} removed",
            units::count(summary.written, "document"),
            units::count(summary.removed, "document")
        )?;
    }
    if summary.ome > 0 {
        let nodes = units::count(summary.ome, "node");
        writeln!(out, "the OME-Zarr metadata of {nodes} stays in its 0.4 form")?;
    }
    Ok(())
}
