//! The `info` of a volume made from arrays.

use std::sync::Arc;

use shardine_store::MemoryStore;

use super::super::rebuild::ArraySource;
use super::ConvertError;
use super::options::{ConvertOptions, VolumeForm};
use super::to_volume::OldLevel;
use super::view::{RANK, triple};
use crate::plan::{
    LevelSize, ValueSizes, VolumePacking, measure_values, sample_of_source, usual_data_encoding,
    usual_kind,
};
use crate::precomputed::{ChunkEncoding, NewScale, NewVolume, Volume, VolumeInfo};
use crate::shard::uint64::{Encoding, Sharding};
use crate::{Error, Location};

/// Makes an `info` for levels, of which there is at least one, and says what was measured of each.
pub(super) fn new_info(
    levels: &[OldLevel],
    form: &VolumeForm,
    options: &ConvertOptions,
) -> Result<(VolumeInfo, Vec<Option<ValueSizes>>), Error> {
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
    let mut measured = Vec::with_capacity(levels.len());
    for (number, level) in levels.iter().enumerate() {
        let size = size(level);
        let chunk = chunk(level, options, channels)?;
        let (resolution, offset) = coarser(first, level, number, resolution, offset, form);
        let sizes = match leaves_data_encoding_open(form, &encoding) {
            true => {
                let scale = NewScale::new(size, resolution, offset, chunk, &encoding, None);
                let (kind, data_type) = (kind.clone(), data_type.clone());
                measure(level, NewVolume { kind, data_type, channels, scales: vec![scale] })?
            }
            false => None,
        };
        let values = form.data_encoding.or(sizes.map(|sizes| sizes.encoding()));
        let sharding = sharding(level, number, size, chunk, &encoding, form, values)?;
        measured.push(sizes);
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
    let info = VolumeInfo::new(volume).map_err(|error| refuse(first, error.to_string()))?;
    Ok((info, measured))
}

/// Whether there will be shards whose data encoding was not given, and the chunk encoding does not tell whether gzip pays.
fn leaves_data_encoding_open(form: &VolumeForm, encoding: &ChunkEncoding) -> bool {
    let says = matches!(form.packing, Some(VolumePacking::Sharding(_) | VolumePacking::Unsharded));
    !says && form.data_encoding.is_none() && usual_data_encoding(encoding) == Encoding::Raw
}

/// Measures a few chunks of a level, in a temporary volume in memory.
fn measure(level: &OldLevel, volume: NewVolume) -> Result<Option<ValueSizes>, Error> {
    let info = VolumeInfo::new(volume).map_err(|error| refuse(level, error.to_string()))?;
    let place = Location::root(Arc::new(MemoryStore::new()));
    let unseen = Volume::bind(level.array.engine(), &place, info);
    let (array, axes) = (unseen.array(0)?, level.view.map());
    let source = ArraySource::new(&level.array, &axes, array.cell_shape());
    sample_of_source(&array, &source)?;
    measure_values(&unseen.packed_array(0)?)
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
    (said.map(|said| said.resolution).or(resolution), said.map(|said| said.offset).or(offset))
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
                "chunks of a volume need a length above 0 along x, y and z, and hold all channels";
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
    values: Option<Encoding>,
) -> Result<Option<Sharding>, Error> {
    let element = level.array.chunks.layout.element_size() as u64;
    let each = element.saturating_mul(level.shape()[RANK - 1]);
    let packing = form.packing.clone().unwrap_or_default();
    LevelSize::new(size, chunk, each)
        .new_sharding(&packing, number == 0, encoding, values)
        .map_err(|reason| refuse(level, reason))
}
