//! A new precomputed volume.

use std::fs::File;
use std::io::{Read as _, Write as _};

use clap::Args;
use serde_json::Value;
use shardine::Location;
use shardine::plan::VolumePacking;
use shardine::plan::{VolumeLayout, VolumeLayoutError};
use shardine::precomputed::{ChunkEncoding, Volume, VolumeInfo};
use shardine::shard::uint64::{Encoding, Sharding};
use shardine::zarr::metadata::MAX_DOCUMENT_BYTES;

use super::{Create, Format, Shape, ShardArgument};
use crate::cli::Machine;
use crate::failure::{self, Failure};
use crate::{said, units, volume};

/// What only volumes have.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Precomputed volumes")]
pub struct VolumeArgs {
    /// Encode chunks as raw, compressed_segmentation, jpeg or png [default: raw]
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<String>,
    /// Set the size of a voxel along x, y and z, in nanometres [default: 1,1,1]
    #[arg(long, value_name = "X,Y,Z", value_parser = triple::<f64>)]
    pub resolution: Option<Triple<f64>>,
    /// Set the coordinates of the first voxel [default: 0,0,0]
    #[arg(long, value_name = "X,Y,Z", value_parser = triple::<i64>, allow_hyphen_values = true)]
    pub voxel_offset: Option<Triple<i64>>,
    /// Set the type of the volume: image or segmentation [default: by data type and encoding]
    #[arg(long = "type", value_name = "KIND", value_parser = ["image", "segmentation"])]
    pub kind: Option<String>,
    /// Set the sharding as JSON, as in an `info`; @FILE reads it from a file
    #[arg(long, value_name = "JSON", conflicts_with = "shard")]
    pub sharding: Option<String>,
    /// Compress chunks within shards [default: gzip for raw and compressed_segmentation, else raw]
    #[arg(long, value_name = "raw|gzip", value_parser = encoding)]
    pub data_encoding: Option<Encoding>,
}

impl VolumeArgs {
    /// The first of these options that is given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--encoding", self.encoding.is_some()),
            ("--resolution", self.resolution.is_some()),
            ("--voxel-offset", self.voxel_offset.is_some()),
            ("--type", self.kind.is_some()),
            ("--sharding", self.sharding.is_some()),
            ("--data-encoding", self.data_encoding.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The requested encoding of chunks, if given.
    pub fn chunk_encoding(&self) -> Result<Option<ChunkEncoding>, Failure> {
        match self.encoding.as_deref().map(ChunkEncoding::from_name) {
            Some(ChunkEncoding::Other { name }) => {
                Err(Failure::new(format!("--encoding {name}: unknown encoding")))
            }
            encoding => Ok(encoding),
        }
    }
}

/// Three numbers.
#[derive(Debug, Clone, Copy)]
pub struct Triple<T>(pub [T; 3]);

fn triple<T: std::str::FromStr>(text: &str) -> Result<Triple<T>, String> {
    let items: Option<Vec<T>> = text.split(',').map(|item| item.trim().parse().ok()).collect();
    let items = items.and_then(|items| items.try_into().ok());
    items.map(Triple).ok_or_else(|| format!("\"{text}\" is not three numbers, such as 8,8,40"))
}

/// An encoding of shards.
pub fn encoding(text: &str) -> Result<Encoding, String> {
    Encoding::from_name(text).ok_or_else(|| format!("\"{text}\" is not raw or gzip"))
}

/// The sharding that an argument describes.
pub fn parse_sharding(text: &str) -> Result<Sharding, Failure> {
    let text = match text.strip_prefix('@') {
        Some(path) => {
            let failed = |error| Failure::file(std::path::Path::new(path), &error);
            let mut text = String::new();
            let mut file = File::open(path).map_err(failed)?.take(MAX_DOCUMENT_BYTES as u64);
            file.read_to_string(&mut text).map_err(failed)?;
            text
        }
        None => text.to_owned(),
    };
    let document: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("--sharding: not valid JSON: {error}")))?;
    Sharding::from_json(&document).map_err(Failure::new)
}

/// The `info` of the volume to create, if it is to be a volume.
pub fn wanted(args: &Create) -> Result<Option<VolumeInfo>, Failure> {
    if let Some(path) = &args.metadata {
        let failed = |error: std::io::Error| Failure::file(path, &error);
        let file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let Ok(Value::Object(document)) = serde_json::from_slice(&bytes) else { return Ok(None) };
        if !VolumeInfo::is_volume(&document) {
            return Ok(None);
        }
        let info = VolumeInfo::from_document(document);
        return info
            .map(Some)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())));
    }
    if args.to != Format::Precomputed {
        return Ok(None);
    }
    let (Some(Shape(shape)), Some(dtype)) = (&args.shape, &args.dtype) else {
        return Err(Failure::new("--shape and --dtype are required"));
    };
    let (size, channels) = match shape[..] {
        [x, y, z] => ([x, y, z], 1),
        [x, y, z, channels] => ([x, y, z], channels),
        _ => {
            return Err(Failure::new(format!(
                "--shape {}: a volume has the axes x, y, z and, if there are several, channel",
                units::shape_argument(shape)
            )));
        }
    };
    let data_type = failure::data_type(dtype)?;
    let of = |name: &str, shape: &[u64]| match shape {
        [x, y, z] => Ok([*x, *y, *z]),
        [x, y, z, c] if *c == channels => Ok([*x, *y, *z]),
        shape => Err(Failure::new(format!(
            "--{name} {}: needs lengths along x, y and z",
            units::shape_argument(shape)
        ))),
    };
    let given = &args.volume;
    let mut layout = VolumeLayout::default();
    layout.chunk = match &args.layout.chunk {
        Some(Shape(chunk)) => Some(of("chunk", chunk)?),
        None => None,
    };
    layout.encoding = given.chunk_encoding()?;
    layout.packing = match (&given.sharding, &args.layout.shard) {
        (Some(text), _) => VolumePacking::Sharding(parse_sharding(text)?),
        (None, Some(ShardArgument::None)) => VolumePacking::Unsharded,
        (None, Some(ShardArgument::Shape(shard))) => VolumePacking::Box(of("shard", shard)?),
        (None, None) => VolumePacking::Recommended,
    };
    // A complete sharding takes precedence, encodings included.
    layout.data_encoding = given.data_encoding.filter(|_| given.sharding.is_none());
    layout.kind = given.kind.clone();
    layout.resolution = given.resolution.map(|Triple(values)| values);
    layout.voxel_offset = given.voxel_offset.map(|Triple(values)| values);
    let info = layout.info(size, channels, &data_type).map_err(|error| match error {
        VolumeLayoutError::EmptyChunk { .. } => Failure::new("--chunk: lengths must be above 0"),
        error => Failure::new(error),
    });
    info.map(Some)
}

pub fn create(
    args: &Create,
    machine: &Machine,
    location: &Location,
    info: VolumeInfo,
) -> Result<(), Failure> {
    if args.overwrite {
        return Err(Failure::new(
            "--overwrite: volumes cannot be replaced, because their scales may be shared",
        )
        .hint("remove its folder first, or choose another name"));
    }
    let engine = machine.engine()?;
    let made = Volume::create(&engine, location, info)?;
    if args.json {
        return volume::info(&engine, &args.url, &made, true, true, None);
    }
    let info = made.info();
    let mut out = said::words();
    let size = info.scales().first().map_or([0; 3], |scale| scale.size);
    let scales = units::count(info.scales().len() as u64, "scale");
    let (size, name) = (units::shape(&size), info.data_type().name());
    writeln!(out, "created {}: precomputed volume, {size} {name}, {scales}", args.url)?;
    Ok(())
}
