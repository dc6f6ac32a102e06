//! What a store says of itself.

use shardine_geometry::GeometryKind;

use super::level::{VectorLevel, named_children};
use super::store::VectorStore;
use crate::Error;
use crate::zarr::{ArrayNode, Child, Node};

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
            let at = self.location.join("parametric/objects")?;
            let objects = ArrayNode::open(&self.engine, &at)?;
            let objects = objects.shape().first().copied();
            info.levels.push(LevelInfo { level: 0, vertices: 0, objects, chunks: 0 });
            return Ok(info);
        }
        for number in &self.levels {
            let level = self.level(*number)?;
            let chunks = match level.vertices.listed() {
                Some(chunks) => chunks,
                None => level.vertices.stored(&mut info.notes)?.len(),
            };
            info.levels.push(LevelInfo {
                level: *number,
                vertices: level.document.vertices,
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

    fn attributes(&self, level: &VectorLevel) -> Result<Vec<AttributeInfo>, Error> {
        let mut all: Vec<AttributeInfo> = level
            .attributes
            .iter()
            .map(|one| {
                let dtype = match &one.document.categories {
                    Some(_) => "string",
                    None => one.document.scalar.name(),
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
