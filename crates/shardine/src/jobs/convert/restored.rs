//! The OME-Zarr metadata that a volume keeps of the image that it was made from.

use serde_json::{Map, Value};

use super::super::rebuild::AxisMap;
use super::nodes::{OldArray, OldGroup};
use super::positions::{VolumePositions, volume_name};
use super::view::{RANK, TIME, axis_of};
use crate::ome::{Image, OmeMetadata};
use crate::precomputed::VolumeInfo;
use crate::precomputed::kept::{self, KeptImage};

/// An image, as it was before it became a volume.
pub(super) struct Restored {
    pub metadata: OmeMetadata,
    /// All attributes of its group.
    pub attributes: Map<String, Value>,
    /// Those of each level.
    pub level_attributes: Vec<Map<String, Value>>,
    /// Which of its axes each axis of the volume becomes.
    pub map: AxisMap,
}

/// The image that a volume was made from, if its `info` keeps that; or why it is not that any more.
pub(super) fn restored(group: &OldGroup, levels: &[OldArray]) -> Option<Result<Restored, String>> {
    let info = kept::find(group.metadata.attributes())?.ok()?;
    let kept = kept::image(&info)?;
    Some(check(&info, kept, levels))
}

fn check(
    info: &VolumeInfo,
    KeptImage { attributes, levels: level_attributes }: KeptImage,
    levels: &[OldArray],
) -> Result<Restored, String> {
    let metadata = OmeMetadata::read(&attributes).map_err(|error| error.to_string())?;
    let metadata = metadata.ok_or("it has no OME-Zarr metadata")?;
    let image = metadata.image().ok_or("it has no image")?;
    if image.levels.len() != levels.len() {
        let (had, has) = (image.levels.len(), levels.len());
        return Err(format!("the image had {had} levels, the volume has {has}"));
    }
    let scales = info.scales().iter().map(|scale| (scale.resolution, scale.voxel_offset));
    if !VolumePositions::of(image)?.are_at(scales) {
        return Err("the resolution or the offset of a scale was changed since".to_owned());
    }
    let map = axes(image, info.channels())?;
    Ok(Restored { metadata, attributes, level_attributes, map })
}

/// Which axis of an image each axis of a volume becomes.
fn axes(image: &Image, channels: u64) -> Result<AxisMap, String> {
    let mut places = [None; RANK];
    for (number, axis) in image.axes.iter().enumerate() {
        match axis_of(&volume_name(axis)) {
            Some(TIME) => {}
            Some(at) if places.get(at).is_some_and(Option::is_none) => places[at] = Some(number),
            _ => return Err(format!("a volume has no axis {}", axis.name)),
        }
    }
    let [x, y, z, channel] = places;
    if x.is_none() || y.is_none() || z.is_none() {
        return Err("the image had not the axes x, y and z".to_owned());
    }
    if channel.is_none() && channels > 1 {
        return Err(format!("the image had no channels, the volume has {channels}"));
    }
    Ok(AxisMap::new(places.to_vec(), image.axes.len()))
}
