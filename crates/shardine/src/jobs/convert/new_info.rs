//! The `info` of a volume made from arrays.

use super::ConvertError;
use super::options::{ConvertOptions, VolumeForm};
use super::to_volume::OldLevel;
use super::view::{RANK, triple};
use crate::Error;
use crate::plan::{LevelSize, usual_kind};
use crate::precomputed::{ChunkEncoding, NewScale, NewVolume, VolumeInfo};
use crate::shard::uint64::Sharding;

/// Makes an `info` for levels, of which there is at least one.
pub(super) fn new_info(
    levels: &[OldLevel],
    form: &VolumeForm,
    options: &ConvertOptions,
) -> Result<VolumeInfo, Error> {
    let Some(first) = levels.first() else {
        return Err(ConvertError::NoArrays { at: String::new() }.into());
    };
    let channels = first.shape()[RANK - 1];
    let encoding = form.encoding.clone().unwrap_or(ChunkEncoding::Raw);
    let data_type = first.array.data_type().name().to_string();
    let guess = usual_kind(&data_type, &encoding, channels);
    let kind = form.kind.clone().unwrap_or_else(|| guess.to_owned());
    let (resolution, offset) = finest(first, form);
    let mut scales: Vec<NewScale> = Vec::with_capacity(levels.len());
    for (number, level) in levels.iter().enumerate() {
        let size = size(level);
        let chunk = chunk(level, options, channels)?;
        let sharding = sharding(level, number, size, chunk, &encoding, form)?;
        let (resolution, offset) = coarser(first, level, number, resolution, offset, form);
        let mut scale =
            NewScale::new(size, resolution, offset, chunk, &encoding, sharding.as_ref());
        let key = scale.members.get("key").cloned();
        if scales.iter().any(|other| other.members.get("key") == key.as_ref()) {
            let key = key.as_ref().and_then(|key| key.as_str()).unwrap_or_default();
            scale.members.insert("key".into(), format!("{key}_{number}").into());
        }
        scales.push(scale);
    }
    let volume = NewVolume { kind, data_type, channels, scales };
    VolumeInfo::new(volume).map_err(|error| refuse(first, error.to_string()))
}

fn refuse(level: &OldLevel, reason: String) -> Error {
    ConvertError::Layout { at: level.array.location().to_string(), reason }.into()
}

fn size(level: &OldLevel) -> [u64; 3] {
    let [x, y, z, _] = level.shape();
    [x, y, z]
}

/// Resolution and offset from an array's attributes.
fn told(level: &OldLevel) -> (Option<[f64; 3]>, Option<[i64; 3]>) {
    let said = level.voxels;
    let attributes = &level.attributes;
    let resolution = triple(attributes.get("resolution"), |value| value.as_f64());
    let resolution = resolution.filter(|values| values.iter().all(|n| n.is_finite() && *n > 0.0));
    let offset = triple(attributes.get("voxel_offset"), |value| value.as_i64());
    (said.resolution.or(resolution), said.offset.or(offset))
}

fn finest(first: &OldLevel, form: &VolumeForm) -> ([f64; 3], [i64; 3]) {
    let (resolution, offset) = told(first);
    let resolution = form.resolution.or(resolution).unwrap_or([1.0; 3]);
    (resolution, form.voxel_offset.or(offset).unwrap_or([0; 3]))
}

/// Resolution and offset of a level: from its attributes, or by how much smaller it is than the
/// finest.
fn coarser(
    first: &OldLevel,
    level: &OldLevel,
    number: usize,
    resolution: [f64; 3],
    offset: [i64; 3],
    form: &VolumeForm,
) -> ([f64; 3], [i64; 3]) {
    if number == 0 {
        return (resolution, offset);
    }
    let (all, own) = (size(first), size(level));
    // A halved length was rounded up or down.
    let factor = |axis: usize| (all[axis] as f64 / own[axis].max(1) as f64).round().max(1.0);
    let (told_resolution, told_offset) = told(level);
    let told_resolution = told_resolution.filter(|_| form.resolution.is_none());
    let told_offset = told_offset.filter(|_| form.voxel_offset.is_none());
    (
        told_resolution.unwrap_or(std::array::from_fn(|axis| resolution[axis] * factor(axis))),
        told_offset.unwrap_or(std::array::from_fn(|axis| {
            (offset[axis] as f64 / factor(axis)).floor() as i64
        })),
    )
}

/// The shape of a level's chunks: its own, or as requested.
fn chunk(level: &OldLevel, options: &ConvertOptions, channels: u64) -> Result<[u64; 3], Error> {
    let Some(chunk) = options.chunk.as_deref() else {
        let own = level.view.map().to_new(level.array.chunk_shape(), 1);
        return Ok(std::array::from_fn(|axis| own[axis].max(1)));
    };
    match *chunk {
        [x, y, z] if ![x, y, z].contains(&0) => Ok([x, y, z]),
        [x, y, z, c] if ![x, y, z].contains(&0) && c == channels => Ok([x, y, z]),
        _ => {
            let reason =
                "the chunks of a volume have a length above 0 along x, y and z, and all channels";
            Err(refuse(level, reason.to_owned()))
        }
    }
}

fn sharding(
    level: &OldLevel,
    number: usize,
    size: [u64; 3],
    chunk: [u64; 3],
    encoding: &ChunkEncoding,
    form: &VolumeForm,
) -> Result<Option<Sharding>, Error> {
    let element = level.array.chunks.layout.element_size() as u64;
    let each = element.saturating_mul(level.shape()[RANK - 1]);
    let packing = form.packing.clone().unwrap_or_default();
    LevelSize::new(size, chunk, each)
        .new_sharding(&packing, number == 0, encoding, form.data_encoding)
        .map_err(|reason| refuse(level, reason))
}
