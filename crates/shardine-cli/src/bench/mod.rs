//! `shardine bench`: how fast an array is here.

mod boxes;
mod measure;
mod report;
mod scratch;
mod source;
mod subject;
mod workload;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::Machine;
use crate::dataset::Level;
use crate::failure::Failure;
use crate::units;
use report::Report;
use scratch::Scratch;
use subject::Subject;
use workload::Runner;

const EXAMPLES: &str = "\
Examples:
  shardine bench image.zarr
  shardine bench image.zarr --only chunks,regions --repeats 10
  shardine bench image.zarr --write --scratch /fast/disk
  shardine bench volume --level 1
  shardine bench ome.zarr --level 2 --only planes
  shardine bench image.zarr --json | jq '.workloads[] | [.name, .bytes_per_second]'

Workloads:
  whole    the array in one read, into fresh memory
  shards   stored shards (chunks, if it is not sharded) one by one, into one buffer
  chunks   up to 2000 random stored chunks one by one: with the index read for each, then
           with all indexes cached
  regions  up to 200 random regions of about 100 elements along each axis
  planes   one plane across the axis where that means the most decoding
  write    shards one by one, made durable (with --write)
  update   up to 32 random chunks replaced one by one, each in its shard (with --write)

An array larger than --limit is measured in part, with shards spread over it; one larger than a
quarter of the free memory is read in several parts. Shards, chunks and regions are the same in
every run.

Each workload has a first run and then --repeats more, whose median is reported. Indexes are not
cached from one run to the next. The first run may find the system's caches cold, unless an earlier
workload or another program has read the bytes before. The caches are never emptied: later runs
measure an array in memory, if it fits.

Seconds and CPU seconds (user and system, all threads) cover only the calls. Stored bytes and calls
are counted at the store. Peak memory is that of the whole process during a run, including the
elements.

If the shards of a volume hold chunks from all over it, each chunk is measured on its own.

The array is only read. With --write, some of its shards are copied to a temporary folder beside it
or in --scratch, and written there; the folder is removed at the end.";

/// Measure how fast an array, or a level of an image or volume, can be read and written
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    /// Path or URL of the array, image or volume
    url: String,
    #[command(flatten)]
    level: Level,
    /// Measure only these workloads
    #[arg(long, value_name = "WORKLOADS", value_enum, value_delimiter = ',')]
    only: Vec<What>,
    /// Limit what one run decodes: bytes, or a number with KiB, MiB, GiB, kB, MB or GB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_size)]
    limit: u64,
    /// Run each workload N times after the first run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeats: u64,
    /// Also measure writing, on a copy of some shards
    #[arg(long)]
    write: bool,
    /// Make the copy in this folder [default: the folder that holds the array]
    #[arg(long, value_name = "DIR", requires = "write")]
    scratch: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Whole,
    Shards,
    Chunks,
    Regions,
    Planes,
    Write,
    Update,
}

impl Bench {
    fn wants(&self, what: What) -> bool {
        let writes = matches!(what, What::Write | What::Update);
        if self.only.is_empty() { !writes || self.write } else { self.only.contains(&what) }
    }
}

pub fn run(args: &Bench, machine: &Machine) -> Result<(), Failure> {
    let writes = args.wants(What::Write) || args.wants(What::Update);
    if writes && !args.write {
        return Err(Failure::new("--only: measuring writes needs --write")
            .hint("it writes to a copy of some shards, never to the array"));
    }
    let engine = machine.engine()?;
    let location = machine.location(&args.url)?;
    let subject = Subject::open(&engine, &location, args.level, &args.url, args.limit)?;
    let runner = Runner { machine, location: &location, subject: &subject, repeats: args.repeats };
    // Before anything is measured, so that it fails immediately where no copy can be made.
    let scratch = match writes {
        true => Some(Scratch::new(&subject, &location, args.scratch.as_deref())?),
        false => None,
    };
    let mut workloads = Vec::new();
    if args.wants(What::Whole) {
        workloads.push(runner.whole()?);
    }
    if args.wants(What::Shards) {
        workloads.push(runner.shards()?);
    }
    if args.wants(What::Chunks) {
        workloads.extend(runner.chunks()?);
    }
    if args.wants(What::Regions) {
        workloads.push(runner.regions()?);
    }
    if args.wants(What::Planes) {
        workloads.push(runner.plane()?);
    }
    if let Some(scratch) = &scratch {
        // Not before: it puts what it reads into the system's caches.
        scratch.copy(&subject, &location)?;
        if args.wants(What::Write) {
            workloads.push(scratch.write(&runner)?);
        }
        if args.wants(What::Update) {
            workloads.push(scratch.update(&runner)?);
        }
    }
    drop(scratch);
    let report = Report {
        name: &args.url,
        subject: &subject,
        threads: engine.threads(),
        memory: machine.memory,
        repeats: args.repeats,
        workloads: &workloads,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        writeln!(out, "{:#}", report.json())?;
    } else {
        report.write(&mut out)?;
    }
    out.flush()?;
    Ok(())
}
