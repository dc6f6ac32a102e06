//! OME-Zarr: one model of its metadata, and a reader and a writer of each version.
//!
//! [`OmeMetadata::read`] takes the attributes of a Zarr group, [`OmeMetadata::write`] puts the
//! metadata back in the form of a version, the same or another. Both are pure; [`Group::ome`] and
//! [`DataSet::array`](crate::DataSet::array) with a level are the ways to a stored image.
//!
//! ```
//! use serde_json::json;
//! use shardine::ome::{OmeMetadata, OmeRelease};
//!
//! let attributes = json!({"multiscales": [{
//!     "version": "0.4",
//!     "axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
//!     "datasets": [{"path": "0", "coordinateTransformations": [
//!         {"type": "scale", "scale": [0.5, 0.5]}]}],
//! }]});
//! let mut attributes = attributes.as_object().cloned().unwrap_or_default();
//! let metadata = OmeMetadata::read(&attributes)?.ok_or("no OME-Zarr metadata")?;
//! let image = metadata.image().ok_or("no image")?;
//! assert_eq!(image.placement(0)?.scale, [0.5, 0.5]);
//!
//! metadata.write(&OmeRelease::V0_5.into(), &mut attributes)?;
//! assert_eq!(attributes["ome"]["version"], "0.5");
//! assert!(!attributes.contains_key("multiscales"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Group::ome`]: crate::Group::ome

mod model;
mod placement;
mod read;
pub mod rules;
mod transformation;
mod units;
mod version;
mod write;

#[cfg(test)]
mod tests;

pub use model::{
    AxisRole, Channel, CoordinateSystem, Field, Image, ImageLabel, LabelColor, LabelSource, Level,
    Named, OmeAxis, OmeMetadata, Omero, Other, Plate, PlateWell, Scene, Well, Window,
};
pub use placement::LevelPlacement;
pub use transformation::{OnAxes, Parameters, SystemRef, Transformation, TransformationKind};
pub(crate) use units::is_length_of_specification;
pub use units::{length_in_nanometers, time_in_seconds};
pub use version::{OmeRelease, OmeVersion, UnknownVersion};

/// Why OME-Zarr metadata cannot be understood, or not be written in a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OmeError {
    /// A member is not what the specification says.
    #[error("{member}: {reason}")]
    Member {
        /// Where it is, such as `multiscales[0].datasets`.
        member: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Its version is not known.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// The version has no form for it.
    #[error("OME-Zarr {version} cannot express {what}")]
    NotExpressible {
        /// The version.
        version: String,
        /// What it lacks.
        what: String,
    },
}

impl OmeError {
    pub(crate) fn member(member: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Member { member: member.into(), reason: reason.into() }
    }
}
