//! A level that was made, as arrays and documents.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::cells::{CellPlaces, Finished, Place};
use crate::GeometryError;
use crate::zarr_vectors::build::space::Space;
use crate::zarr_vectors::{ChunkCoords, GridDocument, LinkFamily, LinkOffsets, delta_segment};

/// The cells of all arrays.
#[derive(Debug, Default)]
pub(super) struct ArrayCells {
    pub vertices: CellPlaces,
    pub fragments: CellPlaces,
    /// Links to finer vertices.
    pub down: BTreeMap<LinkOffsets, CellPlaces>,
    /// Links from finer vertices, which are stored with the finer level.
    pub up: BTreeMap<LinkOffsets, CellPlaces>,
    /// How many vertices there are.
    pub count: u64,
    /// How many finer vertices became part of one.
    pub links: u64,
}

/// The manifests of all objects.
#[derive(Debug, Default)]
pub(super) struct ManifestPlaces {
    pub places: Vec<Place>,
    /// How many objects have vertices.
    pub present: u64,
}

/// A level that was made from a finer one.
pub struct CoarseLevel {
    file: Finished,
    manifests: Option<ManifestPlaces>,
    fine: Space,
    coarse: Space,
    arrays: Vec<CoarseArray>,
    vertices: u64,
    links: u64,
}

/// An array with a cell for each chunk that has something.
#[derive(Debug)]
pub struct CoarseArray {
    /// Its path in its level: `vertices`.
    pub path: String,
    /// Whether it belongs to the finer level, with chunks of that.
    pub of_finer: bool,
    attributes: Map<String, Value>,
    cells: CellPlaces,
}

impl CoarseLevel {
    pub(super) fn new(
        file: Finished,
        cells: ArrayCells,
        manifests: Option<ManifestPlaces>,
        fine: Space,
        coarse: Space,
    ) -> Self {
        let mut arrays = Vec::new();
        let mut add = |path: &str, of_finer, attributes: Value, cells| {
            let attributes = attributes.as_object().cloned().unwrap_or_default();
            arrays.push(CoarseArray { path: path.to_owned(), of_finer, attributes, cells });
        };
        let vertices = json!({"zv_array": "vertices", "dtype": "float32", "encoding": "raw"});
        add("vertices", false, vertices, cells.vertices);
        let fragments = json!({"zv_array": "vertex_fragments", "encoding": "fragment_index_v1"});
        add("vertex_fragments", false, fragments, cells.fragments);
        for (delta, family) in [(-1, cells.down), (1, cells.up)] {
            for (offsets, cells) in family {
                let listed: Vec<Vec<i64>> = offsets.iter().map(|offset| offset.to_vec()).collect();
                let attributes = json!({
                    "zv_array": "links", "dtype": "int64", "offsets": listed, "has_perm": false,
                    "link_width": 2, "level_delta": delta,
                });
                let path = format!("links/{}/{}", delta_segment(delta), offsets.name());
                add(&path, delta > 0, attributes, cells);
            }
        }
        Self { file, manifests, fine, coarse, arrays, vertices: cells.count, links: cells.links }
    }

    /// How many vertices it has.
    pub fn vertices(&self) -> u64 {
        self.vertices
    }

    /// How many vertices of the finer level became part of one.
    pub fn links(&self) -> u64 {
        self.links
    }

    /// Its arrays, and those that the finer level gets.
    pub fn arrays(&self) -> &[CoarseArray] {
        &self.arrays
    }

    /// Its objects, if the finer level has objects.
    pub fn objects(&self) -> Option<CoarseObjects<'_>> {
        self.manifests.as_ref().map(|manifests| CoarseObjects { manifests, file: &self.file })
    }

    /// How many chunks have vertices.
    pub fn chunks(&self) -> usize {
        self.arrays.first().map_or(0, |vertices| vertices.cells.keys().count())
    }

    /// The attributes of the group of links of a level: to the finer one (-1) or from it (1).
    pub fn family(&self, delta: i64) -> Map<String, Value> {
        let (links, rank) = (self.links, self.coarse.rank());
        LinkFamily {
            delta,
            width: 2,
            directed: true,
            duplicate: false,
            rank,
            links,
            records: links,
        }
        .write()
    }

    /// The attributes of an array in a grid that begins at `origin`, with the list of its chunks.
    pub fn attributes(&self, array: &CoarseArray, origin: &ChunkCoords) -> Map<String, Value> {
        let mut attributes = Map::new();
        let nonempty = Some(self.chunks_of(array).collect());
        GridDocument { origin: origin.clone(), nonempty }.write(&mut attributes);
        attributes.extend(array.attributes.clone());
        attributes
    }

    /// The grid of an array: its first chunk, and how many there are along each axis. It has room
    /// for everything between `bounds`, and for all chunks of the array.
    pub fn grid(&self, of_finer: bool, bounds: Option<&[Vec<f64>; 2]>) -> (ChunkCoords, Vec<u64>) {
        let space = self.space(of_finer);
        let mut corners: Option<(ChunkCoords, ChunkCoords)> = None;
        let mut add = |chunk: ChunkCoords| match &mut corners {
            None => corners = Some((chunk.clone(), chunk)),
            Some((low, high)) => {
                for (axis, at) in chunk.iter().enumerate() {
                    low[axis] = low[axis].min(*at);
                    high[axis] = high[axis].max(*at);
                }
            }
        };
        for bound in bounds.into_iter().flatten() {
            let parts = bound.iter().enumerate();
            let key = parts
                .map(|(axis, value)| space.part(axis, *value))
                .try_fold(0, |key, part| part.map(|part| space.join(key, part)));
            if let Some(key) = key {
                add(space.chunk(key));
            }
        }
        for array in self.arrays.iter().filter(|array| array.of_finer == of_finer) {
            array.cells.keys().for_each(|key| add(space.chunk(key)));
        }
        let zero = || ChunkCoords::from_elem(0, space.rank());
        let (low, high) = corners.unwrap_or_else(|| (zero(), zero()));
        let shape = low.iter().zip(&high).map(|(low, high)| high.abs_diff(*low) + 1).collect();
        (low, shape)
    }

    fn space(&self, of_finer: bool) -> &Space {
        if of_finer { &self.fine } else { &self.coarse }
    }

    /// The chunks that an array has cells for, in order.
    pub fn chunks_of<'l>(
        &'l self,
        array: &'l CoarseArray,
    ) -> impl Iterator<Item = ChunkCoords> + 'l {
        let space = self.space(array.of_finer);
        array.cells.keys().map(|key| space.chunk(key))
    }

    /// Bytes of the cell of a chunk.
    pub fn cell_len(&self, array: &CoarseArray, chunk: &[i64]) -> u64 {
        let key = self.space(array.of_finer).key(chunk);
        key.and_then(|key| array.cells.find(key)).map_or(0, |place| place.len)
    }

    /// Replaces the contents of `out` with the cell of a chunk; nothing if there is none.
    pub fn read_cell(
        &self,
        array: &CoarseArray,
        chunk: &[i64],
        out: &mut Vec<u8>,
    ) -> Result<(), GeometryError> {
        out.clear();
        let key = self.space(array.of_finer).key(chunk);
        match key.and_then(|key| array.cells.find(key)) {
            Some(place) => self.file.read(place, out),
            None => Ok(()),
        }
    }
}

/// The objects of a level, in the rows of the finer level's.
#[derive(Clone, Copy)]
pub struct CoarseObjects<'a> {
    manifests: &'a ManifestPlaces,
    file: &'a Finished,
}

impl CoarseObjects<'_> {
    /// How many rows there are.
    pub fn len(&self) -> u64 {
        self.manifests.places.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many have vertices.
    pub fn present(&self) -> u64 {
        self.manifests.present
    }

    /// Replaces the contents of `out` with the manifest of a row.
    pub fn read(&self, row: u64, out: &mut Vec<u8>) -> Result<(), GeometryError> {
        out.clear();
        let place = usize::try_from(row).ok().and_then(|row| self.manifests.places.get(row));
        place.map_or(Ok(()), |place| self.file.read(*place, out))
    }
}
