//! `shardine repair`: repairs what can be repaired.

use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use serde_json::json;
use shardine::Location;
use shardine::jobs::{JobContext, Repair as Done, RepairKind, RepairOptions, repair as repair_all};
use shardine::store::StoreExt;

use crate::cli::{Machine, Places};
use crate::failure::{Failure, quoted};
use crate::progress::Progress;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine repair image.zarr --dry-run
  shardine repair image.zarr
  shardine repair image.zarr --decode
  shardine repair em/precomputed --dry-run

Interrupted updates are finished or undone, and leftovers of killed runs are removed. A shard
without its index gets back the last valid index found in it; its chunks may then be old, which is
reported.

A damaged chunk is moved to a folder (image.zarr.set-aside, with a .json beside each piece that
describes it) and reads as the fill value from then on, so that the rest of its shard can be read
and written again. What is lost is counted and recorded beside the data (.shardine-lost.json):
verify reports it as damage until it is written again, or accepted with --accept-loss. Damaged bytes
are never deleted.

OME-Zarr metadata is corrected where the rest of the hierarchy leaves no doubt: dimension_names that
are not the axes, a version that all other documents state, the order of levels, the list of label
images, the rows and columns of wells. Consolidated metadata that does not match is renewed. What
may be meant otherwise is left.

In a precomputed volume, or a folder of sharded meshes or skeletons, keys are moved to where readers
look for them, values are stored as `info` specifies, and `info` is corrected where all values
disagree with it.

Without --decode, only damage visible in metadata and indexes is found. webknossos-wrap data sets
are read-only here: their damage is reported but not repaired.

Exit status: 0 everything is repaired, or its loss accepted; 2 something is lost, may be old or
could not be repaired, or any other error, with one line on standard error.";

/// Repair an array, group or volume as far as possible
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Repair {
    /// Path or URL of the array, group or volume
    url: String,
    /// Report what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Also read and decode every chunk to find damage
    #[arg(long)]
    decode: bool,
    /// Move damaged bytes to this path or URL [default: the name of the array with .set-aside,
    /// beside it]
    #[arg(long, value_name = "DIR")]
    set_aside: Option<String>,
    #[command(flatten)]
    places: Places,
    /// Accept what is lost or may be old, now or since an earlier repair: verify no longer reports
    /// it
    #[arg(long)]
    accept_loss: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Repair, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let location = args.places.source(machine, &args.url)?;
    let aside = set_aside(args, machine, &location)?;
    let folder = aside.to_string();
    let progress = Progress::things("checking", 0);
    let bar = progress.clone();
    let options = RepairOptions::new(aside)
        .dry_run(args.dry_run)
        .decode(args.decode)
        .accept_loss(args.accept_loss);
    let context = JobContext::new(&engine).progress(move |now| bar.hear(&now));
    let mut repairs = Vec::new();
    let mut written = Ok(());
    let summary = repair_all(&context, &location, &options, &mut |done| {
        if args.json {
            repairs.push(done.to_json());
        } else if written.is_ok() {
            written = progress.suspend(|| line(&done));
        }
    })?;
    progress.finish();
    written?;
    if args.json {
        let report = json!({
            "ok": summary.is_ok(),
            "dry_run": args.dry_run,
            "repairs": repairs,
            "set_aside": folder,
            "only_read": summary.only_read,
            "summary": summary.to_json(),
        });
        writeln!(io::stdout(), "{report}")?;
    } else {
        if summary.untold > 0 {
            writeln!(said::words(), "and {} more, not listed individually", summary.untold)?;
        }
        let verb = if args.dry_run { "would be repaired" } else { "repaired" };
        writeln!(said::words(), "{} {verb}", units::count(summary.mended, "thing"))?;
        if summary.bytes_set_aside > 0 {
            let size = units::size(summary.bytes_set_aside);
            let folder = from_here(&folder, &args.url);
            writeln!(said::words(), "moved {size} of damaged bytes to {folder}")?;
        }
        if summary.accepted > 0 {
            let accepted = units::count(summary.accepted, "chunk");
            writeln!(said::words(), "accepted {accepted} that are lost or may be old")?;
        }
    }
    if summary.is_ok() {
        return Ok(());
    }
    let mut reasons = Vec::new();
    if summary.lost > 0 {
        let (lost, verb) = (units::count(summary.lost, "chunk"), plural(summary.lost));
        reasons.push(format!("{lost} {verb} lost"));
    }
    if summary.unproved > 0 {
        reasons.push(format!("{} may be old", units::count(summary.unproved, "chunk")));
    }
    if summary.left > 0 {
        let (left, verb) = (units::count(summary.left, "finding"), plural(summary.left));
        reasons.push(match summary.only_read {
            Some(format) => {
                format!("{left} of damage {verb} not repaired: {format} is read-only here")
            }
            None => format!("{left} of damage cannot be repaired here, and {verb} unchanged"),
        });
    }
    let url = quoted(&args.url);
    let hint = match summary.lost + summary.unproved {
        0 if summary.only_read.is_some() => {
            "restore the damaged files from a copy, or copy them again from their source".to_owned()
        }
        0 => format!("run `shardine verify {url}` to see what to do about each"),
        _ => format!(
            "run `shardine verify {url}` to list them; write them again, or accept the loss with \
             `shardine repair {url} --accept-loss`"
        ),
    };
    Err(Failure::new(reasons.join("; ")).hint(hint))
}

/// A path as people write it who have named what is repaired from the current folder.
fn from_here<'a>(path: &'a str, url: &str) -> &'a str {
    if Path::new(url).is_absolute() {
        return path;
    }
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| Path::new(path).strip_prefix(here).ok());
    below.and_then(Path::to_str).unwrap_or(path)
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Where damaged bytes are kept: where the command says, or beside what is repaired, in the same
/// store.
fn set_aside(args: &Repair, machine: &Machine, location: &Location) -> Result<Location, Failure> {
    let of = location.store.name();
    let is_file = location.store.has_folders();
    let Some(place) = &args.set_aside else {
        args.places.no_target("--set-aside")?;
        // What is in the same store is reached in the same way.
        return location.sibling(".set-aside")?.ok_or_else(|| {
            Failure::new(format!("{of} is the root of its store, so there is no place beside it"))
                .hint("use --set-aside to set where damaged bytes go")
        });
    };
    let aside = match place.contains("://") {
        true => args.places.target(machine, place)?,
        false => {
            let path =
                std::path::absolute(place).map_err(|e| Failure::file(Path::new(place), &e))?;
            args.places.target(machine, &path.to_string_lossy())?
        }
    };
    let inside = match (is_file, aside.store.has_folders()) {
        (true, true) => {
            let of = std::path::absolute(&of).map_err(|e| Failure::file(Path::new(&of), &e))?;
            Path::new(&aside.store.name()).starts_with(of)
        }
        (false, false) => {
            let (of, at) = (location.store.identity(), aside.store.identity());
            let of = of.trim_end_matches('/');
            at.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        _ => false,
    };
    if inside {
        return Err(Failure::new(format!(
            "--set-aside {place}: lies inside the data set that is repaired"
        )));
    }
    Ok(aside)
}

fn line(done: &Done) -> io::Result<()> {
    let object = match &done.object {
        Some(key) => key.as_str().escape_debug().to_string(),
        None => ".".to_owned(),
    };
    let chunk = match &done.chunk {
        Some(chunk) => format!(" chunk {}", units::shape_argument(chunk)),
        None => String::new(),
    };
    let what = match done.kind {
        RepairKind::Recovered => "recovered",
        RepairKind::LeftoverRemoved => "leftover removed",
        RepairKind::IndexRestored => "index restored",
        RepairKind::ChunkSetAside => "chunk set aside",
        RepairKind::ObjectSetAside => "object set aside",
        RepairKind::Separated => "bytes separated",
        RepairKind::IndexSetAside => "index set aside",
        RepairKind::Unwrapped => "unwrapped",
        RepairKind::Joined => "joined",
        RepairKind::Recoded => "stored as info specifies",
        RepairKind::Moved => "moved",
        RepairKind::Reordered => "reordered",
        RepairKind::InfoCorrected | RepairKind::MetadataCorrected => "corrected",
        RepairKind::ConsolidatedRenewed => "consolidated metadata renewed",
        RepairKind::LossAccepted => "loss accepted",
        _ => "not repaired",
    };
    let message = done.message.replace(['\n', '\r'], " ");
    let lost = match (done.lost, done.chunk.is_some()) {
        (0, _) => String::new(),
        (1, true) => "; it is lost".to_owned(),
        (lost, _) => format!("; {} {} lost", units::count(lost, "chunk"), plural(lost)),
    };
    writeln!(said::words(), "{object}{chunk}: {what}: {message}{lost}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// Where damaged bytes would be kept.
    fn place(arguments: &[&str]) -> Result<String, String> {
        let all = ["shardine", "repair", "--store-option", "aws_endpoint=http://127.0.0.1:1"];
        let cli = crate::cli::Cli::parse_from(all.iter().chain(arguments));
        let crate::cli::Verb::Repair(args) = cli.verb else { return Err("another verb".into()) };
        let location = cli.machine.location(&args.url).map_err(|error| format!("{error:?}"))?;
        let aside =
            set_aside(&args, &cli.machine, &location).map_err(|error| format!("{error:?}"))?;
        Ok(aside.to_string())
    }

    #[test]
    fn damaged_bytes_of_a_bucket_stay_in_it() {
        assert_eq!(place(&["s3://b/x/a.zarr"]), Ok("s3://b/x/a.zarr.set-aside".to_owned()));
        assert_eq!(place(&["s3://b/a.zarr/"]), Ok("s3://b/a.zarr.set-aside".to_owned()));
        let said = ["s3://b/a.zarr", "--set-aside", "s3://c/kept"];
        assert_eq!(place(&said), Ok("s3://c/kept".to_owned()));
        let here = ["s3://b/a.zarr", "--set-aside", "/tmp/kept"];
        assert_eq!(place(&here), Ok("/tmp/kept".to_owned()));
        assert!(place(&["s3://b/a.zarr", "--set-aside", "s3://b/a.zarr/kept"]).is_err());
        assert!(place(&["s3://b"]).is_err());
        assert_eq!(place(&["/tmp/a.zarr"]), Ok("/tmp/a.zarr.set-aside".to_owned()));
    }
}
