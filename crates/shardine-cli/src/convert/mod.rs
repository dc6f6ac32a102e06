//! `shardine convert`: from one format to another.

mod import;
mod ome;
mod report;
mod volume;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shardine::files::{ForeignFile, foreign_file, is_element_file};
use shardine::precomputed::Volume;
use shardine::{Error, Packing, SetKind, open_in};

use crate::cli::{Machine, Places};
use crate::create::{Layout, Shape, VolumeArgs, shape_argument};
use crate::dataset::no_array;
use crate::failure::Failure;
use crate::packing::{JobArgs, PerShard, per_shard_argument};
use crate::{read, repack, units};
use ome::LevelArgs;
pub use ome::OmeArgs;

const EXAMPLES: &str = "\
Examples:
  shardine convert volume.npy image.zarr
  shardine convert volume.raw image.zarr --shape 512,1024,1024 --dtype uint16 --target-size 32MiB
  generate | shardine convert - s3://bucket/image.zarr --shape 512,1024,1024 --dtype uint16
  shardine convert image.zarr volume.npy
  shardine convert old-v2.zarr new.zarr --chunks-per-shard 8
  shardine convert s3://bucket/image.zarr local.zarr --chunk 32,32,32 --shard 256,256,256 --codec zstd:5
  shardine convert gs://bucket/volume image.zarr
  shardine convert image.zarr volume --to precomputed --resolution 8,8,40
  shardine convert old-0.4.zarr new.zarr --to ome-zarr
  shardine convert array.zarr image.zarr --to ome-zarr --axes zyx --scale 0.5,0.2,0.2 --unit micrometer
  shardine convert volume.npy image.zarr --to ome-zarr --axes zyx --scale 0.5,0.2,0.2 --levels auto
  shardine convert image.zarr old.zarr --to ome-zarr --ome-version 0.4
  shardine convert array.zarr v2.zarr --to zarr2

Between Zarr data sets, v2 or v3, all groups and arrays are converted, and encoded chunks are moved
unchanged unless --chunk or --codec is given; see docs/repack.md.

A precomputed volume becomes a group with one array per scale. An array, or a group whose arrays are
levels, becomes a volume. docs/precomputed.md describes which chunks are moved.

With --to ome-zarr, OME-Zarr of any version becomes one of the version asked for, with all images,
labels, plates and other nodes of the hierarchy; an array, a group whose arrays are levels, or a
volume becomes an image. Each level gets shards of its own, near 64 MiB unless the source has shards
or others are asked for. Numbers of chunks or elements for fewer axes than an image has are those of
its last axes. The axes are those that the source names or --axes; of an array of two axes without
names, y and x. docs/positions.md says where voxels are. --levels makes lower levels from the finest
where the source has too few; a .npy file or raw bytes become an image in the same way.

A .npy file carries its shape and type; it may be in C or Fortran order and of either byte order.
Any other file holds the elements alone, little-endian and in C order, and needs --shape and
--dtype. Elements are read piece by piece, so a file may be larger than memory; standard input is
buffered in a temporary file. Converting an array to a file does the same as `shardine read -o`.

Run the same command again to resume an interrupted conversion: finished shards are kept. Until it
is finished, .shardine-convert.json beside the array's zarr.json records it.";

/// Convert a data set to another format or packing, or to or from a file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    /// Zarr v2 or v3 array or group, precomputed volume, webknossos-wrap data set, .npy file, or
    /// file of raw bytes (.raw, .bin, or any with --shape and --dtype; - reads standard input)
    #[arg(value_name = "SRC")]
    source: String,
    /// Data set to create, or a file: .npy, or raw bytes in .raw, .bin or - (standard output)
    #[arg(value_name = "DST")]
    target: String,
    /// Set the length of each axis of raw bytes, such as 512,1024,512
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument)]
    shape: Option<Shape>,
    /// Set the data type of raw bytes, or the type that --cast converts to
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// Convert numbers to the type of --dtype. Fractions are truncated; a value that does not fit
    /// is an error
    #[arg(long, requires = "dtype")]
    cast: bool,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    layout: Layout,
    /// Set the chunks per shard along each axis: one number for all axes, or one per axis; 1 or
    /// `none` disables sharding
    #[arg(long, value_name = "N|N,N,..|none", value_parser = per_shard_argument, conflicts_with = "shard")]
    chunks_per_shard: Option<PerShard>,
    /// Aim for shards of about this size, such as 64MiB, by the measured size of some encoded
    /// chunks
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size,
          conflicts_with_all = ["shard", "chunks_per_shard"])]
    target_size: Option<u64>,
    /// Convert to this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "zarr3")]
    to: Target,
    /// Except from Zarr to Zarr v3: also store chunks of zeros, which some readers of volumes expect
    #[arg(long)]
    store_empty: bool,
    #[command(flatten)]
    job: JobArgs,
    // Last, as what follows would be listed under their headings.
    #[command(flatten)]
    ome: OmeArgs,
    #[command(flatten)]
    levels: LevelArgs,
    #[command(flatten)]
    volume: VolumeArgs,
}

/// What a data set becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Zarr version 3
    Zarr3,
    /// Zarr version 2, without shards
    Zarr2,
    /// OME-Zarr: images with their levels and labels
    OmeZarr,
    /// Neuroglancer's precomputed format
    Precomputed,
}

impl Target {
    fn word(self) -> &'static str {
        match self {
            Self::Zarr3 => "zarr3",
            Self::Zarr2 => "zarr2",
            Self::OmeZarr => "ome-zarr",
            Self::Precomputed => "precomputed",
        }
    }
}

impl Convert {
    /// How chunks are to be packed, as far as options besides `--shard` say so.
    fn packing(&self) -> Option<Packing> {
        let packing = self.chunks_per_shard.as_ref().map(|per| per.0.clone());
        packing.or(self.target_size.map(Packing::TargetSize))
    }

    /// The first option given that only volumes have.
    fn of_volumes(&self) -> Option<&'static str> {
        self.volume.given().or(self.store_empty.then_some("--store-empty"))
    }
}

impl Convert {
    /// Whether what is converted cannot be read a second time.
    pub fn is_of_stream(&self) -> bool {
        self.source == "-"
    }

    /// Whether a file of elements is made, which appears whole or not at all.
    pub fn is_to_file(&self) -> bool {
        is_element_file(&self.target)
    }
}

pub fn run(args: &Convert, machine: &Machine) -> Result<(), Failure> {
    if let Some(ForeignFile { format, advice, .. }) = foreign_file(&args.target) {
        let message = format!("{}: {format} files cannot be written", args.target);
        return Err(Failure::new(message).hint(advice));
    }
    let files = is_element_file(&args.source) || is_element_file(&args.target);
    if let Some(name) = args.job.of_data_sets(is_element_file(&args.target)).filter(|_| files) {
        return Err(Failure::new(format!("{name}: only applies from one data set to another")));
    }
    let becomes_image = args.to == Target::OmeZarr && !is_element_file(&args.target);
    if files && args.to != Target::Zarr3 && !becomes_image {
        let message = format!("--to {}: only applies from one data set to another", args.to.word());
        return Err(Failure::new(message).hint(match args.to {
            Target::Precomputed => {
                "use `shardine create --to precomputed` to create a volume, and `shardine write` to fill it"
            }
            _ => "convert the file to an array first",
        }));
    }
    if args.to != Target::OmeZarr {
        ome::only_with(args.ome.given().or(args.levels.given()), "--to ome-zarr")?;
    }
    if let Some(name) = args.of_volumes().filter(|_| files) {
        return Err(Failure::new(format!(
            "{name}: only applies between Zarr and precomputed volumes"
        )));
    }
    let described = args.shape.is_some() && args.dtype.is_some();
    let from_file = is_element_file(&args.source) || (described && !args.source.contains("://"));
    match (from_file, is_element_file(&args.target)) {
        (true, false) => import::run(args, machine),
        (false, true) => {
            let target = PathBuf::from(&args.target);
            let (overwrite, json) = (args.job.overwrite, args.job.json);
            let read = read::Read::whole(&args.source, &target, overwrite, json);
            read::run_at(&read, &args.places.source(machine, &args.source)?, machine)
        }
        (true, true) => {
            let (source, target) = (&args.source, &args.target);
            Err(Failure::new(format!(
                "{source} and {target} are both files, but one must be an array"
            ))
            .hint("give the array a name that does not end in .npy, .raw or .bin"))
        }
        (false, false) => pack(args, machine),
    }
}

/// From one data set to another: chunks are moved unchanged, unless other ones are requested.
fn pack(args: &Convert, machine: &Machine) -> Result<(), Failure> {
    let of_files = [
        ("--shape", args.shape.is_some()),
        ("--dtype", args.dtype.is_some()),
        ("--cast", args.cast),
    ];
    let of_files = of_files.into_iter().find(|(_, given)| *given).map(|(name, _)| name);
    let of_arrays = args.layout.of_new_arrays();
    // Version 2 leaves the choice.
    let of_arrays = of_arrays.filter(|name| args.to != Target::Zarr2 || *name != "--separator");
    if let Some(name) = of_files.or(of_arrays) {
        let message = format!("{name}: only applies to files, but {} is a data set", args.source);
        return Err(Failure::new(message));
    }
    let source = args.places.source(machine, &args.source)?;
    let (is_zarr, is_volume) = match open_in(&machine.engine()?, &source) {
        Ok(set) if set.kind() == SetKind::KeyValues => return Err(no_array(&*set, &source)),
        Ok(set) => (set.format().starts_with("zarr"), set.is::<Volume>()),
        // Anything else that is wrong is reported by the conversion, which looks closer.
        Err(Error::NoNode { .. } | Error::Metadata { .. } | Error::Layout { .. }) => (true, false),
        // The job would only say that there is no Zarr; and what cannot be read may be anything.
        Err(error) => return Err(error.into()),
    };
    match args.to {
        Target::Zarr2 => return ome::to_zarr2(args, &source, machine),
        Target::OmeZarr => return ome::to_ome(args, &source, machine),
        Target::Zarr3 if !is_zarr => return volume::to_zarr(args, &source, machine),
        Target::Precomputed if !is_volume => return volume::to_volume(args, &source, machine),
        Target::Precomputed => {
            return Err(Failure::new(format!("{} is already a precomputed volume", args.source))
                .hint(
                    "use `shardine reshard SRC -o DST` to repack its chunks, or `shardine copy` to copy it",
                ));
        }
        Target::Zarr3 => {}
    }
    if let Some(name) = args.of_volumes() {
        return Err(Failure::new(format!(
            "{name}: only applies between Zarr and precomputed volumes"
        )));
    }
    let options = args.layout.asked(args.packing()).options(Packing::Keep)?;
    let target = args.places.target(machine, &args.target)?;
    repack::run_job(&source, Some(&target), options, &args.job, machine, &args.target)
}
