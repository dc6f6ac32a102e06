//! Makes and renews the lower levels of an image.

mod build;
mod declare;
mod error;
mod geometry;
mod image;
mod layout;
mod options;
mod output;
mod pass;
mod passes;
mod places;
mod plan;
mod reader;
mod replace;
mod source;
mod tasks;
#[cfg(test)]
mod tests;
mod to;
mod units;
mod update;
mod within;

use super::JobContext;
use super::span::job_span;
use crate::{Error, Location};
use build::{Build, Work};
pub(super) use image::PyramidImage;

pub(super) use build::PYRAMID;
pub use build::PYRAMID_MARKER;
pub use error::PyramidError;
pub use geometry::PyramidTask;
pub use options::{LevelCounts, PyramidLevel, PyramidOptions, PyramidSummary};
pub(super) use places::remove_all;
pub use tasks::{PyramidPlan, PyramidReport};
pub use to::pyramid_to;
pub(super) use within::LowerLevels;

/// Makes the lower levels of an OME-Zarr image, all of them in one pass over the finest, or renews
/// them ([`PyramidOptions::update`]).
///
/// Each chunk of the finest level is decoded once, and each new one encoded once. Level `n + 1` is
/// made from level `n` as it is stored. Sizes are rounded up: at the end of an axis, elements that
/// exist are reduced, and nothing else counts. Axes of time and channels are never reduced. Chunks
/// that are not stored in the finest level are not stored in the others, and cost nothing.
///
/// Memory is in proportion to the chunks under way, whatever the size of the image. Chunks lie in a
/// shard in the order in which they are made, which depends on nothing but the shapes, so that a
/// resumed run, any number of threads and any parts make the same bytes. An image so large that one
/// process should not do all of it is made in a second pass from some level on; that reads a small
/// fraction of it again.
///
/// The image names its new levels in the end, when all of them are complete and durable. The same
/// call resumes a run that was killed, and keeps the objects that it made, as far as the finest
/// level can be shown to be the same; a different one is refused. Levels that exist are only rebuilt
/// with [`PyramidOptions::overwrite`]: beside the old ones, which are exchanged when all new ones
/// are complete. For that moment the image has the finest level alone.
///
/// An **update** changes the objects of existing levels one by one. `tell` is called with each level
/// when it is done.
///
/// ```
/// use serde_json::json;
/// use shardine::jobs::{PyramidOptions, pyramid};
/// use shardine::zarr::metadata::GroupMetadata;
/// use shardine::{Array, Engine, Group, Location};
///
/// let (engine, place) = (Engine::shared()?, Location::memory());
/// let axes = json!([{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]);
/// let scale = json!([{"type": "scale", "scale": [0.5, 0.5]}]);
/// let attributes = json!({"ome": {"version": "0.5", "multiscales": [{
///     "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}],
/// }]}});
/// let attributes = attributes.as_object().cloned().unwrap_or_default();
/// Group::create(&engine, &place, GroupMetadata::new(attributes))?;
/// let finest = Array::builder([5, 4], "uint8").chunks([2, 2]).create(&place.join("0")?)?;
/// finest.write(.., &[8u8; 20])?;
///
/// let done = pyramid(&engine, &place, &PyramidOptions::new(), &mut |_| ())?;
/// let shapes: Vec<_> = done.levels.iter().map(|level| level.shape.clone()).collect();
/// assert_eq!(shapes, [[3, 2], [2, 1]]);
/// assert_eq!(Array::open(&place.join("2")?)?.read::<u8>(..)?, [8, 8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pyramid(
    context: impl Into<JobContext>,
    location: &Location,
    options: &PyramidOptions,
    tell: &mut dyn FnMut(&PyramidLevel),
) -> Result<PyramidSummary, Error> {
    let _span = job_span("pyramid", location);
    let context = &context.into();
    crate::jobs::recover(location)?;
    let image = PyramidImage::open(context, location)?;
    if options.update {
        return update::update(context, &image, options, tell);
    }
    let plan = image.plan(context, options)?;
    Build { context, image: &image, plan: &plan, options }.run(Work::All, tell)
}
