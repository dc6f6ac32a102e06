//! `shardine create`: a new array.

mod volume;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value;
use shardine::plan::{ArrayLayout, FillChoice};
use shardine::shard::IndexLocation;
use shardine::zarr::CreateOptions;
use shardine::zarr::ZarrFormat;
use shardine::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, MAX_DOCUMENT_BYTES, NodeMetadata, Separator,
    codec_specs_from_json,
};
use shardine::{ArrayNode, Packing, WriteOrder};

use crate::cli::Machine;
use crate::failure::{self, Failure};
use crate::packing::Asked;
use crate::{consolidate, info, said, units};
pub use volume::{Triple, VolumeArgs, encoding, parse_sharding};

const EXAMPLES: &str = "\
Examples:
  shardine create a.zarr --shape 512,1024,512 --dtype uint16
  shardine create b.zarr --shape 512,1024,512 --dtype uint16 --chunk 32,32,32 --shard 256,256,256 \\
      --codec blosc:lz4:5:bitshuffle --index start --dims z,y,x
  shardine create c.zarr --shape 1000,1000 --dtype float32 --fill NaN --shard none --codec gzip:5
  shardine create d.zarr --metadata zarr.json

Without --chunk, chunks have about 64^3 elements. Without --shard, shards have about 64 MiB before
compression, and at most 32,768 chunks.";

/// Create an array or a precomputed volume
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Create {
    /// Path or URL of the new array
    url: String,
    /// Set the length of each axis, such as 512,1024,512; "" for an array without axes
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument, required_unless_present = "metadata")]
    shape: Option<Shape>,
    /// Set the data type, such as uint16, float32, string or numpy.datetime64[ns]
    #[arg(long, value_name = "TYPE", required_unless_present = "metadata")]
    dtype: Option<String>,
    #[command(flatten)]
    layout: Layout,
    /// Create this format: zarr3, or precomputed for a volume with the axes x, y, z and, if there
    /// are several, channel
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "zarr3")]
    to: Format,
    /// Take the whole description from a zarr.json, or from the `info` of a volume, unchanged
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "shape", "dtype", "chunk", "shard", "codec", "codecs", "index_codecs", "index", "fill",
        "dims", "attributes", "key_encoding", "separator",
    ])]
    metadata: Option<PathBuf>,
    /// Replace an existing array
    #[arg(long)]
    overwrite: bool,
    /// Print the description of the new array as JSON
    #[arg(long)]
    json: bool,
    // Last, as what follows would be listed under its heading.
    #[command(flatten)]
    volume: VolumeArgs,
}

/// How a new array is to be stored: what `create` and `convert` share.
#[derive(Debug, Clone, Args)]
pub struct Layout {
    /// Set the shape of chunks, in elements
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument)]
    chunk: Option<Shape>,
    /// Set the shape of shards, in elements, a multiple of the chunk shape; `none` disables
    /// sharding
    #[arg(long, value_name = "N,N,..|none", value_parser = shard_argument)]
    shard: Option<ShardArgument>,
    /// Encode chunks with this codec: zstd:LEVEL, gzip:LEVEL, blosc:CNAME:LEVEL:SHUFFLE, lz4,
    /// crc32c, transpose:2,1,0 or none; can be repeated, in the order of encoding [default: zstd:3]
    #[arg(long, value_name = "CODEC", conflicts_with = "codecs")]
    codec: Vec<String>,
    /// Encode chunks with these codecs, a JSON list as in the metadata
    #[arg(long, value_name = "JSON")]
    codecs: Option<String>,
    /// Encode the indexes of shards with these codecs, a JSON list as in the metadata [default:
    /// bytes, crc32c]
    #[arg(long, value_name = "JSON")]
    index_codecs: Option<String>,
    /// Store the index of a shard at its start or end; `start` suits arrays that will be updated
    /// [default: end]
    #[arg(long, value_enum)]
    index: Option<IndexPlace>,
    /// Set the value of elements that were never written: a number, NaN, a string or JSON [default:
    /// zero]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    fill: Option<String>,
    /// Name the axes, such as z,y,x
    #[arg(long, value_name = "NAME,..")]
    dims: Option<String>,
    /// Set the attributes, a JSON object
    #[arg(long, value_name = "JSON")]
    attributes: Option<String>,
    /// Set how the keys of stored objects are formed [default: default]
    #[arg(long, value_enum)]
    key_encoding: Option<KeyEncoding>,
    /// Set the separator of the numbers in these keys [default: / , with --key-encoding v2 .]
    #[arg(long, value_name = "/|.", value_parser = separator)]
    separator: Option<Separator>,
}

impl Layout {
    /// The first option given that only a new array has.
    pub fn of_new_arrays(&self) -> Option<&'static str> {
        let given = [
            ("--index-codecs", self.index_codecs.is_some()),
            ("--fill", self.fill.is_some()),
            ("--dims", self.dims.is_some()),
            ("--attributes", self.attributes.is_some()),
            ("--key-encoding", self.key_encoding.is_some()),
            ("--separator", self.separator.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// What separates the numbers in the keys of stored objects, if given.
    pub fn separator(&self) -> Option<Separator> {
        self.separator
    }

    /// What is requested for an existing array; `packing` comes from options besides `--shard`.
    pub fn asked(&self, packing: Option<Packing>) -> Asked<'_> {
        Asked {
            packing: packing.or(self.shard.as_ref().map(ShardArgument::packing)),
            index: self.index,
            order: WriteOrder::default(),
            chunk: self.chunk.as_ref().map(|chunk| chunk.0.as_slice()),
            codec: &self.codec,
            codecs: self.codecs.as_deref(),
        }
    }

    /// How a new array is stored; `packing` comes from options besides `--shard`.
    pub fn layout(&self, packing: Option<Packing>) -> Result<ArrayLayout, Failure> {
        let asked = self.asked(packing);
        let mut layout = ArrayLayout::default();
        layout.codecs = asked.codec_choice()?;
        layout.packing = asked.packing.unwrap_or_default();
        layout.chunk = asked.chunk.map(<[u64]>::to_vec);
        layout.index = asked.index.map(IndexPlace::location);
        if let Some(json) = &self.index_codecs {
            let codecs = codec_specs_from_json(&parse_json("--index-codecs", json)?);
            layout.index_codecs = Some(codecs.map_err(Failure::new)?);
        }
        layout.fill = self.fill.clone().map(FillChoice::Text);
        layout.dimension_names = self.dims.as_deref().map(dimension_names);
        if let Some(json) = &self.attributes {
            let Value::Object(members) = parse_json("--attributes", json)? else {
                return Err(Failure::new("--attributes: not a JSON object"));
            };
            layout.attributes = members;
        }
        layout.key_encoding = Some(match self.key_encoding.unwrap_or(KeyEncoding::Default) {
            KeyEncoding::Default => {
                ChunkKeyEncoding::Default { separator: self.separator.unwrap_or(Separator::Slash) }
            }
            KeyEncoding::V2 => {
                ChunkKeyEncoding::V2 { separator: self.separator.unwrap_or(Separator::Dot) }
            }
        });
        Ok(layout)
    }
}

/// The parser would treat a bare `Vec` as an option that may be repeated.
#[derive(Debug, Clone)]
pub struct Shape(pub Vec<u64>);

#[derive(Debug, Clone)]
pub enum ShardArgument {
    None,
    Shape(Vec<u64>),
}

impl ShardArgument {
    /// The packing of an existing array.
    pub fn packing(&self) -> Packing {
        match self {
            Self::None => Packing::Unsharded,
            Self::Shape(shape) => Packing::Shard(shape.clone()),
        }
    }
}

/// What kind of data set is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Zarr version 3
    Zarr3,
    /// Neuroglancer's precomputed format
    Precomputed,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum IndexPlace {
    Start,
    End,
}

impl IndexPlace {
    pub fn location(self) -> IndexLocation {
        match self {
            Self::Start => IndexLocation::Start,
            Self::End => IndexLocation::End,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyEncoding {
    /// c/0/1/2
    Default,
    /// 0.1.2
    V2,
}

pub fn shape_argument(text: &str) -> Result<Shape, String> {
    units::parse_shape(text).map(Shape)
}

pub fn shard_argument(text: &str) -> Result<ShardArgument, String> {
    match text {
        "none" => Ok(ShardArgument::None),
        _ => units::parse_shape(text).map(ShardArgument::Shape),
    }
}

fn separator(text: &str) -> Result<Separator, String> {
    match text {
        "/" => Ok(Separator::Slash),
        "." => Ok(Separator::Dot),
        _ => Err("must be / or .".to_owned()),
    }
}

pub fn run(args: &Create, machine: &Machine) -> Result<(), Failure> {
    if machine.zarr_format == Some(ZarrFormat::V2) {
        return Err(Failure::new("--zarr-format 2: new arrays are always Zarr version 3"));
    }
    let location = machine.location(&args.url)?;
    // A killed job may have left the data set there without its name, and nothing else must take
    // it.
    shardine::jobs::recover(&location)?;
    if let Some(info) = volume::wanted(args)? {
        return volume::create(args, machine, &location, info);
    }
    let metadata = match &args.metadata {
        Some(file) => from_file(file)?,
        None => from_arguments(args)?,
    };
    let options = CreateOptions::new().overwrite(args.overwrite);
    let made = ArrayNode::create_with(&machine.engine()?, &location, metadata, &options);
    let array = made.map_err(|error| match error {
        // There is no document yet that could be wrong.
        shardine::Error::Layout { source, .. } if args.metadata.is_none() => {
            let option = if args.layout.codecs.is_some() { "--codecs" } else { "--codec" };
            Failure::new(format!("{option}: {source}"))
                .hint("`shardine create --help` lists the supported codecs")
        }
        error => error.into(),
    })?;
    consolidate::warn(array.stale_copies());
    let mut out = said::out(args.json);
    if args.json {
        writeln!(out, "{:#}", info::describe(&array, None))?;
    } else {
        let packing = match array.shard_shape() {
            Some(shard) => format!(
                "chunks {} in shards {}",
                units::shape(array.chunk_shape()),
                units::shape(shard)
            ),
            None => format!("chunks {}", units::shape(array.chunk_shape())),
        };
        let (shape, name) = (units::shape(array.shape()), array.data_type().name());
        writeln!(out, "created {}: {shape} {name}, {packing}", args.url)?;
    }
    Ok(())
}

/// The metadata in a file, which is kept unchanged.
fn from_file(path: &Path) -> Result<ArrayMetadata, Failure> {
    let failed = |error: std::io::Error| Failure::file(path, &error);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    // One byte beyond the limit is enough for it to be refused.
    file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    match NodeMetadata::parse(&bytes) {
        Ok(NodeMetadata::Array(metadata)) => Ok(metadata),
        Ok(NodeMetadata::Group(_)) => {
            Err(Failure::new(format!("{}: describes a group, not an array", path.display())))
        }
        Err(error) => Err(Failure::new(format!("{}: {error}", path.display()))),
    }
}

fn from_arguments(args: &Create) -> Result<ArrayMetadata, Failure> {
    let (Some(Shape(shape)), Some(dtype)) = (&args.shape, &args.dtype) else {
        return Err(Failure::new("--shape and --dtype are required"));
    };
    let data_type = failure::data_type(dtype)?;
    let layout = args.layout.layout(None)?;
    Ok(layout.metadata(shape, &data_type).map_err(shardine::Error::from)?)
}

pub fn parse_json(option: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::new(format!("{option}: not valid JSON: {error}")))
}

/// An empty name is an axis without one.
fn dimension_names(text: &str) -> Vec<Option<String>> {
    match text.trim() {
        "" => Vec::new(),
        text => text
            .split(',')
            .map(|name| Some(name.trim().to_owned()).filter(|name| !name.is_empty()))
            .collect(),
    }
}
