//! The attributes of the root of a store.

use serde_json::{Map, Value, json};

use super::error::DocumentError;
pub use super::level::Level;
use crate::GeometryKind;

/// The version that is written.
pub const VERSION: &str = "0.9.2";

/// The attribute of the root group that makes a store.
pub const STORE_ATTRIBUTE: &str = "zarr_vectors";

/// How the rows of a chunk are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// Every link is stored.
    Explicit,
    /// A row is joined to the one before it in its fragment.
    Sequential,
    /// As before, but where a stored link names a row's parent.
    SequentialWithBranches,
}

const CONVENTIONS: [(Convention, &str); 3] = [
    (Convention::Explicit, "explicit"),
    (Convention::Sequential, "implicit_sequential"),
    (Convention::SequentialWithBranches, "implicit_sequential_with_branches"),
];

impl Convention {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        CONVENTIONS.iter().find(|row| row.0 == self).map_or("explicit", |row| row.1)
    }
}

const KINDS: [(GeometryKind, &str); 7] = [
    (GeometryKind::Points, "point_cloud"),
    (GeometryKind::Lines, "line"),
    (GeometryKind::Polylines, "polyline"),
    (GeometryKind::Streamlines, "streamline"),
    (GeometryKind::Skeletons, "skeleton"),
    (GeometryKind::Graph, "graph"),
    (GeometryKind::Mesh, "mesh"),
];

/// The name of a kind in `geometry_types`; `None` for parametric shapes, which are not listed.
pub fn kind_name(kind: GeometryKind) -> Option<&'static str> {
    KINDS.iter().find(|row| row.0 == kind).map(|row| row.1)
}

/// The kind that `geometry_types` names.
pub fn kind_from_name(name: &str) -> Option<GeometryKind> {
    KINDS.iter().find(|row| row.1 == name).map(|row| row.0)
}

/// An axis of space, or of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceAxis {
    /// Its name.
    pub name: String,
    /// `space`, `time`, or another type.
    pub kind: String,
    /// The unit of coordinates.
    pub unit: Option<String>,
}

/// What the root of a store says.
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// The version of the format, within 0.9.
    pub version: String,
    /// What the store makes use of.
    pub capabilities: Vec<String>,
    /// What a reader has to know to read the store.
    pub required: Vec<String>,
    /// The axes.
    pub axes: Vec<SpaceAxis>,
    /// The edges of a chunk.
    pub chunk_shape: Vec<f64>,
    /// The smallest and the largest coordinates, as far as the store says.
    pub bounds: Option<[Vec<f64>; 2]>,
    /// The kinds, by their names in the format.
    pub kinds: Vec<String>,
    /// The edges of a bin, if chunks are divided into bins.
    pub bin_shape: Option<Vec<f64>>,
    /// How rows are joined.
    pub convention: Convention,
    /// What has to be added to stored coordinates.
    pub coordinate_offset: Option<Vec<f64>>,
    /// Other members, kept as they are.
    pub others: Map<String, Value>,
}

/// The most axes that are read: no store has more than a handful, and each costs columns.
const MAX_RANK: usize = 16;

impl Root {
    /// Whether the attributes of a group are those of a store.
    pub fn is_in(attributes: &Map<String, Value>) -> bool {
        attributes.get(STORE_ATTRIBUTE).is_some_and(Value::is_object)
    }

    /// Reads the attributes of a group. Versions other than 0.9 are refused.
    pub fn read(attributes: &Map<String, Value>) -> Result<Self, DocumentError> {
        let Some(Value::Object(block)) = attributes.get(STORE_ATTRIBUTE) else {
            return Err(DocumentError::new(STORE_ATTRIBUTE, "is missing"));
        };
        let mut others = block.clone();
        let mut take = |name: &str| others.shift_remove(name).filter(|value| !value.is_null());
        let version = read_version(take("zv_version"))?;
        let axes = read_axes(attributes)?;
        let rank = axes.len();
        let chunk_shape = lengths("chunk_shape", take("chunk_shape"), rank)?
            .ok_or_else(|| in_block("chunk_shape", "is missing"))?;
        let bin_shape = lengths("base_bin_shape", take("base_bin_shape"), rank)?;
        let bounds = match take("bounds") {
            Some(Value::Array(corners)) if corners.len() == 2 => {
                let corner = |at: usize| numbers("bounds", &corners[at], rank);
                Some([corner(0)?, corner(1)?])
            }
            None => None,
            Some(_) => return Err(in_block("bounds", "must be two corners")),
        };
        let coordinate_offset = match take("coordinate_offset") {
            None => None,
            Some(offset) => Some(numbers("coordinate_offset", &offset, rank)?),
        };
        let convention = match take("links_convention") {
            None => Convention::Sequential,
            Some(name) => {
                let known = CONVENTIONS.iter().find(|row| name.as_str() == Some(row.1));
                known.ok_or_else(|| in_block("links_convention", format!("{name} is unknown")))?.0
            }
        };
        Ok(Self {
            version,
            capabilities: words("format_capabilities", take("format_capabilities"))?,
            required: words("required_capabilities", take("required_capabilities"))?,
            kinds: words("geometry_types", take("geometry_types"))?,
            axes,
            chunk_shape,
            bounds,
            bin_shape,
            convention,
            coordinate_offset,
            others,
        })
    }

    /// The attributes of the root of a store with the name and these levels, as zarr-vectors
    /// 0.9.2 writes them.
    pub fn write(&self, name: &str, levels: &[Level]) -> Map<String, Value> {
        let mut block = Map::new();
        let mut put = |name: &str, value: Value| block.insert(name.to_owned(), value);
        put("zv_version", self.version.clone().into());
        put("format_capabilities", self.capabilities.clone().into());
        if !self.required.is_empty() {
            put("required_capabilities", self.required.clone().into());
        }
        put("chunk_shape", self.chunk_shape.clone().into());
        if let Some([low, high]) = &self.bounds {
            put("bounds", json!([low, high]));
        }
        put("geometry_types", self.kinds.clone().into());
        if let Some(bins) = &self.bin_shape {
            put("base_bin_shape", bins.clone().into());
        }
        put("links_convention", self.convention.name().into());
        put("object_index_convention", "standard".into());
        put("cross_chunk_strategy", "explicit_links".into());
        if let Some(offset) = &self.coordinate_offset {
            put("coordinate_offset", offset.clone().into());
        }
        block.extend(self.others.clone());
        let axes: Vec<Value> = self.axes.iter().map(axis_document).collect();
        let datasets: Vec<Value> = levels.iter().map(|level| self.dataset(level)).collect();
        let nodes: Vec<Value> = levels
            .iter()
            .map(|level| json!({"type": "zv:level", "name": level.level.to_string()}))
            .collect();
        let scene = json!({
            "coordinateSystems": [{"name": "world", "axes": axes}],
            "coordinateTransformations": [],
        });
        let mut attributes = Map::new();
        attributes.insert(STORE_ATTRIBUTE.to_owned(), Value::Object(block));
        attributes.insert(
            "multiscales".to_owned(),
            json!([{
                "version": "0.4",
                "name": "default",
                "axes": axes,
                "datasets": datasets,
                "metadata": {"format": "zarr_vectors"},
            }]),
        );
        attributes.insert(
            "ome".to_owned(),
            json!({
                "version": "0.6",
                "type": "collection",
                "name": name,
                "attributes": {"scene": scene},
                "nodes": nodes,
            }),
        );
        attributes
    }

    /// The edges of a bin: those of a chunk if chunks are not divided.
    pub fn bins(&self) -> &[f64] {
        self.bin_shape.as_deref().unwrap_or(&self.chunk_shape)
    }

    fn dataset(&self, level: &Level) -> Value {
        let base = self.bins();
        let bins = level.bin_shape.as_deref().filter(|_| level.level > 0).unwrap_or(base);
        let scale: Vec<f64> = match &level.bin_ratio {
            Some(ratio) if level.level > 0 => ratio.clone(),
            _ => bins.iter().zip(base).map(|(bin, base)| bin / base).collect(),
        };
        let middle: Vec<f64> = bins.iter().map(|bin| bin / 2.0).collect();
        let translation = self.coordinate_offset.clone().unwrap_or(middle);
        json!({
            "path": level.level.to_string(),
            "coordinateTransformations": [
                {"type": "scale", "scale": scale},
                {"type": "translation", "translation": translation},
            ],
        })
    }
}

pub(super) fn in_block(name: &str, reason: impl Into<String>) -> DocumentError {
    DocumentError::new(format!("{STORE_ATTRIBUTE}.{name}"), reason)
}

fn read_version(version: Option<Value>) -> Result<String, DocumentError> {
    let Some(Value::String(version)) = version else {
        return Err(in_block("zv_version", "is missing"));
    };
    let mut parts = version.split('.').map(str::parse::<u32>);
    if let (Some(Ok(0)), Some(Ok(9))) = (parts.next(), parts.next()) {
        return Ok(version);
    }
    let reason = format!("is {version:?}, and only versions 0.9.x can be read");
    Err(in_block("zv_version", reason))
}

fn read_axes(attributes: &Map<String, Value>) -> Result<Vec<SpaceAxis>, DocumentError> {
    const MEMBER: &str = "multiscales[0].axes";
    let axes = attributes.get("multiscales").and_then(|list| list.get(0)?.get("axes"));
    let Some(Value::Array(axes)) = axes else {
        return Err(DocumentError::new(MEMBER, "is missing"));
    };
    if axes.is_empty() || axes.len() > MAX_RANK {
        let reason = format!("there are {}, and 1 to {MAX_RANK} can be read", axes.len());
        return Err(DocumentError::new(MEMBER, reason));
    }
    let text = |axis: &Value, name: &str| axis.get(name)?.as_str().map(str::to_owned);
    let mut read: Vec<SpaceAxis> = Vec::with_capacity(axes.len());
    for (at, axis) in axes.iter().enumerate() {
        let name = text(axis, "name").filter(|name| !name.is_empty());
        let name =
            name.ok_or_else(|| DocumentError::new(format!("{MEMBER}[{at}]"), "has no name"))?;
        if read.iter().any(|before| before.name == name) {
            return Err(DocumentError::new(MEMBER, format!("two are called {name:?}")));
        }
        let kind = text(axis, "type").unwrap_or_else(|| "space".to_owned());
        read.push(SpaceAxis { name, kind, unit: text(axis, "unit") });
    }
    Ok(read)
}

fn axis_document(axis: &SpaceAxis) -> Value {
    let mut document = json!({"name": axis.name, "type": axis.kind});
    if let Some(unit) = &axis.unit {
        document["unit"] = unit.clone().into();
    }
    document
}

/// `rank` finite numbers.
pub(super) fn numbers(name: &str, value: &Value, rank: usize) -> Result<Vec<f64>, DocumentError> {
    let list = value.as_array().filter(|list| list.len() == rank);
    let numbers: Option<Vec<f64>> = list.and_then(|list| list.iter().map(Value::as_f64).collect());
    numbers.ok_or_else(|| in_block(name, format!("must be {rank} numbers, one for each axis")))
}

/// `rank` lengths above 0.
pub(super) fn lengths(
    name: &str,
    value: Option<Value>,
    rank: usize,
) -> Result<Option<Vec<f64>>, DocumentError> {
    let Some(value) = value else { return Ok(None) };
    let lengths = numbers(name, &value, rank)?;
    if lengths.iter().any(|length| !length.is_finite() || *length <= 0.0) {
        return Err(in_block(name, "must be above 0 along every axis"));
    }
    Ok(Some(lengths))
}

pub(super) fn words(name: &str, value: Option<Value>) -> Result<Vec<String>, DocumentError> {
    let words: Option<Vec<String>> = match value {
        None => Some(Vec::new()),
        Some(Value::Array(list)) => {
            list.into_iter().map(|word| word.as_str().map(str::to_owned)).collect()
        }
        Some(_) => None,
    };
    words.ok_or_else(|| in_block(name, "must be a list of words"))
}
