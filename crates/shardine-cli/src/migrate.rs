//! `shardine migrate`: from Zarr version 2 to version 3, and between versions of OME-Zarr, metadata
//! only.

use std::io::{self, Write};

use clap::Args;
use serde_json::{Value, json};
use shardine::Error;
use shardine::jobs::{
    MigrateError, MigrateOptions, MigrateSummary, MigratedChange, migrate as migrate_all,
};
use shardine::ome::{OmeRelease, OmeVersion};

use crate::cli::Machine;
use crate::consolidate;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine migrate plate.zarr --dry-run
  shardine migrate plate.zarr
  shardine migrate image.zarr --ome-version 0.6
  shardine migrate image.zarr --keep-v2
  shardine migrate climate.zarr --remove-v2

Chunks are not touched: each array and group gets a zarr.json that describes the same chunks in Zarr
v3. With OME-Zarr metadata anywhere in it, the whole hierarchy (images, labels, plates, wells,
bioformats2raw) goes to one version of OME-Zarr, the arrays of images get dimension names, and the
metadata of Zarr v2 is removed at the end; --keep-v2 leaves both side by side. Without OME-Zarr
metadata, that of Zarr v2 stays unless --remove-v2 is given.

Nothing is written if any array or group cannot be migrated. The outermost document comes last, and
documents that have to be replaced change in one step, so a reader who opens the hierarchy finds the
old one or the new one. Run the same command again to resume an interrupted run.";

/// Give a hierarchy the metadata of Zarr v3, and of OME-Zarr 0.5 or 0.6
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Migrate {
    /// Path or URL of the array or group
    url: String,
    /// Report what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Version that OME-Zarr metadata gets: 0.5, 0.6 or a draft such as 0.6rc0; `none` leaves it as
    /// it is [default: 0.5, or a newer one that is there already]
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    ome_version: Option<WantedVersion>,
    /// Keep the version 2 metadata of an OME-Zarr hierarchy beside the new one
    #[arg(long, conflicts_with = "remove_v2")]
    keep_v2: bool,
    /// Remove the version 2 metadata of any hierarchy once equivalent version 3 metadata is there
    #[arg(long)]
    remove_v2: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// What becomes of OME-Zarr metadata.
#[derive(Debug, Clone)]
enum WantedVersion {
    Leave,
    Version(OmeVersion),
}

fn parse_version(text: &str) -> Result<WantedVersion, String> {
    if text == "none" {
        return Ok(WantedVersion::Leave);
    }
    let version: OmeVersion = text.parse().map_err(|error| format!("{error}"))?;
    if version.release() < OmeRelease::V0_5 {
        return Err("OME-Zarr before 0.5 is Zarr v2; `shardine convert` can write 0.4".to_owned());
    }
    Ok(WantedVersion::Version(version))
}

pub fn run(args: &Migrate, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let location = machine.location(&args.url)?;
    let mut options = MigrateOptions::new().dry_run(args.dry_run);
    if args.keep_v2 || args.remove_v2 {
        options = options.remove_v2(args.remove_v2);
    }
    options = match &args.ome_version {
        None => options,
        Some(WantedVersion::Leave) => options.leave_ome(true),
        Some(WantedVersion::Version(version)) => options.ome_version(version.clone()),
    };
    let progress = Progress::things("migrating", 0);
    let context = progress.context(&engine);
    let (mut written, mut replaced, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    let result = migrate_all(&context, &location, &options, &mut |done| {
        let list = match done.change {
            MigratedChange::Replaced => &mut replaced,
            MigratedChange::Removed => &mut removed,
            _ => &mut written,
        };
        list.push(done.object.clone());
    });
    progress.finish();
    let mut out = said::out(args.json);
    let refused = match &result {
        Err(Error::Migrate(MigrateError::Refused { nodes })) => nodes.as_slice(),
        _ => &[],
    };
    if args.json {
        let refused: Vec<Value> =
            refused.iter().map(|node| json!({ "node": node.at, "reason": node.reason })).collect();
        let report = json!({
            "dry_run": args.dry_run,
            "written": written,
            "replaced": replaced,
            "removed": removed,
            "refused": refused,
            "summary": result.as_ref().ok().map(MigrateSummary::to_json),
        });
        writeln!(out, "{report:#}")?;
    } else {
        for node in refused {
            writeln!(out, "refused {}: {}", node.at, node.reason)?;
        }
        if args.dry_run {
            let would = [("write", &written), ("replace", &replaced), ("remove", &removed)];
            for (what, objects) in would {
                for object in objects {
                    writeln!(out, "would {what} {object}")?;
                }
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
    let MigrateSummary { written, replaced, removed, ome, converted, named, .. } = *summary;
    let version = summary.ome_version.as_ref();
    if written + replaced + removed == 0 {
        let of_version = version.map(|version| format!(", OME-Zarr {version}"));
        let of_version = of_version.unwrap_or_default();
        return match summary.resumed {
            true => writeln!(out, "{nodes}: finished a migration that was interrupted"),
            false => writeln!(
                out,
                "{nodes}: all have version 3 metadata already{of_version}, nothing to do"
            ),
        };
    }
    let would = if dry_run { " would be" } else { "" };
    let mut parts = vec![format!("{}{would} written", units::count(written, "document"))];
    if replaced > 0 {
        parts.push(format!("{replaced}{would} replaced"));
    }
    parts.push(format!("{} of version 2{would} removed", units::count(removed, "document")));
    writeln!(out, "{nodes}: {}", parts.join(", "))?;
    if let Some(version) = version.filter(|_| converted > 0) {
        let groups = units::count(ome, "group");
        let becomes = if dry_run { "would be" } else { "is" };
        writeln!(out, "the OME-Zarr metadata of {groups} {becomes} version {version}")?;
    }
    if named > 0 {
        let arrays = units::count(named, "array");
        let get = if dry_run { "would get" } else { "got" };
        writeln!(out, "{arrays} {get} the names of the axes")?;
    }
    if summary.resumed {
        writeln!(out, "resumed a migration that was interrupted")?;
    }
    Ok(())
}
