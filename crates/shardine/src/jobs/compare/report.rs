//! What a comparison reports.

use std::fmt;

use serde_json::{Map, Value, json};
use shardine_codec::{DataType, Distance};

/// One of the two data sets that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareSide {
    /// The first.
    A,
    /// The second.
    B,
}

impl fmt::Display for CompareSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

/// A node of two data sets that is not the same in both.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Its path in A, or in B if only B has it; empty for the data set itself.
    pub path: String,
    /// Its path in B. Another one where levels are matched by their order.
    pub path_b: String,
    /// In what it differs.
    pub kind: DifferenceKind,
}

/// In what a node differs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// Only one of the data sets has it.
    OnlyIn {
        /// Which.
        side: CompareSide,
        /// What it is there: `array`, `group`, `levels` or `values`.
        node: &'static str,
    },
    /// It is an array in one and a group in the other.
    Node {
        /// What it is in A.
        a: &'static str,
        /// What it is in B.
        b: &'static str,
    },
    /// The arrays have different shapes; their elements are not compared.
    Shape {
        /// That of A.
        a: Vec<u64>,
        /// That of B.
        b: Vec<u64>,
    },
    /// The elements have different types, and are not compared.
    DataType {
        /// That of A.
        a: DataType,
        /// That of B.
        b: DataType,
    },
    /// Elements differ.
    Elements(Box<ElementsDiffer>),
    /// The fill values of two Zarr arrays differ.
    FillValue {
        /// That of A, as it stands in metadata.
        a: Value,
        /// That of B.
        b: Value,
    },
    /// The names of the axes of two Zarr arrays differ.
    DimensionNames {
        /// Those of A; null if it has none.
        a: Value,
        /// Those of B.
        b: Value,
    },
    /// The attributes differ.
    Attributes(Vec<AttributeDiffers>),
}

/// How elements of two arrays differ.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ElementsDiffer {
    /// How many differ.
    pub count: u64,
    /// How many there are in each array.
    pub total: u64,
    /// The first one that differs, in C order of A, as it is in A.
    pub a: ElementPlace,
    /// The same element in B.
    pub b: ElementPlace,
    /// The largest absolute difference of two elements; `None` if they are not numbers, or if in
    /// each pair that differs one is NaN.
    pub largest: Option<Distance>,
}

/// An element, and where it is stored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ElementPlace {
    /// Its place along each axis of its array.
    pub at: Vec<u64>,
    /// Its value for people to read.
    pub text: String,
    /// Its value as a fill value of it would stand in metadata.
    pub value: Value,
    /// The chunk that holds it, by its place in the grid of innermost chunks; `None` in a file.
    pub chunk: Option<Vec<u64>>,
    /// The shard that holds the chunk, where chunks are in shards that are boxes.
    pub shard: Option<Vec<u64>>,
    /// The object that holds it, or the file.
    pub object: String,
    /// Whether the chunk is stored. If not, the element has the fill value.
    pub stored: bool,
}

/// An attribute that is not the same in both.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AttributeDiffers {
    /// Its name.
    pub name: String,
    /// Its value in A; `None` if it is not there.
    pub a: Option<Value>,
    /// Its value in B.
    pub b: Option<Value>,
}

/// What came of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CompareSummary {
    /// Pairs of arrays that were compared.
    pub arrays: u64,
    /// Elements in each of them, as far as elements were compared.
    pub elements: u64,
    /// Elements that differ.
    pub differing: u64,
    /// Chunks that were equal as they are stored, and so not decoded.
    pub chunks_not_decoded: u64,
    /// Differences that were reported.
    pub differences: u64,
}

impl CompareSummary {
    /// Whether both data sets are equal.
    pub fn is_equal(&self) -> bool {
        self.differences == 0
    }
}

impl DifferenceKind {
    /// Its name, which stays the same in all versions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OnlyIn { side: CompareSide::A, .. } => "only-in-a",
            Self::OnlyIn { side: CompareSide::B, .. } => "only-in-b",
            Self::Node { .. } => "node",
            Self::Shape { .. } => "shape",
            Self::DataType { .. } => "dtype",
            Self::Elements(_) => "elements",
            Self::FillValue { .. } => "fill-value",
            Self::DimensionNames { .. } => "dimension-names",
            Self::Attributes(_) => "attributes",
        }
    }
}

impl Difference {
    /// The form in which programs get it; docs/compare.md describes it.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut say = |name: &str, value: Value| members.insert(name.to_owned(), value);
        say("kind", self.kind.name().into());
        say("path", json!(self.path));
        say("path_b", json!(self.path_b));
        match &self.kind {
            DifferenceKind::OnlyIn { node, .. } => {
                say("node", json!(node));
            }
            DifferenceKind::Node { a, b } => {
                say("a", json!(a));
                say("b", json!(b));
            }
            DifferenceKind::Shape { a, b } => {
                say("a", json!(a));
                say("b", json!(b));
            }
            DifferenceKind::DataType { a, b } => {
                say("a", a.to_json());
                say("b", b.to_json());
            }
            DifferenceKind::Elements(found) => {
                say("count", json!(found.count));
                say("total", json!(found.total));
                say("a", found.a.to_json());
                say("b", found.b.to_json());
                say("largest", found.largest.map_or(Value::Null, distance));
            }
            DifferenceKind::FillValue { a, b } | DifferenceKind::DimensionNames { a, b } => {
                say("a", a.clone());
                say("b", b.clone());
            }
            DifferenceKind::Attributes(found) => {
                let attribute = |found: &AttributeDiffers| {
                    let mut members = Map::new();
                    members.insert("name".to_owned(), json!(found.name));
                    for (side, value) in [("a", &found.a), ("b", &found.b)] {
                        if let Some(value) = value {
                            members.insert(side.to_owned(), value.clone());
                        }
                    }
                    Value::Object(members)
                };
                say("attributes", found.iter().map(attribute).collect());
            }
        }
        Value::Object(members)
    }
}

impl ElementPlace {
    fn to_json(&self) -> Value {
        json!({
            "at": self.at,
            "value": self.value,
            "chunk": self.chunk,
            "shard": self.shard,
            "object": self.object,
            "stored": self.stored,
        })
    }
}

/// JSON has no infinity; it is a string there, as in a fill value.
fn distance(distance: Distance) -> Value {
    match distance {
        Distance::Integer(n) => n.into(),
        Distance::Real(n) if n.is_finite() => n.into(),
        Distance::Real(_) => "Infinity".into(),
    }
}
