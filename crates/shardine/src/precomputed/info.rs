//! The `info` document of a volume, with everything in it preserved.

use serde_json::{Map, Value, json};
use shardine_codec::DataType;

use super::encoding::ChunkEncoding;
use crate::shard::uint64::{MortonCode, Sharding};

/// What is wrong with an `info`.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("\"{member}\": {reason}")]
pub struct InfoError {
    /// Which member.
    pub member: String,
    /// What is wrong with it.
    pub reason: String,
}

impl InfoError {
    pub(super) fn new(member: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { member: member.into(), reason: reason.into() }
    }
}

/// Types that a volume may have.
pub(crate) const DATA_TYPES: [&str; 8] =
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32"];

/// Members that only volumes have.
const SCALES: &str = "scales";

/// Limits on the scales and channels that are read.
const MAX_SCALES: usize = 1024;
const MAX_CHANNELS: u64 = 1 << 16;

/// The `info` of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeInfo {
    document: Map<String, Value>,
    data_type: DataType,
    channels: u64,
    scales: Vec<Scale>,
}

/// One scale of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// The folder of its chunks, relative to the volume's.
    pub key: String,
    /// Voxels along x, y and z.
    pub size: [u64; 3],
    /// Nanometres from one voxel to the next.
    pub resolution: [f64; 3],
    /// Where the first voxel is.
    pub voxel_offset: [i64; 3],
    /// The shapes of its chunks: there is a copy of the data for each of them.
    pub chunk_sizes: Vec<[u64; 3]>,
    /// How chunks are encoded.
    pub encoding: ChunkEncoding,
    /// How chunks are packed; `None` if each is an object.
    pub sharding: Option<Sharding>,
}

impl Scale {
    /// The shape of its chunks. No chunk is longer than the volume.
    pub fn chunk_size(&self) -> [u64; 3] {
        let first = self.chunk_sizes.first().copied().unwrap_or([1; 3]);
        std::array::from_fn(|axis| first[axis].min(self.size[axis]).max(1))
    }

    /// Chunks along each axis.
    pub fn grid(&self) -> [u64; 3] {
        let chunk = self.chunk_size();
        std::array::from_fn(|axis| self.size[axis].div_ceil(chunk[axis]))
    }

    /// The keys of its chunks; `None` if there are too many for 64-bit keys.
    pub(crate) fn morton(&self) -> Option<MortonCode> {
        MortonCode::new(self.grid())
    }
}

impl VolumeInfo {
    /// Parses a document.
    pub fn parse(bytes: &[u8]) -> Result<Self, InfoError> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| InfoError::new("info", format!("is not JSON: {error}")))?;
        let Value::Object(document) = value else {
            return Err(InfoError::new("info", "is not a JSON object"));
        };
        Self::from_document(document)
    }

    /// Whether a document is the `info` of a volume, that is, has scales; others are of meshes,
    /// skeletons or annotations.
    pub fn is_volume(document: &Map<String, Value>) -> bool {
        document.contains_key(SCALES)
    }

    /// The `info` with these members. Unknown ones are kept.
    pub fn from_document(document: Map<String, Value>) -> Result<Self, InfoError> {
        let required =
            |name: &str| document.get(name).ok_or_else(|| InfoError::new(name, "is missing"));
        if let Some(kind) = document.get("@type")
            && kind != "neuroglancer_multiscale_volume"
        {
            let reason = format!("is {kind}, not \"neuroglancer_multiscale_volume\"");
            return Err(InfoError::new("@type", reason));
        }
        let name = required("data_type")?;
        let known = name.as_str().map(str::to_ascii_lowercase);
        let known = known.as_deref().filter(|name| DATA_TYPES.contains(name)).ok_or_else(|| {
            InfoError::new("data_type", format!("is {name}, not one of {}", DATA_TYPES.join(", ")))
        })?;
        let data_type = DataType::from_json(&known.into())
            .map_err(|error| InfoError::new("data_type", error.to_string()))?;
        let channels = required("num_channels")?;
        let channels =
            channels.as_u64().filter(|n| (1..=MAX_CHANNELS).contains(n)).ok_or_else(|| {
                InfoError::new("num_channels", format!("is {channels}, not a number of channels"))
            })?;
        let list = required(SCALES)?
            .as_array()
            .filter(|scales| scales.len() <= MAX_SCALES)
            .ok_or_else(|| InfoError::new(SCALES, "is not a list of scales"))?;
        let scales = list.iter().enumerate().map(|(i, scale)| parse_scale(i, scale));
        let scales = scales.collect::<Result<_, _>>()?;
        Ok(Self { data_type, channels, scales, document })
    }

    /// The type of its voxels.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Values per voxel.
    pub fn channels(&self) -> u64 {
        self.channels
    }

    /// Its scales, the finest first.
    pub fn scales(&self) -> &[Scale] {
        &self.scales
    }

    /// Everything in the document.
    pub fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// The document as it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        // A map of JSON values can always be serialized.
        serde_json::to_vec_pretty(&self.document).unwrap_or_default()
    }

    /// The same with another packing of one scale, and everything else unchanged.
    pub fn with_sharding(
        &self,
        level: usize,
        sharding: Option<&Sharding>,
    ) -> Result<Self, InfoError> {
        let mut document = self.document.clone();
        let scale = document
            .get_mut(SCALES)
            .and_then(Value::as_array_mut)
            .and_then(|scales| scales.get_mut(level))
            .and_then(Value::as_object_mut)
            .ok_or_else(|| InfoError::new(format!("scales[{level}]"), "is not there"))?;
        match sharding {
            Some(sharding) => scale.insert("sharding".into(), sharding.to_json()),
            // Keeps the order of the others.
            None => scale.shift_remove("sharding"),
        };
        Self::from_document(document)
    }
}

fn parse_scale(number: usize, scale: &Value) -> Result<Scale, InfoError> {
    let at = |name: &str| format!("scales[{number}].{name}");
    let Some(members) = scale.as_object() else {
        return Err(InfoError::new(format!("scales[{number}]"), "is not an object"));
    };
    let required =
        |name: &str| members.get(name).ok_or_else(|| InfoError::new(at(name), "is missing"));
    let key = required("key")?;
    let key = key.as_str().ok_or_else(|| InfoError::new(at("key"), "is not a string"))?;
    let size = triple(required("size")?, unsigned)
        .ok_or_else(|| InfoError::new(at("size"), "is not three numbers of voxels"))?;
    let resolution = triple(required("resolution")?, Value::as_f64)
        .ok_or_else(|| InfoError::new(at("resolution"), "is not three numbers"))?;
    let voxel_offset = match members.get("voxel_offset") {
        None | Some(Value::Null) => [0; 3],
        Some(offset) => triple(offset, signed)
            .ok_or_else(|| InfoError::new(at("voxel_offset"), "is not three whole numbers"))?,
    };
    for (size, offset) in size.iter().zip(voxel_offset) {
        // So that the names of chunks do not overflow.
        if i64::try_from(*size).ok().and_then(|size| size.checked_add(offset)).is_none() {
            return Err(InfoError::new(at("size"), "has more voxels than can be counted"));
        }
    }
    let chunk_sizes = required("chunk_sizes")?;
    let chunk_sizes = chunk_sizes
        .as_array()
        .filter(|sizes| !sizes.is_empty())
        .and_then(|sizes| {
            sizes.iter().map(|size| triple(size, unsigned)).collect::<Option<Vec<_>>>()
        })
        .filter(|sizes| sizes.iter().flatten().all(|&n| n > 0))
        .ok_or_else(|| InfoError::new(at("chunk_sizes"), "is not a list of shapes"))?;
    let encoding = ChunkEncoding::from_scale(number, members)?;
    let sharding = match members.get("sharding") {
        None | Some(Value::Null) => None,
        Some(document) => {
            let sharding = Sharding::from_json(document)
                .map_err(|error| InfoError::new(at("sharding"), error.reason))?;
            if chunk_sizes.len() > 1 {
                let reason = "has several shapes, but a sharded scale has one";
                return Err(InfoError::new(at("chunk_sizes"), reason));
            }
            Some(sharding)
        }
    };
    let key = key.to_owned();
    let scale = Scale { key, size, resolution, voxel_offset, chunk_sizes, encoding, sharding };
    if scale.sharding.is_some() && scale.morton().is_none() {
        let reason = "makes more chunks than 64-bit keys can number";
        return Err(InfoError::new(at("chunk_sizes"), reason));
    }
    Ok(scale)
}

fn triple<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<[T; 3]> {
    let items: Vec<T> = value.as_array()?.iter().map(read).collect::<Option<_>>()?;
    items.try_into().ok()
}

/// An integer; some writers write `8.0`.
fn signed(value: &Value) -> Option<i64> {
    let whole = |n: f64| (n.fract() == 0.0 && n.abs() < 2f64.powi(53)).then_some(n as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(whole))
}

fn unsigned(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| signed(value).and_then(|n| u64::try_from(n).ok()))
}

/// The parameters of a new volume.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVolume {
    /// `image` or `segmentation`.
    pub kind: String,
    /// The type of its voxels, as documents spell it.
    pub data_type: String,
    /// Values per voxel.
    pub channels: u64,
    /// Its scales.
    pub scales: Vec<NewScale>,
}

/// One scale of a new volume.
#[derive(Debug, Clone, PartialEq)]
pub struct NewScale {
    /// Its members in the document.
    pub members: Map<String, Value>,
}

impl NewScale {
    /// A scale; its key is made from the resolution, as usual.
    pub fn new(
        size: [u64; 3],
        resolution: [f64; 3],
        voxel_offset: [i64; 3],
        chunk_size: [u64; 3],
        encoding: &ChunkEncoding,
        sharding: Option<&Sharding>,
    ) -> Self {
        let key: Vec<String> = resolution.iter().map(f64::to_string).collect();
        let mut members = Map::new();
        members.insert("key".into(), key.join("_").into());
        members.insert("size".into(), json!(size));
        members.insert("resolution".into(), json!(resolution.map(number)));
        members.insert("voxel_offset".into(), json!(voxel_offset));
        members.insert("chunk_sizes".into(), json!([chunk_size]));
        members.extend(encoding.members());
        if let Some(sharding) = sharding {
            members.insert("sharding".into(), sharding.to_json());
        }
        Self { members }
    }
}

/// Whole numbers without a fraction: 8 and not 8.0.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 2f64.powi(53) {
        json!(value as i64)
    } else {
        json!(value)
    }
}

impl VolumeInfo {
    /// The `info` of a new volume, checked like one that is read.
    pub fn new(volume: NewVolume) -> Result<Self, InfoError> {
        let scales: Vec<Value> =
            volume.scales.into_iter().map(|scale| Value::Object(scale.members)).collect();
        let mut document = Map::new();
        document.insert("@type".into(), "neuroglancer_multiscale_volume".into());
        document.insert("type".into(), volume.kind.into());
        document.insert("data_type".into(), volume.data_type.into());
        document.insert("num_channels".into(), volume.channels.into());
        document.insert(SCALES.into(), scales.into());
        Self::from_document(document)
    }
}
