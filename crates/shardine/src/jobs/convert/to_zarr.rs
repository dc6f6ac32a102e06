//! Converts a data set in another format to Zarr.

use serde_json::{Map, Value, json};

use super::super::frame::JobContext;
use super::super::frame::place::{below, check_apart};
use super::super::rebuild::{
    AxisMap, Document, OutPlan, SourceRef, Step, TargetRef, Work, make, relates,
};
use super::super::repack::{Packing, Shards, Stored, default_index_codecs, shard_shape};
use super::super::span::job_span;
use super::CONVERT;
use super::ConvertError;
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel, ZarrForm};
use crate::jobs::losses::refuse_data_set;
use crate::plan::{chunks_per_shard_for, sample};
use crate::precomputed::AXES;
use crate::shard::IndexLocation;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, GroupMetadata, NewArray};
use crate::zarr::{DOCUMENT, MAX_DEPTH, node_names};
use crate::{
    Array, ArrayNode, CodecChoice, CodecSpec, DataSet, Error, Location, PartContent, SetKind,
    codec_words, open_in,
};

/// The largest capacity of a volume's shard, in chunks, that a Zarr shard matches: an index of 512
/// KiB.
const MOST_CHUNKS: u64 = 1 << 15;

/// The approximate size of shards whose boxes are not kept.
const SHARD_BYTES: u64 = 64 << 20;

/// Makes Zarr from a data set in another format: from one with levels, such as a precomputed
/// volume, a group with one array for each level; from a single array an array; from a group a
/// group.
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
    let (plan, mut reports) = plan_to_zarr(context, source, target, form, options)?;
    let summary = ConvertSummary { info_kept: true, ..ConvertSummary::default() };
    if options.dry_run {
        reports.into_iter().for_each(tell);
        return Ok(summary);
    }
    let outcome = make(context, source, target, plan, &options.out(), &mut |i, done| {
        if let Some(report) = reports.get_mut(i) {
            tell(std::mem::take(report).done(done));
        }
    })?;
    Ok(ConvertSummary { outcome, ..summary })
}

/// Plans the conversion, with a report of each step as far as known.
pub(in crate::jobs) fn plan_to_zarr(
    context: &JobContext,
    source: &Location,
    target: &Location,
    form: &ZarrForm,
    options: &ConvertOptions,
) -> Result<(OutPlan<'static>, Vec<ConvertedLevel>), Error> {
    let engine = context.engine();
    check_apart(source, target)?;
    refuse_data_set(engine, source)?;
    let set = open_in(engine, source)?;
    let mut planner = Planner::new(context, source, target, form, options);
    planner.set(&*set, "", 0)?;
    let Planner { steps, reports, documents, .. } = planner;
    let plan = OutPlan {
        kind: &CONVERT,
        request: options.request(form.request()),
        steps,
        documents,
        others: None,
        others_required: false,
        last_check: Box::new(|| Ok(())),
    };
    Ok((plan, reports))
}

/// What is to be made.
struct Planner<'a> {
    context: &'a JobContext,
    source: &'a Location,
    target: &'a Location,
    form: &'a ZarrForm,
    options: &'a ConvertOptions,
    steps: Vec<Step>,
    reports: Vec<ConvertedLevel>,
    /// The documents of groups, and of an array that is the root.
    documents: Vec<Document>,
}

impl<'a> Planner<'a> {
    fn new(
        context: &'a JobContext,
        source: &'a Location,
        target: &'a Location,
        form: &'a ZarrForm,
        options: &'a ConvertOptions,
    ) -> Self {
        let (steps, reports, documents) = (Vec::new(), Vec::new(), Vec::new());
        Self { context, source, target, form, options, steps, reports, documents }
    }

    /// Plans a data set at a path of the target.
    fn set(&mut self, set: &dyn DataSet, path: &str, depth: usize) -> Result<(), Error> {
        let at = || set.location().to_string();
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep { at: at(), most: MAX_DEPTH });
        }
        let levels = match set.kind() {
            SetKind::Array => {
                let (array, attributes) = (set.array(0)?, set.attributes(None));
                return self.array(set, array, ("", 0), path, attributes);
            }
            SetKind::KeyValues => return set.array(0).map(drop),
            kind => kind == SetKind::Levels,
        };
        let parts = set.parts()?;
        let keys: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let names = node_names(&keys);
        for (number, (part, name)) in parts.into_iter().zip(names).enumerate() {
            let inside = if path.is_empty() { name } else { format!("{path}/{name}") };
            match part.content? {
                PartContent::Array(array) => {
                    let attributes = set.attributes(levels.then_some(number));
                    self.array(set, array, (&part.name, number), &inside, attributes)?;
                }
                PartContent::Set(inner) => self.set(&*inner, &inside, depth + 1)?,
                PartContent::Keys(_) => return Err(Error::NotAnArray { at: at() }),
            }
        }
        let group = GroupMetadata::new(set.attributes(None));
        self.document(path, group.to_bytes())
    }

    fn place(&self, path: &str) -> Result<Location, Error> {
        if path.is_empty() { Ok(self.target.clone()) } else { self.target.join(path) }
    }

    fn document(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let key = self.place(path)?.key(DOCUMENT)?;
        self.documents.push(Document { key, bytes });
        Ok(())
    }

    fn array(
        &mut self,
        set: &dyn DataSet,
        old: Array,
        (source, level): (&str, usize),
        path: &str,
        attributes: Map<String, Value>,
    ) -> Result<(), Error> {
        let named = match source {
            "" => set.location().to_string(),
            name => format!("level \"{name}\""),
        };
        let metadata = metadata(&old, &named, self.form, self.options, attributes)?;
        let place = self.place(path)?;
        let new = ArrayNode::from_metadata(self.context.engine(), &place, metadata)?;
        let axes = AxisMap::identity(old.shape().len());
        self.reports.push(ConvertedLevel {
            level,
            source: source.to_owned(),
            target: path.to_owned(),
            shape: new.shape().to_vec(),
            chunk_shape: new.chunk_shape().to_vec(),
            shard_shape: new.shard_shape().map(<[u64]>::to_vec),
            axes: axis_words(&old),
            moves: relates(&old, &axes, &new),
            ..ConvertedLevel::default()
        });
        let bytes = new.metadata().to_bytes();
        let document = match path {
            "" => {
                self.document("", bytes)?;
                None
            }
            _ => Some(Document { key: place.key(DOCUMENT)?, bytes }),
        };
        let json = serde_json::from_slice(&new.metadata().to_bytes()).unwrap_or_default();
        let target = TargetRef::Zarr { path: path.to_owned(), document: json };
        let source = SourceRef::new(below(self.source, set.location()), level);
        let work = Work::Array { old, axes, new: new.into_array() };
        let (name, folder) = (path.to_owned(), set.location().clone());
        self.steps.push(Step { name, folder, work, source, target, document });
        Ok(())
    }
}

/// The names of an array's axes, as far as a volume has them.
fn axis_words(array: &Array) -> Vec<&'static str> {
    let named =
        |name: &Option<String>| AXES.iter().copied().find(|axis| Some(*axis) == name.as_deref());
    let names = array.axis_names().unwrap_or_default();
    names.iter().map(|name| named(name).unwrap_or("?")).collect()
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
fn is_of_zarr(codec: &CodecSpec) -> bool {
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
fn mean_chunk(old: &Array, chunk: &[u64]) -> Result<u64, Error> {
    let element = old.chunks.layout.element_size() as u64;
    let decoded = chunk.iter().fold(element, |n, &len| n.saturating_mul(len));
    Ok(sample(old)?.map_or(decoded, |sample| sample.bytes_of(chunk)).max(1))
}
