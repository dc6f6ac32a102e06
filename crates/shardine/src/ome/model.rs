//! What OME-Zarr metadata says, whatever its version. Members that are not known are kept in
//! `other`, so that nothing is lost when a document is written again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::transformation::Transformation;
use super::version::OmeVersion;

/// Members that the model does not know.
pub type Other = Map<String, Value>;

/// The OME-Zarr metadata of one group.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OmeMetadata {
    /// Its version; for a document that names none the one that its form suggests.
    pub version: OmeVersion,
    /// Whether a document names the version.
    pub states_version: bool,
    /// Images: mostly one.
    pub images: Vec<Image>,
    /// How to show the channels.
    pub omero: Option<Omero>,
    /// The paths of the label images below this group of labels.
    pub labels: Option<Vec<String>>,
    /// What the values of this label image mean.
    pub image_label: Option<ImageLabel>,
    /// A plate.
    pub plate: Option<Plate>,
    /// A well of a plate.
    pub well: Option<Well>,
    /// The layout of bioformats2raw: 3.
    pub bioformats2raw_layout: Option<Number>,
    /// The paths of the images that bioformats2raw made, in the group `OME`.
    pub series: Option<Vec<String>>,
    /// How images are placed relative to each other.
    pub scene: Option<Scene>,
    /// Members of `ome` that are not known. Empty up to 0.4, where they are ordinary attributes.
    pub other: Other,
}

/// An image at several resolutions.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Image {
    /// Its name.
    pub name: Option<String>,
    /// Its axes, in the order of the arrays. Up to 0.2 there are none in the document: t, c, z, y, x.
    pub axes: Vec<OmeAxis>,
    /// The name of the coordinate system of these axes, from 0.6 on.
    pub system: Option<String>,
    /// Other coordinate systems, from 0.6 on.
    pub other_systems: Vec<CoordinateSystem>,
    /// The finest first.
    pub levels: Vec<Level>,
    /// Up to 0.5, what is applied to all levels after their own transformations; from 0.6 on,
    /// transformations between the coordinate systems.
    pub transformations: Vec<Transformation>,
    /// All other members: `type`, `metadata`, and what is not known.
    pub other: Other,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OmeAxis {
    /// Its name.
    pub name: String,
    /// `space`, `time`, `channel`, or a word that the specification does not have.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The unit of its coordinates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// A resolution of an image.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Level {
    /// The path of its array below the group.
    pub path: String,
    /// From array coordinates to those of the image: a scale, and maybe a translation after it.
    pub transformations: Vec<Transformation>,
    /// Members that are not known.
    pub other: Other,
}

/// Axes with a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CoordinateSystem {
    /// Its name.
    pub name: String,
    /// Its axes.
    pub axes: Vec<OmeAxis>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// How an image is shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Omero {
    /// One for each channel.
    #[serde(default)]
    pub channels: Vec<Channel>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// How a channel is shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Channel {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Six hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// The range of values that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// A range of values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Window {
    /// The least value that there may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// The greatest value that there may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// Shown black.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Number>,
    /// Shown in full colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Number>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// What the values of a label image mean.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageLabel {
    /// Colours of values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colors: Option<Vec<LabelColor>>,
    /// What is known about values: objects with a `label-value` and any other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Vec<Other>>,
    /// Where the image is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<LabelSource>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// The colour of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LabelColor {
    /// The value.
    #[serde(rename = "label-value")]
    pub value: Number,
    /// Red, green, blue and opacity, from 0 to 255.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rgba: Option<Vec<Number>>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// The image of a label image.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LabelSource {
    /// Its path, from the label image: `../../` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// A plate with wells in rows and columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plate {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The names of its rows, in order.
    pub rows: Vec<Named>,
    /// The names of its columns, in order.
    pub columns: Vec<Named>,
    /// The wells that exist.
    pub wells: Vec<PlateWell>,
    /// The most fields that a well has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_count: Option<Number>,
    /// Members that are not known, and `acquisitions`.
    #[serde(flatten)]
    pub other: Other,
}

/// A row or a column of a plate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// A well that a plate names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlateWell {
    /// Its path below the plate: the names of its row and its column.
    pub path: String,
    /// The number of its row.
    #[serde(rename = "rowIndex", default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The number of its column.
    #[serde(rename = "columnIndex", default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// A well with fields of view.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Well {
    /// Its fields of view.
    pub images: Vec<Field>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// A field of view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Field {
    /// The path of its image below the well.
    pub path: String,
    /// Which acquisition of the plate it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquisition: Option<Number>,
    /// Members that are not known.
    #[serde(flatten)]
    pub other: Other,
}

/// How images are placed relative to each other.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Scene {
    /// Coordinate systems that belong to no image.
    pub systems: Vec<CoordinateSystem>,
    /// Transformations between coordinate systems.
    pub transformations: Vec<Transformation>,
    /// Members that are not known.
    pub other: Other,
}

impl OmeMetadata {
    /// Metadata that says nothing but its version.
    pub fn new(version: OmeVersion) -> Self {
        Self {
            version,
            states_version: true,
            images: Vec::new(),
            omero: None,
            labels: None,
            image_label: None,
            plate: None,
            well: None,
            bioformats2raw_layout: None,
            series: None,
            scene: None,
            other: Other::new(),
        }
    }

    /// The image that is shown if no other is asked for.
    pub fn image(&self) -> Option<&Image> {
        self.images.first()
    }
}

impl OmeAxis {
    /// An axis whose type follows from its name: t, c, and everything else in space.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        let kind = Some(usual_kind(&name).to_owned());
        Self { name, kind, unit: None, other: Other::new() }
    }

    /// Whether it is of time, channels or space; by its name if the document names no type.
    pub fn role(&self) -> AxisRole {
        match self.kind.as_deref().unwrap_or_else(|| usual_kind(&self.name)) {
            "time" => AxisRole::Time,
            "channel" => AxisRole::Channel,
            "space" => AxisRole::Space,
            _ => AxisRole::Other,
        }
    }
}

/// The type of an axis without one.
fn usual_kind(name: &str) -> &'static str {
    match name {
        "t" | "time" => "time",
        "c" | "channel" => "channel",
        _ => "space",
    }
}

/// What an axis is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AxisRole {
    /// Time.
    Time,
    /// Channels.
    Channel,
    /// Space.
    Space,
    /// Something that the specification does not have.
    Other,
}
