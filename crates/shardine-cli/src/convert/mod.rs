//! `shardine convert`: from one format to another.

mod import;
mod volume;

use std::path::{Path, PathBuf};

use clap::Args;
use shardine::files::{ForeignFile, foreign_file, is_npy};
use shardine::precomputed::Volume;
use shardine::{Error, Packing, SetKind, open_in};

use crate::cli::{Machine, Places};
use crate::create::{Format, Layout, Shape, VolumeArgs, shape_argument};
use crate::dataset::no_array;
use crate::failure::Failure;
use crate::packing::{JobArgs, PerShard, per_shard_argument};
use crate::{read, repack, units};

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

From one data set to another, Zarr v2 or v3, all groups and arrays come along, and encoded chunks are moved as they are
unless --chunk or --codec asks for others; docs/repack.md says more.

A precomputed volume becomes a group with one array for each scale, and an array or a group whose arrays are levels becomes
a volume; docs/precomputed.md says which chunks are moved.

A .npy file says its shape and type; it may be in C or Fortran order and of either byte order. Any other file holds the
elements alone, little-endian and in C order, and needs --shape and --dtype. Elements are read piece by piece, so a file
may be larger than memory; standard input is kept in a temporary file. The way back makes what `shardine read -o` makes.

Run the same command again to resume one that was stopped: shards that are there are kept. Meanwhile
.shardine-convert.json beside the array's zarr.json says what is under way.";

/// Make a data set in another format or packing, an array of a file, or a file of an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    /// A Zarr v2 or v3 array or group, a precomputed volume, a webknossos-wrap data set, a .npy
    /// file, or a file of raw bytes (.raw, .bin, or any with --shape and --dtype; - is standard
    /// input)
    #[arg(value_name = "SRC")]
    source: String,
    /// The data set that is to be made, or a file: .npy, or raw bytes in .raw, .bin or - (standard
    /// output)
    #[arg(value_name = "DST")]
    target: String,
    /// The length of each axis of raw bytes, such as 512,1024,512
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument)]
    shape: Option<Shape>,
    /// The type of the elements; of a .npy file that is its own, or what --cast converts to
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// Convert numbers of another type. Fractions are cut off; a value that does not fit is an
    /// error
    #[arg(long, requires = "dtype")]
    cast: bool,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    layout: Layout,
    /// Chunks in a shard along each axis: one number for all of them, or one for each; 1 or none
    /// stores chunks by themselves
    #[arg(long, value_name = "N|N,N,..|none", value_parser = per_shard_argument, conflicts_with = "shard")]
    chunks_per_shard: Option<PerShard>,
    /// Shards near this size, as some chunks of the input take when they are encoded
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size,
          conflicts_with_all = ["shard", "chunks_per_shard"])]
    target_size: Option<u64>,
    /// The format of the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "zarr3")]
    to: Format,
    /// Between Zarr and precomputed volumes: store chunks of zeros too, which some readers of
    /// volumes expect
    #[arg(long)]
    store_empty: bool,
    #[command(flatten)]
    job: JobArgs,
    // Last, as what follows would be listed under its heading.
    #[command(flatten)]
    volume: VolumeArgs,
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
        is_file(&self.target)
    }
}

/// Whether a name is that of a file of elements: `.npy`, or raw bytes.
fn is_file(name: &str) -> bool {
    let raw = |path: &Path| path.extension().is_some_and(|ext| ext == "raw" || ext == "bin");
    name == "-" || (!name.contains("://") && (is_npy(name.as_ref()) || raw(name.as_ref())))
}

pub fn run(args: &Convert, machine: &Machine) -> Result<(), Failure> {
    if let Some(ForeignFile { format, advice, .. }) = foreign_file(&args.target) {
        let message = format!("{}: {format} files are not written", args.target);
        return Err(Failure::new(message).hint(advice));
    }
    let files = is_file(&args.source) || is_file(&args.target);
    if let Some(name) = args.job.of_data_sets(is_file(&args.target)).filter(|_| files) {
        return Err(Failure::new(format!("{name}: only from one data set to another")));
    }
    if files && args.to == Format::Precomputed {
        return Err(Failure::new("--to precomputed: only from one data set to another")
            .hint("`shardine create --to precomputed` makes a volume, `shardine write` fills it"));
    }
    if let Some(name) = args.of_volumes().filter(|_| files) {
        return Err(Failure::new(format!("{name}: only between Zarr and precomputed volumes")));
    }
    let described = args.shape.is_some() && args.dtype.is_some();
    let from_file = is_file(&args.source) || (described && !args.source.contains("://"));
    match (from_file, is_file(&args.target)) {
        (true, false) => import::run(args, machine),
        (false, true) => {
            let target = PathBuf::from(&args.target);
            let (overwrite, json) = (args.job.overwrite, args.job.json);
            let read = read::Read::whole(&args.source, &target, overwrite, json);
            read::run_at(&read, &args.places.source(machine, &args.source)?, machine)
        }
        (true, true) => {
            let (source, target) = (&args.source, &args.target);
            Err(Failure::new(format!("{source} and {target} are both files; one must be an array"))
                .hint("name the array without .npy, .raw or .bin at its end"))
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
    if let Some(name) = of_files.or(args.layout.of_new_arrays()) {
        let message = format!("{name}: {} is a data set, which says so itself", args.source);
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
        Format::Zarr3 if !is_zarr => return volume::to_zarr(args, &source, machine),
        Format::Precomputed if !is_volume => return volume::to_volume(args, &source, machine),
        Format::Precomputed => {
            return Err(Failure::new(format!("{} is a precomputed volume already", args.source))
                .hint(
                    "`shardine reshard SRC -o DST` repacks its chunks, `shardine copy` copies it",
                ));
        }
        Format::Zarr3 => {}
    }
    if let Some(name) = args.of_volumes() {
        return Err(Failure::new(format!("{name}: only between Zarr and precomputed volumes")));
    }
    let options = args.layout.asked(args.packing()).options(Packing::Keep)?;
    let target = args.places.target(machine, &args.target)?;
    repack::run_job(&source, Some(&target), options, &args.job, machine, &args.target)
}
