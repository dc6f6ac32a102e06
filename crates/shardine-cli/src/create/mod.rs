//! `shardine create`: a new array.

mod shapes;
mod volume;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use shardine::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, MAX_DOCUMENT_BYTES, NewArray, NodeMetadata, Separator,
    codec_specs_from_json, codec_specs_to_json,
};
use shardine::{
    ArrayNode, CodecSpec, DataType, FillValue, Packing, WriteOrder, ZarrFormat, codec_words,
};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::packing::Asked;
use crate::{consolidate, info, units};
pub use shapes::{chunk as chunk_shape, element_bytes};
pub use volume::{Triple, VolumeArgs, encoding, parse_sharding};

const EXAMPLES: &str = "\
Examples:
  shardine create a.zarr --shape 512,1024,512 --dtype uint16
  shardine create b.zarr --shape 512,1024,512 --dtype uint16 --chunk 32,32,32 --shard 256,256,256 \\
      --codec blosc:lz4:5:bitshuffle --index start --dims z,y,x
  shardine create c.zarr --shape 1000,1000 --dtype float32 --fill NaN --shard none --codec gzip:5
  shardine create d.zarr --metadata zarr.json

Without --chunk, chunks have about 64^3 elements; without --shard, shards have about 64 MiB before compression,
and at most 32,768 chunks.";

/// Make a new array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Create {
    /// Where: the path of a folder
    url: String,
    /// The length of each axis, such as 512,1024,512; "" for an array without axes
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument, required_unless_present = "metadata")]
    shape: Option<Shape>,
    /// The type of the elements, such as uint16, float32, string or numpy.datetime64[ns]
    #[arg(long, value_name = "TYPE", required_unless_present = "metadata")]
    dtype: Option<String>,
    #[command(flatten)]
    layout: Layout,
    /// The format: zarr3, or precomputed for a volume with the axes x, y, z and, if there are several, channel
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "zarr3")]
    to: Format,
    #[command(flatten)]
    volume: VolumeArgs,
    /// Take the whole description from a zarr.json, or from the `info` of a volume, and keep it as it stands
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "shape", "dtype", "chunk", "shard", "codec", "codecs", "index_codecs", "index", "fill",
        "dims", "attributes", "key_encoding", "separator",
    ])]
    metadata: Option<PathBuf>,
    /// Remove the array that is there
    #[arg(long)]
    overwrite: bool,
    /// Describe the new array in JSON
    #[arg(long)]
    json: bool,
}

/// How a new array is to be stored: what `create` and `convert` share.
#[derive(Debug, Clone, Args)]
pub struct Layout {
    /// The shape of chunks, in elements
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument)]
    chunk: Option<Shape>,
    /// The shape of shards, in elements: a multiple of the chunk; `none` stores each chunk by itself
    #[arg(long, value_name = "N,N,..|none", value_parser = shard_argument)]
    shard: Option<ShardArgument>,
    /// A codec of the chunks: zstd:LEVEL, gzip:LEVEL, blosc:CNAME:LEVEL:SHUFFLE, crc32c, transpose:2,1,0
    /// or none; more than one in the order of encoding [default: zstd:3]
    #[arg(long, value_name = "CODEC", conflicts_with = "codecs")]
    codec: Vec<String>,
    /// The codecs of the chunks as a list in the metadata's own form
    #[arg(long, value_name = "JSON")]
    codecs: Option<String>,
    /// The codecs of the shards' indexes as a list in the metadata's own form [default: bytes, crc32c]
    #[arg(long, value_name = "JSON")]
    index_codecs: Option<String>,
    /// Where in a shard its index is; `start` suits arrays that will be updated [default: end]
    #[arg(long, value_enum)]
    index: Option<IndexPlace>,
    /// What elements are that were never written: a number, NaN, a string, or a JSON value [default: zero]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    fill: Option<String>,
    /// Names of the axes, such as z,y,x
    #[arg(long, value_name = "NAME,..")]
    dims: Option<String>,
    /// Attributes of the array: a JSON object
    #[arg(long, value_name = "JSON")]
    attributes: Option<String>,
    /// How the names of stored objects are made [default: default]
    #[arg(long, value_enum)]
    key_encoding: Option<KeyEncoding>,
    /// What stands between the numbers in these names [default: / , with --key-encoding v2 .]
    #[arg(long, value_name = "/|.", value_parser = separator)]
    separator: Option<Separator>,
}

impl Layout {
    /// The first of the options that only a new array has, if it is given.
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

    /// What is asked for of an array that exists; `packing` is what is said beside `--shard`.
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

    /// The same with shards of its own.
    pub fn with_shard(&self, shard: ShardArgument) -> Self {
        Self { shard: Some(shard), ..self.clone() }
    }

    /// The same with chunks of its own.
    pub fn with_chunk(&self, chunk: Vec<u64>) -> Self {
        Self { chunk: Some(Shape(chunk)), ..self.clone() }
    }
}

/// The parser would take a bare `Vec` for an option that may be repeated.
#[derive(Debug, Clone)]
pub struct Shape(pub Vec<u64>);

#[derive(Debug, Clone)]
pub enum ShardArgument {
    None,
    Shape(Vec<u64>),
}

impl ShardArgument {
    /// The same for an array that exists.
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
        _ => Err("it is / or .".to_owned()),
    }
}

pub fn run(args: &Create, machine: &Machine) -> Result<(), Failure> {
    if machine.zarr_format == Some(ZarrFormat::V2) {
        return Err(Failure::new("--zarr-format 2: new arrays are of Zarr version 3"));
    }
    let location = machine.location(&args.url)?;
    // A job that was killed may have left what is there without its name, and nothing else must get it.
    shardine::recover(&location)?;
    if let Some(info) = volume::wanted(args)? {
        return volume::create(args, machine, &location, info);
    }
    let metadata = match &args.metadata {
        Some(file) => from_file(file)?,
        None => from_arguments(args)?,
    };
    let array = ArrayNode::create(&machine.engine()?, &location, metadata, args.overwrite)?;
    consolidate::warn(array.stale_copies());
    let mut out = std::io::stdout().lock();
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

/// The metadata in a file, which stays as it stands there.
fn from_file(path: &Path) -> Result<ArrayMetadata, Failure> {
    let failed = |error: std::io::Error| Failure::file(path, &error);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    // One byte past the limit is enough to be refused.
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
        return Err(Failure::new("--shape and --dtype are needed"));
    };
    let data_type = DataType::parse_name(dtype).map_err(Failure::new)?;
    metadata(&args.layout, shape, data_type)
}

/// The metadata of a new array.
pub fn metadata(
    args: &Layout,
    shape: &[u64],
    data_type: DataType,
) -> Result<ArrayMetadata, Failure> {
    let codecs = match &args.codecs {
        Some(json) => {
            codec_specs_from_json(&parse_json("--codecs", json)?).map_err(Failure::new)?
        }
        None if args.codec.is_empty() => {
            codec_words::chain(&[codec_words::DEFAULT.to_owned()], &data_type)
                .map_err(Failure::new)?
        }
        None => codec_words::chain(&args.codec, &data_type)
            .map_err(|reason| Failure::new(format!("--codec: {reason}")))?,
    };
    let packing = packing(args, shape, &data_type, &codecs)?;
    let (chunk_shape, codecs) = match packing.shard {
        Some(shard) => {
            let index_codecs = match &args.index_codecs {
                Some(json) => Some(parse_json("--index-codecs", json)?),
                None => None,
            };
            let place = match args.index {
                Some(IndexPlace::Start) => "start",
                Some(IndexPlace::End) | None => "end",
            };
            let codecs = codec_specs_to_json(&codecs);
            (shard, vec![codec_words::sharding(&packing.chunk, &codecs, index_codecs, place)])
        }
        None if args.index_codecs.is_some() => {
            return Err(Failure::new("--index-codecs: without shards there is no index"));
        }
        None => (packing.chunk, codecs),
    };
    let key_encoding = match args.key_encoding.unwrap_or(KeyEncoding::Default) {
        KeyEncoding::Default => {
            ChunkKeyEncoding::Default { separator: args.separator.unwrap_or(Separator::Slash) }
        }
        KeyEncoding::V2 => {
            ChunkKeyEncoding::V2 { separator: args.separator.unwrap_or(Separator::Dot) }
        }
    };
    let fill = args.fill.as_deref().map(|text| parse_fill(text, &data_type)).transpose()?;
    let attributes = match &args.attributes {
        None => Map::new(),
        Some(json) => match parse_json("--attributes", json)? {
            Value::Object(members) => members,
            _ => return Err(Failure::new("--attributes: is not a JSON object")),
        },
    };
    let dimension_names = args.dims.as_deref().map(|names| dimension_names(names, shape.len()));
    ArrayMetadata::new(NewArray {
        shape: shape.to_vec(),
        chunk_shape,
        data_type,
        fill,
        codecs,
        key_encoding,
        dimension_names: dimension_names.transpose()?,
        attributes,
    })
    .map_err(Failure::new)
}

struct Shapes {
    chunk: Vec<u64>,
    shard: Option<Vec<u64>>,
}

/// The shapes of chunks and shards: as given, or what suits.
fn packing(
    args: &Layout,
    shape: &[u64],
    data_type: &DataType,
    codecs: &[CodecSpec],
) -> Result<Shapes, Failure> {
    let rank = |name: &str, given: &[u64]| {
        if given.len() == shape.len() && !given.contains(&0) {
            return Ok(());
        }
        let given = units::shape_argument(given);
        Err(Failure::new(format!(
            "--{name} {given}: needs one length above 0 for each of the {} axes",
            shape.len()
        )))
    };
    let element = shapes::element_bytes(data_type);
    let chunk = args.chunk.as_ref().map(|Shape(chunk)| chunk);
    if let Some(chunk) = chunk {
        rank("chunk", chunk)?;
    }
    let shard = match &args.shard {
        Some(ShardArgument::Shape(shard)) => {
            rank("shard", shard)?;
            Some(shard)
        }
        _ => None,
    };
    if let (Some(chunk), Some(shard)) = (chunk, shard)
        && let Some(axis) = (0..shape.len()).find(|&k| shard[k] % chunk[k] != 0)
    {
        return Err(Failure::new(format!(
            "a shard of {} elements along axis {axis} does not hold whole chunks of {}",
            shard[axis], chunk[axis]
        ))
        .hint(format!(
            "--shard {} does",
            units::shape_argument(&shapes::rounded_up(shard, chunk))
        )));
    }
    let chunk = match (chunk, shard) {
        (Some(chunk), _) => chunk.clone(),
        (None, Some(shard)) => shapes::chunk_in_shard(shape, shard, element),
        (None, None) => shapes::chunk(shape, element),
    };
    // Chunks that are shards themselves are not packed again unless that is asked for.
    let nested = codecs.iter().any(|codec| codec.name == "sharding_indexed");
    let shard = match (&args.shard, shard) {
        (Some(ShardArgument::None), _) => None,
        (_, Some(shard)) => Some(shard.clone()),
        (None, None) if nested => None,
        _ => shapes::shard(shape, &chunk, element),
    };
    Ok(Shapes { chunk, shard })
}

fn parse_json(option: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::new(format!("{option}: is not JSON: {error}")))
}

/// `0`, `NaN`, `[1, 2]`, `some text`: as JSON if that is legal for the type, as a string if not.
fn parse_fill(text: &str, data_type: &DataType) -> Result<FillValue, Failure> {
    let as_string = data_type.fill_from_json(&json!(text));
    let as_json = serde_json::from_str::<Value>(text).ok();
    match as_json.map(|json| data_type.fill_from_json(&json)) {
        Some(Ok(fill)) => Ok(fill),
        Some(Err(error)) => as_string.map_err(|_| error),
        None => as_string,
    }
    .map_err(Failure::new)
}

/// An empty name is an axis without one.
fn dimension_names(text: &str, rank: usize) -> Result<Vec<Option<String>>, Failure> {
    let names: Vec<Option<String>> = match text.trim() {
        "" => Vec::new(),
        text => text
            .split(',')
            .map(|name| Some(name.trim().to_owned()).filter(|name| !name.is_empty()))
            .collect(),
    };
    if names.len() != rank {
        let given = names.len();
        return Err(Failure::new(format!(
            "--dims: has {given} names where the array has {rank} axes"
        )));
    }
    Ok(names)
}
