//! Recommendations for data sets that exist: what is known about them is looked up first.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Action, Choice, Current, Figures, ObjectCount, PlanError, Recommendation, ShardingPlan,
    Situation, VectorFigures, VectorRecommendation, VectorSituation, View, chunk_bytes,
    element_bytes, recommend, recommend_vectors, recommended_sharding, sample, sharding_for_size,
    stored_cells,
};
use crate::precomputed::Volume;
use crate::shard::IndexLocation;
use crate::shard::uint64::{Encoding, Sharding};
use crate::vectors::{GeometryKind, LevelInfo, VectorInfo, VectorStore};
use crate::zarr::metadata::codec_specs_from_json;
use crate::{ArrayNode, CodecSpec, DataType, Engine, Error, Node, codec_words};

impl Action {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Create => "create",
            Self::Reshard => "reshard",
            Self::Unshard => "unshard",
            Self::Rechunk => "rechunk",
        }
    }
}

impl Choice {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({ "rule": self.rule.name(), "reason": self.reason })
    }
}

impl Situation {
    /// A new array of this type on a local disk. The size of variable-length elements is a guess.
    pub fn of_type(shape: &[u64], data_type: &DataType) -> Self {
        Self::new(shape.to_vec(), element_bytes(data_type))
    }

    /// Adds what an existing array tells: the measured size of its chunks, which of them are
    /// stored, and how they are packed.
    ///
    /// Costs what [`sample`] and [`stored_cells`] cost.
    pub fn look_at(&mut self, array: &ArrayNode) -> Result<(), Error> {
        self.remote |= !array.location().store.read_cost().local;
        self.sample = sample(array)?;
        self.stored = stored_cells(array, self.sample.as_ref())?;
        let sharding = Index::of(array.metadata().codecs());
        self.current = Some(Current {
            chunk: array.chunk_shape().to_vec(),
            shard: array.shard_shape().map(<[u64]>::to_vec),
            index: sharding.as_ref().map_or(IndexLocation::End, |index| index.location),
            checksum: sharding.is_some_and(|index| index.checksum),
        });
        Ok(())
    }
}

/// The index of the outermost sharding codec.
struct Index {
    location: IndexLocation,
    checksum: bool,
    /// The codecs of chunks.
    codecs: Vec<CodecSpec>,
}

impl Index {
    /// Of an open array, so its codecs are well-formed.
    fn of(codecs: &[CodecSpec]) -> Option<Self> {
        let codec = codecs.iter().find(|codec| codec.name == "sharding_indexed")?;
        let chain = |member: &str| codec_specs_from_json(codec.configuration.get(member)?).ok();
        let location = codec.configuration.get("index_location").and_then(Value::as_str);
        Some(Self {
            location: match location {
                Some("start") => IndexLocation::Start,
                _ => IndexLocation::End,
            },
            checksum: chain("index_codecs")?.iter().any(|codec| codec.name == "crc32c"),
            codecs: chain("codecs")?,
        })
    }
}

/// What is recommended for one array.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ArrayAdvice {
    /// Its name, for people; what the caller calls it.
    pub name: String,
    /// The type of its elements.
    pub data_type: DataType,
    /// Its codecs, in words.
    pub codecs: String,
    /// What is known about it.
    pub situation: Situation,
    /// What is recommended.
    pub advice: Recommendation,
}

impl ArrayAdvice {
    /// For an array that does not exist yet.
    pub fn of_new(
        name: &str,
        data_type: &DataType,
        situation: Situation,
    ) -> Result<Self, PlanError> {
        let codecs = format!("{}, the default", codec_words::DEFAULT);
        let (name, advice) = (name.to_owned(), recommend(&situation)?);
        Ok(Self { name, data_type: data_type.clone(), codecs, situation, advice })
    }

    /// For an array, after [`Situation::look_at`].
    pub fn of_array(
        name: &str,
        array: &ArrayNode,
        situation: Situation,
    ) -> Result<Self, PlanError> {
        let codecs = array.metadata().codecs();
        let index = Index::of(codecs);
        let chain = index.as_ref().map_or(codecs, |index| &index.codecs);
        let codecs = format!("{}, kept", codec_words::show_chain(chain));
        let (name, advice) = (name.to_owned(), recommend(&situation)?);
        Ok(Self { name, data_type: array.data_type().clone(), codecs, situation, advice })
    }

    /// The bytes of its elements, before compression.
    pub fn raw_bytes(&self) -> u64 {
        let shape = &self.situation.shape;
        let elements = match shape.contains(&0) {
            true => 0,
            false => shape.iter().fold(1u64, |n, &length| n.saturating_mul(length)),
        };
        elements.saturating_mul(self.situation.element_bytes)
    }

    /// How many chunks a recommended shard has along each axis.
    pub fn chunks_per_shard(&self) -> Option<Vec<u64>> {
        let shard = self.advice.shard.as_ref()?;
        Some(shard.iter().zip(&self.advice.chunk).map(|(&s, &c)| s / c.max(1)).collect())
    }

    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        let (advice, situation) = (&self.advice, &self.situation);
        json!({
            "url": situation.current.as_ref().map(|_| &self.name),
            "shape": situation.shape,
            "dtype": self.data_type.to_json(),
            "array_bytes": self.raw_bytes(),
            "remote": situation.remote,
            "measured": situation.sample.as_ref().map(|sample| json!({
                "shape": sample.shape,
                "count": sample.count,
                "looked_for": sample.looked,
                "objects": sample.objects,
                "mean": sample.mean,
                "median": sample.median,
                "max": sample.max,
                "ratio": sample.ratio,
                "share": sample.share(),
            })),
            "action": advice.action.name(),
            "chunk_shape": advice.chunk,
            "chunk_choice": advice.chunk_choice.to_json(),
            "shard_shape": advice.shard,
            "chunks_per_shard": self.chunks_per_shard(),
            "shard_choice": advice.shard_choice.to_json(),
            "index_location": advice.index.as_ref().map(|(place, _)| match place {
                IndexLocation::Start => "start",
                IndexLocation::End => "end",
            }),
            "index_choice": advice.index.as_ref().map(|(_, why)| why.to_json()),
            "codecs": self.codecs,
            "before": advice.before.as_ref().map(figures_json),
            "after": figures_json(&advice.after),
            "notes": advice.notes,
        })
    }
}

fn view_json(view: &View) -> Value {
    json!({
        "shape": view.shape,
        "chunks": view.chunks,
        "objects": view.objects,
        "requests": [view.least_requests.min(view.most_requests), view.most_requests],
        "bytes": view.bytes,
    })
}

fn figures_json(figures: &Figures) -> Value {
    json!({
        "chunks": figures.chunks,
        "cells": figures.cells,
        "objects": figures.objects,
        "object_count": match figures.object_count {
            ObjectCount::Counted => "counted",
            ObjectCount::Estimated => "estimated",
            _ => "room",
        },
        "chunk_bytes": figures.chunk_bytes,
        "encoded_chunk_bytes": figures.encoded_chunk_bytes,
        "object_bytes": figures.object_bytes,
        "largest_object_bytes": figures.largest_object_bytes,
        "index_bytes": figures.index_bytes,
        "stored_bytes": figures.stored_bytes,
        "screen": view_json(&figures.screen),
        "volume": figures.volume.as_ref().map(view_json),
        "streaming_memory": figures.streaming_memory,
        "whole_memory": figures.whole_memory,
    })
}

/// What is recommended for one scale of a precomputed volume.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VolumeAdvice {
    /// Its name, for people; what the caller calls it.
    pub name: String,
    /// Voxels along x, y and z.
    pub size: [u64; 3],
    /// Voxels of a chunk.
    pub chunk: [u64; 3],
    /// How it is sharded; `None` if it does not exist yet.
    pub current: Option<Option<Sharding>>,
    /// What is recommended.
    pub plan: ShardingPlan,
}

impl VolumeAdvice {
    /// For a volume that does not exist yet, with chunks of so many bytes, and with shards of about
    /// `target` bytes if that is given.
    pub fn of_new(
        name: &str,
        size: [u64; 3],
        chunk: [u64; 3],
        bytes: u64,
        target: Option<u64>,
    ) -> Self {
        let plan = sharding_plan(size, chunk, bytes, target);
        Self { name: name.to_owned(), size, chunk, current: None, plan }
    }

    /// For a scale of a volume.
    pub fn of_scale(
        name: &str,
        volume: &Volume,
        level: usize,
        target: Option<u64>,
    ) -> Result<Self, Error> {
        let scale = volume.scale(level)?;
        let (size, chunk) = (scale.size, scale.chunk_size());
        let plan = sharding_plan(size, chunk, chunk_bytes(volume.info(), scale), target);
        let current = Some(scale.sharding.clone());
        Ok(Self { name: name.to_owned(), size, chunk, current, plan })
    }

    /// The recommended sharding: compressed as it is now, or as usual.
    pub fn sharding(&self) -> Sharding {
        let (data, index) = match &self.current {
            Some(Some(current)) => (current.data_encoding, current.minishard_index_encoding),
            _ => (Encoding::Gzip, Encoding::Gzip),
        };
        self.plan.sharding.clone().data_encoding(data).minishard_index_encoding(index)
    }

    /// Whether it is sharded as recommended.
    pub fn is_there(&self) -> bool {
        self.current.as_ref().and_then(Option::as_ref) == Some(&self.sharding())
    }

    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "size": self.size,
            "chunk": self.chunk,
            "current": self.current.as_ref().map(|now| now.as_ref().map(Sharding::to_json)),
            "sharding": self.sharding().to_json(),
            "shard_box": self.plan.shard_box,
            "chunks_per_shard": self.plan.chunks_per_shard,
            "shards": self.plan.shards,
            "reasons": self.plan.reasons,
        })
    }
}

fn sharding_plan(size: [u64; 3], chunk: [u64; 3], bytes: u64, target: Option<u64>) -> ShardingPlan {
    match target {
        Some(target) => sharding_for_size(size, chunk, bytes, target),
        None => recommended_sharding(size, chunk, bytes),
    }
}

/// What is recommended for one level of a store of Zarr Vectors.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VectorAdvice {
    /// The level.
    pub level: LevelInfo,
    /// What is known about it.
    pub situation: VectorSituation,
    /// The array with the largest cells, by its path below the level.
    pub measured: String,
    /// What is recommended.
    pub advice: VectorRecommendation,
    /// Whether the store is on a local disk.
    pub local: bool,
}

impl VectorAdvice {
    /// Looks at a level. `situation` makes a situation of the shape and type of an array, with what
    /// the caller knows. `None` if no vertices are stored.
    pub fn of_level(
        engine: &Arc<Engine>,
        store: &VectorStore,
        info: &VectorInfo,
        level: &LevelInfo,
        situation: &dyn Fn(&[u64], &DataType) -> Situation,
    ) -> Result<Result<Option<Self>, PlanError>, Error> {
        let arrays = cell_arrays(engine, store, level.level)?;
        let mut measured = Vec::new();
        for array in &arrays {
            measured.extend(sample(array)?.map(|sample| (sample.mean, sample, array)));
        }
        let Some((_, sample, array)) = measured.into_iter().max_by_key(|(mean, ..)| *mean) else {
            return Ok(Ok(None));
        };
        let mut cells = situation(array.shape(), array.data_type());
        let local = array.location().store.read_cost().local;
        cells.remote |= !local;
        cells.stored = stored_cells(array, Some(&sample))?;
        cells.sample = Some(sample);
        cells.chunk = Some(vec![1; array.shape().len()]);
        cells.current = Some(Current {
            chunk: array.chunk_shape().to_vec(),
            shard: array.shard_shape().map(<[u64]>::to_vec),
            index: IndexLocation::End,
            checksum: true,
        });
        let situation = VectorSituation {
            chunk: info.chunk_shape.clone(),
            bin: info.bin_shape.clone(),
            can_bin: info.kind == GeometryKind::Points && level.objects.is_none(),
            vertices: level.vertices,
            chunks: level.chunks,
            arrays: arrays.len() as u64,
            cells,
        };
        let advice = match recommend_vectors(&situation) {
            Ok(advice) => advice,
            Err(error) => return Ok(Err(error)),
        };
        let path = array.location().to_string();
        let measured = path.rsplit_once(&format!("/{}/", level.level)).map_or("", |(_, name)| name);
        let measured = measured.to_owned();
        Ok(Ok(Some(Self { level: level.clone(), situation, measured, advice, local })))
    }

    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        let advice = &self.advice;
        let current = self.situation.cells.current.as_ref();
        let sample = self.situation.cells.sample.as_ref();
        json!({
            "level": self.level.level,
            "vertices": self.level.vertices,
            "chunks": self.level.chunks,
            "remote": self.situation.cells.remote,
            "measured": sample.map(|sample| json!({
                "array": self.measured,
                "count": sample.count,
                "mean": sample.mean,
                "median": sample.median,
                "max": sample.max,
            })),
            "action": advice.action.name(),
            "chunk_shape": advice.chunk,
            "chunk_choice": advice.chunk_choice.to_json(),
            "bin_shape": advice.bin,
            "bin_choice": advice.bin_choice.to_json(),
            "chunks_per_shard": advice.chunks_per_shard,
            "shard_choice": advice.shard_choice.to_json(),
            "current_chunks_per_shard": current.and_then(|current| current.shard.as_ref()),
            "before": vector_figures_json(&advice.before),
            "after": vector_figures_json(&advice.after),
        })
    }
}

/// The arrays of a level that have a cell for each chunk with vertices.
fn cell_arrays(
    engine: &Arc<Engine>,
    store: &VectorStore,
    level: u64,
) -> Result<Vec<ArrayNode>, Error> {
    let location = store.location().join(&level.to_string())?;
    let open = |path: &str| match ArrayNode::open(engine, &location.join(path)?) {
        Ok(array) => Ok(Some(array)),
        Err(Error::NoNode { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let mut found = Vec::new();
    found.extend(open("vertices")?);
    found.extend(open("vertex_fragments")?);
    match Node::open(engine, &location.join("vertex_attributes")?) {
        Ok(Node::Group(attributes)) => {
            for child in attributes.children()? {
                if let Node::Array(array) = child.node? {
                    found.push(array);
                }
            }
        }
        Ok(Node::Array(_)) | Err(Error::NoNode { .. } | Error::UnlistedGroup { .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

fn vector_figures_json(figures: &VectorFigures) -> Value {
    json!({
        "chunks": figures.chunks,
        "vertices_per_chunk": figures.vertices_per_chunk,
        "objects": figures.objects,
        "object_bytes": figures.object_bytes,
        "requests": figures.requests,
        "writers": figures.writers,
    })
}
