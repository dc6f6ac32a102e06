//! `shardine pyramid`: the lower levels of an image, or the coarser ones of geometry.

use std::io::{self, Write};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use shardine::jobs::{Part, PyramidLevel, PyramidOptions, PyramidSummary, pyramid, pyramid_to};
use shardine::vectors::VectorStore;
use shardine::zarr::Group;
use shardine::{DownsampleMethod, Location, Packing, RegionText, WriteOrder, open_in};

use crate::cli::{Machine, Places};
use crate::convert::OmeArgs;
use crate::create::IndexPlace;
use crate::failure::Failure;
use crate::levels::{Factors, Levels, factors_argument, levels_argument};
use crate::packing::{PackingArgs, waiting};
use crate::progress::Progress;
use crate::vectors::levels::{self, LevelArgs};
use crate::{consolidate, said, units};

const EXAMPLES: &str = "\
Examples:
  shardine pyramid image.zarr
  shardine pyramid image.zarr --levels 4 --factors 1,2,2
  shardine pyramid image.zarr/labels/cells --method mode
  shardine pyramid image.zarr --update
  shardine pyramid image.zarr --update --region 0:64,0:512,0:512
  shardine pyramid image.zarr --overwrite --target-size 64MiB
  shardine pyramid array.zarr -o image.zarr --axes zyx --scale 0.5,0.2,0.2 --unit micrometer
  shardine pyramid cells.zv --coarsen 2,2,4
  shardine pyramid tracts.zv --levels 4 --coarsen 2 --sparsity 1,2 --seed 7
  shardine pyramid cells.zv -o overview.zv --part 1/4

All levels are made in one pass over the finest: each of its chunks is decoded once. The image names
them in the end, when all are complete; run the same command again to resume an interrupted run.
--update renews the objects of existing levels that are older than what they are made from.

Of a Zarr Vectors store, vertices in the same bin become one, their mean, and --sparsity drops
objects; these are the factors of zarr-vectors' build_pyramid. Levels are stored like the finest.";

/// Make the lower levels of an OME-Zarr image, or the coarser ones of a Zarr Vectors store
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Pyramid {
    /// Path or URL of the image or the Zarr Vectors store; with -o, also of an array of any format
    url: String,
    /// Set how many levels there are in the end, counting the finest; `auto` stops at one that fits
    /// one chunk, of vectors at one with up to 8 bins along each axis
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = levels_argument)]
    levels: Levels,
    /// Set by which factors each level is smaller than the one before: one for each axis, or for each
    /// axis in space; `auto` halves the axes along which voxels are shortest
    #[arg(long, value_name = "N,N,..|auto", default_value = "auto", value_parser = factors_argument)]
    factors: Factors,
    /// Set how elements become one: mean, mode, median, stride, max or min [default: mode for label
    /// images, mean for others]
    #[arg(long, value_name = "METHOD")]
    method: Option<DownsampleMethod>,
    /// Renew existing levels where the level before has changed, instead of making new ones
    #[arg(long, conflicts_with_all = ["levels", "factors", "overwrite", "restart", "part"])]
    update: bool,
    /// With --update: say which elements of the finest level have changed [default: go by the times
    /// of files]
    #[arg(long, value_name = "REGION", requires = "update", allow_hyphen_values = true)]
    region: Option<RegionText>,
    /// Make a new image at DST, whose finest level is moved there from the array or image at URL; or
    /// a new Zarr Vectors store, with the finest level of the one at URL
    #[arg(short, long, value_name = "DST", conflicts_with = "update")]
    output: Option<String>,
    /// Rebuild levels that exist; with -o, replace an existing data set at DST
    #[arg(long)]
    overwrite: bool,
    /// Report what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Discard what an interrupted job has left, and start over
    #[arg(long, help_heading = "Job")]
    restart: bool,
    /// Make only part I of N, so that N processes can share the work, in any order and on any
    /// machines that see the storage. The last one finishes the image; `finish` only finishes it
    #[arg(long, value_name = "I/N|finish", help_heading = "Job")]
    part: Option<Part>,
    /// Take over a job from another process, if it cannot be determined here whether that process is
    /// still running
    #[arg(long, help_heading = "Job")]
    take_over: bool,
    /// Let a task read about this much of the finest level; a part consists of tasks [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, help_heading = "Job")]
    task_size: Option<u64>,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    packing: PackingArgs,
    #[command(flatten)]
    vectors: LevelArgs,
    // Last, because whatever follows would appear under its heading.
    #[command(flatten)]
    ome: OmeArgs,
}

impl Pyramid {
    fn options(&self, machine: &Machine, location: &Location) -> Result<PyramidOptions, Failure> {
        let asked = self.packing.asked();
        if asked.order != WriteOrder::Morton {
            return Err(Failure::new("--order: chunks are stored in the order they are made in")
                .hint("leave it out, or use `shardine reshard --order` afterwards"));
        }
        if self.update && asked.is_something() {
            return Err(Failure::new("--update leaves chunks and shards as they are").hint(
                "leave out the options for packing, or rebuild the levels with --overwrite",
            ));
        }
        let mut options = PyramidOptions::new()
            .overwrite(self.overwrite)
            .restart(self.restart)
            .dry_run(self.dry_run)
            .part(self.part)
            .update(self.update);
        options.levels = self.levels.0;
        options.factors.clone_from(&self.factors.0);
        options.method = self.method;
        options.take_over = self.take_over;
        options.task_size = self.task_size;
        options.index = asked.index.map(IndexPlace::location);
        options.chunk = asked.chunk.map(<[u64]>::to_vec);
        options.codecs = asked.codec_choice()?;
        options.packing = asked.packing.unwrap_or(Packing::Keep);
        if let Some(text) = &self.region {
            let set = open_in(&machine.engine()?, location)?;
            options = options.region(set.region(0, text, false)?);
        }
        Ok(options)
    }
}

impl Pyramid {
    /// Makes the levels of a Zarr Vectors store.
    fn of_vectors(&self, machine: &Machine, location: &Location) -> Result<(), Failure> {
        let asked = self.packing.asked();
        const STORED: &str =
            "levels are stored like the finest; repack them with `shardine reshard`";
        let refused = [
            ("--factors", self.factors.0.is_some(), "use --coarsen, a number for each level"),
            ("--method", self.method.is_some(), "the vertices of a bin always become their mean"),
            ("--update", self.update, "make all levels again with --overwrite"),
            ("--task-size", self.task_size.is_some(), "a part is one task"),
            ("--order", asked.order != WriteOrder::Morton, STORED),
            ("options of chunks, shards and codecs", asked.is_something(), STORED),
        ];
        if let Some((name, _, reason)) = refused.into_iter().find(|(_, given, _)| *given) {
            let message = format!("{name} cannot be used with Zarr Vectors");
            return Err(Failure::new(message).hint(reason));
        }
        if let Some(name) = self.ome.given() {
            return Err(Failure::new(format!("{name}: only applies to images, with -o")));
        }
        let target =
            self.output.as_deref().map(|url| self.places.target(machine, url)).transpose()?;
        if target.is_none() {
            self.places.no_target("-o")?;
        }
        let mut options = self
            .vectors
            .options()
            .overwrite(self.overwrite)
            .restart(self.restart)
            .dry_run(self.dry_run);
        options.levels = self.levels.0;
        options.take_over = self.take_over;
        options.part = self.part;
        let url = self.output.as_deref().unwrap_or(&self.url);
        levels::make(url, location, target.as_ref(), options, self.json, machine)
    }
}

pub fn run(args: &Pyramid, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let location = args.places.source(machine, &args.url)?;
    // What cannot be opened is told by the job, which opens it in its own way.
    let set = open_in(&engine, &location).ok();
    let group = set.as_ref().and_then(|set| set.downcast_ref::<Group>());
    if group.is_some_and(VectorStore::is_store) {
        return args.of_vectors(machine, &location);
    }
    drop(set);
    if let Some(name) = args.vectors.given() {
        return Err(Failure::new(format!("{name}: only applies to Zarr Vectors")));
    }
    let mut options = args.options(machine, &location)?;
    let target = args.output.as_deref().map(|url| args.places.target(machine, url)).transpose()?;
    if target.is_none() {
        args.places.no_target("-o")?;
        if let Some(name) = args.ome.given() {
            return Err(Failure::new(format!("{name}: only applies with -o")));
        }
    }
    let progress = Progress::things("reducing", 0);
    let context = progress.context(&engine);
    let start = Instant::now();
    let result = match &target {
        None => pyramid(&context, &location, &options, &mut |_| ()),
        Some(target) => {
            // The other levels are stored like the finest.
            let mut form = args.ome.form().packing(std::mem::take(&mut options.packing));
            (form.index, form.codecs) = (options.index.take(), options.codecs.take());
            pyramid_to(&context, &location, target, &form, &options, &mut |_| ())
        }
    };
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        let report = match &result {
            Ok(summary) => to_json(summary, args, seconds),
            Err(error) => json!({ "failed": error.to_string(), "seconds": seconds }),
        };
        writeln!(io::stdout(), "{report}")?;
    }
    let summary = result?;
    if !args.dry_run && !args.update {
        consolidate::renew_above(target.as_ref().unwrap_or(&location));
    }
    if args.json {
        return Ok(());
    }
    tell(&mut said::words(), &summary, args, seconds)?;
    Ok(())
}

fn tell(
    out: &mut dyn Write,
    summary: &PyramidSummary,
    args: &Pyramid,
    seconds: f64,
) -> io::Result<()> {
    if let Some(line) = waiting(args.part, &summary.outcome) {
        return writeln!(out, "{line}");
    }
    if args.update && summary.unchanged {
        return writeln!(out, "all levels are up to date");
    }
    for level in &summary.levels {
        writeln!(out, "{}", describe(level, args))?;
    }
    if args.dry_run {
        return Ok(());
    }
    let sum = |of: fn(&PyramidLevel) -> u64| summary.levels.iter().map(of).sum::<u64>();
    let resumed = if summary.resumed { "; resumed an earlier run" } else { "" };
    let kept = match sum(|level| level.counts.kept) {
        0 => String::new(),
        _ if !args.update => String::new(),
        kept => format!(", {kept} kept"),
    };
    writeln!(
        out,
        "{} by {}: {} encoded, {} empty; {} written{kept}, {} in {}{resumed}",
        units::count(summary.levels.len() as u64, "level"),
        summary.method,
        units::count(sum(|level| level.counts.chunks), "chunk"),
        sum(|level| level.counts.empty),
        units::count(sum(|level| level.counts.objects), "object"),
        units::size(sum(|level| level.counts.bytes)),
        units::duration(seconds),
    )
}

/// One line about a level.
fn describe(level: &PyramidLevel, args: &Pyramid) -> String {
    let image = args.output.as_ref().unwrap_or(&args.url);
    let name = format!("{}/{}", image.trim_end_matches('/'), level.path);
    if args.update {
        let would = if args.dry_run { "would be renewed" } else { "renewed" };
        let objects = units::count(level.counts.objects, "object");
        return format!("{name}: {objects} {would}");
    }
    let packing = match &level.shard_shape {
        Some(shard) => {
            format!("chunks {} in shards {}", units::shape(&level.chunk_shape), units::shape(shard))
        }
        None => format!("chunks {}, no shards", units::shape(&level.chunk_shape)),
    };
    let scale: Vec<String> = level.scale.iter().map(f64::to_string).collect();
    let would = if args.dry_run { "would have " } else { "" };
    format!("{name}: {would}{}, scale {}, {packing}", units::shape(&level.shape), scale.join(","))
}

fn to_json(summary: &PyramidSummary, args: &Pyramid, seconds: f64) -> Value {
    json!({
        "dry_run": args.dry_run,
        "method": summary.method,
        "levels": summary.levels.iter().map(PyramidLevel::to_json).collect::<Vec<_>>(),
        "passes": summary.passes,
        "resumed": summary.resumed,
        "unchanged": summary.unchanged,
        "part": args.part.map(|part| part.to_string()),
        "parts_missing": summary.outcome.missing(),
        "seconds": seconds,
    })
}
