//! Coordinate transformations.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::model::Other;

/// A map from coordinates to coordinates.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Transformation {
    /// What it does.
    pub kind: TransformationKind,
    /// The coordinate system it begins from, from 0.6 on.
    pub input: Option<SystemRef>,
    /// The coordinate system it leads to, from 0.6 on.
    pub output: Option<SystemRef>,
    /// Its name.
    pub name: Option<String>,
    /// Members that are not known.
    pub other: Other,
}

/// What a transformation does.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TransformationKind {
    /// Nothing.
    Identity,
    /// Multiplies each coordinate.
    Scale(Parameters<Vec<f64>>),
    /// Adds to each coordinate.
    Translation(Parameters<Vec<f64>>),
    /// Permutes the axes.
    MapAxis(Vec<u64>),
    /// Adds and drops axes.
    ProjectAxis {
        /// Where output axes are added.
        created: Vec<u64>,
        /// Which input axes are dropped.
        dropped: Vec<u64>,
    },
    /// A matrix, with a column that is added.
    Affine(Parameters<Vec<Vec<f64>>>),
    /// An orthogonal matrix.
    Rotation(Parameters<Vec<Vec<f64>>>),
    /// One after another.
    Sequence(Vec<Transformation>),
    /// Adds what an array holds at the coordinates.
    Displacements {
        /// The array.
        path: String,
    },
    /// What an array holds at the coordinates.
    Coordinates {
        /// The array.
        path: String,
    },
    /// One with its inverse.
    Bijection {
        /// From input to output.
        forward: Box<Transformation>,
        /// From output to input.
        inverse: Box<Transformation>,
    },
    /// Others, each on some of the axes.
    ByDimension(Vec<OnAxes>),
    /// A type that is not known, or known but without what it needs: the members are in `other`.
    Other(String),
}

/// Parameters in the document, or in an array.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Parameters<T> {
    /// In the document.
    Inline(T),
    /// In the array at this path.
    Stored(String),
}

/// A transformation on some of the axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OnAxes {
    /// What is done to them.
    pub transformation: Transformation,
    /// The axes of its input.
    pub input_axes: Vec<u64>,
    /// The axes of its output.
    pub output_axes: Vec<u64>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// Names a coordinate system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SystemRef {
    /// By its name alone, as drafts of 0.6 did.
    Name(String),
    /// By its name, the path of its image or array, or both.
    Path {
        /// Where it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Its name there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

impl SystemRef {
    /// The coordinates of the array at a path.
    pub fn array(path: impl Into<String>) -> Self {
        Self::Path { path: Some(path.into()), name: None }
    }

    /// The coordinate system with a name.
    pub fn system(name: impl Into<String>) -> Self {
        Self::Path { path: None, name: Some(name.into()) }
    }
}

impl Transformation {
    /// A transformation that does not say between which coordinate systems.
    pub fn new(kind: TransformationKind) -> Self {
        Self { kind, input: None, output: None, name: None, other: Other::new() }
    }

    /// Multiplies each coordinate.
    pub fn scale(factors: Vec<f64>) -> Self {
        Self::new(TransformationKind::Scale(Parameters::Inline(factors)))
    }

    /// Adds to each coordinate.
    pub fn translation(steps: Vec<f64>) -> Self {
        Self::new(TransformationKind::Translation(Parameters::Inline(steps)))
    }

    /// Reads one. A known type whose parameters are missing or of another form becomes
    /// [`TransformationKind::Other`] with all its members, so nothing is lost; `None` if it is not
    /// an object with a type.
    pub fn from_json(value: &Value) -> Option<Self> {
        let mut members = value.as_object()?.clone();
        let kind = match members.shift_remove("type")? {
            Value::String(kind) => kind,
            _ => return None,
        };
        let mut one = Self::new(TransformationKind::Other(kind.clone()));
        one.name = take(&mut members, "name");
        one.input = take(&mut members, "input");
        one.output = take(&mut members, "output");
        // What cannot be understood stays where it is.
        let mut rest = members.clone();
        if let Some(known) = known_kind(&kind, &mut rest) {
            one.kind = known;
            members = rest;
        }
        one.other = members;
        Some(one)
    }

    /// Its members in a document.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut set = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        let kind = match &self.kind {
            TransformationKind::Identity => "identity",
            TransformationKind::Scale(by) => parameters(&mut set, "scale", by),
            TransformationKind::Translation(by) => parameters(&mut set, "translation", by),
            TransformationKind::MapAxis(axes) => {
                set("mapAxis", json!(axes));
                "mapAxis"
            }
            TransformationKind::ProjectAxis { created, dropped } => {
                for (name, axes) in [("createdOutputs", created), ("droppedInputs", dropped)] {
                    if !axes.is_empty() {
                        set(name, json!(axes));
                    }
                }
                "projectAxis"
            }
            TransformationKind::Affine(by) => parameters(&mut set, "affine", by),
            TransformationKind::Rotation(by) => parameters(&mut set, "rotation", by),
            TransformationKind::Sequence(steps) => {
                set("transformations", steps.iter().map(Self::to_json).collect());
                "sequence"
            }
            TransformationKind::Displacements { path } => {
                set("path", json!(path));
                "displacements"
            }
            TransformationKind::Coordinates { path } => {
                set("path", json!(path));
                "coordinates"
            }
            TransformationKind::Bijection { forward, inverse } => {
                set("forward", forward.to_json());
                set("inverse", inverse.to_json());
                "bijection"
            }
            TransformationKind::ByDimension(parts) => {
                set("transformations", json!(parts));
                "byDimension"
            }
            TransformationKind::Other(kind) => kind,
        };
        let mut all = Map::new();
        all.insert("type".to_owned(), json!(kind));
        for (name, member) in [
            ("name", self.name.as_ref().map(|name| json!(name))),
            ("input", self.input.as_ref().map(|system| json!(system))),
            ("output", self.output.as_ref().map(|system| json!(system))),
        ] {
            all.extend(member.map(|member| (name.to_owned(), member)));
        }
        all.extend(members);
        all.extend(self.other.clone());
        Value::Object(all)
    }
}

/// Puts parameters into a document; returns their name.
fn parameters<T: Serialize>(
    set: &mut dyn FnMut(&str, Value),
    name: &'static str,
    by: &Parameters<T>,
) -> &'static str {
    match by {
        Parameters::Inline(numbers) => set(name, json!(numbers)),
        Parameters::Stored(path) => set("path", json!(path)),
    }
    name
}

/// Removes a member if it can be understood.
fn take<T: for<'a> Deserialize<'a>>(members: &mut Other, name: &str) -> Option<T> {
    let value = T::deserialize(members.get(name)?).ok()?;
    members.shift_remove(name);
    Some(value)
}

fn take_parameters<T: for<'a> Deserialize<'a>>(
    members: &mut Other,
    name: &str,
) -> Option<Parameters<T>> {
    match take(members, name) {
        Some(numbers) => Some(Parameters::Inline(numbers)),
        None if members.contains_key(name) => None,
        None => take(members, "path").map(Parameters::Stored),
    }
}

fn known_kind(kind: &str, members: &mut Other) -> Option<TransformationKind> {
    Some(match kind {
        "identity" => TransformationKind::Identity,
        "scale" => TransformationKind::Scale(take_parameters(members, "scale")?),
        "translation" => TransformationKind::Translation(take_parameters(members, "translation")?),
        "mapAxis" => TransformationKind::MapAxis(take(members, "mapAxis")?),
        "projectAxis" => {
            let has = |name: &str| members.contains_key(name);
            let (creates, drops) = (has("createdOutputs"), has("droppedInputs"));
            let created = take(members, "createdOutputs");
            let dropped = take(members, "droppedInputs");
            if creates != created.is_some() || drops != dropped.is_some() {
                return None;
            }
            let (created, dropped) = (created.unwrap_or_default(), dropped.unwrap_or_default());
            TransformationKind::ProjectAxis { created, dropped }
        }
        "affine" => TransformationKind::Affine(take_parameters(members, "affine")?),
        "rotation" => TransformationKind::Rotation(take_parameters(members, "rotation")?),
        "sequence" => TransformationKind::Sequence(take(members, "transformations")?),
        "displacements" => TransformationKind::Displacements { path: take(members, "path")? },
        "coordinates" => TransformationKind::Coordinates { path: take(members, "path")? },
        "bijection" => {
            let forward = Box::new(take(members, "forward")?);
            let inverse = Box::new(take(members, "inverse")?);
            TransformationKind::Bijection { forward, inverse }
        }
        "byDimension" => TransformationKind::ByDimension(take(members, "transformations")?),
        _ => return None,
    })
}

impl Serialize for Transformation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Transformation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("a transformation is not an object with a type");
        Self::from_json(&value).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_being_read_and_written() {
        for json in [
            json!({"type": "identity", "name": "n"}),
            json!({"type": "scale", "scale": [1.0, 2.5], "input": {"path": "0"}}),
            json!({"type": "scale", "path": "numbers"}),
            json!({"type": "translation", "translation": [0.0], "output": "world", "x": 7}),
            json!({"type": "mapAxis", "mapAxis": [1, 0]}),
            json!({"type": "projectAxis", "createdOutputs": [0], "droppedInputs": [2, 3]}),
            json!({"type": "affine", "affine": [[1.0, 0.0], [0.5, 2.0]]}),
            json!({"type": "rotation", "path": "r", "input": {"path": "a", "name": "b"}}),
            json!({"type": "sequence", "transformations": [{"type": "identity"}]}),
            json!({"type": "displacements", "path": "d", "interpolation": "linear"}),
            json!({"type": "coordinates", "path": "c"}),
            json!({"type": "bijection", "forward": {"type": "identity"},
                "inverse": {"type": "scale", "scale": [2.0]}}),
            json!({"type": "byDimension", "transformations": [{
                "transformation": {"type": "scale", "scale": [2.0]},
                "inputAxes": [0], "outputAxes": [1], "more": true}]}),
            json!({"type": "spline", "knots": [1, 2]}),
            json!({"type": "scale", "scale": "wide", "input": 7}),
            json!({"type": "sequence", "transformations": [{"kind": "none"}]}),
            json!({"type": "projectAxis", "createdOutputs": "all"}),
        ] {
            let one = Transformation::from_json(&json).unwrap();
            assert_eq!(one.to_json(), json);
        }
        let wrong = Transformation::from_json(&json!({"type": "scale"})).unwrap();
        assert_eq!(wrong.kind, TransformationKind::Other("scale".to_owned()));
        for json in [json!(7), json!({}), json!({"type": 7})] {
            assert_eq!(Transformation::from_json(&json), None);
        }
    }
}
