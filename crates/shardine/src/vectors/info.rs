//! What a store says of itself.

use shardine_geometry::GeometryKind;
use shardine_geometry::zarr_vectors::{ChunkCoords, Scalar, Values, decode_draco};

use super::level::{VectorLevel, named_children};
use super::parametric;
use super::store::VectorStore;
use super::told::Told;
use crate::Error;
use crate::zarr::{Child, Node};

/// What a store of Zarr Vectors contains.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VectorInfo {
    /// The version of the format.
    pub version: String,
    /// What its vertices form.
    pub kind: GeometryKind,
    /// The names of the axes.
    pub axes: Vec<String>,
    /// The units of the axes.
    pub units: Vec<Option<String>>,
    /// The smallest and the largest coordinates, as far as the store says.
    pub bounds: Option<[Vec<f64>; 2]>,
    /// The edges of a chunk.
    pub chunk_shape: Vec<f64>,
    /// The edges of a bin, if chunks are divided.
    pub bin_shape: Option<Vec<f64>>,
    /// The levels, the finest first.
    pub levels: Vec<LevelInfo>,
    /// The attributes of the finest level.
    pub attributes: Vec<AttributeInfo>,
    /// How many chunks a shard of the finest level has along each axis; `None` if it has none.
    pub shard_shape: Option<Vec<u64>>,
    /// What is worth knowing about how this was found.
    pub notes: Vec<String>,
}

/// What a level contains.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LevelInfo {
    /// Its number.
    pub level: u64,
    /// How many vertices it has.
    pub vertices: u64,
    /// How many objects have a vertex; `None` if there are no objects.
    pub objects: Option<u64>,
    /// How many chunks are stored.
    pub chunks: u64,
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeInfo {
    /// Its name.
    pub name: String,
    /// The type of its values: `float32`, or `string` for a dictionary.
    pub dtype: String,
    /// What has it: `vertex`, `object`, `link`, `fragment`, `group`.
    pub of: &'static str,
}

impl VectorStore {
    /// What the store contains, from its documents: no cell is read where these list the chunks.
    pub fn info(&self) -> Result<VectorInfo, Error> {
        let mut info = VectorInfo {
            version: self.root.version.clone(),
            kind: self.kind,
            axes: self.root.axes.iter().map(|axis| axis.name.clone()).collect(),
            units: self.root.axes.iter().map(|axis| axis.unit.clone()).collect(),
            bounds: self.root.bounds.clone(),
            chunk_shape: self.root.chunk_shape.clone(),
            bin_shape: self.root.bin_shape.clone(),
            levels: Vec::new(),
            attributes: Vec::new(),
            shard_shape: None,
            notes: self.notes.clone(),
        };
        if self.kind == GeometryKind::Parametric {
            let objects = Some(parametric::count(self)?);
            info.levels.push(LevelInfo { level: 0, vertices: 0, objects, chunks: 0 });
            return Ok(info);
        }
        for number in &self.levels {
            let level = self.level(*number)?;
            let mut told = Told::new(&self.location, false);
            level.notes.iter().for_each(|note| told.note(note.as_str()));
            let doubt = level.doubts(&mut told)?;
            let chunks = level.vertices.stored(doubt, &mut told)?.chunks;
            let mut vertices = level.document.vertices;
            if vertices == 0 && !chunks.is_empty() {
                vertices = self.count(&level, &chunks)?;
                told.note(format!(
                    "level {number} does not say how many vertices it has: {vertices} were counted"
                ));
            }
            let chunks = chunks.len();
            info.notes.append(&mut told.notes);
            info.levels.push(LevelInfo {
                level: *number,
                vertices,
                objects: level.objects.as_ref().map(|table| table.document.present),
                chunks: chunks as u64,
            });
            if info.levels.len() == 1 {
                info.shard_shape = level.vertices.array.shard_shape().map(<[u64]>::to_vec);
                info.attributes = self.attributes(&level)?;
            }
        }
        Ok(info)
    }

    /// Counts the vertices of chunks, some at a time.
    fn count(&self, level: &VectorLevel, chunks: &[ChunkCoords]) -> Result<u64, Error> {
        const AT_ONCE: usize = 1024;
        let row = level.row_size(self.root.axes.len());
        let mut count = 0u64;
        for some in chunks.chunks(AT_ONCE) {
            let cells = level.vertices.read(some)?;
            for (chunk, cell) in some.iter().zip(cells.iter()) {
                let rows = if level.draco {
                    let most = self.engine.memory_in_flight();
                    decode_draco(cell, most).map(|cell| cell.positions.len() / row)
                } else {
                    Values::new(cell, row).map(|values| values.len())
                };
                count += rows.map_err(|error| level.vertices.damaged(chunk, error))? as u64;
            }
        }
        Ok(count)
    }

    fn attributes(&self, level: &VectorLevel) -> Result<Vec<AttributeInfo>, Error> {
        let mut all: Vec<AttributeInfo> = level
            .attributes
            .iter()
            .map(|one| {
                let said = one.array.attributes().get("dtype").and_then(|said| said.as_str());
                let dtype = match &one.values {
                    kind if kind.document.categories.is_some() || kind.stored.is_text() => "string",
                    kind => said
                        .filter(|said| Scalar::parse(said).is_none())
                        .unwrap_or(kind.stored.scalar.name()),
                };
                AttributeInfo { name: one.name.clone(), dtype: dtype.to_owned(), of: "vertex" }
            })
            .collect();
        if let Some((name, values)) = &level.document.chunk_attribute
            && !all.iter().any(|one| one.name == *name)
        {
            let numbers = values.iter().all(serde_json::Value::is_i64);
            let dtype = if numbers { "int64" } else { "string" }.to_owned();
            all.push(AttributeInfo { name: name.clone(), dtype, of: "vertex" });
        }
        let groups = [
            ("fragment_attributes", "fragment"),
            ("link_attributes", "link"),
            ("object_attributes", "object"),
            ("group_attributes", "group"),
        ];
        for (group, of) in groups {
            let path = format!("{}/{group}", level.document.level);
            for Child { name, node, .. } in named_children(self, &path, of)? {
                let dtype = match node? {
                    Node::Array(array) => {
                        let said = array.metadata().attributes().get("dtype");
                        let said = said.and_then(|said| said.as_str());
                        said.unwrap_or(array.data_type().name()).to_owned()
                    }
                    // One array for each offset, all alike.
                    Node::Group(_) => self.link_type(&format!("{path}/{name}/0"))?,
                };
                all.push(AttributeInfo { name, dtype, of });
            }
        }
        Ok(all)
    }

    fn link_type(&self, path: &str) -> Result<String, Error> {
        let mut found = None;
        for child in named_children(self, path, "link")? {
            if let Node::Array(array) = child.node? {
                let said = array.metadata().attributes().get("dtype");
                let said = said.and_then(|said| said.as_str()).unwrap_or("float32").to_owned();
                found.get_or_insert(said);
            }
        }
        Ok(found.unwrap_or_else(|| "unknown".to_owned()))
    }
}
