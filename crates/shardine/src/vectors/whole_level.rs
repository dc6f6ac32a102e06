//! A level read from its first chunk to its last, for jobs.

use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{
    ChunkCoords, Fragment, FragmentIndex, Level, Scalar, Values,
};

use super::cells::{Cells, Wanted};
use super::error::VectorsError;
use super::level::{VectorLevel, named_children};
use super::objects::{EachBlock, ObjectTable};
use super::store::VectorStore;
use super::told::Told;
use crate::Error;
use crate::zarr::{ArrayNode, Node};

/// A level, without the attributes of its vertices.
pub(crate) struct WholeLevel<'s> {
    store: &'s VectorStore,
    level: VectorLevel,
    wanted: Wanted,
}

/// The vertices of a chunk.
pub(crate) struct ChunkVertices<'a> {
    pub chunk: &'a ChunkCoords,
    vertices: Values<'a>,
    fragments: Option<FragmentIndex<'a>>,
    scalar: Scalar,
    rank: usize,
}

impl<'s> WholeLevel<'s> {
    /// Opens a level. Reads documents.
    pub fn open(store: &'s VectorStore, level: u64) -> Result<Self, Error> {
        let mut level = VectorLevel::open(store, level)?;
        level.attributes.clear();
        let fragments = level.objects.is_some();
        let (rank, memory) = (store.root.axes.len(), store.engine.memory_in_flight());
        let wanted = Wanted { rank, fragments, widths: Vec::new(), memory };
        Ok(Self { store, level, wanted })
    }

    pub fn document(&self) -> &Level {
        &self.level.document
    }

    /// The edges of a chunk.
    pub fn chunk_shape(&self) -> &[f64] {
        &self.level.chunk_shape
    }

    /// The array of the vertices.
    pub fn vertices(&self) -> &ArrayNode {
        &self.level.vertices.array
    }

    /// The chunks with vertices, in ascending order.
    ///
    /// A list that contradicts what is stored is an error: levels made from what is left would hide
    /// what was lost.
    pub fn chunks(&self) -> Result<Vec<ChunkCoords>, Error> {
        let mut told = Told::new(&self.store.location, true);
        let doubt = self.level.doubts(&mut told)?;
        let mut chunks = self.level.vertices.stored(doubt, &mut told)?.chunks;
        chunks.sort_unstable();
        Ok(chunks)
    }

    /// Fails if fewer vertices were found than the level says. It may say none, as while it is
    /// streamed.
    pub fn check_count(&self, found: u64) -> Result<(), Error> {
        let Level { level, vertices: said, .. } = self.level.document;
        if found >= said {
            return Ok(());
        }
        let reason = format!("level {level} says {said} vertices, and {found} are stored");
        Err(self.contradiction(reason))
    }

    /// Parts of the store that contradict each other.
    fn contradiction(&self, reason: String) -> Error {
        self.store.wrong(VectorsError::Strict(reason))
    }

    /// The ids of its objects; `None` if it has no index of objects. All are in memory.
    pub fn object_ids(&self) -> Result<Option<Vec<i64>>, Error> {
        let Some(objects) = &self.level.objects else { return Ok(None) };
        let needs = objects.rows().saturating_mul(size_of::<i64>() as u64 * 2);
        let most = self.wanted.memory;
        if needs > most {
            return Err(self.store.wrong(VectorsError::TooLarge { needs, most }));
        }
        objects.ids(0..objects.rows()).map(Some)
    }

    /// How many of its objects have vertices; `None` if it has no index of objects.
    pub fn objects_present(&self) -> Option<u64> {
        self.level.objects.as_ref().map(|objects| objects.document.present)
    }

    /// Hands the blocks of the manifests of objects to `each`. `rows` ascend, each with its id.
    pub fn each_block(&self, rows: &[(u64, i64)], each: &mut EachBlock<'_>) -> Result<(), Error> {
        self.level.objects.as_ref().map_or(Ok(()), |objects| objects.each_block(rows, each))
    }

    /// Reads chunks, and hands them to `each`, in their order.
    pub fn each_chunk(
        &self,
        chunks: &[ChunkCoords],
        each: &mut dyn FnMut(ChunkVertices<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let cells = Cells::read(&self.level, &self.wanted, chunks.to_vec())?;
        for at in 0..cells.len() {
            let view = cells.view(&self.level, &self.wanted, at)?;
            let (scalar, rank) = (self.level.coordinate, self.wanted.rank);
            let (chunk, vertices, fragments) = (view.chunk, view.vertices, view.fragments);
            each(ChunkVertices { chunk, vertices, fragments, scalar, rank })?;
        }
        Ok(())
    }

    /// The arrays with a row for each object.
    pub fn object_attributes(&self) -> Result<Vec<(String, ArrayNode)>, Error> {
        let path = format!("{}/object_attributes", self.level.document.level);
        let rows = self.level.objects.as_ref().map_or(0, ObjectTable::rows);
        let mut arrays = Vec::new();
        for child in named_children(self.store, &path, "object")? {
            let Node::Array(array) = child.node? else { continue };
            if array.shape().first() != Some(&rows) {
                let shape = array.shape();
                let reason = format!(
                    "{path}/{} has the shape {shape:?}, and there are {rows} objects",
                    child.name
                );
                return Err(self.contradiction(reason));
            }
            arrays.push((child.name, array));
        }
        Ok(arrays)
    }

    /// An object whose manifest names what does not exist.
    pub fn no_fragment(&self, object: i64, chunk: &ChunkCoords, fragment: u64) -> Error {
        let chunk = shardine_geometry::zarr_vectors::chunk_key(chunk);
        let reason = format!("there is no fragment {fragment} in chunk {chunk}");
        self.store.wrong(VectorsError::Object { object, reason })
    }

    /// A chunk with something that cannot be worked with.
    pub fn unfit(&self, chunk: &ChunkCoords, error: GeometryError) -> Error {
        match error {
            GeometryError::Invalid { reason, .. } => self.level.vertices.contradicts(chunk, reason),
            error => self.store.wrong(VectorsError::Geometry(error)),
        }
    }
}

impl ChunkVertices<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Replaces the contents of `out` with the position of a row, in 32 bits.
    pub fn position(&self, row: usize, out: &mut Vec<f32>) {
        out.clear();
        let values = self.vertices.rows(row, 1).chunks_exact(self.scalar.size());
        out.extend(values.take(self.rank).map(|value| self.scalar.number(value) as f32));
    }

    /// The rows of a fragment; `None` if there is no such fragment.
    pub fn fragment(&self, fragment: u64) -> Option<Fragment<'_>> {
        let at = usize::try_from(fragment).ok()?;
        self.fragments.as_ref()?.get(at)
    }
}
