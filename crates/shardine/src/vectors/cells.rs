//! Cells of several arrays, read together and checked against each other.

use shardine_codec::VariableElements;
use shardine_geometry::zarr_vectors::{
    ChunkCoords, Fragment, FragmentIndex, FragmentRows, StoredType, Values, decode_draco,
    encode_fragments, swap_bytes,
};

use super::error::VectorsError;
use super::grid_array::GridArray;
use super::level::VectorLevel;
use crate::Error;

/// What is read of each chunk.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// How many axes space has.
    pub(super) rank: usize,
    /// Whether fragments are read.
    pub(super) fragments: bool,
    /// How many values a row of each attribute has.
    pub(super) widths: Vec<usize>,
    /// How much memory there is.
    pub(super) memory: u64,
}

/// The cells of some chunks.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) chunks: Vec<ChunkCoords>,
    vertices: VariableElements,
    fragments: Option<VariableElements>,
    attributes: Vec<VariableElements>,
    /// Of chunks that are Draco streams: their faces, and whether vertices are in order.
    draco: Option<Vec<(Vec<u32>, bool)>>,
}

/// One chunk.
#[derive(Debug)]
pub(super) struct CellView<'a> {
    pub(super) chunk: &'a ChunkCoords,
    /// How many vertices it has.
    pub(super) rows: usize,
    pub(super) vertices: Values<'a>,
    /// `None` if fragments were not read.
    pub(super) fragments: Option<FragmentIndex<'a>>,
    pub(super) attributes: Vec<Values<'a>>,
    /// Faces that are stored with the vertices, three rows for each.
    pub(super) faces: &'a [u32],
    /// Whether numbers of vertices that are stored elsewhere mean the rows here.
    pub(super) numbered: bool,
}

impl Cells {
    /// Reads the cells of chunks, with one call to the engine for each array.
    pub(super) fn read(
        level: &VectorLevel,
        wanted: &Wanted,
        chunks: Vec<ChunkCoords>,
    ) -> Result<Self, Error> {
        let fragments = level.fragments.as_ref().filter(|_| wanted.fragments);
        let mut cells = Self {
            vertices: in_order(level.vertices.read(&chunks)?, level.stored),
            fragments: fragments.map(|fragments| fragments.read(&chunks)).transpose()?,
            attributes: level
                .attributes
                .iter()
                .map(|one| Ok(in_order(one.array.read(&chunks)?, one.values.stored)))
                .collect::<Result<_, Error>>()?,
            chunks,
            draco: None,
        };
        if level.draco {
            cells.decode(level, wanted.memory / 2)?;
        }
        Ok(cells)
    }

    /// Puts what is in the Draco streams of vertices in their place.
    fn decode(&mut self, level: &VectorLevel, most: u64) -> Result<(), Error> {
        let mut vertices = VariableElements::with_capacity(self.chunks.len(), 0);
        let mut fragments = VariableElements::with_capacity(self.chunks.len(), 0);
        let mut draco = Vec::with_capacity(self.chunks.len());
        let mut needs = 0u64;
        for (at, chunk) in self.chunks.iter().enumerate() {
            let stream = self.vertices.get(at).unwrap_or_default();
            let cell = decode_draco(stream, most);
            let cell = cell.map_err(|error| level.vertices.damaged(chunk, error))?;
            needs += cell.positions.len() as u64 + 4 * cell.faces.len() as u64;
            if needs > most {
                return Err(level.vertices.wrong(VectorsError::TooLarge { needs, most }));
            }
            let rows = cell.positions.len() / level.row_size(3).max(1);
            let own = self.fragments.as_ref().and_then(|all| all.get(at)).unwrap_or_default();
            match &level.fragments {
                Some(array) if !cell.keeps_order && !own.is_empty() => {
                    fragments.push(&whole(array, chunk, own, rows as u64)?);
                }
                _ => fragments.push(own),
            }
            vertices.push(&cell.positions);
            draco.push((cell.faces, cell.keeps_order));
        }
        self.vertices = vertices;
        if self.fragments.is_some() {
            self.fragments = Some(fragments);
        }
        self.draco = Some(draco);
        Ok(())
    }

    /// Whether nothing is stored for a chunk, in any of the arrays that were read.
    pub(super) fn is_absent(&self, at: usize) -> bool {
        let is_empty = |cells: &VariableElements| cells.get(at).is_none_or(<[u8]>::is_empty);
        let others = self.fragments.iter().chain(&self.attributes);
        is_empty(&self.vertices) && others.into_iter().all(is_empty)
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Chunk `at`, checked: all its rows are whole, every fragment is of rows that exist, and each
    /// attribute has as many rows as there are vertices.
    pub(super) fn view<'a>(
        &'a self,
        level: &VectorLevel,
        wanted: &Wanted,
        at: usize,
    ) -> Result<CellView<'a>, Error> {
        let Some(chunk) = self.chunks.get(at) else {
            return Err(level.vertices.contradicts(&[], "no such chunk was read"));
        };
        let array = &level.vertices;
        let bytes = |cells: &'a VariableElements| cells.get(at).unwrap_or_default();
        let vertices = Values::new(bytes(&self.vertices), level.row_size(wanted.rank));
        let vertices = vertices.map_err(|error| array.damaged(chunk, error))?;
        let rows = vertices.len();
        let fragments = match (&self.fragments, &level.fragments) {
            (Some(cells), Some(array)) => Some(fragments(array, chunk, bytes(cells), rows)?),
            _ => None,
        };
        let mut attributes = Vec::with_capacity(self.attributes.len());
        for ((cells, attribute), width) in
            self.attributes.iter().zip(&level.attributes).zip(&wanted.widths)
        {
            let row = width * attribute.values.document.scalar.size();
            let values = Values::new(bytes(cells), row);
            let values = values.map_err(|error| attribute.array.damaged(chunk, error))?;
            if values.len() != rows {
                let reason = format!("it has {} rows for {rows} vertices", values.len());
                return Err(attribute.array.contradicts(chunk, reason));
            }
            attributes.push(values);
        }
        let own = self.draco.as_ref().and_then(|all| all.get(at));
        let faces = own.map(|(faces, _)| faces.as_slice()).unwrap_or_default();
        let numbered = own.is_none_or(|(_, keeps_order)| *keeps_order);
        Ok(CellView { chunk, rows, vertices, fragments, attributes, faces, numbered })
    }
}

/// Cells with the lowest byte of each number first.
pub(super) fn in_order(cells: VariableElements, stored: StoredType) -> VariableElements {
    if !stored.swapped {
        return cells;
    }
    let mut turned = VariableElements::with_capacity(cells.len(), cells.byte_len());
    for cell in cells.iter() {
        let mut cell = cell.to_vec();
        swap_bytes(&mut cell, stored.swap_size());
        turned.push(&cell);
    }
    turned
}

/// The fragment of a chunk whose vertices were stored in another order, and perhaps not all of
/// them: it has all. More than one cannot be told apart.
fn whole(
    array: &GridArray,
    chunk: &ChunkCoords,
    bytes: &[u8],
    rows: u64,
) -> Result<Vec<u8>, Error> {
    let index = FragmentIndex::parse(bytes).map_err(|error| array.damaged(chunk, error))?;
    let is_whole = matches!(index.get(0), Some(Fragment::Range { start: 0, .. }));
    if index.len() != 1 || !is_whole {
        let reason = "it has several fragments for a Draco stream that keeps no order of vertices";
        return Err(array.contradicts(chunk, reason));
    }
    let mut bytes = Vec::new();
    let fragment = [FragmentRows::Range { start: 0, count: rows }];
    encode_fragments(&fragment, &mut bytes).map_err(|error| array.damaged(chunk, error))?;
    Ok(bytes)
}

fn fragments<'a>(
    array: &GridArray,
    chunk: &ChunkCoords,
    bytes: &'a [u8],
    rows: usize,
) -> Result<FragmentIndex<'a>, Error> {
    if bytes.is_empty() {
        let reason = format!("there are no fragments for {rows} vertices");
        return Err(array.contradicts(chunk, reason));
    }
    let index = FragmentIndex::parse(bytes).map_err(|error| array.damaged(chunk, error))?;
    if index.extent() > rows as u64 {
        let last = index.extent() - 1;
        let reason = format!("a fragment has row {last} of {rows} vertices");
        return Err(array.contradicts(chunk, reason));
    }
    Ok(index)
}
