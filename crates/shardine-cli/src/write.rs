//! `shardine write`: a region of an array from a file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value, json};
use shardine::files::{Input, InputOptions};
use shardine::jobs::describe_written;
use shardine::precomputed::Volume;
use shardine::{ElementSize, WriteOrder, WriteReport, open_in};

use crate::cli::Machine;
use crate::dataset::Level;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::region::RegionArgs;
use crate::stale::Stale;
use crate::update::Update;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine write image.zarr volume.npy
  shardine write image.zarr --region 0:64,:,7:8 part.npy
  shardine write image.zarr --region z=10,c=1 plane.npy
  shardine write image.zarr --cast float_volume.npy
  shardine write volume --level 1 --region 0:64,0:64,0:16 part.npy
  shardine write image.zarr --box z=5um:6um,c=1 slab.npy
  generate | shardine write image.zarr -

A .npy file may be in C or Fortran order and of either byte order. Any other file holds the elements alone:
little-endian, in C order; strings separated by NUL, variable-length bytes each preceded by their
length as a little-endian u32. Regions and boxes are described in `shardine read --help`.

Of an OME-Zarr image one level is written, the finest by default. The levels below it are not
updated: `shardine pyramid URL --update` does that.

Each shard is updated atomically: an interrupted run leaves every shard either old or new. With
--strategy in-place or append, a shard that has its index at the end is briefly without one;
docs/append.md describes what other readers see then.";

/// Write a file to an array, or to a region of it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Write {
    /// Path or URL of the array, image or volume
    url: String,
    /// File with the elements: .npy, otherwise raw bytes; - reads raw bytes from standard input
    file: PathBuf,
    #[command(flatten)]
    region: RegionArgs,
    #[command(flatten)]
    level: Level,
    /// Set the gzip level for shards of a precomputed volume, from 0 to 9 [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    gzip_level: Option<u8>,
    /// Convert numbers to the array's type. Fractions are truncated; a value that does not fit is
    /// an error
    #[arg(long)]
    cast: bool,
    /// Set the order of chunks in a shard: morton, c, or arrival (as they are ready)
    #[arg(long, value_name = "ORDER", default_value = "morton")]
    order: WriteOrder,
    /// Also store chunks that hold only the fill value
    #[arg(long)]
    store_empty: bool,
    #[command(flatten)]
    update: Update,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Write, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    let (engine, memory) = machine.engine_and_buffer()?;
    let location = machine.location(&args.url)?;
    let set = open_in(&engine, &location)?;
    let is_volume = set.is::<Volume>();
    let array = args.level.of(&*set, &location, args.gzip_level)?;
    let region = args.region.of(&*set, args.level)?;
    let shape = region.resolve(array.shape()).map_err(shardine::Error::from)?.shape();
    let mut input = input(&args.file)?;
    if is_volume {
        input = input.with_channel(&shape);
    }
    let source =
        input.source(&array, &shape, &InputOptions::new().cast(args.cast).memory(memory))?;
    let bytes = match array.data_type().size() {
        ElementSize::Fixed(size) => units::elements(&shape).saturating_mul(size as u64),
        ElementSize::Variable => 0,
    };
    let progress = Progress::bytes("writing", bytes);
    let bar = progress.clone();
    let options = args
        .update
        .options()
        .order(args.order)
        .store_empty(args.store_empty)
        .progress(Arc::new(move |done| bar.add(done)));
    let result = array.write_from(&region, &*source, &options);
    progress.finish();
    let report = result?;
    let stale = Stale::after(&*set, &array, args.level, &args.url);
    if args.json {
        let mut members = Map::new();
        members.insert("shape".to_owned(), json!(shape));
        members.insert("dtype".to_owned(), array.data_type().to_json());
        if args.region.is_box() {
            members.insert("region".to_owned(), json!(region.to_string()));
        }
        stale.describe(&mut members);
        members.extend(describe(&report, start.elapsed().as_secs_f64()));
        writeln!(io::stdout(), "{}", Value::Object(members))?;
        return Ok(());
    }
    let (shape, name) = (units::shape(&shape), array.data_type().name());
    let done = summary(&report, start.elapsed().as_secs_f64());
    writeln!(said::words(), "wrote {shape} {name} to {}: {done}", args.url)?;
    stale.note();
    Ok(())
}

/// What a write did, in words.
pub fn summary(report: &WriteReport, seconds: f64) -> String {
    let WriteReport { objects_written, objects_removed, bytes_written, .. } = *report;
    let mut words = format!(
        "{}, {} in {}",
        units::count(objects_written, "object"),
        units::size(bytes_written),
        units::duration(seconds)
    );
    if objects_removed > 0 {
        let removed = units::count(objects_removed, "object");
        words += &format!("; {removed} removed that held only the fill value");
    }
    words
}

/// The file that an argument names; `-` is standard input.
pub fn input(path: &Path) -> Result<Input, Failure> {
    Ok(match path == Path::new("-") {
        true => Input::from_reader(&mut io::stdin().lock(), "standard input")?,
        false => Input::open(path)?,
    })
}

/// What a write did, as members of a JSON object.
pub fn describe(report: &WriteReport, seconds: f64) -> Map<String, Value> {
    let mut members = describe_written(report);
    members.insert("seconds".to_owned(), json!(seconds));
    members
}
