//! Makes one level.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shardine_codec::VariableElements;
use shardine_codec::strided::Placement;
use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{
    BuiltObjects, ChunkCoords, CoarseArray, CoarseBuilder, CoarseLevel, CoarseObjects,
    CoarseOptions, Level, ObjectIndex, ObjectLayout,
};

use super::attributes::kept_rows;
use super::gather::{Gather, Objects};
use super::plan::LevelPlan;
use super::{Job, PyramidVectorsError, PyramidVectorsLevel, members, planned};
use crate::engine::tuning::{DOCUMENT as DOCUMENT_BYTES, REMOTE_WRITES};
use crate::jobs::vectors_write::{
    Counter, FolderSpool, Form, IDS, ObjectWriter, byte_rows, ids_metadata, spooled,
};
use crate::source::{GeneratorSource, Source, SourceError};
use crate::vectors::{VectorStore, WholeLevel};
use crate::zarr::metadata::{ArrayMetadata, GroupMetadata, MetadataError};
use crate::zarr::{DOCUMENT, renew_consolidated_above};
use crate::{ArrayNode, CodecSpec, Error};

/// A level that is to be made.
pub(super) struct LevelJob<'a> {
    pub job: &'a Job<'a>,
    /// The store, with the level before.
    pub store: &'a VectorStore,
    pub plan: &'a LevelPlan,
    pub spool: &'a FolderSpool,
}

/// Manifests that are stored together, at most.
const MANIFESTS: u64 = BuiltObjects::BLOCK;

/// The path of a node and its document.
type Document = (String, Vec<u8>);

impl LevelJob<'_> {
    /// What there is of a level that is complete.
    pub fn kept(&self) -> Result<PyramidVectorsLevel, Error> {
        let level = WholeLevel::open(self.store, self.plan.level)?;
        Ok(PyramidVectorsLevel {
            vertices: level.document().vertices,
            objects: level.objects_present(),
            chunks: level.chunks()?.len() as u64,
            kept: true,
            ..planned(self.plan)
        })
    }

    /// Makes the level from the one before it.
    pub fn make(&self, counter: &Counter) -> Result<PyramidVectorsLevel, Error> {
        let Job { context, location, options, plan } = self.job;
        let source = self.plan.level.saturating_sub(1);
        let finer = WholeLevel::open(self.store, source)?;
        let failed = |error: GeometryError| match error {
            GeometryError::GroupTooLarge { bytes, most, .. } => {
                let (at, level) = (location.to_string(), self.plan.level);
                PyramidVectorsError::TooLarge { at, level, bytes, most }.into()
            }
            error => spooled(error, &location.to_string(), self.spool),
        };
        let mut objects = Objects::choose(&finer, self.plan.sparsity, plan.seed)?;
        if objects.as_ref().is_some_and(|objects| objects.ids.is_empty()) {
            let (at, reason) = (location.to_string(), "it has no objects".to_owned());
            return Err(PyramidVectorsError::Unfit { at, reason }.into());
        }
        let rank = finer.chunk_shape().len();
        let form = CoarseOptions {
            bin: self.plan.bin.clone(),
            fine_chunk: finer.chunk_shape().to_vec(),
            chunk_scale: vec![self.plan.chunk_scale; rank],
            memory: options.memory,
            objects: objects.is_some(),
        };
        let mut builder = CoarseBuilder::new(&form, self.spool).map_err(failed)?;
        let (level, spool, memory) = (&finer, self.spool, options.memory);
        Gather { context, level, spool, memory, failed: &failed }
            .all(objects.as_mut(), &mut builder)?;
        if builder.is_empty() {
            let (at, reason) = (location.to_string(), format!("level {source} has no vertices"));
            return Err(PyramidVectorsError::Unfit { at, reason }.into());
        }
        let ends = objects.as_ref().map(|objects| &*objects.ends);
        let check = || context.check().map_err(|error| GeometryError::Side(Box::new(error)));
        let coarse = builder.finish(ends, &check).map_err(failed)?;
        self.write(&finer, &coarse, objects.as_ref(), counter)?;
        Ok(PyramidVectorsLevel {
            vertices: coarse.vertices(),
            objects: coarse.objects().map(|objects| objects.present()),
            chunks: coarse.chunks() as u64,
            ..planned(self.plan)
        })
    }

    /// Writes all arrays, then their documents, that of the level last.
    fn write(
        &self,
        finer: &WholeLevel<'_>,
        coarse: &CoarseLevel,
        objects: Option<&Objects>,
        counter: &Counter,
    ) -> Result<(), Error> {
        let (own, before) = (self.plan.level, self.plan.level.saturating_sub(1));
        let vertices = finer.vertices();
        // Those after the one that makes bytes of a cell.
        let codecs = vertices.codecs().get(1..).unwrap_or_default();
        let shard = vertices.shard_shape();
        let bounds = self.store.root().bounds.as_ref();
        let mut documents: Vec<Document> = Vec::new();
        for of_finer in [false, true] {
            let (origin, shape) = coarse.grid(of_finer, bounds);
            let form = Form { shape: &shape, shard, codecs };
            let level = if of_finer { before } else { own };
            for array in coarse.arrays().iter().filter(|array| array.of_finer == of_finer) {
                let path = format!("{level}/{}", array.path);
                let cells = GridCells { coarse, array, origin: &origin };
                let node = self.node(&path, self.metadata(&path, form.grid(Map::new()))?)?;
                let objects = cells.objects(shard);
                self.writer(&path, counter).write(&node, objects.into_iter(), &cells)?;
                let attributes = coarse.attributes(array, &origin);
                let metadata = self.metadata(&path, form.grid(attributes))?;
                documents.push((path, metadata.to_bytes()));
            }
        }
        let manifests = coarse.objects();
        if let (Some(objects), Some(manifests)) = (objects, manifests) {
            self.objects(finer, objects, manifests, codecs, counter, &mut documents)?;
        }
        let engine = self.job.context.engine();
        let put = |(path, bytes): Document| self.job.put(&path, &bytes);
        engine.each_waiting(DOCUMENT_BYTES, REMOTE_WRITES, documents.into_iter(), &put)?;
        if coarse.links() > 0 {
            self.group(&format!("{own}/links/-1"), coarse.family(-1))?;
            self.group(&format!("{own}/links"), Map::new())?;
            self.group(&format!("{before}/links/+1"), coarse.family(1))?;
            if self.job.node(&format!("{before}/links"))?.is_none() {
                self.group(&format!("{before}/links"), Map::new())?;
            }
        }
        self.group(&own.to_string(), self.document(coarse, objects))?;
        for level in [before, own] {
            let _ = renew_consolidated_above(&self.job.location.join(&level.to_string())?);
        }
        Ok(())
    }

    /// Writes the index of objects, and their attributes.
    fn objects(
        &self,
        finer: &WholeLevel<'_>,
        objects: &Objects,
        manifests: CoarseObjects<'_>,
        codecs: &[CodecSpec],
        counter: &Counter,
        documents: &mut Vec<Document>,
    ) -> Result<(), Error> {
        let index = format!("{}/object_index", self.plan.level);
        let count = manifests.len();
        let blocks = |block: u64| (0..count.div_ceil(block)).map(|at| (vec![at], 0));
        let path = format!("{index}/object_ids");
        let metadata = self.metadata(&path, ids_metadata(count, IDS, codecs))?;
        let node = self.node(&path, metadata.clone())?;
        let ids = GeneratorSource::new(8, |start: &[u64], shape: &[u64], out: &mut [u8]| {
            let first = start.first().copied().unwrap_or(0) as usize;
            let count = shape.first().copied().unwrap_or(0) as usize;
            let ids = objects.ids.iter().skip(first).take(count);
            for (id, out) in ids.zip(out.chunks_exact_mut(8)) {
                out.copy_from_slice(&id.to_le_bytes());
            }
            Ok(())
        });
        self.writer(&path, counter).write(&node, blocks(IDS), &ids)?;
        documents.push((path, metadata.to_bytes()));
        let path = format!("{index}/manifests");
        let metadata = self.metadata(&path, byte_rows(count, MANIFESTS, Map::new()))?;
        let node = self.node(&path, metadata.clone())?;
        self.writer(&path, counter).write(&node, blocks(MANIFESTS), &Manifests(manifests))?;
        documents.push((path, metadata.to_bytes()));
        let document = ObjectIndex {
            objects: count,
            present: manifests.present(),
            rank: finer.chunk_shape().len(),
            layout: ObjectLayout::ById,
            sorted: objects.ids.is_sorted(),
        };
        documents.push((index, GroupMetadata::new(document.write()).to_bytes()));
        let family = format!("{}/object_attributes", self.plan.level);
        let mut any = false;
        for (name, source) in finer.object_attributes()? {
            let path = format!("{family}/{name}");
            let node = self.node(&path, source.metadata().clone())?;
            let Some(rows) = kept_rows(&source, &objects.kept) else { continue };
            // What is not stored is absent in the new level too, however large the array says it is.
            let cells = source.objects()?.into_iter().map(|object| (object.cell, 0));
            self.writer(&path, counter).write(&node, cells, &rows)?;
            documents.push((path, source.metadata().to_bytes()));
            any = true;
        }
        if any {
            documents.push((family, GroupMetadata::new(Map::new()).to_bytes()));
        }
        Ok(())
    }

    fn document(&self, coarse: &CoarseLevel, objects: Option<&Objects>) -> Map<String, Value> {
        let root = self.store.root();
        let arrays = ["vertices"].into_iter().chain(objects.map(|_| "object_index"));
        let others = match objects {
            Some(objects) => json!({
                "preserves_object_ids": true, "inherited_num_objects": objects.ids.len(),
                "shared_fragments": true,
            }),
            None => json!({"inherited_num_objects": 0, "shared_fragments": true}),
        };
        let level = Level {
            level: self.plan.level,
            vertices: coarse.vertices(),
            object_sparsity: 1.0 / self.plan.sparsity,
            method: "per_object".to_owned(),
            parent: Some(self.plan.level.saturating_sub(1)),
            arrays: arrays.map(str::to_owned).collect(),
            chunk_shape: (self.plan.chunk != root.chunk_shape).then(|| self.plan.chunk.clone()),
            // The root tells of bins.
            bin_shape: None,
            bin_ratio: None,
            chunk_attribute: None,
            fragments_tile: false,
            others: members(others),
        };
        let axes: Vec<String> = root.axes.iter().map(|axis| axis.name.clone()).collect();
        level.write(&axes)
    }

    fn group(&self, path: &str, attributes: Map<String, Value>) -> Result<(), Error> {
        self.job.put(path, &GroupMetadata::new(attributes).to_bytes())
    }

    fn writer<'w>(&'w self, path: &'w str, progress: &'w Counter) -> ObjectWriter<'w> {
        let context = self.job.context;
        ObjectWriter { context, part: None, resumed: false, path, progress }
    }

    fn metadata(
        &self,
        path: &str,
        metadata: Result<ArrayMetadata, MetadataError>,
    ) -> Result<ArrayMetadata, Error> {
        let object = self.job.location.key(path)?.join(DOCUMENT)?;
        metadata.map_err(|source| Error::Metadata { object, source: Box::new(source) })
    }

    fn node(&self, path: &str, metadata: ArrayMetadata) -> Result<ArrayNode, Error> {
        let engine = self.job.context.engine();
        ArrayNode::from_metadata(engine, &self.job.location.join(path)?, metadata)
    }
}

/// The cells of an array in a grid that begins at `origin`.
struct GridCells<'a> {
    coarse: &'a CoarseLevel,
    array: &'a CoarseArray,
    origin: &'a ChunkCoords,
}

impl GridCells<'_> {
    /// The objects that its cells lie in, with their bytes.
    fn objects(&self, shard: Option<&[u64]>) -> BTreeMap<Vec<u64>, u64> {
        let mut objects = BTreeMap::new();
        for chunk in self.coarse.chunks_of(self.array) {
            let bytes = self.coarse.cell_len(self.array, &chunk);
            let cell = chunk.iter().zip(self.origin).map(|(at, first)| at.abs_diff(*first));
            let object: Vec<u64> = match shard {
                Some(shard) => cell.zip(shard).map(|(at, length)| at / (*length).max(1)).collect(),
                None => cell.collect(),
            };
            *objects.entry(object).or_insert(0u64) += bytes;
        }
        objects
    }
}

impl Source for GridCells<'_> {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err(NOT_NUMBERS.into())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let mut elements = VariableElements::new();
        let mut bytes = Vec::new();
        let mut chunk = self.origin.clone();
        for number in 0..shape.iter().product::<u64>() {
            let mut rest = number;
            for axis in (0..shape.len()).rev() {
                // No cell is past the last chunk, whose coordinates fit.
                let cell = start[axis] + rest % shape[axis];
                chunk[axis] = self.origin[axis].wrapping_add(cell as i64);
                rest /= shape[axis];
            }
            self.coarse.read_cell(self.array, &chunk, &mut bytes)?;
            elements.push(&bytes);
        }
        Ok(elements)
    }
}

const NOT_NUMBERS: &str = "the array does not hold numbers";

/// The manifests of objects.
struct Manifests<'a>(CoarseObjects<'a>);

impl Source for Manifests<'_> {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err(NOT_NUMBERS.into())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let first = start.first().copied().unwrap_or(0);
        let count = shape.first().copied().unwrap_or(0);
        let (mut elements, mut bytes) = (VariableElements::new(), Vec::new());
        for row in first..first.saturating_add(count) {
            self.0.read(row, &mut bytes)?;
            elements.push(&bytes);
        }
        Ok(elements)
    }
}
