//! `shardine consolidate`: a group's copy of the metadata below it, and what other verbs say about
//! such copies.

use std::io::Write as _;

use clap::Args;
use serde_json::json;
use shardine::Location;
use shardine::zarr::{StaleCopy, consolidate, remove_consolidated, renew_consolidated_above};

use crate::cli::Machine;
use crate::failure::{Failure, quoted};
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine consolidate image.zarr
  shardine consolidate image.zarr --remove

Consolidated metadata is a copy of the metadata of every array and group below a group, so that a
reader finds them all with one request. It is stored in the group's zarr.json, as zarr-python does,
or for Zarr v2 in .zmetadata. Readers such as xarray trust the copy. Shardine keeps the copies above
up to date whenever it changes something; changes by other programs make them stale, which `shardine
verify` reports. This verb creates or updates the copy.";

/// Consolidate the metadata below a group, so that readers find it with one request
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Consolidate {
    /// Path or URL of the group
    url: String,
    /// Remove the consolidated metadata instead
    #[arg(long)]
    remove: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Consolidate, machine: &Machine) -> Result<(), Failure> {
    let location = machine.location(&args.url)?;
    let mut out = said::out(args.json);
    if args.remove {
        let removed = remove_consolidated(&location)?;
        match (args.json, removed) {
            (true, _) => writeln!(out, "{}", json!({ "removed": removed }))?,
            (false, true) => writeln!(out, "removed the consolidated metadata of {}", args.url)?,
            (false, false) => writeln!(out, "{} has no consolidated metadata", args.url)?,
        }
        return Ok(());
    }
    let nodes = consolidate(&location)?;
    match args.json {
        true => writeln!(out, "{}", json!({ "nodes": nodes }))?,
        false => {
            let nodes = units::count(nodes as u64, "node");
            writeln!(out, "consolidated the metadata of {nodes} below {}", args.url)?;
        }
    }
    Ok(())
}

/// Updates the copies above what a job has made, and warns about those that are out of date.
pub fn renew_above(location: &Location) {
    warn(&renew_consolidated_above(location));
}

/// Warns about copies that are out of date. The verb itself has succeeded.
pub fn warn(copies: &[StaleCopy]) {
    for copy in copies {
        eprintln!(
            "warning: the consolidated metadata of {} could not be updated: {}; when that is fixed, run `shardine \
             consolidate {}`",
            copy.at,
            copy.reason,
            quoted(&copy.at)
        );
    }
}
