//! Makes one level.

use serde_json::{Map, Value, json};
use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{
    BuiltObjects, ChunkCoords, CoarseArray, CoarseBuilder, CoarseLevel, CoarseObjects,
    CoarseOptions, CoarseShare, Level, ObjectIndex, ObjectLayout,
};

use super::attributes::kept_rows;
use super::gather::{Gather, Objects};
use super::plan::LevelPlan;
use super::{Job, PyramidVectorsError, PyramidVectorsLevel, members, planned};
use crate::engine::tuning::{DOCUMENT as DOCUMENT_BYTES, REMOTE_WRITES};
use crate::jobs::frame::Part;
use crate::jobs::vectors_write::{
    CellSource, Counter, FolderSpool, Form, IDS, NewNodes, ObjectWriter, RowSource, Task,
    byte_rows, grid_objects, id_source, ids_metadata, object_of, spooled,
};
use crate::vectors::{VectorStore, WholeLevel};
use crate::zarr::metadata::GroupMetadata;
use crate::zarr::renew_consolidated_above;
use crate::{CodecSpec, Error};

/// A level that is to be made.
pub(super) struct LevelJob<'a> {
    pub job: &'a Job<'a>,
    /// The store, with the level before.
    pub store: &'a VectorStore,
    pub plan: &'a LevelPlan,
    pub spool: &'a FolderSpool,
    /// The part of its objects that this process writes.
    pub part: Option<Part>,
    /// Whether there may be objects of it already, which are then the same.
    pub resumed: bool,
}

/// A level whose objects are written, and that has no documents yet.
pub(super) struct MadeLevel {
    coarse: CoarseLevel,
    objects: Option<Objects>,
    documents: Vec<Document>,
}

/// Manifests that are stored together, at most.
const MANIFESTS: u64 = BuiltObjects::BLOCK;

/// The path of a node and its document.
type Document = (String, Vec<u8>);

impl LevelJob<'_> {
    /// What there is of a level that is complete, in a store that has it.
    pub fn kept(&self, store: &VectorStore) -> Result<PyramidVectorsLevel, Error> {
        let level = WholeLevel::open(store, self.plan.level)?;
        Ok(PyramidVectorsLevel {
            vertices: level.document().vertices,
            objects: level.objects_present(),
            chunks: level.chunks()?.len() as u64,
            kept: true,
            ..planned(self.plan)
        })
    }

    /// Makes the level from the one before it, all but its documents.
    pub fn make(&self, counter: &Counter) -> Result<MadeLevel, Error> {
        let Job { context, location, options, plan, .. } = self.job;
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
        let check = || context.check().map_err(|error| GeometryError::Side(Box::new(error)));
        // Which cells belong to a part follows from where the grids begin, as bounds have it.
        let mut bounds = self.part.and(self.store.root().bounds.as_ref());
        let coarse = loop {
            let mut builder = CoarseBuilder::new(&form, self.spool).map_err(failed)?;
            let (level, spool, memory) = (&finer, self.spool, options.memory);
            Gather { context, level, spool, memory, failed: &failed }
                .all(objects.as_mut(), &mut builder)?;
            if builder.is_empty() {
                let at = location.to_string();
                let reason = format!("level {source} has no vertices");
                return Err(PyramidVectorsError::Unfit { at, reason }.into());
            }
            let origins = bounds.and_then(|[low, _]| {
                let [fine, coarse] = [true, false].map(|finer| builder.grid_origin(finer, low));
                Some([fine?, coarse?])
            });
            let rows = objects.as_ref().map_or(0, |objects| objects.ids.len() as u64);
            let share = origins.as_ref().map(|origins| self.share(origins, &finer, rows));
            let ends = objects.as_ref().map(|objects| &*objects.ends);
            let made = builder.finish(ends, share.as_ref(), &check).map_err(failed)?;
            let fits = origins.as_ref().is_none_or(|origins| {
                let bounds = self.store.root().bounds.as_ref();
                let begins = |finer| made.grid(finer, bounds).0;
                [begins(true), begins(false)] == *origins
            });
            if fits {
                break made;
            }
            // There is something beyond the bounds, so all of the level is made.
            bounds = None;
        };
        let documents = self.write(&finer, &coarse, objects.as_ref(), counter)?;
        Ok(MadeLevel { coarse, objects, documents })
    }

    /// What of the level this process makes, if its grids begin at these chunks.
    fn share<'s>(
        &'s self,
        [fine, coarse]: &'s [ChunkCoords; 2],
        finer: &'s WholeLevel<'_>,
        objects: u64,
    ) -> CoarseShare<'s> {
        let (part, shard) = (self.part, finer.vertices().shard_shape());
        let own = move |origin: &ChunkCoords, chunk: &[i64]| {
            let cell = chunk.iter().zip(origin).map(|(at, first)| at.abs_diff(*first)).collect();
            Task::Place.is_of(part, "", &object_of(cell, shard))
        };
        let blocks = 0..objects.div_ceil(MANIFESTS);
        let blocks: Vec<bool> =
            blocks.map(|block| Task::Block.is_of(part, &self.manifests(), &[block])).collect();
        CoarseShare {
            coarse: Box::new(move |chunk| own(coarse, chunk)),
            fine: Box::new(move |chunk| own(fine, chunk)),
            object: Box::new(move |row| blocks.get((row / MANIFESTS) as usize) == Some(&true)),
        }
    }

    /// The path of the manifests of objects.
    fn manifests(&self) -> String {
        format!("{}/object_index/manifests", self.plan.level)
    }

    /// What was made of the level.
    pub fn told(&self, made: &MadeLevel) -> PyramidVectorsLevel {
        PyramidVectorsLevel {
            vertices: made.coarse.vertices(),
            objects: made.coarse.objects().map(|objects| objects.present()),
            chunks: made.coarse.chunks() as u64,
            ..planned(self.plan)
        }
    }

    /// Writes the objects of all arrays, and returns the documents of these.
    fn write(
        &self,
        finer: &WholeLevel<'_>,
        coarse: &CoarseLevel,
        objects: Option<&Objects>,
        counter: &Counter,
    ) -> Result<Vec<Document>, Error> {
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
                let nodes = self.nodes();
                let node = nodes.array(&path, nodes.metadata(&path, form.grid(Map::new()))?)?;
                let cells = GridCells { coarse, array, origin: &origin };
                let objects = grid_objects(cells.each(), shard);
                let source = CellSource::new(|cell, out| cells.read(cell, out));
                let writer = self.writer(&path, Task::Place, counter);
                writer.write(&node, objects.into_iter(), &source)?;
                let attributes = coarse.attributes(array, &origin);
                let metadata = nodes.metadata(&path, form.grid(attributes))?;
                documents.push((path, metadata.to_bytes()));
            }
        }
        let manifests = coarse.objects();
        if let (Some(objects), Some(manifests)) = (objects, manifests) {
            self.objects(finer, objects, manifests, codecs, counter, &mut documents)?;
        }
        Ok(documents)
    }

    /// Writes all documents, that of the level last.
    pub fn document(&self, made: MadeLevel) -> Result<(), Error> {
        let (own, before) = (self.plan.level, self.plan.level.saturating_sub(1));
        let MadeLevel { coarse, objects, documents } = made;
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
        self.group(&own.to_string(), self.attributes(&coarse, objects.as_ref()))?;
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
        let nodes = self.nodes();
        let path = format!("{index}/object_ids");
        let metadata = nodes.metadata(&path, ids_metadata(count, IDS, codecs))?;
        let node = nodes.array(&path, metadata.clone())?;
        let ids = id_source(|start, count, out| {
            let ids = objects.ids.iter().skip(start as usize).take(count as usize);
            out.extend(ids.flat_map(|id| id.to_le_bytes()));
            Ok(())
        });
        self.writer(&path, Task::Block, counter).write(&node, blocks(IDS), &ids)?;
        documents.push((path, metadata.to_bytes()));
        let path = self.manifests();
        let metadata = nodes.metadata(&path, byte_rows(count, MANIFESTS, Map::new()))?;
        let node = nodes.array(&path, metadata.clone())?;
        let rows = RowSource::new(MANIFESTS, |block, each| {
            let (first, mut bytes) = (block.saturating_mul(MANIFESTS), Vec::new());
            for row in first..count.min(first.saturating_add(MANIFESTS)) {
                manifests.read(row, &mut bytes)?;
                each(&bytes);
            }
            Ok(())
        });
        self.writer(&path, Task::Block, counter).write(&node, blocks(MANIFESTS), &rows)?;
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
            let node = nodes.array(&path, source.metadata().clone())?;
            let Some(rows) = kept_rows(&source, &objects.kept) else { continue };
            // What is not stored is absent in the new level too, however large the array says it is.
            let cells = source.objects()?.into_iter().map(|object| (object.cell, 0));
            self.writer(&path, Task::Block, counter).write(&node, cells, &rows)?;
            documents.push((path, source.metadata().to_bytes()));
            any = true;
        }
        if any {
            documents.push((family, GroupMetadata::new(Map::new()).to_bytes()));
        }
        Ok(())
    }

    /// The attributes of the level.
    fn attributes(&self, coarse: &CoarseLevel, objects: Option<&Objects>) -> Map<String, Value> {
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

    fn writer<'w>(&'w self, path: &'w str, task: Task, progress: &'w Counter) -> ObjectWriter<'w> {
        let (context, part, resumed) = (self.job.context, self.part, self.resumed);
        ObjectWriter { context, part, resumed, path, task, progress }
    }

    fn nodes(&self) -> NewNodes<'_> {
        NewNodes { context: self.job.context, target: self.job.location }
    }
}

/// The cells of an array in a grid that begins at `origin`.
struct GridCells<'a> {
    coarse: &'a CoarseLevel,
    array: &'a CoarseArray,
    origin: &'a ChunkCoords,
}

impl GridCells<'_> {
    /// Its cells, with their bytes.
    fn each(&self) -> impl Iterator<Item = (Vec<u64>, u64)> + '_ {
        self.coarse.chunks_of(self.array).map(|chunk| {
            let bytes = self.coarse.cell_len(self.array, &chunk);
            let cell = chunk.iter().zip(self.origin).map(|(at, first)| at.abs_diff(*first));
            (cell.collect(), bytes)
        })
    }

    fn read(&self, cell: &[u64], out: &mut Vec<u8>) -> Result<(), GeometryError> {
        // No cell is past the last chunk, whose coordinates fit.
        let axes = cell.iter().zip(self.origin);
        let chunk: ChunkCoords = axes.map(|(at, first)| first.wrapping_add(*at as i64)).collect();
        self.coarse.read_cell(self.array, &chunk, out)
    }
}
