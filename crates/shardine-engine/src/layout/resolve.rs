use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use shardine_codec::strided::Placement;
use shardine_codec::{
    ArraySpec, ArrayStages, ArrayToArray, ByteStages, BytesToBytes, ChunkCodec, Codec, CodecError,
    CodecSpec, EncodedSize, ExtensionError, codec_specs_from_json, from_spec,
};

use super::{IndexFormat, Layout, Leaf, ShardLayout, StagedLayout, element_size};
use crate::shard::{IndexLocation, MAX_CHUNKS_PER_SHARD};

/// How deep shards may be nested.
const MAX_DEPTH: usize = 16;

/// Why the codecs of an array cannot be used.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum LayoutError {
    /// A codec cannot be used here.
    #[error("{at}: {source}")]
    Codec {
        /// Where in the metadata.
        at: String,
        /// The codec's error.
        source: CodecError,
    },
    /// The configuration of a sharding codec is invalid.
    #[error("{at}: {reason}")]
    Sharding {
        /// Where in the metadata.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// The inner chunks do not divide the shard.
    #[error(
        "{at}.chunk_shape[{axis}]: inner chunks of {chunk} do not divide a shard of {shard}; \
         choose a shard that is a multiple of the chunk"
    )]
    DoesNotDivide {
        /// Where in the metadata.
        at: String,
        /// Which axis.
        axis: usize,
        /// The inner chunk's length on it.
        chunk: u64,
        /// The shard's length on it.
        shard: u64,
    },
    /// A list of codecs inside the configuration is invalid.
    #[error("{at}: {source}")]
    Codecs {
        /// Where in the metadata.
        at: String,
        /// What is wrong.
        source: ExtensionError,
    },
}

impl Layout {
    /// Binds the codecs of an array to its chunk shape, type and fill value.
    pub fn new(codecs: &[CodecSpec], spec: ArraySpec) -> Result<Self, LayoutError> {
        resolve(codecs, spec, &[], "codecs", 0)
    }
}

/// `pushed` are elementwise codecs of an outer shard: encoding element by element commutes with
/// splitting into chunks, so they are applied to each chunk and the shard stays addressable.
fn resolve(
    specs: &[CodecSpec],
    spec: ArraySpec,
    pushed: &[Arc<dyn ArrayToArray>],
    at: &str,
    depth: usize,
) -> Result<Layout, LayoutError> {
    let Some(position) = specs.iter().position(|s| s.name == "sharding_indexed") else {
        let mut codecs: Vec<Codec> = pushed.iter().cloned().map(Codec::ArrayToArray).collect();
        codecs.extend(instantiate(specs, at, 0)?.into_iter().map(|(_, codec)| codec));
        let codec = ChunkCodec::new(&codecs, spec).map_err(|source| codec_error(at, source))?;
        return Leaf::new(codec, at).map(|leaf| Layout::Chunk(Box::new(leaf)));
    };
    let here = format!("{at}[{position}].configuration");
    if depth >= MAX_DEPTH {
        let reason = format!("shards are nested more than {MAX_DEPTH} deep");
        return Err(LayoutError::Sharding { at: here, reason });
    }
    let mut arrays = pushed.to_vec();
    if specs[position + 1..].iter().any(|s| s.name == "sharding_indexed") {
        let reason = "a list of codecs may hold sharding_indexed once".to_owned();
        return Err(LayoutError::Sharding { at: at.to_owned(), reason });
    }
    for (i, codec) in instantiate(&specs[..position], at, 0)? {
        let Codec::ArrayToArray(codec) = codec else {
            let reason = format!("\"{}\" may not come before sharding_indexed", specs[i].name);
            return Err(LayoutError::Sharding { at: format!("{at}[{i}]"), reason });
        };
        arrays.push(codec);
    }
    let mut bytes: Vec<Arc<dyn BytesToBytes>> = Vec::new();
    for (i, codec) in instantiate(&specs[position + 1..], at, position + 1)? {
        let Codec::BytesToBytes(codec) = codec else {
            let reason = "only bytes -> bytes codecs may come after sharding_indexed".to_owned();
            return Err(LayoutError::Sharding { at: format!("{at}[{i}]"), reason });
        };
        bytes.push(codec);
    }

    // Everything up to the last codec that needs all elements together is applied to the whole.
    let whole = arrays
        .iter()
        .rposition(|c| c.permutation().is_none() && !c.is_elementwise())
        .map_or(0, |i| i + 1);
    let stages = ArrayStages::new(&arrays[..whole], spec.clone())
        .map_err(|source| codec_error(at, source))?;
    let rest = &arrays[whole..];
    let configuration = Configuration::parse(&specs[position].configuration, &here)?;
    let shard =
        resolve_shard(&configuration, stages.encoded().clone(), rest, &bytes, &here, depth)?;
    let layout = Layout::Shard(Box::new(shard));
    if stages.is_empty() {
        return Ok(layout);
    }
    Ok(Layout::Staged(Box::new(StagedLayout { spec, stages, inner: layout })))
}

fn resolve_shard(
    configuration: &Configuration,
    spec: ArraySpec,
    arrays: &[Arc<dyn ArrayToArray>],
    bytes: &[Arc<dyn BytesToBytes>],
    at: &str,
    depth: usize,
) -> Result<ShardLayout, LayoutError> {
    let mut order: Vec<usize> = (0..spec.shape.len()).collect();
    let mut pushed = Vec::new();
    let mut probe = spec.clone();
    for codec in arrays {
        probe = codec.encoded_spec(&probe).map_err(|source| codec_error(at, source))?;
        match codec.permutation() {
            Some(permutation) => order = permutation.iter().map(|&k| order[k]).collect(),
            None => pushed.push(Arc::clone(codec)),
        }
    }
    let stored_shape: Vec<u64> = order.iter().map(|&k| spec.shape[k]).collect();
    let chunk_shape = configuration.chunk_shape.clone();
    let grid = grid(&stored_shape, &chunk_shape, at)?;
    let index_at = format!("{at}.index_codecs");
    let index_codecs = instantiate(&configuration.index_codecs, &index_at, 0)?;
    let index_codecs: Vec<Codec> = index_codecs.into_iter().map(|(_, codec)| codec).collect();
    let index = IndexFormat::new(&index_codecs, &grid, configuration.location)
        .map_err(|source| codec_error(&index_at, source))?;
    let inner_spec = ArraySpec {
        shape: chunk_shape.clone(),
        data_type: spec.data_type.clone(),
        fill: spec.fill.clone(),
    };
    let codecs_at = format!("{at}.codecs");
    let inner = resolve(&configuration.codecs, inner_spec, &pushed, &codecs_at, depth + 1)?;
    // Writers may leave gaps, so a shard has no maximum size; up to four times the size of its
    // chunks is considered plausible.
    let room = inner.decoded_len().saturating_mul(index.chunks() as u64).saturating_mul(4);
    let after = ByteStages::new(bytes, EncodedSize::Unbounded, element_size(&spec))
        .with_limit(room.saturating_add(index.len()));
    let morton = OnceLock::new();
    Ok(ShardLayout { spec, order, chunk_shape, grid, index, inner, after, morton })
}

/// Chunks per shard along each axis.
fn grid(shard: &[u64], chunk: &[u64], at: &str) -> Result<Vec<u64>, LayoutError> {
    let refuse = |reason| LayoutError::Sharding { at: format!("{at}.chunk_shape"), reason };
    if shard.len() != chunk.len() {
        let reason = format!("{} axes, but the shard has {}", chunk.len(), shard.len());
        return Err(refuse(reason));
    }
    let mut total = 1u64;
    let mut grid = Vec::with_capacity(shard.len());
    for (axis, (&shard, &chunk)) in shard.iter().zip(chunk).enumerate() {
        if chunk == 0 || shard % chunk != 0 {
            return Err(LayoutError::DoesNotDivide { at: at.to_owned(), axis, chunk, shard });
        }
        grid.push(shard / chunk);
        total = total.saturating_mul(shard / chunk);
    }
    if total > MAX_CHUNKS_PER_SHARD {
        return Err(refuse(format!(
            "{total} chunks per shard, but at most {MAX_CHUNKS_PER_SHARD} are supported"
        )));
    }
    Ok(grid)
}

/// The codecs with their positions in the list, of which `specs` is the part from `first` on.
fn instantiate(
    specs: &[CodecSpec],
    at: &str,
    first: usize,
) -> Result<Vec<(usize, Codec)>, LayoutError> {
    let mut codecs = Vec::with_capacity(specs.len());
    for (i, spec) in (first..).zip(specs) {
        match from_spec(spec) {
            Ok(codec) => codecs.push((i, codec)),
            // A codec that need not be understood may be skipped.
            Err(CodecError::Unknown { .. }) if !spec.must_understand => {}
            Err(source) => return Err(codec_error(&format!("{at}[{i}]"), source)),
        }
    }
    Ok(codecs)
}

fn codec_error(at: &str, source: CodecError) -> LayoutError {
    LayoutError::Codec { at: at.to_owned(), source }
}

/// The configuration of a sharding codec.
pub struct Configuration {
    /// The shape of the inner chunks.
    pub chunk_shape: Vec<u64>,
    /// The codecs of the inner chunks.
    pub codecs: Vec<CodecSpec>,
    /// The codecs of the index.
    pub index_codecs: Vec<CodecSpec>,
    /// At which end of the shard the index lies.
    pub location: IndexLocation,
}

impl Configuration {
    /// Checks a configuration found at this place in the metadata.
    pub fn parse(json: &Map<String, Value>, at: &str) -> Result<Self, LayoutError> {
        let refuse = |member: &str, reason: &str| LayoutError::Sharding {
            at: format!("{at}.{member}"),
            reason: reason.to_owned(),
        };
        for member in json.keys() {
            if !["chunk_shape", "codecs", "index_codecs", "index_location"].contains(&&**member) {
                return Err(refuse(member, "sharding_indexed has no such member"));
            }
        }
        let list = |member: &str| {
            let value = json.get(member).ok_or_else(|| refuse(member, "is missing"))?;
            codec_specs_from_json(value)
                .map_err(|source| LayoutError::Codecs { at: format!("{at}.{member}"), source })
        };
        let sizes = || refuse("chunk_shape", "must be a list of positive integers");
        let chunk_shape = json.get("chunk_shape").and_then(Value::as_array).ok_or_else(sizes)?;
        let chunk_shape = chunk_shape
            .iter()
            .map(|n| n.as_u64().filter(|&n| n > 0).ok_or_else(sizes))
            .collect::<Result<_, _>>()?;
        let location = match json.get("index_location").map(Value::as_str) {
            None | Some(Some("end")) => IndexLocation::End,
            Some(Some("start")) => IndexLocation::Start,
            Some(_) => return Err(refuse("index_location", "must be \"start\" or \"end\"")),
        };
        Ok(Self {
            chunk_shape,
            codecs: list("codecs")?,
            index_codecs: list("index_codecs")?,
            location,
        })
    }
}

impl Leaf {
    fn new(codec: ChunkCodec, at: &str) -> Result<Self, LayoutError> {
        let too_large = || LayoutError::Sharding {
            at: at.to_owned(),
            reason: format!(
                "a chunk of {:?} elements exceeds the address space",
                codec.spec().shape
            ),
        };
        let element = element_size(codec.spec());
        let stored = Placement::contiguous(&codec.stored().shape, element).ok_or_else(too_large)?;
        let mut strides = stored.strides.clone();
        for (i, &k) in codec.axis_order().iter().enumerate() {
            strides[k] = stored.strides[i];
        }
        Ok(Self { strides, codec })
    }
}
