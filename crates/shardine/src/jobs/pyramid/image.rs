//! The image whose levels are made.

use serde_json::Value;
use shardine_codec::{DownsampleMethod, Kind};
use shardine_store::StoreExt;

use super::{PyramidError, PyramidOptions};
use crate::jobs::JobContext;
use crate::ome::{AxisRole, Image, OmeMetadata, OmeRelease};
use crate::zarr::metadata::ZarrFormat;
use crate::{ArrayNode, Error, Group, Location, Node};

/// An OME-Zarr image.
pub(in crate::jobs) struct PyramidImage {
    pub location: Location,
    pub format: ZarrFormat,
    pub metadata: OmeMetadata,
    pub finest: ArrayNode,
    /// For version 2: the `.zarray` of the finest level, and its `.zattrs`, if there is one.
    pub v2: Option<(Value, Option<Value>)>,
}

impl PyramidImage {
    pub fn open(context: &JobContext, location: &Location) -> Result<Self, Error> {
        let engine = context.engine();
        let not_an_image = |found: &str| PyramidError::NotAnImage {
            at: location.to_string(),
            found: found.to_owned(),
        };
        let group = match Node::open(engine, location)? {
            Node::Group(group) => group,
            Node::Array(_) => return Err(not_an_image("it is an array").into()),
        };
        let Some(metadata) = group.ome()? else {
            return Err(not_an_image("the group has no such metadata").into());
        };
        let Some(image) = metadata.image() else {
            let found = match (&metadata.plate, &metadata.well, &metadata.labels) {
                (Some(_), ..) => "it is a plate",
                (_, Some(_), _) => "it is a well",
                (.., Some(_)) => "it is a list of label images",
                _ => "its metadata has no multiscales",
            };
            return Err(not_an_image(found).into());
        };
        if metadata.version.release() < OmeRelease::V0_4 {
            let version = metadata.version.to_string();
            return Err(PyramidError::OldVersion { at: location.to_string(), version }.into());
        }
        let Some(level) = image.levels.first() else {
            return Err(not_an_image("it has no levels").into());
        };
        let finest = group.level(&level.path)?;
        let format = Group::zarr_format(&group);
        let v2 = match format {
            ZarrFormat::V2 => Some(v2_documents(&finest)?),
            ZarrFormat::V3 => None,
        };
        Self { location: location.clone(), format, metadata, finest, v2 }.checked()
    }

    /// The same, if its finest level has the axes of the image.
    pub fn checked(self) -> Result<Self, Error> {
        let (image, finest, location) = (self.image()?, &self.finest, &self.location);
        if finest.shape().len() != image.axes.len() {
            let reason = format!(
                "the image has {} axes, but its finest level {}",
                image.axes.len(),
                finest.shape().len()
            );
            return Err(PyramidError::Factors { at: location.to_string(), reason }.into());
        }
        Ok(self)
    }

    /// What is known of the image.
    pub fn image(&self) -> Result<&Image, Error> {
        let at = || self.location.to_string();
        self.metadata.image().ok_or_else(|| {
            PyramidError::NotAnImage { at: at(), found: "it is empty".into() }.into()
        })
    }

    /// The location of a level.
    pub fn place(&self, path: &str) -> Result<Location, Error> {
        self.location.join(path)
    }

    pub(super) fn refuse_factors(&self, reason: impl Into<String>) -> Error {
        PyramidError::Factors { at: self.location.to_string(), reason: reason.into() }.into()
    }

    pub(super) fn refuse_layout(&self, reason: impl Into<String>) -> Error {
        PyramidError::Layout { at: self.location.to_string(), reason: reason.into() }.into()
    }

    /// Whether the image is one of labels.
    fn is_labels(&self) -> bool {
        let data_type = self.finest.data_type();
        let is_integer = matches!(data_type.kind(), Kind::Int | Kind::UInt | Kind::Bool);
        let path = self.location.to_string();
        let below_labels = path.trim_end_matches('/').rsplit('/').nth(1) == Some("labels");
        self.metadata.image_label.is_some() || below_labels && is_integer && data_type.bits() > 16
    }

    /// The method that is meant.
    pub fn method(&self, options: &PyramidOptions) -> DownsampleMethod {
        let usual = if self.is_labels() { DownsampleMethod::Mode } else { DownsampleMethod::Mean };
        options.method.unwrap_or(usual)
    }

    /// Which axes are in space.
    pub fn spatial(&self) -> Result<Vec<bool>, Error> {
        Ok(self.image()?.axes.iter().map(|axis| axis.role() == AxisRole::Space).collect())
    }
}

/// The `.zarray` of an array, and its `.zattrs`, if there is one.
fn v2_documents(array: &ArrayNode) -> Result<(Value, Option<Value>), Error> {
    let location = array.location();
    let get = |name: &str| -> Result<Option<Value>, Error> {
        let Some(bytes) = location.store.get(&location.key(name)?)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&bytes);
        let at = location.to_string();
        parsed
            .map(Some)
            .map_err(|error| PyramidError::Layout { at, reason: format!("{name}: {error}") }.into())
    };
    Ok((get(".zarray")?.unwrap_or_default(), get(".zattrs")?))
}
