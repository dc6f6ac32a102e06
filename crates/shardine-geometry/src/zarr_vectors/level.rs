//! The attributes of a level and of the groups and arrays in it.

use serde_json::{Map, Value};

use super::documents::{lengths, numbers, words};
use super::error::DocumentError;
use super::offsets::MAX_WIDTH;

/// The attribute of the group of each level.
pub const LEVEL_ATTRIBUTE: &str = "zarr_vectors_level";

/// What a level says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Its number; 0 is the finest.
    pub level: u64,
    /// How many vertices it has.
    pub vertices: u64,
    /// The part of all objects that are in it.
    pub object_sparsity: f64,
    /// How it was made: `none` for the finest.
    pub method: String,
    /// The level that it was made from.
    pub parent: Option<u64>,
    /// The kinds of arrays in it; not always all of them.
    pub arrays: Vec<String>,
    /// The edges of its chunks, if other than those of the store.
    pub chunk_shape: Option<Vec<f64>>,
    /// The edges of its bins.
    pub bin_shape: Option<Vec<f64>>,
    /// Its bins in units of those of level 0.
    pub bin_ratio: Option<Vec<f64>>,
    /// The attribute whose bins are the first axis of its grids, and the value of each bin.
    pub chunk_attribute: Option<(String, Vec<Value>)>,
    /// Whether the fragments of every chunk are ranges that follow each other.
    pub fragments_tile: bool,
    /// Other members, kept as they are.
    pub others: Map<String, Value>,
}

impl Level {
    /// Whether the attributes of a group are those of a level.
    pub fn is_in(attributes: &Map<String, Value>) -> bool {
        attributes.get(LEVEL_ATTRIBUTE).is_some_and(Value::is_object)
    }

    /// Reads the attributes of the group of level `level` of a store with `rank` axes.
    pub fn read(
        attributes: &Map<String, Value>,
        level: u64,
        rank: usize,
    ) -> Result<Self, DocumentError> {
        let Some(Value::Object(block)) = attributes.get(LEVEL_ATTRIBUTE) else {
            return Err(DocumentError::new(LEVEL_ATTRIBUTE, "is missing"));
        };
        let mut others = block.clone();
        let mut take = |name: &str| others.shift_remove(name).filter(|value| !value.is_null());
        let said = take("level").and_then(|value| value.as_u64());
        if said.is_some_and(|said| said != level) {
            let reason = format!("does not say {level}, which the name of the group does");
            return Err(DocumentError::new(format!("{LEVEL_ATTRIBUTE}.level"), reason));
        }
        let vertices = take("vertex_count").and_then(|count| count.as_u64()).unwrap_or(0);
        let ratio = take("bin_ratio").map(|ratio| numbers("bin_ratio", &ratio, rank));
        // Written again by `write` in any case.
        let (_dims, name) = (take("chunk_dims"), take("chunk_attribute_name"));
        let values = take("chunk_attribute_values");
        let chunk_attribute = match (name, values) {
            (Some(Value::String(name)), Some(Value::Array(values))) => Some((name, values)),
            (Some(Value::String(name)), None) => Some((name, Vec::new())),
            (None, None) => None,
            _ => {
                let reason = "must name an attribute and list its values";
                return Err(DocumentError::new(
                    format!("{LEVEL_ATTRIBUTE}.chunk_attribute_name"),
                    reason,
                ));
            }
        };
        Ok(Self {
            level,
            vertices,
            object_sparsity: take("object_sparsity").and_then(|part| part.as_f64()).unwrap_or(1.0),
            method: match take("coarsening_method") {
                Some(Value::String(method)) => method,
                _ => "none".to_owned(),
            },
            parent: take("parent_level").and_then(|parent| parent.as_u64()),
            arrays: words("arrays_present", take("arrays_present"))?,
            chunk_shape: lengths("chunk_shape", take("chunk_shape"), rank)?,
            bin_shape: lengths("bin_shape", take("bin_shape"), rank)?,
            bin_ratio: ratio.transpose()?,
            chunk_attribute,
            fragments_tile: take("fragments_tile").and_then(|tile| tile.as_bool()).unwrap_or(false),
            others,
        })
    }

    /// The attributes of the group, as zarr-vectors 0.9.2 writes them; `axes` are the names of
    /// those of the store.
    pub fn write(&self, axes: &[String]) -> Map<String, Value> {
        let mut block = Map::new();
        let mut put = |name: &str, value: Value| block.insert(name.to_owned(), value);
        put("level", self.level.into());
        for (name, lengths) in [("bin_shape", &self.bin_shape), ("bin_ratio", &self.bin_ratio)] {
            if let Some(lengths) = lengths {
                put(name, lengths.clone().into());
            }
        }
        put("object_sparsity", self.object_sparsity.into());
        put("vertex_count", self.vertices.into());
        put("coarsening_method", self.method.clone().into());
        put("parent_level", self.parent.into());
        put("arrays_present", self.arrays.clone().into());
        if let Some(lengths) = &self.chunk_shape {
            put("chunk_shape", lengths.clone().into());
        }
        if let Some((name, values)) = &self.chunk_attribute {
            let dims: Vec<&String> = [name].into_iter().chain(axes).collect();
            put("chunk_dims", dims.into_iter().cloned().collect::<Vec<_>>().into());
            put("chunk_attribute_name", name.clone().into());
            put("chunk_attribute_values", values.clone().into());
        }
        if self.fragments_tile {
            put("fragments_tile", true.into());
        }
        block.extend(self.others.clone());
        let mut attributes = Map::new();
        attributes.insert(LEVEL_ATTRIBUTE.to_owned(), Value::Object(block));
        attributes
    }

    /// How many axes the grids of its arrays have, in a store with `rank` axes.
    pub fn grid_rank(&self, rank: usize) -> usize {
        rank + usize::from(self.chunk_attribute.is_some())
    }
}

/// What the group of the links to one level says, `links/0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFamily {
    /// How many levels away the other ends are.
    pub delta: i64,
    /// How many vertices a link joins.
    pub width: usize,
    /// Whether a link from A to B is another one than from B to A.
    pub directed: bool,
    /// Whether a link is stored with each chunk that it touches, and not only once.
    pub duplicate: bool,
    /// How many axes the grid has.
    pub rank: usize,
    /// How many links there are.
    pub links: u64,
    /// How many are stored, a link counted as often as it is.
    pub records: u64,
}

impl LinkFamily {
    /// Reads the attributes of the group; what they do not say is as for edges.
    pub fn read(attributes: &Map<String, Value>, delta: i64, rank: usize) -> Self {
        let number = |name: &str| attributes.get(name).and_then(Value::as_u64);
        let links = number("num_links").unwrap_or(0);
        let width = number("link_width").and_then(|width| usize::try_from(width).ok());
        Self {
            delta,
            width: width.unwrap_or(2).min(MAX_WIDTH + 1),
            directed: attributes.get("directed").and_then(Value::as_bool).unwrap_or(false),
            duplicate: attributes.get("store").and_then(Value::as_str) == Some("duplicate"),
            rank,
            links,
            records: number("num_physical_records").unwrap_or(links),
        }
    }

    /// The attributes of the group.
    pub fn write(&self) -> Map<String, Value> {
        let mut attributes = Map::new();
        let mut put = |name: &str, value: Value| attributes.insert(name.to_owned(), value);
        put("zv_array", "links_family".into());
        put("level_delta", self.delta.into());
        put("link_width", self.width.into());
        put("directed", self.directed.into());
        put("store", if self.duplicate { "duplicate" } else { "canonical" }.into());
        put("sid_ndim", self.rank.into());
        put("num_links", self.links.into());
        put("num_physical_records", self.records.into());
        attributes
    }

    /// Whether the links of an array with these offsets are stored with a permutation in front.
    pub fn has_permutation(&self, within: bool) -> bool {
        self.delta == 0 && !within && (self.duplicate || !self.directed)
    }
}

/// What an array of links says of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkArray {
    /// The type of a number.
    pub scalar: super::Scalar,
    /// How many vertices a link joins.
    pub width: usize,
    /// Whether each row begins with the number of a permutation.
    pub permuted: bool,
}

impl LinkArray {
    /// Reads the attributes of an array in the group `family`.
    pub fn read(
        attributes: &Map<String, Value>,
        family: &LinkFamily,
        within: bool,
    ) -> Result<Self, DocumentError> {
        let dtype = attributes.get("dtype").and_then(Value::as_str).unwrap_or("int64");
        let scalar = super::Scalar::parse(dtype).filter(|scalar| scalar.is_integer());
        let scalar = scalar.ok_or_else(|| {
            DocumentError::new("dtype", format!("{dtype:?} is no type of whole numbers"))
        })?;
        let width = match attributes.get("link_width") {
            None => family.width,
            Some(width) => width
                .as_u64()
                .and_then(|width| usize::try_from(width).ok())
                .filter(|width| (1..=MAX_WIDTH).contains(width))
                .ok_or_else(|| in_array("link_width", width))?,
        };
        let permuted = match attributes.get("has_perm") {
            None => family.has_permutation(within),
            Some(permuted) => permuted.as_bool().ok_or_else(|| in_array("has_perm", permuted))?,
        };
        Ok(Self { scalar, width, permuted })
    }

    /// How many numbers a row has.
    pub fn columns(&self) -> usize {
        self.width + usize::from(self.permuted)
    }

    /// How many bytes a row has.
    pub fn row_size(&self) -> usize {
        self.columns() * self.scalar.size()
    }
}

fn in_array(name: &str, value: &Value) -> DocumentError {
    DocumentError::new(name, format!("cannot be {value}"))
}

/// How manifests are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectLayout {
    /// One string of bytes for each object; the number of its row is its id.
    ByRow,
    /// The same, with an array of ids.
    ById,
    /// Two arrays of numbers, with an array of ids.
    Dense,
}

const LAYOUTS: [(ObjectLayout, &str); 3] = [
    (ObjectLayout::ByRow, "vlen_manifests_v1"),
    (ObjectLayout::ById, "vlen_manifests_v2"),
    (ObjectLayout::Dense, "dense_manifests_v1"),
];

/// What the group `object_index` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIndex {
    /// How many objects there are, those without a vertex included.
    pub objects: u64,
    /// How many of them have one.
    pub present: u64,
    /// How many coordinates a chunk has.
    pub rank: usize,
    /// How manifests are stored.
    pub layout: ObjectLayout,
    /// Whether ids ascend.
    pub sorted: bool,
}

impl ObjectIndex {
    /// Reads the attributes of the group, in a level whose grids have `rank` axes.
    pub fn read(attributes: &Map<String, Value>, rank: usize) -> Result<Self, DocumentError> {
        let number = |name: &str| attributes.get(name).and_then(Value::as_u64);
        let objects = number("num_objects").unwrap_or(0);
        let layout = match attributes.get("layout") {
            None => ObjectLayout::ById,
            Some(name) => {
                let known = LAYOUTS.iter().find(|row| name.as_str() == Some(row.1));
                let unknown = || DocumentError::new("layout", format!("{name} is unknown"));
                known.ok_or_else(unknown)?.0
            }
        };
        if number("sid_ndim").is_some_and(|said| said != rank as u64) {
            let reason = format!("must be {rank}, as the grids of the level have it");
            return Err(DocumentError::new("sid_ndim", reason));
        }
        Ok(Self {
            objects,
            present: number("num_present").unwrap_or(objects),
            rank,
            layout,
            sorted: attributes.get("object_ids_sorted").and_then(Value::as_bool).unwrap_or(false),
        })
    }

    /// The attributes of the group.
    pub fn write(&self) -> Map<String, Value> {
        let mut attributes = Map::new();
        let mut put = |name: &str, value: Value| attributes.insert(name.to_owned(), value);
        put("zv_array", "object_index".into());
        put("num_objects", self.objects.into());
        put("num_present", self.present.into());
        put("sid_ndim", self.rank.into());
        let layout = LAYOUTS.iter().find(|row| row.0 == self.layout).map(|row| row.1);
        put("layout", layout.into());
        put("object_ids_sorted", self.sorted.into());
        attributes
    }
}
