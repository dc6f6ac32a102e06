use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::repack::{CodecChoice, Packing};
use crate::ome::{OmeRelease, OmeVersion};
use crate::shard::IndexLocation;

/// The form of the OME-Zarr that a data set becomes.
///
/// With all defaults it is version 0.5, with the chunks and codecs of the source, in the shards of
/// the source or, if it has none, in shards near 64 MiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OmeForm {
    /// The version. 0.4 is Zarr version 2, which has no shards.
    pub version: OmeVersion,
    /// How the chunks of levels are packed. Lengths for fewer axes than an image has are those of
    /// its last axes, and no shard is longer than its level.
    pub packing: Packing,
    /// Where indexes lie; `None` means at the end.
    pub index: Option<IndexLocation>,
    /// The codecs of the levels; `None` for those of the source, where Zarr has them.
    pub codecs: Option<CodecChoice>,
    /// The names of the axes of the source, in its order. Needed where the source does not name
    /// them.
    pub axes: Option<Vec<String>>,
    /// The size of a voxel of the finest level, along the same axes.
    pub scale: Option<Vec<f64>>,
    /// The unit of the axes of space.
    pub unit: Option<String>,
    /// The name of the image.
    pub name: Option<String>,
}

impl Default for OmeForm {
    fn default() -> Self {
        Self {
            version: OmeRelease::V0_5.into(),
            packing: Packing::Keep,
            index: None,
            codecs: None,
            axes: None,
            scale: None,
            unit: None,
            name: None,
        }
    }
}

impl OmeForm {
    /// Version 0.5, as close to the source as possible.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the version.
    pub fn version(mut self, version: impl Into<OmeVersion>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets how the chunks of levels are packed.
    pub fn packing(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// Sets where indexes lie.
    pub fn index(mut self, index: IndexLocation) -> Self {
        self.index = Some(index);
        self
    }

    /// Sets the codecs of the levels.
    pub fn codecs(mut self, codecs: CodecChoice) -> Self {
        self.codecs = Some(codecs);
        self
    }

    /// Names the axes of the source.
    pub fn axes<T: Into<String>>(mut self, axes: impl IntoIterator<Item = T>) -> Self {
        self.axes = Some(axes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the size of a voxel of the finest level.
    pub fn scale(mut self, scale: &[f64]) -> Self {
        self.scale = Some(scale.to_vec());
        self
    }

    /// Sets the unit of the axes of space.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = Some(unit.into());
        self
    }

    /// Names the image.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(super) fn request(&self) -> Value {
        json!({ "ome": self })
    }
}
