//! The metadata of the new array, derived from the old one's and from the request.

use std::borrow::Cow;

use serde_json::{Map, json};

use super::{Packing, RepackError, RepackOptions};
use crate::jobs::walk::ArrayRole;
use crate::layout::Configuration;
use crate::plan;
use crate::shard::{IndexLocation, MAX_CHUNKS_PER_SHARD};
use crate::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, codec_specs_from_json, codec_specs_to_json,
};
use crate::zarr::{FlatCodecs, SHARDING};
use crate::{Array, CodecSpec, Error};

/// How an array is stored, with nested codecs flattened.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::jobs) struct Stored {
    /// All codecs that a chunk goes through, including those around shards.
    pub codecs: Vec<CodecSpec>,
    /// The shape of the innermost chunks, by axis of the array.
    pub chunk_shape: Vec<u64>,
    pub shards: Option<Shards>,
}

/// How the outermost shards are made.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::jobs) struct Shards {
    pub shape: Vec<u64>,
    pub index_codecs: Vec<CodecSpec>,
    pub location: IndexLocation,
    /// Whether there is nothing inside but the chunks' own codecs, and nothing around.
    pub plain: bool,
}

impl Stored {
    pub fn of(metadata: &ArrayMetadata) -> Result<Self, String> {
        let shape = metadata.chunk_shape();
        let specs = metadata.codecs();
        let FlatCodecs { codecs, chunk_shape } =
            FlatCodecs::of(specs).map_err(|error| error.to_string())?;
        let shards = match specs.iter().find(|spec| spec.name == SHARDING) {
            None => None,
            Some(spec) => {
                let found = Configuration::parse(&spec.configuration, "codecs")
                    .map_err(|error| error.to_string())?;
                let plain =
                    specs.len() == 1 && found.codecs.iter().all(|inner| inner.name != SHARDING);
                Some(Shards {
                    shape: shape.to_vec(),
                    index_codecs: found.index_codecs,
                    location: found.location,
                    plain,
                })
            }
        };
        let chunk_shape = chunk_shape.unwrap_or_else(|| shape.to_vec());
        Ok(Self { codecs, chunk_shape, shards })
    }

    /// The shape of objects and their codecs, for the metadata.
    pub fn to_layout(&self) -> (Vec<u64>, Vec<CodecSpec>) {
        let Some(shards) = &self.shards else {
            return (self.chunk_shape.clone(), self.codecs.clone());
        };
        let location = match shards.location {
            IndexLocation::Start => "start",
            IndexLocation::End => "end",
        };
        let mut configuration = Map::new();
        configuration.insert("chunk_shape".into(), json!(self.chunk_shape));
        configuration.insert("codecs".into(), codec_specs_to_json(&self.codecs));
        configuration.insert("index_codecs".into(), codec_specs_to_json(&shards.index_codecs));
        configuration.insert("index_location".into(), location.into());
        let codec = CodecSpec { name: SHARDING.into(), configuration, must_understand: true };
        (shards.shape.clone(), vec![codec])
    }
}

/// What has to be built.
#[derive(Debug)]
pub(in crate::jobs) struct Wanted {
    pub metadata: ArrayMetadata,
    /// Whether the array is already as requested.
    pub unchanged: bool,
}

/// What is requested of an array with this role.
pub(super) fn for_role<'a>(
    options: &'a RepackOptions,
    role: ArrayRole,
    array: &Array,
) -> Result<Cow<'a, RepackOptions>, Error> {
    options
        .for_role(role, array.shape().len())
        .map_err(|reason| RepackError::Layout { at: array.location().to_string(), reason }.into())
}

/// Determines what has to be built.
pub(in crate::jobs) fn wanted(
    array: &Array,
    metadata: &ArrayMetadata,
    options: &RepackOptions,
    key_encoding: ChunkKeyEncoding,
) -> Result<Wanted, Error> {
    let refuse = |reason: String| {
        Error::from(RepackError::Layout { at: array.location().to_string(), reason })
    };
    let old = Stored::of(metadata).map_err(refuse)?;
    let rank = array.shape().len();
    let chunk_shape = options.chunk.clone().unwrap_or_else(|| old.chunk_shape.clone());
    if chunk_shape.len() != rank {
        return Err(refuse(format!("chunks of {} axes for an array of {rank}", chunk_shape.len())));
    }
    if chunk_shape.contains(&0) {
        return Err(refuse("a chunk cannot have length 0".to_owned()));
    }
    let codecs = match &options.codecs {
        Some(choice) => choice.codecs(array.data_type()).map_err(refuse)?,
        None => old.codecs.clone(),
    };
    let shape = shard_shape(array, &old, &chunk_shape, &options.packing)
        .map_err(|refused| refused.into_error(refuse))?;
    let shards = match shape {
        None => None,
        Some(shape) => Some(Shards {
            shape,
            index_codecs: match &old.shards {
                Some(shards) => shards.index_codecs.clone(),
                None => default_index_codecs().map_err(refuse)?,
            },
            location: options
                .index
                .or(old.shards.as_ref().map(|shards| shards.location))
                .unwrap_or(IndexLocation::End),
            plain: true,
        }),
    };
    let new = Stored { codecs, chunk_shape, shards };
    let (object_shape, object_codecs) = new.to_layout();
    let unchanged = new == old && key_encoding == *metadata.key_encoding();
    let metadata = if unchanged {
        metadata.clone()
    } else {
        metadata
            .with_layout(&object_shape, &object_codecs, key_encoding)
            .map_err(|error| refuse(error.to_string()))?
    };
    Ok(Wanted { metadata: metadata.into_v3(), unchanged })
}

/// Why such shards are not possible.
#[derive(Debug)]
pub(in crate::jobs) enum Refused {
    Reason(String),
    Error(Error),
}

impl Refused {
    /// The error; `refuse` makes one from a reason.
    pub fn into_error(self, refuse: impl FnOnce(String) -> Error) -> Error {
        match self {
            Self::Reason(reason) => refuse(reason),
            Self::Error(error) => error,
        }
    }
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

/// The shape of the new shards; `None` for no shards.
pub(in crate::jobs) fn shard_shape(
    array: &Array,
    old: &Stored,
    chunk: &[u64],
    packing: &Packing,
) -> Result<Option<Vec<u64>>, Refused> {
    let per_axis = |chunks: &[u64]| -> Result<Option<Vec<u64>>, Refused> {
        if chunks.iter().all(|&n| n == 1) {
            return Ok(None);
        }
        let axes = chunk.iter().zip(chunks);
        let shape: Option<Vec<u64>> = axes.map(|(&n, &per)| n.checked_mul(per)).collect();
        let count = chunks.iter().try_fold(1u64, |count, &n| count.checked_mul(n));
        match (shape, count) {
            (Some(shape), Some(count)) if count <= MAX_CHUNKS_PER_SHARD => Ok(Some(shape)),
            _ => Err(format!("a shard cannot hold more than {MAX_CHUNKS_PER_SHARD} chunks").into()),
        }
    };
    match packing {
        Packing::Unsharded => Ok(None),
        Packing::Keep => match &old.shards {
            None => Ok(None),
            Some(shards) => multiple(&shards.shape, chunk).map(Some),
        },
        Packing::Shard(shape) => multiple(shape, chunk).map(Some),
        Packing::ChunksPerShard(chunks) => match chunks.as_slice() {
            [] if chunk.is_empty() => Ok(None),
            chunks if chunks.contains(&0) => {
                Err("a shard cannot hold 0 chunks along an axis".to_owned().into())
            }
            [all] => per_axis(&vec![*all; chunk.len()]),
            chunks if chunks.len() == chunk.len() => per_axis(chunks),
            chunks => {
                let (given, rank) = (chunks.len(), chunk.len());
                let given = format!("chunks per shard for {given} axes, but the array has {rank}");
                Err(format!("{given}; a single number applies to all axes").into())
            }
        },
        Packing::TargetSize(target) => {
            let sample = plan::sample(array).map_err(Refused::Error)?;
            let decoded = || {
                let elements = chunk.iter().fold(1u64, |n, &len| n.saturating_mul(len));
                elements.saturating_mul(array.chunks.layout.element_size() as u64)
            };
            let mean = sample.map_or_else(decoded, |sample| sample.bytes_of(chunk)).max(1);
            if let Some(shards) = &old.shards
                && shards.plain
                && let Ok(shape) = multiple(&shards.shape, chunk)
                && is_near(&shape, chunk, mean, *target)
            {
                // A sample of the same chunks may differ in other shards; that is no reason to
                // repack again.
                return Ok(Some(shape));
            }
            let axes = array.shape().iter().zip(chunk);
            let grid: Vec<u64> = axes.map(|(&len, &n)| len.div_ceil(n).max(1)).collect();
            per_axis(&plan::chunks_per_shard_for(&grid, mean, *target))
        }
    }
}

/// Whether shards of such chunks have about the requested size.
fn is_near(shard: &[u64], chunk: &[u64], chunk_bytes: u64, target: u64) -> bool {
    let axes = shard.iter().zip(chunk);
    let bytes: f64 = axes.map(|(&shard, &chunk)| (shard / chunk) as f64).product::<f64>();
    let ratio = bytes * chunk_bytes as f64 / target.max(1) as f64;
    (0.5..=2.0).contains(&ratio)
}

fn multiple(shard: &[u64], chunk: &[u64]) -> Result<Vec<u64>, Refused> {
    if shard.len() != chunk.len() {
        let (given, rank) = (shard.len(), chunk.len());
        return Err(format!("shards of {given} axes for an array of {rank}").into());
    }
    let axes = shard.iter().zip(chunk);
    if axes.clone().any(|(&shard, &chunk)| shard == 0 || shard % chunk != 0) {
        let fitting =
            axes.map(|(&shard, &chunk)| shard.max(1).div_ceil(chunk).saturating_mul(chunk));
        let [shard, chunk, fitting] = [shard.to_vec(), chunk.to_vec(), fitting.collect()]
            .map(|shape| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
        let reason =
            format!("shards of {shard} are not a multiple of chunks of {chunk}; {fitting} is");
        return Err(reason.into());
    }
    Ok(shard.to_vec())
}

pub(in crate::jobs) fn default_index_codecs() -> Result<Vec<CodecSpec>, String> {
    let codecs = json!([
        { "name": "bytes", "configuration": { "endian": "little" } },
        { "name": "crc32c" },
    ]);
    codec_specs_from_json(&codecs).map_err(|error| error.to_string())
}
