//! `shardine repair`: mends what can be mended.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use shardine::{Location, Repair as Done, RepairKind, RepairOptions, repair as repair_all};

use crate::cli::Machine;
use crate::failure::{Failure, quoted};
use crate::progress::Progress;
use crate::units;

const EXAMPLES: &str = "\
Examples:
  shardine repair image.zarr --dry-run
  shardine repair image.zarr
  shardine repair image.zarr --decode
  shardine repair em/precomputed --dry-run

Updates that were interrupted are finished or undone, and what killed runs left is cleared. A shard with a torn tail gets
its last valid index back. A damaged chunk is kept in the folder for such bytes (image.zarr.set-aside, with a .json
beside each piece that says what it was) and reads as the fill value from then on, so that the rest of its shard can be
read and written again. In a precomputed volume, or a folder of sharded meshes or skeletons, keys are moved where readers
look for them, values are stored as info says, and info is corrected where all of them disagree with it. Nothing that is
damaged is deleted. Without --decode only the damage is found that metadata and
indexes show.

Exit status: 0 done; 2 some damage is left, or anything else, with one line on standard error that says why.";

/// Mend an array, a precomputed volume or a whole hierarchy as far as that can be done
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Repair {
    /// The group, array or volume
    url: String,
    /// Tell what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Also read and decode every chunk to find damage
    #[arg(long)]
    decode: bool,
    /// The folder for damaged bytes [default: the name of the array and .set-aside]
    #[arg(long, value_name = "DIR")]
    set_aside: Option<PathBuf>,
    /// Report in JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Repair, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let location = machine.location(&args.url)?;
    let folder = match &args.set_aside {
        Some(folder) => folder.clone(),
        None => beside(&location.store.name()),
    };
    let folder = std::path::absolute(&folder).map_err(|e| Failure::file(&folder, &e))?;
    if folder.starts_with(location.store.name()) {
        return Err(Failure::new(format!(
            "--set-aside {}: lies inside of what is repaired",
            folder.display()
        )));
    }
    let aside = Location::parse(&folder.to_string_lossy())?;
    let progress = Progress::things("checking", 0);
    let bar = progress.clone();
    let options = RepairOptions::new(aside)
        .dry_run(args.dry_run)
        .decode(args.decode)
        .progress(move |checked, found| bar.set(checked, found));
    let mut repairs = Vec::new();
    let mut written = Ok(());
    let summary = repair_all(&engine, &location, &options, &mut |done| {
        if args.json {
            repairs.push(describe(&done));
        } else if written.is_ok() {
            written = progress.suspend(|| line(&done));
        }
    })?;
    progress.finish();
    written?;
    if args.json {
        let report = json!({
            "ok": summary.left == 0,
            "dry_run": args.dry_run,
            "repairs": repairs,
            "set_aside": folder.display().to_string(),
            "summary": {
                "mended": summary.mended,
                "left": summary.left,
                "bytes_set_aside": summary.bytes_set_aside,
            },
        });
        writeln!(io::stdout(), "{report}")?;
    } else {
        let verb = if args.dry_run { "would be mended" } else { "mended" };
        writeln!(io::stdout(), "{} {verb}", units::count(summary.mended, "thing"))?;
        if summary.bytes_set_aside > 0 {
            let size = units::size(summary.bytes_set_aside);
            writeln!(io::stdout(), "{size} of damaged bytes are kept in {}", folder.display())?;
        }
    }
    if summary.left == 0 {
        return Ok(());
    }
    let left = units::count(summary.left, "finding");
    Err(Failure::new(format!("{left} of damage cannot be mended here, and are as they were"))
        .hint(format!("`shardine verify {}` tells what to do about each", quoted(&args.url))))
}

/// The folder beside an array, or beside the file system's root inside of it.
fn beside(path: &str) -> PathBuf {
    let path = Path::new(path);
    let name = path.file_name().map_or_else(|| "array".into(), |name| name.to_string_lossy());
    path.with_file_name(format!("{name}.set-aside"))
}

fn describe(done: &Done) -> Value {
    json!({
        "kind": done.kind.name(),
        "object": done.object.as_ref().map(|key| key.as_str()),
        "shard": done.shard,
        "chunk": done.chunk,
        "range": done.range.as_ref().map(|range| [range.start, range.end]),
        "message": done.message,
        "set_aside": done.set_aside,
    })
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
        RepairKind::Recoded => "stored as info says",
        RepairKind::Moved => "moved",
        RepairKind::Reordered => "reordered",
        RepairKind::InfoCorrected => "corrected",
        _ => "left as it is",
    };
    let message = done.message.replace(['\n', '\r'], " ");
    writeln!(io::stdout(), "{object}{chunk}: {what}: {message}")
}
