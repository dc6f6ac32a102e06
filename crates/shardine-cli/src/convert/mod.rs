//! `shardine convert`: from one format to another.

mod import;
mod marker;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::Machine;
use crate::create::{Layout, Shape, shape_argument};
use crate::failure::Failure;
use crate::{input, read, units};

const EXAMPLES: &str = "\
Examples:
  shardine convert volume.npy image.zarr
  shardine convert volume.raw image.zarr --shape 512,1024,1024 --dtype uint16 --target-size 32MiB
  generate | shardine convert - s3://bucket/image.zarr --shape 512,1024,1024 --dtype uint16
  shardine convert image.zarr volume.npy

A .npy file says its shape and type; it may be in C or Fortran order and of either byte order. Any other file holds the
elements alone, little-endian and in C order, and needs --shape and --dtype. Elements are read piece by piece, so a file
may be larger than memory; standard input is kept in a temporary file. The way back makes what `shardine read -o` makes.

A run that was stopped goes on when the same command is given again, and shards that are there are kept; meanwhile
.shardine-convert.json beside the array's zarr.json says what is under way.";

/// Make an array of a file, or a file of an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    /// A .npy file, a file of raw bytes (.raw, .bin, or any with --shape and --dtype; - is standard input), or an array
    #[arg(value_name = "SRC")]
    source: String,
    /// The array that is to be made, or a file: .npy, or raw bytes in .raw, .bin or - (standard output)
    #[arg(value_name = "DST")]
    target: String,
    /// The length of each axis of raw bytes, such as 512,1024,512
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument)]
    shape: Option<Shape>,
    /// The type of the elements; of a .npy file that is its own, or what --cast converts to
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// Convert numbers of another type. Fractions are cut off; a value that does not fit is an error
    #[arg(long, requires = "dtype")]
    cast: bool,
    #[command(flatten)]
    layout: Layout,
    /// Chunks in a shard along each axis: one number for all of them, or one for each; 1 or none stores chunks by themselves
    #[arg(long, value_name = "N|N,N,..|none", value_parser = chunks_argument, conflicts_with = "shard")]
    chunks_per_shard: Option<ChunksPerShard>,
    /// Shards near this size, as some chunks of the input take when they are encoded
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size,
          conflicts_with_all = ["shard", "chunks_per_shard"])]
    target_size: Option<u64>,
    /// Remove the array that is at DST
    #[arg(long)]
    overwrite: bool,
    /// Tell in JSON what was done
    #[arg(long)]
    json: bool,
}

/// How many chunks go into a shard.
#[derive(Debug, Clone)]
enum ChunksPerShard {
    All(u64),
    Each(Vec<u64>),
}

fn chunks_argument(text: &str) -> Result<ChunksPerShard, String> {
    let refuse = || format!("\"{text}\" is not a number of chunks such as 8 or 4,4,16");
    if text == "none" {
        return Ok(ChunksPerShard::All(1));
    }
    let counts = units::parse_shape(text).map_err(|_| refuse())?;
    match &counts[..] {
        counts if counts.contains(&0) => Err(refuse()),
        [] => Err(refuse()),
        [all] => Ok(ChunksPerShard::All(*all)),
        _ => Ok(ChunksPerShard::Each(counts)),
    }
}

/// Whether a name is that of a file of elements: `.npy`, or raw bytes.
fn is_file(name: &str) -> bool {
    let raw = |path: &Path| path.extension().is_some_and(|ext| ext == "raw" || ext == "bin");
    name == "-" || (!name.contains("://") && (input::is_npy(name.as_ref()) || raw(name.as_ref())))
}

pub fn run(args: &Convert, machine: &Machine) -> Result<(), Failure> {
    let described = args.shape.is_some() && args.dtype.is_some();
    let from_file = is_file(&args.source) || (described && !args.source.contains("://"));
    match (from_file, is_file(&args.target)) {
        (true, false) => import::run(args, machine),
        (false, true) => {
            let read = read::Read::whole(&args.source, &PathBuf::from(&args.target), args.json);
            read::run(&read, machine)
        }
        (true, true) => {
            let (source, target) = (&args.source, &args.target);
            Err(Failure::new(format!("{source} and {target} are both files; one must be an array"))
                .hint("name the array without .npy, .raw or .bin at its end"))
        }
        (false, false) => Err(Failure::new("from one array to another: not yet")
            .hint("`shardine copy` copies a data set as it is")),
    }
}
