//! `shardine shard`, `unshard` and `reshard`: chunks are repacked, moved unchanged.

use std::io::{self, Write};
use std::time::Instant;

use clap::Args;
use serde_json::json;
use shardine::jobs::{
    RepackCheck, RepackOptions, RepackOutcome, RepackedArray, Subject, recover, repack, subject,
};
use shardine::plan::ShardingRequest;
use shardine::plan::Unsaid;
use shardine::{Location, Packing, open_in};

use crate::cli::{Machine, Places};
use crate::consolidate;
use crate::dataset::Level;
use crate::failure::{Failure, quoted};
use crate::packing::{JobArgs, PackingArgs};
use crate::progress::Progress;
use crate::sharding::{self, ShardingArgs};
use crate::{said, units};

const SHARD_EXAMPLES: &str = "\
Examples:
  shardine shard image.zarr --chunks-per-shard 8
  shardine shard image.zarr --target-size 64MiB -o sharded.zarr
  shardine shard image.zarr --shard 512,512,512 --index start
  shardine shard cells.zarrvectors --chunks-per-shard 8 --objects

Encoded chunks are moved unchanged. Without -o, the new array is built beside the old one, checked,
and exchanged with it in one step; the old one is removed last. Run the same command again to resume
an interrupted run.";

const UNSHARD_EXAMPLES: &str = "\
Examples:
  shardine unshard image.zarr
  shardine unshard image.zarr -o chunks.zarr

Encoded chunks are moved unchanged. Run the same command again to resume an interrupted run.";

const RESHARD_EXAMPLES: &str = "\
Examples:
  shardine reshard image.zarr --chunks-per-shard 4,4,16
  shardine reshard image.zarr --shard none
  shardine reshard image.zarr --index start
  shardine reshard image.zarr --chunk 32,32,32 --shard 256,256,256 --codec zstd:5 -o new.zarr
  shardine reshard volume --shard 512,512,512 --data-encoding gzip

Encoded chunks are moved unchanged, unless --chunk or --codec is given. Run the same command again
to resume an interrupted run.";

/// Pack the chunks of an array, group or volume into shards
#[derive(Debug, Args)]
#[command(after_help = SHARD_EXAMPLES)]
pub struct Shard {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    packing: PackingArgs,
    #[command(flatten)]
    job: JobArgs,
    // Last, because whatever follows would appear under its heading.
    #[command(flatten)]
    sharding: ShardingArgs,
}

/// Store each chunk of an array, group or volume as its own object
#[derive(Debug, Args)]
#[command(after_help = UNSHARD_EXAMPLES)]
pub struct Unshard {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    job: JobArgs,
}

/// Repack the chunks of an array, group or volume into other shards
#[derive(Debug, Args)]
#[command(after_help = RESHARD_EXAMPLES)]
pub struct Reshard {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    packing: PackingArgs,
    #[command(flatten)]
    job: JobArgs,
    // Last, because whatever follows would appear under its heading.
    #[command(flatten)]
    sharding: ShardingArgs,
}

#[derive(Debug, Args)]
struct Place {
    /// Path or URL of the array, group or volume
    url: String,
    #[command(flatten)]
    level: Level,
    /// Write the result to DST instead of changing the data set in place
    #[arg(short, long, value_name = "DST")]
    output: Option<String>,
    /// Of vector data: also repack the tables of objects, which have an axis of their own
    #[arg(long)]
    objects: bool,
    #[command(flatten)]
    places: Places,
}

pub fn shard(args: &Shard, machine: &Machine) -> Result<(), Failure> {
    let (source, kind) = args.place.open(&args.job, machine)?;
    if kind == Subject::Volume {
        let choice = args.sharding.choice(args.packing.asked(), Unsaid::Recommended)?;
        return args.place.repack_volume(&source, choice, &args.job, machine);
    }
    if kind == Subject::Values {
        return args.sharding.repack_keys(
            &source,
            &args.place.target(machine)?,
            &args.job,
            machine,
        );
    }
    args.sharding.only_of_volumes()?;
    let options = args.packing.asked().options(PackingArgs::default_packing())?;
    run(&args.place, options, &args.job, machine)
}

pub fn unshard(args: &Unshard, machine: &Machine) -> Result<(), Failure> {
    let (source, kind) = args.place.open(&args.job, machine)?;
    if kind == Subject::Volume {
        return args.place.repack_volume(&source, ShardingRequest::from(None), &args.job, machine);
    }
    run(&args.place, RepackOptions::new().packing(Packing::Unsharded), &args.job, machine)
}

pub fn reshard(args: &Reshard, machine: &Machine) -> Result<(), Failure> {
    let (source, kind) = args.place.open(&args.job, machine)?;
    if kind == Subject::Volume {
        let choice = args.sharding.choice(args.packing.asked(), Unsaid::Kept)?;
        return args.place.repack_volume(&source, choice, &args.job, machine);
    }
    if kind == Subject::Values {
        return args.sharding.repack_keys(
            &source,
            &args.place.target(machine)?,
            &args.job,
            machine,
        );
    }
    args.sharding.only_of_volumes()?;
    let asked = args.packing.asked();
    if !asked.is_something() {
        return Err(Failure::new("no change requested").hint(
            "use --chunks-per-shard, --shard, --target-size, --index, --chunk or --codec; \
             `shardine plan` recommends a packing",
        ));
    }
    run(&args.place, asked.options(Packing::Keep)?, &args.job, machine)
}

impl Place {
    /// What is to be repacked, and where it is.
    fn open(&self, job: &JobArgs, machine: &Machine) -> Result<(Location, Subject), Failure> {
        let location = self.places.source(machine, &self.url)?;
        if self.output.is_none() {
            self.places.no_target("-o")?;
        }
        if self.output.is_none() && !job.dry_run {
            // A killed job may have left it without its name.
            recover(&location)?;
        }
        let source = subject(&machine.engine()?, &location)?;
        Ok((location, source))
    }

    fn target(&self, machine: &Machine) -> Result<Option<Location>, Failure> {
        self.output.as_deref().map(|url| self.places.target(machine, url)).transpose()
    }

    fn repack_volume(
        &self,
        source: &Location,
        choice: ShardingRequest,
        job: &JobArgs,
        machine: &Machine,
    ) -> Result<(), Failure> {
        let options = sharding::options(choice, self.level.given());
        let target = self.target(machine)?;
        sharding::run(source, target.as_ref(), options, None, job, machine, &self.url)
    }
}

fn run(
    place: &Place,
    options: RepackOptions,
    job: &JobArgs,
    machine: &Machine,
) -> Result<(), Failure> {
    let mut source = place.places.source(machine, &place.url)?;
    let mut name = place.url.clone();
    if place.level.given().is_some() {
        let set = open_in(&machine.engine()?, &source)?;
        let levels = set.levels()?;
        if levels.is_empty() {
            return Err(Failure::new(
                "--level: only applies to OME-Zarr images and precomputed volumes",
            )
            .hint("name one of the arrays of the group"));
        }
        // A level alone would have another version than its image.
        if set.format() == "zarr2" && place.output.is_none() {
            let url = quoted(&place.url);
            return Err(Failure::new(format!("{source} is a Zarr v2 image, which has no shards"))
                .hint(format!(
                    "use -o DST, or run `shardine migrate {url}` on the whole image first"
                )));
        }
        source = place.level.of(&*set, &source, None)?.location().clone();
        let path = levels.get(place.level.number()).map_or("", String::as_str);
        name = format!("{}/{path}", name.trim_end_matches('/'));
    }
    let target = place.target(machine)?;
    let name = place.output.as_deref().unwrap_or(&name);
    let options = options.objects(place.objects);
    run_job(&source, target.as_ref(), options, job, machine, name)
}

/// Runs a job and reports on the result, which `name` stands for.
pub fn run_job(
    source: &Location,
    target: Option<&Location>,
    options: RepackOptions,
    job: &JobArgs,
    machine: &Machine,
    name: &str,
) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let progress = Progress::things("packing", 0);
    let options = job.apply(options);
    let context = progress.context(&engine);
    let start = Instant::now();
    let mut arrays = Vec::new();
    let mut written = Ok(());
    let result = repack(&context, source, target, &options, &mut |array| {
        if !job.json && written.is_ok() && array.outcome != RepackOutcome::Kept {
            let line = describe(&array, name, job.dry_run);
            written = progress.suspend(|| writeln!(said::words(), "{line}"));
        }
        arrays.push(array);
    });
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    if job.json {
        let (part, missing) = job.describe_part(result.as_ref().ok());
        let report = json!({
            "dry_run": job.dry_run,
            "part": part,
            "parts_missing": missing,
            "arrays": arrays.iter().map(RepackedArray::to_json).collect::<Vec<_>>(),
            "failed": result.as_ref().err().map(ToString::to_string),
            "seconds": seconds,
        });
        writeln!(io::stdout(), "{report}")?;
    }
    written?;
    let outcome = result?;
    if let Some(line) = job.waits(&outcome) {
        if !job.json {
            writeln!(said::words(), "{line}")?;
        }
        return Ok(());
    }
    if let Some(target) = target.filter(|_| !job.dry_run) {
        consolidate::renew_above(target);
    }
    let kept = arrays.iter().filter(|array| array.outcome == RepackOutcome::Kept).count();
    if !job.json && kept > 0 {
        let tables = units::count(kept as u64, "table");
        writeln!(said::words(), "{tables} of objects left unchanged; --objects repacks them too")?;
    }
    if !job.json && !job.dry_run {
        let sum = |of: fn(&RepackedArray) -> u64| arrays.iter().map(of).sum::<u64>();
        let bytes = sum(|array| array.bytes_written);
        writeln!(
            said::words(),
            "{}: {} moved, {} re-encoded, {} empty; {} written, {} in {}",
            units::count((arrays.len() - kept) as u64, "array"),
            units::count(sum(|array| array.chunks_moved), "chunk"),
            sum(|array| array.chunks_recoded),
            sum(|array| array.chunks_empty),
            units::count(sum(|array| array.objects_written), "object"),
            units::size(bytes),
            units::duration(seconds),
        )?;
    }
    Ok(())
}

/// One line about an array.
fn describe(array: &RepackedArray, name: &str, dry_run: bool) -> String {
    let name = match array.path.as_str() {
        "" => name.to_owned(),
        path => format!("{}/{path}", name.trim_end_matches('/')),
    };
    let packing = match &array.shard_shape {
        Some(shard) => {
            format!("chunks {} in shards {}", units::shape(&array.chunk_shape), units::shape(shard))
        }
        None => format!("chunks {}, no shards", units::shape(&array.chunk_shape)),
    };
    let how = if array.moves { "moved" } else { "re-encoded" };
    match array.outcome {
        RepackOutcome::Unchanged => format!("{name}: unchanged, {packing}"),
        _ if dry_run => format!("{name}: would have {packing}; its chunks would be {how}"),
        outcome => {
            let mut line = format!("{name}: {packing}");
            if outcome == RepackOutcome::Resumed {
                line += "; resumed an earlier run";
            }
            line += match array.check {
                RepackCheck::None => "; not checked",
                RepackCheck::Elements => "; all elements compared",
                _ if array.moves => "; all bytes compared",
                _ => "",
            };
            line
        }
    }
}
