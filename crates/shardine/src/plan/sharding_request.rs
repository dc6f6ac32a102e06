//! How the scales of a volume are to be sharded, as data: the request, and what follows from it for
//! a scale.

use serde::{Deserialize, Serialize};

use super::{Packing, recommended_sharding, sharding_for_box, sharding_for_size};
use crate::ElementSize;
use crate::precomputed::{ChunkEncoding, Scale, VolumeInfo};
use crate::shard::uint64::{Encoding, KeyHash, Sharding};

/// How the chunks of a volume are packed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VolumePacking {
    /// As recommended by [`recommended_sharding`].
    #[default]
    Recommended,
    /// Each chunk is an object.
    Unsharded,
    /// In shards that are boxes of this many voxels.
    Box([u64; 3]),
    /// In shards that are boxes of this many chunks.
    Chunks([u64; 3]),
    /// In shards of about this many bytes before compression.
    TargetSize(u64),
    /// Exactly this sharding, including its encodings.
    Sharding(Sharding),
}

/// Translates the packing of arrays to volumes; a fourth length, along channel, is ignored.
impl TryFrom<&Packing> for VolumePacking {
    type Error = String;

    fn try_from(packing: &Packing) -> Result<Self, String> {
        let along = |lengths: &[u64]| match lengths {
            [x, y, z] | [x, y, z, _] if ![x, y, z].contains(&&0) => Ok([*x, *y, *z]),
            lengths => {
                let lengths: Vec<String> = lengths.iter().map(u64::to_string).collect();
                Err(format!("{} is not a box along x, y and z", lengths.join(",")))
            }
        };
        Ok(match packing {
            Packing::Keep => Self::Recommended,
            Packing::Unsharded => Self::Unsharded,
            Packing::ChunksPerShard(counts) => match counts[..] {
                [1] | [1, 1, 1] | [1, 1, 1, 1] => Self::Unsharded,
                [0] => return Err("a shard of 0 chunks holds nothing".to_owned()),
                [all] => Self::Chunks([all; 3]),
                _ => Self::Chunks(along(counts)?),
            },
            Packing::Shard(shape) => Self::Box(along(shape)?),
            Packing::TargetSize(target) => Self::TargetSize(*target),
        })
    }
}

/// What determines how a level can be sharded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LevelSize {
    size: [u64; 3],
    /// No longer than the level along any axis.
    chunk: [u64; 3],
    voxel_bytes: u64,
}

impl LevelSize {
    /// A level in chunks of this shape, whose voxels take this many bytes over all channels.
    pub fn new(size: [u64; 3], chunk: [u64; 3], voxel_bytes: u64) -> Self {
        let chunk = std::array::from_fn(|axis| chunk[axis].min(size[axis]).max(1));
        Self { size, chunk, voxel_bytes }
    }

    fn of_scale(info: &VolumeInfo, scale: &Scale) -> Self {
        let element = match info.data_type().size() {
            ElementSize::Fixed(size) => size as u64,
            ElementSize::Variable => 1,
        };
        Self::new(scale.size, scale.chunk_size(), element.saturating_mul(info.channels()))
    }

    fn bytes(&self, shape: [u64; 3]) -> u64 {
        shape.iter().fold(self.voxel_bytes, |n, &len| n.saturating_mul(len)).max(1)
    }

    /// The sharding for this packing; `None` for no shards.
    ///
    /// Encodings are raw unless the packing sets them. An impossible box is refused if `exact`, and
    /// otherwise replaced by shards that hold about as many voxels: what fits the finest level may
    /// be impossible for a level of another shape.
    pub fn sharding(
        &self,
        packing: &VolumePacking,
        exact: bool,
    ) -> Result<Option<Sharding>, String> {
        let Self { size, chunk, .. } = *self;
        let each = self.bytes(chunk);
        let in_boxes = |shape: [u64; 3]| match sharding_for_box(size, chunk, shape) {
            Err(_) if !exact => {
                Ok(sharding_for_size(size, chunk, each, self.bytes(shape)).sharding)
            }
            sharding => sharding,
        };
        Ok(Some(match packing {
            VolumePacking::Unsharded => return Ok(None),
            VolumePacking::Sharding(sharding) => sharding.clone(),
            VolumePacking::Recommended => recommended_sharding(size, chunk, each).sharding,
            VolumePacking::Box(shape) => in_boxes(*shape)?,
            VolumePacking::Chunks(counts) => {
                in_boxes(std::array::from_fn(|axis| counts[axis].saturating_mul(chunk[axis])))?
            }
            VolumePacking::TargetSize(target) => {
                sharding_for_size(size, chunk, each, *target).sharding
            }
        }))
    }
}

/// Bytes of a chunk of a scale before compression. No chunk is longer than the scale.
pub fn chunk_bytes(info: &VolumeInfo, scale: &Scale) -> u64 {
    let level = LevelSize::of_scale(info, scale);
    level.bytes(level.chunk)
}

/// How values are stored in new shards if nothing was measured: with gzip, unless their encoding
/// compresses by itself.
pub(crate) fn usual_data_encoding(encoding: &ChunkEncoding) -> Encoding {
    match encoding {
        ChunkEncoding::Raw | ChunkEncoding::CompressedSegmentation { .. } => Encoding::Gzip,
        _ => Encoding::Raw,
    }
}

/// What happens to parameters that are not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsaid {
    /// They stay as they are; where there were no shards, the recommendation applies.
    #[default]
    Kept,
    /// The recommendation applies.
    Recommended,
}

/// How the scales of a volume are to be sharded.
///
/// ```
/// use shardine::plan::ShardingRequest;
/// use shardine::shard::uint64::{Encoding, Sharding};
///
/// // Every scale in exactly these shards, or in none at all.
/// let exact = ShardingRequest::from(Some(Sharding::new(6, 3, 2)?));
/// let unsharded = ShardingRequest::from(None);
///
/// // Every scale as it is, with its values compressed.
/// let mut compressed = ShardingRequest::default();
/// compressed.data_encoding = Some(Encoding::Gzip);
/// assert_eq!(serde_json::from_str::<ShardingRequest>(r#"{"data_encoding":"gzip"}"#)?, compressed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ShardingRequest {
    /// How chunks are packed; `None` leaves that to [`unsaid`](Self::unsaid).
    pub packing: Option<VolumePacking>,
    /// Overrides the number of low bits of a key that do not affect its shard.
    pub preshift_bits: Option<u32>,
    /// Overrides the logarithm of the number of minishards in a shard.
    pub minishard_bits: Option<u32>,
    /// Overrides the logarithm of the number of shards.
    pub shard_bits: Option<u32>,
    /// Overrides the hash of keys.
    pub hash: Option<KeyHash>,
    /// Overrides how values are stored.
    pub data_encoding: Option<Encoding>,
    /// Overrides how minishard indexes are stored.
    pub minishard_index_encoding: Option<Encoding>,
    /// What happens to parameters that are not set.
    pub unsaid: Unsaid,
}

/// Every scale in exactly these shards, or in none.
impl From<Option<Sharding>> for ShardingRequest {
    fn from(sharding: Option<Sharding>) -> Self {
        VolumePacking::from(sharding).into()
    }
}

impl From<Option<Sharding>> for VolumePacking {
    fn from(sharding: Option<Sharding>) -> Self {
        sharding.map_or(Self::Unsharded, Self::Sharding)
    }
}

impl From<VolumePacking> for ShardingRequest {
    fn from(packing: VolumePacking) -> Self {
        Self { packing: Some(packing), ..Self::default() }
    }
}

impl ShardingRequest {
    /// Whether it overrides any of the bits, the hash or the encodings.
    pub fn changes_something(&self) -> bool {
        self.preshift_bits.is_some()
            || self.minishard_bits.is_some()
            || self.shard_bits.is_some()
            || self.hash.is_some()
            || self.data_encoding.is_some()
            || self.minishard_index_encoding.is_some()
    }

    /// Whether a scale gets new shards whose data encoding was not given, and its chunk encoding
    /// does not tell whether gzip pays.
    pub(crate) fn leaves_data_encoding_open(&self, scale: &Scale) -> bool {
        let says =
            matches!(self.packing, Some(VolumePacking::Sharding(_) | VolumePacking::Unsharded));
        !says
            && self.data_encoding.is_none()
            && scale.sharding.is_none()
            && usual_data_encoding(&scale.encoding) == Encoding::Raw
    }

    /// How a scale is to be sharded; `None` makes every chunk an object.
    ///
    /// `measured` is how values are stored in shards where there were none and nothing is said.
    ///
    /// An impossible box of voxels or chunks is refused for the finest scale, and for a scale that
    /// is the only one to change (`alone`). The others get shards of about the same size.
    pub(crate) fn of_scale(
        &self,
        info: &VolumeInfo,
        scale: &Scale,
        alone: bool,
        measured: Option<Encoding>,
    ) -> Result<Option<Sharding>, String> {
        let exact = alone || info.scales().first() == Some(scale);
        let level = LevelSize::of_scale(info, scale);
        let packing = match (&self.packing, &scale.sharding) {
            (Some(VolumePacking::Sharding(sharding)), _) => {
                return self.change(sharding.clone()).map(Some);
            }
            (None, Some(kept)) if self.unsaid == Unsaid::Kept || !self.changes_something() => {
                return self.change(kept.clone()).map(Some);
            }
            (Some(packing), _) => packing,
            (None, _) => &VolumePacking::Recommended,
        };
        let Some(new) = level.sharding(packing, exact)? else { return Ok(None) };
        let (values, indexes) = match &scale.sharding {
            Some(old) => (old.data_encoding, old.minishard_index_encoding),
            None => {
                let usual = || usual_data_encoding(&scale.encoding);
                (measured.unwrap_or_else(usual), Encoding::Gzip)
            }
        };
        let sharding = new.data_encoding(values).minishard_index_encoding(indexes);
        self.change(sharding).map(Some)
    }

    /// A sharding with the overrides applied, checked like one that is read.
    pub fn change(&self, sharding: Sharding) -> Result<Sharding, String> {
        let mut changed = sharding;
        changed.hash = self.hash.unwrap_or(changed.hash);
        changed.data_encoding = self.data_encoding.unwrap_or(changed.data_encoding);
        changed.minishard_index_encoding =
            self.minishard_index_encoding.unwrap_or(changed.minishard_index_encoding);
        changed.preshift_bits = self.preshift_bits.unwrap_or(changed.preshift_bits);
        changed.minishard_bits = self.minishard_bits.unwrap_or(changed.minishard_bits);
        changed.shard_bits = self.shard_bits.unwrap_or(changed.shard_bits);
        Sharding::from_json(&changed.to_json()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precomputed::{NewScale, NewVolume};

    fn scale(size: [u64; 3], sharding: Option<&Sharding>) -> NewScale {
        let resolution = [1.0 / size[0] as f64; 3];
        NewScale::new(size, resolution, [0; 3], [64; 3], &ChunkEncoding::Raw, sharding)
    }

    fn volume(scales: Vec<NewScale>) -> VolumeInfo {
        let (kind, data_type) = ("image".to_owned(), "uint8".to_owned());
        VolumeInfo::new(NewVolume { kind, data_type, channels: 1, scales }).unwrap()
    }

    fn old() -> Sharding {
        Sharding::new(1, 1, 1).unwrap().hash(KeyHash::Murmur3X86_128)
    }

    #[test]
    fn a_request_survives_its_journey_as_json() {
        let requests = [
            ShardingRequest::default(),
            ShardingRequest::from(None),
            ShardingRequest::from(Some(old())),
            ShardingRequest {
                packing: Some(VolumePacking::Box([64, 128, 64])),
                hash: Some(KeyHash::Murmur3X86_128),
                data_encoding: Some(Encoding::Gzip),
                shard_bits: Some(3),
                unsaid: Unsaid::Recommended,
                ..ShardingRequest::default()
            },
        ];
        for request in requests {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<ShardingRequest>(&text).unwrap(), request, "{text}");
        }
        assert!(serde_json::from_str::<ShardingRequest>(r#"{"shardbits": 3}"#).is_err());
    }

    #[test]
    fn a_box_that_only_a_coarser_level_lacks_is_replaced_by_one_of_its_size() {
        // Keys of the second level vary along z first.
        let info = volume(vec![scale([512; 3], None), scale([64, 64, 512], None)]);
        let [finest, coarser] = info.scales() else { panic!("two scales") };
        let request = ShardingRequest::from(VolumePacking::Box([128, 128, 128]));
        let bits = |sharding: Sharding| sharding.preshift_bits + sharding.minishard_bits;
        assert_eq!(bits(request.of_scale(&info, finest, false, None).unwrap().unwrap()), 3);
        assert_eq!(bits(request.of_scale(&info, coarser, false, None).unwrap().unwrap()), 1);
        let flat = ShardingRequest::from(VolumePacking::Box([64, 512, 64]));
        assert!(flat.of_scale(&info, finest, false, None).is_err());
        assert_eq!(bits(flat.of_scale(&info, coarser, false, None).unwrap().unwrap()), 0);
        let odd = ShardingRequest::from(VolumePacking::Box([64, 64, 192]));
        assert!(odd.of_scale(&info, coarser, false, None).is_ok());
        assert!(odd.of_scale(&info, coarser, true, None).is_err());
    }

    #[test]
    fn what_is_not_said_is_kept_or_recommended() {
        let info = volume(vec![scale([512; 3], Some(&old()))]);
        let scale = &info.scales()[0];
        let mut request = ShardingRequest::default();
        assert_eq!(request.of_scale(&info, scale, false, None), Ok(Some(old())));
        request.data_encoding = Some(Encoding::Gzip);
        let kept = old().data_encoding(Encoding::Gzip);
        assert_eq!(request.of_scale(&info, scale, false, None), Ok(Some(kept)));
        request.unsaid = Unsaid::Recommended;
        let new = request.of_scale(&info, scale, false, None).unwrap().unwrap();
        assert_eq!((new.hash, new.data_encoding), (KeyHash::Identity, Encoding::Gzip));
        assert_eq!(new.preshift_bits + new.minishard_bits + new.shard_bits, 9);
        request.shard_bits = Some(65);
        assert!(request.of_scale(&info, scale, false, None).is_err());
    }

    #[test]
    fn one_chunk_per_shard_means_no_shards() {
        for counts in [&[1][..], &[1, 1, 1], &[1, 1, 1, 1]] {
            let packing = VolumePacking::try_from(&Packing::ChunksPerShard(counts.to_vec()));
            assert_eq!(packing, Ok(VolumePacking::Unsharded), "{counts:?}");
        }
        for lengths in [&[0][..], &[2, 2], &[2, 0, 2], &[]] {
            let packing = VolumePacking::try_from(&Packing::ChunksPerShard(lengths.to_vec()));
            assert!(packing.is_err(), "{lengths:?}");
        }
    }
}
