//! Converts a data set to Zarr, of either version.

use serde_json::{Map, Value, json};

use super::super::frame::JobContext;
use super::super::frame::place::check_apart;
use super::super::rebuild::AxisMap;
use super::super::repack::{
    Packing, RepackOptions, Shards, Stored, default_index_codecs, shard_shape, wanted,
};
use super::super::span::job_span;
use super::ConvertError;
use super::hierarchy::{Hierarchy, NodeForm, PlannedArray};
use super::nodes::{OldArray, OldContent, OldGroup, OldNode, OldNodes};
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel, ZarrForm};
use super::planned::Planned;
use crate::ome::OmeMetadata;
use crate::plan::{chunks_per_shard_for, sample};
use crate::shard::IndexLocation;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NewArray, ZarrFormat};
use crate::{Array, CodecChoice, CodecSpec, Error, Location, codec_words};

/// The largest capacity of a volume's shard, in chunks, that a Zarr shard matches: an index of 512
/// KiB.
pub(super) const MOST_CHUNKS: u64 = 1 << 15;

/// The approximate size of shards whose boxes are not kept.
pub(super) const SHARD_BYTES: u64 = 64 << 20;

/// Makes Zarr from a data set in another format: from one with levels, such as a precomputed
/// volume, a group with one array for each level; from a single array an array; from a group a
/// group. From Zarr of either version, it makes the same hierarchy in the version asked for, with
/// everything else that is in its folder; version 2 has no shards, and codecs or types that it lacks
/// are refused.
///
/// The arrays have the axes of the source, and are named after the levels. Attributes keep what
/// else its documents say; for a volume the whole `info`, so that
/// [`convert_to_volume`](super::convert_to_volume) makes the same volume again. Chunks whose bytes
/// are valid Zarr chunks are moved without decoding, compressed or not, unless other chunks or
/// codecs are requested; those stored cut off at an end of the volume are re-encoded, as Zarr
/// chunks are never cut off. Absent chunks stay absent.
///
/// The metadata of each array comes after its chunks and that of the root last; until then
/// [`CONVERT_MARKER`](crate::zarr::CONVERT_MARKER) says that the result is unfinished, and the same
/// call resumes it. `tell` is called with each array when it is done.
///
/// Costs one read for each index and each chunk, and the check as much again; memory is the chunks
/// in flight.
pub fn convert_to_zarr(
    context: impl Into<JobContext>,
    source: &Location,
    target: &Location,
    form: &ZarrForm,
    options: &ConvertOptions,
    tell: &mut dyn FnMut(ConvertedLevel),
) -> Result<ConvertSummary, Error> {
    let _span = job_span("convert_to_zarr", source);
    let context = &context.into();
    let _hold = source.hold()?;
    let planned = plan_to_zarr(context, source, target, form, options)?;
    planned.run(context, source, target, options, tell)
}

/// Plans the conversion.
pub(in crate::jobs) fn plan_to_zarr(
    context: &JobContext,
    source: &Location,
    target: &Location,
    form: &ZarrForm,
    options: &ConvertOptions,
) -> Result<Planned, Error> {
    check_apart(source, target)?;
    let node_form = match form.zarr_format.unwrap_or(ZarrFormat::V3) {
        ZarrFormat::V3 => NodeForm::V3,
        ZarrFormat::V2 => NodeForm::V2 { separator: form.separator },
    };
    check_form(target, form, node_form)?;
    let OldNodes { nodes, is_zarr } = OldNodes::read(context, source)?;
    let mut hierarchy = Hierarchy::new(context, source, target, node_form);
    for OldNode { path, content } in nodes {
        match content {
            OldContent::Array(old) => {
                hierarchy.array(&path, planned(old, form, options, node_form)?)?;
            }
            OldContent::Group(group) => {
                check_group(&group, node_form)?;
                hierarchy.group(&path, group.metadata, group.consolidated)?;
            }
        }
    }
    let summary = ConvertSummary { info_kept: true, ..ConvertSummary::default() };
    Ok(hierarchy.plan(options.request(form.request()), is_zarr, summary))
}

/// Refuses what version 2 does not have.
fn check_form(target: &Location, form: &ZarrForm, node_form: NodeForm) -> Result<(), Error> {
    let packs = !matches!(form.packing, Packing::Keep | Packing::Unsharded);
    if node_form != NodeForm::V3 && (packs || form.index.is_some()) {
        let reason = "Zarr version 2 has no shards".to_owned();
        return Err(ConvertError::Layout { at: target.to_string(), reason }.into());
    }
    Ok(())
}

/// Refuses OME-Zarr metadata that does not belong in version 2.
fn check_group(group: &OldGroup, node_form: NodeForm) -> Result<(), Error> {
    if node_form == NodeForm::V3 {
        return Ok(());
    }
    match OmeMetadata::read(group.metadata.attributes()) {
        Ok(Some(ome)) if ome.version.release().is_zarr3() => {
            let reason = format!("it is OME-Zarr {}, which is not Zarr version 2", ome.version);
            Err(ConvertError::OtherVersion { at: group.at.clone(), reason }.into())
        }
        // What cannot be understood stays what it is.
        _ => Ok(()),
    }
}

/// An array with all its axes.
pub(super) fn planned(
    old: OldArray,
    form: &ZarrForm,
    options: &ConvertOptions,
    node_form: NodeForm,
) -> Result<PlannedArray, Error> {
    let metadata = match &old.metadata {
        Some(own) => same_format(&old, own, form, options, node_form)?,
        None => {
            let packing = match node_form {
                NodeForm::V3 => form.packing.clone(),
                NodeForm::V2 { .. } => Packing::Unsharded,
            };
            let form = ZarrForm { packing, ..form.clone() };
            metadata(&old.array, &old.at(), &form, options, old.attributes.clone())?
        }
    };
    let axes = AxisMap::identity(old.array.shape().len());
    let report = ConvertedLevel { axes: axis_words(&old.array), ..ConvertedLevel::default() };
    Ok(PlannedArray { old, axes, metadata, named: true, report })
}

/// The metadata of a Zarr array that stays one, in terms of version 3.
fn same_format(
    old: &OldArray,
    own: &ArrayMetadata,
    form: &ZarrForm,
    options: &ConvertOptions,
    node_form: NodeForm,
) -> Result<ArrayMetadata, Error> {
    let mut wish = RepackOptions::new().packing(match node_form {
        NodeForm::V3 => form.packing.clone(),
        NodeForm::V2 { .. } => Packing::Unsharded,
    });
    wish.index = form.index;
    wish.codecs = form.codecs.clone();
    wish.chunk = options.chunk.clone();
    let encoding = match own.zarr_format() {
        ZarrFormat::V2 => ChunkKeyEncoding::default(),
        ZarrFormat::V3 => *own.key_encoding(),
    };
    Ok(wanted(&old.array, own, &wish, encoding)?.metadata)
}

/// The names of an array's axes; `?` of one without.
fn axis_words(array: &Array) -> Vec<String> {
    let names = array.axis_names().unwrap_or_default();
    names.iter().map(|name| name.clone().unwrap_or_else(|| "?".to_owned())).collect()
}

/// The metadata of a level's array.
fn metadata(
    old: &Array,
    at: &str,
    form: &ZarrForm,
    options: &ConvertOptions,
    attributes: Map<String, Value>,
) -> Result<ArrayMetadata, Error> {
    let refuse = |reason: String| ConvertError::Layout { at: at.to_owned(), reason }.into();
    let rank = old.shape().len();
    let chunk_shape = match options.chunk.as_deref() {
        None => old.chunk_shape().to_vec(),
        Some(chunk) if chunk.contains(&0) => {
            return Err(refuse("a chunk cannot have length 0".into()));
        }
        Some(chunk) if chunk.len() == rank => chunk.to_vec(),
        // Channels stay as they are.
        Some(chunk) if chunk.len() + 1 == rank => {
            chunk.iter().chain(old.chunk_shape().last()).copied().collect()
        }
        Some(chunk) => {
            let axes = chunk.len();
            return Err(refuse(format!(
                "chunks have {axes} axes, but the array has x, y, z and channel"
            )));
        }
    };
    let codecs = match &form.codecs {
        Some(choice) => chosen_codecs(choice, old).map_err(refuse)?,
        None if old.codecs().iter().all(is_of_zarr) => old.codecs().to_vec(),
        None => {
            let usual = CodecChoice::Words(vec![codec_words::DEFAULT.to_owned()]);
            chosen_codecs(&usual, old).map_err(refuse)?
        }
    };
    if codecs.iter().any(|codec| codec.name == "sharding_indexed") {
        let reason =
            "the chunk codecs include sharding_indexed; request shards as the packing instead";
        return Err(refuse(reason.to_owned()));
    }
    let packing = packing(old, &chunk_shape, &form.packing)?;
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
        shape: old.shape().to_vec(),
        chunk_shape,
        data_type: old.data_type().clone(),
        fill: None,
        codecs,
        key_encoding: ChunkKeyEncoding::default(),
        dimension_names: old.axis_names().map(<[_]>::to_vec),
        attributes,
    })
    .map_err(|source| ConvertError::Metadata { at: at.to_owned(), source: Box::new(source) }.into())
}

/// Whether every Zarr reader knows a codec.
pub(super) fn is_of_zarr(codec: &CodecSpec) -> bool {
    matches!(&*codec.name, "transpose" | "bytes" | "gzip" | "zstd" | "blosc" | "crc32c")
}

/// The requested codecs. Codec words that do not mention the order of axes keep the element order
/// of the source.
fn chosen_codecs(choice: &CodecChoice, old: &Array) -> Result<Vec<CodecSpec>, String> {
    let mut codecs = choice.codecs(old.data_type())?;
    let in_words = matches!(choice, CodecChoice::Words(_));
    if in_words && codecs.iter().all(|codec| codec.name != "transpose") {
        let own = old.codecs().iter().find(|codec| codec.name == "transpose");
        codecs.insert(0, own.cloned().unwrap_or_else(|| reversed(old.shape().len())));
    }
    Ok(codecs)
}

/// The codec that stores the first axis fastest, as volumes do.
fn reversed(rank: usize) -> CodecSpec {
    let order: Vec<usize> = (0..rank).rev().collect();
    let configuration = Map::from_iter([("order".to_owned(), json!(order))]);
    CodecSpec { name: "transpose".to_owned(), configuration, must_understand: true }
}

/// How the chunks of a level are packed, with a number for each axis.
fn packing(old: &Array, chunk: &[u64], packing: &Packing) -> Result<Packing, Error> {
    let axes = old.shape().iter().zip(chunk);
    let grid: Vec<u64> = axes.map(|(&len, &n)| len.div_ceil(n).max(1)).collect();
    let near = |target: u64| -> Result<Packing, Error> {
        let each = mean_chunk(old, chunk)?;
        Ok(Packing::ChunksPerShard(chunks_per_shard_for(&grid, each, target)))
    };
    let last = chunk.last().copied().unwrap_or(1);
    let rank = chunk.len();
    Ok(match packing {
        Packing::Keep if old.chunks.packing.shared().is_none() => Packing::Unsharded,
        Packing::Keep => match old.shard_shape() {
            Some(shape) if *chunk == *old.chunk_shape() => {
                let axes = shape.iter().zip(chunk).zip(&grid);
                let counts: Vec<u64> =
                    axes.map(|((&n, &chunk), &all)| (n / chunk).min(all)).collect();
                let count = counts.iter().fold(1u64, |n, &m| n.saturating_mul(m));
                if count > MOST_CHUNKS {
                    return near(SHARD_BYTES);
                }
                Packing::ChunksPerShard(counts)
            }
            _ => near(SHARD_BYTES)?,
        },
        Packing::TargetSize(target) => near(*target)?,
        // Channels are few, and mostly in one chunk.
        Packing::ChunksPerShard(counts) => match &counts[..] {
            [all] => {
                let mut counts = vec![*all; rank];
                if let Some(last) = counts.last_mut().filter(|_| rank > 3) {
                    *last = 1;
                }
                Packing::ChunksPerShard(counts)
            }
            counts if counts.len() + 1 == rank => {
                Packing::ChunksPerShard(counts.iter().copied().chain([1]).collect())
            }
            _ => packing.clone(),
        },
        Packing::Shard(shape) if shape.len() + 1 == rank => {
            Packing::Shard(shape.iter().copied().chain([last]).collect())
        }
        _ => packing.clone(),
    })
}

/// The mean encoded size of a chunk of this shape, from a sample of stored ones.
pub(super) fn mean_chunk(old: &Array, chunk: &[u64]) -> Result<u64, Error> {
    let element = old.chunks.layout.element_size() as u64;
    let decoded = chunk.iter().fold(element, |n, &len| n.saturating_mul(len));
    Ok(sample(old)?.map_or(decoded, |sample| sample.bytes_of(chunk)).max(1))
}
