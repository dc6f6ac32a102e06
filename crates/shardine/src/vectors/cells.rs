//! Cells of several arrays, read together and checked against each other.

use shardine_codec::VariableElements;
use shardine_geometry::zarr_vectors::{ChunkCoords, FragmentIndex, Values};

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
}

/// The cells of some chunks.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) chunks: Vec<ChunkCoords>,
    vertices: VariableElements,
    fragments: Option<VariableElements>,
    attributes: Vec<VariableElements>,
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
}

impl Cells {
    /// Reads the cells of chunks, with one call to the engine for each array.
    pub(super) fn read(
        level: &VectorLevel,
        wanted: &Wanted,
        chunks: Vec<ChunkCoords>,
    ) -> Result<Self, Error> {
        let fragments = level.fragments.as_ref().filter(|_| wanted.fragments);
        Ok(Self {
            vertices: level.vertices.read(&chunks)?,
            fragments: fragments.map(|fragments| fragments.read(&chunks)).transpose()?,
            attributes: level
                .attributes
                .iter()
                .map(|attribute| attribute.array.read(&chunks))
                .collect::<Result<_, _>>()?,
            chunks,
        })
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
        // A list that names a chunk of which nothing is left is no proof that it was empty.
        if rows == 0 && fragments.is_none() {
            let reason = "it is listed in nonempty_chunks, but nothing is stored";
            return Err(array.contradicts(chunk, reason));
        }
        let mut attributes = Vec::with_capacity(self.attributes.len());
        for ((cells, attribute), width) in
            self.attributes.iter().zip(&level.attributes).zip(&wanted.widths)
        {
            let row = width * attribute.document.scalar.size();
            let values = Values::new(bytes(cells), row);
            let values = values.map_err(|error| attribute.array.damaged(chunk, error))?;
            if values.len() != rows {
                let reason = format!("it has {} rows for {rows} vertices", values.len());
                return Err(attribute.array.contradicts(chunk, reason));
            }
            attributes.push(values);
        }
        Ok(CellView { chunk, rows, vertices, fragments, attributes })
    }
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
