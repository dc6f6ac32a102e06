//! How a new volume is to be stored, as data: the request, and the `info` that follows from it.

use serde::{Deserialize, Serialize};

use super::shapes::element_bytes;
use super::sharding_request::{LevelSize, usual_data_encoding};
use super::{VolumePacking, chunk_shape};
use crate::DataType;
use crate::precomputed::{ChunkEncoding, InfoError, NewScale, NewVolume, VolumeInfo};
use crate::shard::uint64::{Encoding, Sharding};

/// How a new precomputed volume of one scale is to be stored. Everything has a default.
///
/// ```
/// use shardine::DataType;
/// use shardine::plan::{VolumeLayout, VolumePacking};
///
/// let mut layout = VolumeLayout::default();
/// layout.packing = VolumePacking::Box([256, 256, 256]);
/// let info = layout.info([1024, 1024, 512], 1, &DataType::parse_name("uint8")?)?;
/// assert_eq!(info.scales()[0].chunk_size(), [64, 64, 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct VolumeLayout {
    /// `image` or `segmentation`; `None` depends on the type and the encoding.
    pub kind: Option<String>,
    /// Nanometres from one voxel to the next; `None` is one.
    pub resolution: Option<[f64; 3]>,
    /// Where the first voxel is; `None` is the origin.
    pub voxel_offset: Option<[i64; 3]>,
    /// The shape of chunks, in voxels.
    pub chunk: Option<[u64; 3]>,
    /// How chunks are encoded; `None` is raw.
    pub encoding: Option<ChunkEncoding>,
    /// How chunks are packed.
    pub packing: VolumePacking,
    /// How values are stored in shards; `None` is gzip for encodings that do not compress well by
    /// themselves.
    pub data_encoding: Option<Encoding>,
}

/// Why a volume cannot be stored as requested.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum VolumeLayoutError {
    /// A chunk without voxels.
    #[error("chunks of {chunk:?} voxels: lengths are above 0")]
    EmptyChunk {
        /// As given.
        chunk: [u64; 3],
    },
    /// Chunks cannot be packed this way.
    #[error("{reason}")]
    Packing {
        /// What is wrong, and what is possible.
        reason: String,
    },
    /// The `info` would not be legal.
    #[error(transparent)]
    Info(#[from] InfoError),
}

impl VolumeLayout {
    /// The `info` of a volume of this size, type and number of channels.
    pub fn info(
        &self,
        size: [u64; 3],
        channels: u64,
        data_type: &DataType,
    ) -> Result<VolumeInfo, VolumeLayoutError> {
        let element = element_bytes(data_type);
        let chunk = self.chunk.unwrap_or_else(|| {
            let chunk = chunk_shape(&size, element);
            std::array::from_fn(|axis| chunk.get(axis).copied().unwrap_or(1))
        });
        if chunk.contains(&0) {
            return Err(VolumeLayoutError::EmptyChunk { chunk });
        }
        let encoding = self.encoding.clone().unwrap_or(ChunkEncoding::Raw);
        let level = LevelSize::new(size, chunk, element.saturating_mul(channels));
        let sharding = level
            .new_sharding(&self.packing, true, &encoding, self.data_encoding)
            .map_err(|reason| VolumeLayoutError::Packing { reason })?;
        let kind = self.kind.as_deref().unwrap_or_else(|| {
            usual_kind(data_type.name().to_string().as_str(), &encoding, channels)
        });
        let resolution = self.resolution.unwrap_or([1.0; 3]);
        let offset = self.voxel_offset.unwrap_or_default();
        let scale = NewScale::new(size, resolution, offset, chunk, &encoding, sharding.as_ref());
        let (kind, data_type) = (kind.to_owned(), data_type.name().to_string());
        Ok(VolumeInfo::new(NewVolume { kind, data_type, channels, scales: vec![scale] })?)
    }
}

impl LevelSize {
    /// How a new level is sharded, encodings included.
    pub fn new_sharding(
        &self,
        packing: &VolumePacking,
        exact: bool,
        encoding: &ChunkEncoding,
        data_encoding: Option<Encoding>,
    ) -> Result<Option<Sharding>, String> {
        let Some(sharding) = self.sharding(packing, exact)? else { return Ok(None) };
        if let VolumePacking::Sharding(_) = packing {
            let values = data_encoding.unwrap_or(sharding.data_encoding);
            return Ok(Some(sharding.data_encoding(values)));
        }
        let values = data_encoding.unwrap_or_else(|| usual_data_encoding(encoding));
        Ok(Some(sharding.data_encoding(values).minishard_index_encoding(Encoding::Gzip)))
    }
}

/// What a volume of this type is assumed to show.
pub(crate) fn usual_kind(data_type: &str, encoding: &ChunkEncoding, channels: u64) -> &'static str {
    let is_labels = matches!(encoding, ChunkEncoding::CompressedSegmentation { .. })
        || matches!(data_type, "uint32" | "uint64");
    if is_labels && channels == 1 { "segmentation" } else { "image" }
}
