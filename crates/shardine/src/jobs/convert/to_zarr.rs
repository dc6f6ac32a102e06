//! From a volume to a group with one array for each scale.

use std::sync::Arc;

use serde_json::{Map, json};
use shardine_store::{Condition, StoreExt};

use super::super::repack::{
    Packing, RepackOutcome, Shards, Stored, default_index_codecs, shard_shape,
};
use super::ConvertError;
use super::alike::{Side, have_same_chunks};
use super::as_zarr::scale_metadata;
use super::job::Job;
use super::kept;
use super::level::Level;
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel, ZarrForm};
use super::view::{RANK, View};
use crate::engine::shard_box;
use crate::jobs::losses::refuse_data_set;
use crate::plan::{chunks_per_shard_for, sample};
use crate::precomputed::{ChunkEncoding, Scale, Volume, axis_names};
use crate::shard::IndexLocation;
use crate::zarr::DOCUMENT;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, GroupMetadata, NewArray};
use crate::{
    Array, ArrayNode, CodecChoice, CodecSpec, DataType, Engine, Error, Location, codec_words,
};

/// The most chunks that a shard of a volume may have room for, for a shard of Zarr to have as many: an index of 512 KiB.
const MOST_CHUNKS: u64 = 1 << 15;

/// What shards come near whose boxes are not kept.
const SHARD_BYTES: u64 = 64 << 20;

/// Makes a Zarr group of a volume in Neuroglancer's precomputed format, with one array for each scale.
///
/// The arrays have the axes x, y, z and channel, and are called by the keys of the scales. Attributes of the group keep the whole
/// `info`, so that [`convert_to_volume`](super::convert_to_volume) gives the same volume again. Chunks that are encoded as `raw` are
/// moved as they are, compressed or not, unless other chunks or codecs are asked for; only those that are cut off at an end of the volume are
/// encoded anew, as chunks of Zarr are never cut off. Chunks that are not stored stay so.
///
/// The metadata of each array comes after its chunks and that of the group last; until then
/// [`CONVERT_MARKER`](crate::zarr::CONVERT_MARKER) says that the result is unfinished, and the same call goes on with
/// it. `tell` hears of each level when it is done.
///
/// Costs one read for each index and each chunk, and the check as much again; memory is that of the chunks in flight.
pub fn convert_to_zarr(
    engine: &Arc<Engine>,
    source: &Location,
    target: &Location,
    form: &ZarrForm,
    options: &ConvertOptions,
    tell: &mut dyn FnMut(ConvertedLevel),
) -> Result<ConvertSummary, Error> {
    refuse_data_set(engine, source)?;
    let (volume, _hold) = Volume::open_held(engine, source)?;
    let names = kept::names(volume.info());
    let view = View::straight();
    let mut levels = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        let scale = volume.scale(number)?;
        let (old, described) = (volume.array(number)?, scale_metadata(&volume, scale)?);
        let from = Side { array: &old, metadata: &described };
        let metadata = metadata(from, scale, form, options)?;
        let place = target.join(name)?;
        let new = ArrayNode::from_metadata(engine, &place, metadata)?;
        let report = ConvertedLevel {
            level: number,
            source: scale.key.clone(),
            target: name.clone(),
            shape: new.shape().to_vec(),
            chunk_shape: new.chunk_shape().to_vec(),
            shard_shape: new.shard_shape().map(<[u64]>::to_vec),
            axes: view.names(),
            moves: have_same_chunks(from, &view, Side::of(&new)),
            ..ConvertedLevel::default()
        };
        levels.push((old, described, new, report));
    }
    let summary = ConvertSummary { info_kept: true, ..ConvertSummary::default() };
    if options.dry_run {
        levels.into_iter().for_each(|(.., report)| tell(report));
        return Ok(summary);
    }
    let request = options.request(form.request());
    let job = Job::begin(engine, source, target, options, request)?;
    for (old, described, new, mut report) in levels {
        let (document, text) = (new.location().key(DOCUMENT)?, new.metadata().to_bytes());
        report.check = job.check;
        if job.resumed {
            report.outcome = RepackOutcome::Resumed;
        }
        if !job.is_finished(&document, &text)? {
            let from = Side { array: &old, metadata: &described };
            let made = Side::of(&new);
            let level = Level::new(from, &view, made, options, job.resumed, &report.target);
            level.run(job.check)?;
            let mut counted = report.clone();
            level.report(&mut counted);
            job.check_source()?;
            target.store.put(&document, &text, Condition::None)?;
            drop(level);
            report = counted;
        }
        tell(report);
    }
    let group = GroupMetadata::new(kept::attributes(volume.info()));
    target.store.put(&target.key(DOCUMENT)?, &group.to_bytes(), Condition::None)?;
    job.end()?;
    Ok(summary)
}

fn refuse(scale: &Scale, reason: String) -> Error {
    ConvertError::Layout { at: format!("scale \"{}\"", scale.key), reason }.into()
}

/// What the array of a scale is to be.
fn metadata(
    Side { array: old, metadata }: Side<'_>,
    scale: &Scale,
    form: &ZarrForm,
    options: &ConvertOptions,
) -> Result<ArrayMetadata, Error> {
    let refuse = |reason: String| refuse(scale, reason);
    let chunk_shape = match options.chunk.as_deref() {
        None => metadata.chunk_shape().to_vec(),
        Some(chunk) if chunk.contains(&0) => return Err(refuse("a chunk cannot be 0 long".into())),
        Some([x, y, z]) => vec![*x, *y, *z, metadata.chunk_shape()[RANK - 1]],
        Some(chunk @ [_, _, _, _]) => chunk.to_vec(),
        Some(chunk) => {
            let axes = chunk.len();
            return Err(refuse(format!("chunks of {axes} axes; a volume has x, y, z and channel")));
        }
    };
    let codecs = match (&form.codecs, &scale.encoding) {
        (Some(choice), _) => chosen_codecs(choice, old.data_type()).map_err(refuse)?,
        (None, ChunkEncoding::Raw) => metadata.codecs().to_vec(),
        (None, _) => {
            let usual = CodecChoice::Words(vec![codec_words::DEFAULT.to_owned()]);
            chosen_codecs(&usual, old.data_type()).map_err(refuse)?
        }
    };
    if codecs.iter().any(|codec| codec.name == "sharding_indexed") {
        let reason = "shards among the codecs of chunks; ask for them by how chunks are packed";
        return Err(refuse(reason.to_owned()));
    }
    let packing = packing(old, scale, &chunk_shape, &form.packing)?;
    let mut stored = Stored { codecs, chunk_shape, shards: None };
    let shape = shard_shape(old, &stored, &stored.chunk_shape, &packing);
    if let Some(shape) = shape.map_err(|refused| refused.into_error(refuse))? {
        stored.shards = Some(Shards {
            shape,
            index_codecs: default_index_codecs().map_err(refuse)?,
            location: form.index.unwrap_or(IndexLocation::End),
            plain: true,
        });
    }
    let (chunk_shape, codecs) = stored.to_layout();
    ArrayMetadata::new(NewArray {
        shape: metadata.shape().to_vec(),
        chunk_shape,
        data_type: metadata.data_type().clone(),
        fill: None,
        codecs,
        key_encoding: ChunkKeyEncoding::default(),
        dimension_names: Some(axis_names()),
        attributes: metadata.attributes().clone(),
    })
    .map_err(|source| {
        let at = format!("scale \"{}\"", scale.key);
        ConvertError::Metadata { at, source: Box::new(source) }.into()
    })
}

/// The codecs that are asked for. Words that say nothing of the order of axes leave voxels as they lie in a volume.
fn chosen_codecs(choice: &CodecChoice, data_type: &DataType) -> Result<Vec<CodecSpec>, String> {
    let mut codecs = choice.codecs(data_type)?;
    let in_words = matches!(choice, CodecChoice::Words(_));
    if in_words && codecs.iter().all(|codec| codec.name != "transpose") {
        codecs.insert(0, transpose());
    }
    Ok(codecs)
}

/// From the order of axes in an array to that of voxels in a volume.
fn transpose() -> CodecSpec {
    let configuration = Map::from_iter([("order".to_owned(), json!([3, 2, 1, 0]))]);
    CodecSpec { name: "transpose".to_owned(), configuration, must_understand: true }
}

/// How the chunks of a scale are packed, with a number for each of the four axes.
fn packing(old: &Array, scale: &Scale, chunk: &[u64], packing: &Packing) -> Result<Packing, Error> {
    let axes = old.shape().iter().zip(chunk);
    let grid: Vec<u64> = axes.map(|(&len, &n)| len.div_ceil(n).max(1)).collect();
    let near = |target: u64| -> Result<Packing, Error> {
        let each = mean_chunk(old, chunk)?;
        Ok(Packing::ChunksPerShard(chunks_per_shard_for(&grid, each, target)))
    };
    let channels = chunk[RANK - 1];
    Ok(match packing {
        Packing::Keep => match (&scale.sharding, scale.morton()) {
            (Some(sharding), Some(code)) => match shard_box(sharding, code) {
                Some(shape) if *chunk == *old.chunk_shape() => {
                    let counts: Vec<u64> = (0..RANK)
                        .map(|axis| shape.get(axis).copied().unwrap_or(1).min(grid[axis]))
                        .collect();
                    let count = counts.iter().fold(1u64, |n, &m| n.saturating_mul(m));
                    if count > MOST_CHUNKS {
                        return near(SHARD_BYTES);
                    }
                    Packing::ChunksPerShard(counts)
                }
                _ => near(SHARD_BYTES)?,
            },
            _ => Packing::Unsharded,
        },
        Packing::TargetSize(target) => near(*target)?,
        // Channels are not many, and mostly in one chunk.
        Packing::ChunksPerShard(counts) => match counts[..] {
            [all] => Packing::ChunksPerShard(vec![all, all, all, 1]),
            [x, y, z] => Packing::ChunksPerShard(vec![x, y, z, 1]),
            _ => packing.clone(),
        },
        Packing::Shard(shape) => match shape[..] {
            [x, y, z] => Packing::Shard(vec![x, y, z, channels]),
            _ => packing.clone(),
        },
        _ => packing.clone(),
    })
}

/// What a chunk of this shape takes, by some that are stored.
fn mean_chunk(old: &Array, chunk: &[u64]) -> Result<u64, Error> {
    let element = old.chunks.layout.element_size() as u64;
    let decoded = chunk.iter().fold(element, |n, &len| n.saturating_mul(len));
    Ok(sample(old)?.map_or(decoded, |sample| sample.bytes_of(chunk)).max(1))
}
