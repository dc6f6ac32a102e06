use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::frame::JobError;
use super::super::repack::{CodecChoice, Packing};
use super::super::setters::setters;
use crate::DownsampleMethod;
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
    /// The codecs of the levels; `None` for those of the source, where every reader of Zarr knows
    /// them.
    pub codecs: Option<CodecChoice>,
    /// Keep codecs that not every reader of Zarr version 3 knows, such as `numcodecs.zlib`.
    /// Otherwise zlib becomes gzip without being compressed again, and chunks with others are
    /// re-encoded.
    pub keep_codecs: bool,
    /// The names of the axes of the source, in its order. Needed where the source does not name
    /// them.
    pub axes: Option<Vec<String>>,
    /// The size of a voxel of the finest level, along the same axes.
    pub scale: Option<Vec<f64>>,
    /// The unit of the axes of space.
    pub unit: Option<String>,
    /// The name of the image.
    pub name: Option<String>,
    /// How many levels images get that have fewer; `None` leaves them as they are. All their lower
    /// levels are then made from the finest.
    pub levels: Option<LevelCount>,
    /// By which factors each of these levels is smaller than the one before it: one for each axis of
    /// the image, or one for each axis in space. `None` halves the axes along which voxels are
    /// shortest.
    pub factors: Option<Vec<u64>>,
    /// How elements are reduced; `None` means the mode for label images, the mean for others.
    pub method: Option<DownsampleMethod>,
}

/// How many levels an image gets, with the finest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LevelCount {
    /// So many that the coarsest fits one chunk, for images that have one level.
    Auto,
    /// This many, for images that have fewer.
    Number(usize),
}

impl Default for OmeForm {
    fn default() -> Self {
        Self {
            version: OmeRelease::V0_5.into(),
            packing: Packing::Keep,
            index: None,
            codecs: None,
            keep_codecs: false,
            axes: None,
            scale: None,
            unit: None,
            name: None,
            levels: None,
            factors: None,
            method: None,
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

    setters! {
        /// Sets how the chunks of levels are packed.
        packing = Packing;
        /// Sets where indexes lie.
        index some IndexLocation;
        /// Sets the codecs of the levels.
        codecs some CodecChoice;
    }

    /// Names the axes of the source.
    pub fn axes<T: Into<String>>(mut self, axes: impl IntoIterator<Item = T>) -> Self {
        self.axes = Some(axes.into_iter().map(Into::into).collect());
        self
    }

    setters! {
        /// Sets the size of a voxel of the finest level.
        scale slice f64;
        /// Sets the unit of the axes of space.
        unit into String;
        /// Names the image.
        name into String;
        /// Sets whether codecs are kept that not every reader knows.
        keep_codecs = bool;
        /// Sets how many levels images get that have fewer.
        levels some LevelCount;
        /// Sets the factors between levels that are made.
        factors slice u64;
        /// Sets how elements are reduced.
        method some DownsampleMethod;
    }

    /// Refuses what processes cannot share.
    pub(in crate::jobs) fn check_parts(&self) -> Result<(), JobError> {
        let reason = "levels are made from a finest one that is complete; convert in parts without \
                      it, then run `shardine pyramid` with --part";
        match self.levels {
            Some(_) => Err(JobError::NotInParts { option: "--levels", reason }),
            None => Ok(()),
        }
    }

    pub(super) fn request(&self) -> Value {
        json!({ "ome": self })
    }
}
