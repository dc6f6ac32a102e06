//! A store that has been put together: its cells and its documents.

use serde_json::{Map, Value, json};

use super::BuildOptions;
use super::cells::VertexCells;
use super::columns::FinishedColumn;
use super::links::{LinkCells, LinkPart};
use super::objects::{MANIFESTS, ObjectRows, RowBlocks};
use super::tables::{ObjectArray, ObjectValues};
use crate::zarr_vectors::{
    ChunkCoords, Convention, GridDocument, Level, LinkFamily, ObjectIndex, ObjectLayout, Root,
    Scalar, SpaceAxis, VERSION, kind_name,
};
use crate::{GeometryError, GeometryKind, GeometrySchema};

/// A store with one level, ready to be written.
///
/// Paths are relative to the root of the store. Cells can be read from several threads.
pub struct BuiltStore {
    pub(super) schema: GeometrySchema,
    pub(super) scalar: Scalar,
    pub(super) options: BuildOptions,
    pub(super) vertices: u64,
    pub(super) rows_kept: u64,
    pub(super) bounds: [Vec<f64>; 2],
    pub(super) origin: ChunkCoords,
    pub(super) shape: Vec<u64>,
    pub(super) cells: VertexCells,
    pub(super) columns: Vec<FinishedColumn>,
    pub(super) links: Option<LinkCells>,
    pub(super) link_columns: Vec<FinishedColumn>,
    pub(super) objects: Option<ObjectRows>,
    pub(super) object_values: Vec<ObjectValues>,
    pub(super) groups: Option<RowBlocks>,
}

/// An array with one cell for each chunk of space.
#[derive(Debug, Clone, PartialEq)]
pub struct GridArray {
    /// Where it is: `0/vertices`.
    pub path: String,
    /// What its attributes say beside its chunks.
    attributes: Map<String, Value>,
    part: ArrayPart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArrayPart {
    /// Positions, an attribute of vertices, or, the last one, fragments.
    Vertices(usize),
    Links(usize, LinkPart),
}

impl BuiltStore {
    /// How many vertices there are.
    pub fn vertices(&self) -> u64 {
        self.vertices
    }

    /// How many rows were put together: all, or those of the chunks that were to be kept.
    pub fn rows_kept(&self) -> u64 {
        self.rows_kept
    }

    /// How many links are stored, those between pieces of a path included.
    pub fn links(&self) -> u64 {
        self.links.as_ref().map_or(0, LinkCells::records)
    }

    /// How many chunks have vertices.
    pub fn chunk_count(&self) -> usize {
        self.cells.len()
    }

    /// The smallest and the largest coordinates.
    pub fn bounds(&self) -> &[Vec<f64>; 2] {
        &self.bounds
    }

    /// How many chunks the grids have along each axis.
    pub fn grid_shape(&self) -> &[u64] {
        &self.shape
    }

    /// The objects, if there are any.
    pub fn objects(&self) -> Option<BuiltObjects<'_>> {
        self.objects.as_ref().map(BuiltObjects)
    }

    /// The groups of objects, if there are any.
    pub fn object_groups(&self) -> Option<BuiltGroups<'_>> {
        self.groups.as_ref().map(BuiltGroups)
    }

    /// All arrays with a row for each object, but those of the index.
    pub fn object_arrays(&self) -> Vec<ObjectArray> {
        let tables = self.object_values.iter().enumerate();
        tables.flat_map(|(number, table)| table.arrays(number)).collect()
    }

    /// Replaces the contents of `out` with the elements of `count` rows of an array, from row
    /// `start` on.
    pub fn read_object_rows(
        &self,
        array: &ObjectArray,
        start: u64,
        count: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), GeometryError> {
        out.clear();
        match self.object_values.get(array.table) {
            Some(table) => table.read(array.column, start, count, out),
            None => Ok(()),
        }
    }

    /// All arrays with one cell for each chunk.
    pub fn grid_arrays(&self) -> Vec<GridArray> {
        let array = |path: &str, attributes: Value, part| {
            let attributes = match attributes {
                Value::Object(attributes) => attributes,
                _ => Map::new(),
            };
            GridArray { path: format!("0/{path}"), attributes, part }
        };
        let vertices = json!({
            "zv_array": "vertices", "dtype": self.scalar.name(), "encoding": "raw",
        });
        let index = |name: &str| json!({"zv_array": name, "encoding": "fragment_index_v1"});
        let mut arrays = vec![array("vertices", vertices, ArrayPart::Vertices(0))];
        let last = ArrayPart::Vertices(self.columns.len() + 1);
        arrays.push(array("vertex_fragments", index("vertex_fragments"), last));
        for (number, column) in (1..).zip(&self.columns) {
            let path = format!("vertex_attributes/{}", column.name);
            let mut attributes = json!({"zv_array": "attribute", "name": column.name});
            describe(&mut attributes, column);
            arrays.push(array(&path, attributes, ArrayPart::Vertices(number)));
        }
        let Some(links) = &self.links else { return arrays };
        for number in 0..links.arrays() {
            let Some(offsets) = links.offsets(number) else { continue };
            let (name, within) = (offsets.name(), offsets.is_within());
            let listed: Vec<Vec<i64>> = offsets.iter().map(|offset| offset.to_vec()).collect();
            let attributes = json!({
                "zv_array": "links", "dtype": "int64", "offsets": listed, "has_perm": !within,
                "link_width": links.width(), "level_delta": 0,
            });
            let part = ArrayPart::Links(number, LinkPart::Rows);
            arrays.push(array(&format!("links/0/{name}"), attributes, part));
            if within {
                let part = ArrayPart::Links(number, LinkPart::Fragments);
                arrays.push(array("link_fragments", index("link_fragments"), part));
            }
            for (at, column) in self.link_columns.iter().enumerate() {
                if links.chunks(number).next().is_none() {
                    continue;
                }
                let mut attributes = json!({"zv_array": "link_attribute", "name": column.name});
                describe(&mut attributes, column);
                attributes["offsets"] = listed.clone().into();
                attributes["level_delta"] = 0.into();
                let part = ArrayPart::Links(number, LinkPart::Attribute(at));
                let path = format!("link_attributes/{}/0/{name}", column.name);
                arrays.push(array(&path, attributes, part));
            }
        }
        arrays
    }

    /// The chunks that an array has cells for, in order.
    pub fn chunks(&self, array: &GridArray) -> Vec<ChunkCoords> {
        match array.part {
            ArrayPart::Vertices(_) => self.cells.chunks().collect(),
            ArrayPart::Links(number, _) => {
                self.links.iter().flat_map(|links| links.chunks(number)).collect()
            }
        }
    }

    /// The attributes of an array, with the list of its chunks.
    pub fn attributes(&self, array: &GridArray) -> Map<String, Value> {
        let mut attributes = Map::new();
        let nonempty = Some(self.chunks(array));
        GridDocument { origin: self.origin.clone(), nonempty }.write(&mut attributes);
        attributes.extend(array.attributes.clone());
        attributes
    }

    /// The cell that holds a chunk.
    pub fn cell(&self, chunk: &[i64]) -> Vec<u64> {
        chunk.iter().zip(&self.origin).map(|(at, first)| at.abs_diff(*first)).collect()
    }

    /// Bytes of the cell of an array at these coordinates of the grid.
    pub fn cell_len(&self, array: &GridArray, cell: &[u64]) -> u64 {
        let chunk = self.chunk(cell);
        match array.part {
            ArrayPart::Vertices(part) => {
                self.cells.find(&chunk).map_or(0, |cell| match self.column(array.part) {
                    Some(column) => column.stored_len(self.cells.rows(cell)),
                    None => self.cells.part_len(cell, part),
                })
            }
            ArrayPart::Links(number, part) => self
                .links
                .as_ref()
                .map_or(0, |links| links.part_len(number, &chunk, part, &self.link_columns)),
        }
    }

    /// The attribute that an array has.
    fn column(&self, part: ArrayPart) -> Option<&FinishedColumn> {
        match part {
            ArrayPart::Vertices(part) => self.columns.get(part.checked_sub(1)?),
            ArrayPart::Links(_, LinkPart::Attribute(number)) => self.link_columns.get(number),
            ArrayPart::Links(..) => None,
        }
    }

    /// Replaces the contents of `out` with the cell of an array at these coordinates of the grid;
    /// nothing if it is empty.
    pub fn read_cell(
        &self,
        array: &GridArray,
        cell: &[u64],
        out: &mut Vec<u8>,
    ) -> Result<(), GeometryError> {
        out.clear();
        let chunk = self.chunk(cell);
        match array.part {
            ArrayPart::Vertices(part) => {
                if let Some(cell) = self.cells.find(&chunk) {
                    self.cells.read(cell, part, out)?;
                }
            }
            ArrayPart::Links(number, part) => {
                if let Some(links) = &self.links {
                    links.read(number, &chunk, part, out)?;
                }
            }
        }
        if let Some(column) = self.column(array.part) {
            column.store(out);
        }
        Ok(())
    }

    fn chunk(&self, cell: &[u64]) -> ChunkCoords {
        // No cell is past the last chunk, whose coordinates fit.
        cell.iter().zip(&self.origin).map(|(at, first)| first.wrapping_add(*at as i64)).collect()
    }

    /// The attributes of all groups, by path, those below before those above: the root, whose path
    /// is empty, is last. `name` is that of the store.
    pub fn groups(&self, name: &str) -> Vec<(String, Map<String, Value>)> {
        let mut groups = Vec::new();
        let mut add = |path: &str, attributes| groups.push((path.to_owned(), attributes));
        if !self.columns.is_empty() {
            add("0/vertex_attributes", Map::new());
        }
        if let Some(links) = &self.links {
            let rank = self.shape.len();
            let (width, records) = (links.width(), links.records());
            let family = LinkFamily {
                delta: 0,
                width,
                directed: false,
                duplicate: false,
                rank,
                links: records,
                records,
            };
            add("0/links/0", family.write());
            add("0/links", Map::new());
            for column in &self.link_columns {
                let family = json!({
                    "zv_array": "link_attribute_family", "name": column.name, "level_delta": 0,
                    "num_links": records,
                });
                let family = family.as_object().cloned().unwrap_or_default();
                add(&format!("0/link_attributes/{}/0", column.name), family);
                add(&format!("0/link_attributes/{}", column.name), Map::new());
            }
            if !self.link_columns.is_empty() {
                add("0/link_attributes", Map::new());
            }
        }
        if let Some(objects) = &self.objects {
            let index = ObjectIndex {
                objects: objects.len(),
                present: objects.len(),
                rank: self.shape.len(),
                layout: ObjectLayout::ById,
                sorted: true,
            };
            add("0/object_index", index.write());
        }
        if !self.object_values.is_empty() {
            add("0/object_attributes", Map::new());
        }
        let level = self.level();
        let axes: Vec<String> = self.schema.axes.iter().map(|axis| axis.name.clone()).collect();
        add("0", level.write(&axes));
        add("", self.root().write(name, &[level]));
        groups
    }

    fn level(&self) -> Level {
        let mut arrays = vec!["vertices"];
        if self.schema.kind.link_width() > 0 {
            arrays.push("links");
        }
        if !self.columns.is_empty() {
            arrays.push("vertex_attributes");
        }
        if self.objects.is_some() {
            arrays.push("object_index");
        }
        Level {
            level: 0,
            vertices: self.vertices,
            object_sparsity: 1.0,
            method: "none".to_owned(),
            parent: None,
            arrays: arrays.into_iter().map(str::to_owned).collect(),
            chunk_shape: None,
            bin_shape: None,
            bin_ratio: None,
            chunk_attribute: None,
            // Fragments are cut from the rows of a chunk one after the other.
            fragments_tile: true,
            others: Map::new(),
        }
    }

    fn root(&self) -> Root {
        let kind = self.schema.kind;
        let axis = |axis: &crate::Axis| SpaceAxis {
            name: axis.name.clone(),
            kind: "space".to_owned(),
            unit: axis.unit.clone(),
        };
        Root {
            version: VERSION.to_owned(),
            capabilities: Vec::new(),
            required: Vec::new(),
            axes: self.schema.axes.iter().map(axis).collect(),
            chunk_shape: self.options.chunk.clone(),
            bounds: Some(self.bounds.clone()),
            kinds: kind_name(kind).into_iter().map(str::to_owned).collect(),
            bin_shape: self.options.bin.clone(),
            convention: match kind {
                GeometryKind::Graph | GeometryKind::Mesh => Convention::Explicit,
                GeometryKind::Skeletons => Convention::SequentialWithBranches,
                _ => Convention::Sequential,
            },
            coordinate_offset: None,
            others: Map::new(),
        }
    }
}

fn describe(attributes: &mut Value, column: &FinishedColumn) {
    if let Value::Object(attributes) = attributes {
        column.describe(attributes);
    }
}

/// The objects of a store.
#[derive(Clone, Copy)]
pub struct BuiltObjects<'a>(&'a ObjectRows);

impl BuiltObjects<'_> {
    /// Manifests that are stored together, at most.
    pub const BLOCK: u64 = MANIFESTS;

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether their ids are 0, 1, 2 and so on. zarr-vectors finds lines and paths with other ids
    /// only if it is asked for them.
    pub fn is_counted(&self) -> bool {
        self.0.is_counted()
    }

    /// Replaces the contents of `out` with ids from `start` on, of 64 bits each.
    pub fn read_ids(&self, start: u64, count: u64, out: &mut Vec<u8>) -> Result<(), GeometryError> {
        self.0.read_ids(start, count, out)
    }

    /// Hands the manifests of a block of [`BLOCK`](Self::BLOCK) to `each`.
    pub fn read_manifests(
        &self,
        block: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), GeometryError> {
        self.0.read_manifests(block, each)
    }
}

/// The groups of objects of a store.
#[derive(Clone, Copy)]
pub struct BuiltGroups<'a>(&'a RowBlocks);

impl BuiltGroups<'_> {
    /// Groups that are stored together, at most.
    pub const BLOCK: u64 = MANIFESTS;

    /// How many there are, those without members included.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the attributes of their array say.
    pub fn attributes(&self) -> Map<String, Value> {
        let attributes = json!({"zv_array": "groups", "num_groups": self.len()});
        attributes.as_object().cloned().unwrap_or_default()
    }

    /// Hands the members of each group of a block of [`BLOCK`](Self::BLOCK) to `each`, as ids of 64
    /// bits.
    pub fn read_members(
        &self,
        block: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), GeometryError> {
        self.0.read(block, each)
    }
}
