//! Where voxels are, in images and in volumes.
//!
//! OME-Zarr places centres: that of voxel `i` is at `i * scale + translation`. A precomputed volume
//! places corners: voxel `i` of a scale begins at `(voxel_offset + i) * resolution`, and
//! `voxel_offset` is a whole number. So the centre of the first voxel of a scale is at
//! `(voxel_offset + 0.5) * resolution`. An image whose finest level has its first centre at 0, as
//! most have, begins half a voxel before that, where no volume can begin: there all levels are
//! shifted by the same distance, at most half a voxel of the finest one.

use crate::ome::{AxisRole, Image, OmeAxis, length_in_nanometers};
use crate::precomputed::AXES;

/// The axes x, y and z.
const SPACE: usize = 3;

/// How far from a whole number of voxels still counts as one.
const CLOSE: f64 = 1e-6;

/// Beyond this many voxels from zero, not every number is one of floating point.
const FAR: f64 = 9e15;

/// Where a level of a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::jobs) struct Voxels {
    /// Nanometres along x, y and z.
    pub resolution: [f64; SPACE],
    /// The position of the first voxel.
    pub offset: [i64; SPACE],
    /// Nanometres by which the level is off, beside the shift of all levels, because a volume begins
    /// at a whole voxel.
    pub error: [f64; SPACE],
}

/// Where the levels of an image are in a volume.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct VolumePositions {
    /// `None` of a level whose metadata does not say how large its voxels are.
    pub levels: Vec<Option<Voxels>>,
    /// Nanometres along x, y and z from a position in the image to that in the volume.
    pub shift: [f64; SPACE],
}

/// Where the centre of the first voxel of a scale is, along one axis.
pub(super) fn centre(resolution: f64, voxel_offset: i64) -> f64 {
    (voxel_offset as f64 + 0.5) * resolution
}

/// What a volume calls an axis of an image.
pub(super) fn volume_name(axis: &OmeAxis) -> String {
    match axis.role() {
        AxisRole::Channel => "c".to_owned(),
        AxisRole::Time => "t".to_owned(),
        _ => axis.name.clone(),
    }
}

/// The axes of an image that are x, y and z, each with its unit in nanometres.
fn space_axes(image: &Image) -> Result<[Option<(usize, f64)>; SPACE], String> {
    let mut found = [None; SPACE];
    for (number, axis) in image.axes.iter().enumerate() {
        let name = volume_name(axis);
        let at = AXES.iter().take(SPACE).position(|known| name.eq_ignore_ascii_case(known));
        let Some(place) = at.and_then(|at| found.get_mut(at)) else { continue };
        let unit = match &axis.unit {
            None => 1.0,
            Some(unit) => length_in_nanometers(unit).ok_or_else(|| {
                format!("the unit \"{}\" of axis {name} is not known", unit.escape_debug())
            })?,
        };
        *place = Some((number, unit));
    }
    Ok(found)
}

impl VolumePositions {
    /// Where the levels of an image are; or why that cannot be said.
    pub fn of(image: &Image) -> Result<Self, String> {
        let axes = space_axes(image)?;
        let mut positions = Self::default();
        let mut shift = None;
        for (number, level) in image.levels.iter().enumerate() {
            let of_all = image.system.is_none() && !image.transformations.is_empty();
            if level.transformations.is_empty() && !of_all {
                positions.levels.push(None);
                continue;
            }
            let placement = image.placement(number).map_err(|error| error.to_string())?;
            let mut voxels = Voxels { resolution: [1.0; SPACE], ..Voxels::default() };
            // In voxels of the level.
            let mut corner = [0.0; SPACE];
            for (at, axis) in axes.iter().enumerate() {
                let Some((axis, unit)) = *axis else { continue };
                let value = |list: &[f64]| list.get(axis).copied().unwrap_or(f64::NAN);
                let (scale, first) = (value(&placement.scale), value(&placement.translation));
                voxels.resolution[at] = scale * unit;
                corner[at] = first / scale - 0.5;
                let is_known = voxels.resolution[at].is_finite() && voxels.resolution[at] > 0.0;
                if !(is_known && corner[at].abs() < FAR) {
                    return Err("a scale is not a number above 0, or a translation is too far \
                                away"
                        .to_owned());
                }
            }
            let shift = shift.get_or_insert_with(|| -> [f64; SPACE] {
                std::array::from_fn(|at| to_whole(corner[at]).1 * voxels.resolution[at])
            });
            for at in 0..SPACE {
                let shifted = corner[at] + shift[at] / voxels.resolution[at];
                let (whole, error) = to_whole(shifted);
                voxels.offset[at] = whole;
                voxels.error[at] = error * voxels.resolution[at];
            }
            positions.levels.push(Some(voxels));
        }
        positions.shift = shift.unwrap_or_default();
        Ok(positions)
    }

    /// Whether all levels are exactly where these scales of a volume are.
    pub fn are_at(&self, scales: impl Iterator<Item = ([f64; SPACE], [i64; SPACE])>) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        let same = |(voxels, (resolution, offset)): (&Option<Voxels>, ([f64; SPACE], _))| {
            voxels.is_some_and(|voxels| {
                voxels.offset == offset
                    && (0..SPACE).all(|at| close(voxels.resolution[at], resolution[at]))
            })
        };
        self.levels.iter().zip(scales).all(same)
    }

    /// Whether a volume has them where the image has them.
    pub fn are_exact(&self) -> bool {
        let is_exact = |voxels: &Option<Voxels>| voxels.is_some_and(|v| v.error == [0.0; SPACE]);
        self.shift == [0.0; SPACE] && self.levels.iter().all(is_exact)
    }
}

/// The nearest whole number, of two the greater, and how far it is; exactly 0 if that is next to
/// nothing.
fn to_whole(number: f64) -> (i64, f64) {
    let nearest = number.round();
    if (nearest - number).abs() <= CLOSE {
        return (nearest as i64, 0.0);
    }
    let whole = (number + 0.5).floor();
    (whole as i64, whole - number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ome::OmeMetadata;

    fn image(axes: Value, levels: &[(Value, Value)]) -> Image {
        let datasets: Vec<Value> = levels
            .iter()
            .enumerate()
            .map(|(number, (scale, translation))| {
                json!({"path": number.to_string(), "coordinateTransformations": [
                    {"type": "scale", "scale": scale},
                    {"type": "translation", "translation": translation},
                ]})
            })
            .collect();
        let image = json!({"axes": axes, "datasets": datasets});
        let Value::Object(attributes) = json!({"multiscales": [image]}) else { unreachable!() };
        OmeMetadata::read(&attributes).unwrap().unwrap().images.remove(0)
    }

    fn zyx() -> Value {
        json!([
            {"name": "z", "type": "space", "unit": "micrometer"},
            {"name": "y", "type": "space", "unit": "nanometer"}, {"name": "x", "type": "space"},
        ])
    }

    #[test]
    fn an_image_from_a_volume_is_where_the_volume_is() {
        // Offsets of 3, -2 and 7 voxels along x, y and z.
        let found = VolumePositions::of(&image(
            zyx(),
            &[
                (json!([0.04, 8, 5]), json!([7.5 * 0.04, -1.5 * 8.0, 3.5 * 5.0])),
                (json!([0.04, 16, 10]), json!([7.5 * 0.04, -0.5 * 16.0, 1.5 * 10.0])),
            ],
        ))
        .unwrap();
        assert!(found.are_exact());
        let levels: Vec<Voxels> = found.levels.iter().map(|level| level.unwrap()).collect();
        assert_eq!(levels[0].offset, [3, -2, 7]);
        assert_eq!(levels[1].offset, [1, -1, 7]);
        assert_eq!(levels[0].resolution, [5.0, 8.0, 40.0]);
        assert!(found.are_at(levels.iter().map(|level| (level.resolution, level.offset))));
        assert!(!found.are_at(levels.iter().map(|level| (level.resolution, [0, 0, 0]))));
        assert_eq!((centre(5.0, 3), centre(8.0, -2)), (17.5, -12.0));
    }

    #[test]
    fn levels_around_the_same_corner_are_shifted_by_half_a_voxel_of_the_finest() {
        let found = VolumePositions::of(&image(
            zyx(),
            &[
                (json!([0.5, 10, 10]), json!([0, 0, 0])),
                (json!([0.5, 20, 20]), json!([0, 5, 5])),
                (json!([1.0, 40, 40]), json!([0.25, 15, 15])),
            ],
        ))
        .unwrap();
        assert_eq!(found.shift, [5.0, 5.0, 250.0]);
        for level in found.levels.iter().flatten() {
            assert_eq!((level.offset, level.error), ([0; 3], [0.0; 3]));
        }
        assert!(!found.are_exact());
    }

    #[test]
    fn levels_that_begin_between_voxels_are_off_and_say_by_how_much() {
        // No translation at all: by the specification, the first voxels of all levels share their
        // centre.
        let zero = || json!([0, 0, 0]);
        let found = VolumePositions::of(&image(
            zyx(),
            &[(json!([0.5, 10, 10]), zero()), (json!([0.5, 20, 40]), zero())],
        ))
        .unwrap();
        let levels: Vec<Voxels> = found.levels.iter().map(|level| level.unwrap()).collect();
        assert_eq!((levels[1].offset, levels[1].error), ([0; 3], [15.0, 5.0, 0.0]));
    }

    #[test]
    fn what_cannot_be_placed_is_said() {
        let one = || json!([1, 1, 1]);
        let refused = |axes: Value, scale: Value, translation: Value| {
            VolumePositions::of(&image(axes, &[(scale, translation)])).unwrap_err()
        };
        let mut axes = zyx();
        axes[0]["unit"] = json!("parrot");
        assert!(refused(axes, one(), one()).contains("parrot"));
        assert!(refused(zyx(), json!([0, 1, 1]), one()).contains("above 0"));
        assert!(refused(zyx(), one(), json!([1e300, 1, 1])).contains("far"));
        assert!(refused(zyx(), json!([1, 1]), one()).contains("2 numbers"));
        let mut unsaid = image(zyx(), &[(one(), one())]);
        unsaid.levels[0].transformations.clear();
        assert_eq!(VolumePositions::of(&unsaid).unwrap().levels, [None]);
    }
}
