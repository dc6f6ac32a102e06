//! What the rules about several documents need to know of each node.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{OmeRelease, metadata_members, version};
use crate::ome::read::{Home, home};

/// What is known about the node at a path.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeFacts {
    /// An array.
    Array(Arc<ArrayFacts>),
    /// A group.
    Group(Arc<GroupFacts>),
    /// There is none.
    Missing,
    /// It could not be looked at, so nothing follows.
    Unknown,
}

/// What the rules ask about an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayFacts {
    /// Its shape.
    pub shape: Vec<u64>,
    /// The name of its data type.
    pub data_type: String,
    /// The names of its dimensions, if the document has them.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// Whether the numbers in the keys of its chunks are separated by a slash.
    pub has_nested_keys: bool,
}

/// What the rules ask about a group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupFacts {
    /// The version that its metadata states.
    pub version: Option<String>,
    /// The release whose rules apply to it; `None` if it has no OME-Zarr metadata.
    pub release: Option<OmeRelease>,
    /// Its first image.
    pub image: Option<ImageFacts>,
    /// Whether it says what the values of a label image mean.
    pub has_image_label: bool,
    /// Whether it is a well.
    pub is_well: bool,
    /// The images that bioformats2raw made.
    pub series: Option<Vec<String>>,
    /// Whether it has a `METADATA.ome.xml`; `None` if that is not known.
    pub has_xml: Option<bool>,
}

/// What the rules ask about an image.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImageFacts {
    /// The names of its axes, where they are readable.
    pub axes: Vec<String>,
    /// The names of its coordinate systems.
    pub systems: Vec<String>,
    /// Its levels, with what is known of their arrays.
    pub levels: Vec<Option<Arc<ArrayFacts>>>,
}

impl GroupFacts {
    /// What the attributes of a group say. Its arrays are not known yet.
    pub fn read(attributes: &Map<String, Value>) -> Self {
        let (Some(home), Some(members)) = (home(attributes), metadata_members(attributes)) else {
            return Self::default();
        };
        let release = version::release(home, members);
        let version = match home {
            Home::Member(_) => members.get("version").and_then(Value::as_str),
            Home::Attributes => version::first_stated(members),
        };
        let image = members.get("multiscales").and_then(|images| images.get(0));
        let series = members.get("series").and_then(Value::as_array);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            version: version.map(str::to_owned),
            release: Some(release),
            image: image.and_then(Value::as_object).map(|image| ImageFacts::read(image, release)),
            has_image_label: members.contains_key("image-label"),
            is_well: members.contains_key("well"),
            series: series.map(|paths| paths.iter().filter_map(text).collect()),
            has_xml: None,
        }
    }
}

impl ImageFacts {
    pub(super) fn read(image: &Map<String, Value>, release: OmeRelease) -> Self {
        let levels = image.get("datasets").and_then(Value::as_array).map_or(0, Vec::len);
        let systems = image.get("coordinateSystems").and_then(Value::as_array);
        let named = |value: &Value| value.get("name")?.as_str().map(str::to_owned);
        Self {
            axes: axis_names(image, release).unwrap_or_default(),
            systems: systems.into_iter().flatten().filter_map(named).collect(),
            levels: vec![None; levels],
        }
    }
}

/// The axes of an image, as values: objects, or up to 0.3 their names.
pub(super) fn axes(image: &Map<String, Value>, release: OmeRelease) -> Option<&Vec<Value>> {
    if release < OmeRelease::V0_6 {
        return image.get("axes")?.as_array();
    }
    let systems = image.get("coordinateSystems")?.as_array()?;
    let level = image.get("datasets")?.get(0)?;
    let output = level.get("coordinateTransformations")?.get(0)?.get("output")?.get("name")?;
    let own = systems.iter().find(|system| system.get("name") == Some(output))?;
    own.get("axes")?.as_array()
}

/// The names of the axes of an image; `None` if they cannot be told.
pub(super) fn axis_names(image: &Map<String, Value>, release: OmeRelease) -> Option<Vec<String>> {
    if release < OmeRelease::V0_3 {
        return Some(["t", "c", "z", "y", "x"].map(str::to_owned).to_vec());
    }
    let name =
        |axis: &Value| axis.as_str().or_else(|| axis.get("name")?.as_str()).map(str::to_owned);
    axes(image, release)?.iter().map(name).collect()
}
