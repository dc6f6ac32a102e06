//! Zarr, OME-Zarr of every version and precomputed forms of one volume have every voxel at the same
//! place.

use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::jobs::{ConvertOptions, OmeForm, VolumeForm, ZarrForm};
use shardine::ome::{OmeRelease, length_in_nanometers};
use shardine::precomputed::Volume;
use shardine::{ArrayNode, Location};

use crate::common::*;
use crate::convert::ome_scene::*;
use crate::convert::scene::*;

/// The centre of a voxel of a level along x, y and z, in nanometres.
type Place = [f64; 3];

/// As a precomputed volume says it: voxel i covers the space from `(voxel_offset + i) * resolution`
/// to the next.
fn in_volume(place: &Location, level: usize, voxel: [u64; 3]) -> Place {
    let volume = Volume::open(&engine(), place).unwrap();
    let scale = &volume.info().scales()[level];
    std::array::from_fn(|k| {
        let corner = scale.voxel_offset[k] as f64 + voxel[k] as f64;
        (corner * scale.resolution[k] + (corner + 1.0) * scale.resolution[k]) / 2.0
    })
}

/// The same of an array that keeps what the volume said.
fn in_array(place: &Location, name: &str, voxel: [u64; 3]) -> Place {
    let array = ArrayNode::open(&engine(), &place.join(name).unwrap()).unwrap();
    let attributes = array.metadata().attributes();
    std::array::from_fn(|k| {
        let resolution = attributes["resolution"][k].as_f64().unwrap();
        let offset = attributes["voxel_offset"][k].as_i64().unwrap();
        (offset as f64 + voxel[k] as f64 + 0.5) * resolution
    })
}

/// As OME-Zarr says it, from the document and not from the model: array coordinates are those of
/// centres.
fn in_image(place: &Location, level: usize, voxel: [u64; 3]) -> Place {
    let (axes, scale, translation) = document_of(place, level);
    std::array::from_fn(|k| {
        let at = axes.iter().position(|(name, _)| *name == ["x", "y", "z"][k]).unwrap();
        (voxel[k] as f64 * scale[at] + translation[at]) * axes[at].1
    })
}

type Axes = Vec<(String, f64)>;

/// The axes of an image with their units in nanometres, and scale and translation of a level.
fn document_of(place: &Location, level: usize) -> (Axes, Vec<f64>, Vec<f64>) {
    let attributes = shardine::zarr::attributes(place).unwrap();
    let image = attributes.get("ome").unwrap_or(&Value::Null).get("multiscales");
    let image = &image.unwrap_or_else(|| &attributes["multiscales"])[0];
    let axes = image.get("axes").unwrap_or_else(|| &image["coordinateSystems"][0]["axes"]);
    let axis = |axis: &Value| {
        let unit = axis["unit"].as_str().and_then(length_in_nanometers).unwrap_or(1.0);
        (axis["name"].as_str().unwrap().to_owned(), unit)
    };
    let axes: Axes = axes.as_array().unwrap().iter().map(axis).collect();
    let mut all = image["datasets"][level]["coordinateTransformations"].clone();
    if all[0]["type"] == "sequence" {
        all = all[0]["transformations"].clone();
    }
    let numbers = |kind: &str| -> Option<Vec<f64>> {
        let one = all.as_array().unwrap().iter().find(|one| one["type"] == kind)?;
        Some(one[kind].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect())
    };
    let scale = numbers("scale").unwrap();
    let translation = numbers("translation").unwrap_or_else(|| vec![0.0; scale.len()]);
    (axes, scale, translation)
}

/// Where Neuroglancer has the corner of a level's first voxel: it multiplies out scale and
/// translation, and subtracts half of the voxel of this level along each axis
/// (`src/datasource/zarr/ome.ts`, "the origin of a voxel is its center, while in Neuroglancer it is
/// the lower corner").
fn corner_in_neuroglancer(place: &Location, level: usize) -> Place {
    let (axes, scale, translation) = document_of(place, level);
    std::array::from_fn(|k| {
        let at = axes.iter().position(|(name, _)| *name == ["x", "y", "z"][k]).unwrap();
        (translation[at] - 0.5 * scale[at]) * axes[at].1
    })
}

fn assert_same(a: Place, b: Place, what: &str) {
    for k in 0..3 {
        assert!((a[k] - b[k]).abs() <= 1e-9 * (1.0 + a[k].abs()), "{what}: {a:?} {b:?}");
    }
}

const VERSIONS: [OmeRelease; 3] = [OmeRelease::V0_4, OmeRelease::V0_5, OmeRelease::V0_6];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_volume_is_at_the_same_place_in_every_form(
        offset in proptest::array::uniform3(-1000i64..1000),
        resolution in proptest::array::uniform3(prop_oneof![Just(4.0), Just(8.5), 0.1f64..90.0]),
        voxel in proptest::array::uniform3(0u64..3),
    ) {
        let old = memory();
        let mut scales = [
            scale("a", [8, 7, 6], [4, 4, 4], Value::Null),
            scale("b", [4, 4, 3], [4, 4, 3], Value::Null),
        ];
        for (n, scale) in scales.iter_mut().enumerate() {
            let factor = 1 << n;
            scale["resolution"] = json!(resolution.map(|r| r * f64::from(factor)));
            scale["voxel_offset"] = json!(offset.map(|o| o.div_euclid(factor.into())));
        }
        volume(&old, info("uint8", 1, &scales), "");
        let zarr = memory();
        to_zarr(&old, &zarr, &ZarrForm::new(), &ConvertOptions::new()).unwrap();
        let options = ConvertOptions::new();
        for release in VERSIONS {
            // Directly, and from the arrays.
            for source in [&old, &zarr] {
                let (new, back) = (memory(), memory());
                to_ome(source, &new, &OmeForm::new().version(release), &options).unwrap();
                let (_, summary) = to_volume(&new, &back, &VolumeForm::new(), &options).unwrap();
                prop_assert_eq!(summary.position_shift, None);
                for (n, name) in ["a", "b"].iter().enumerate() {
                    let expected = in_volume(&old, n, voxel);
                    assert_same(in_array(&zarr, name, voxel), expected, "zarr");
                    assert_same(in_image(&new, n, voxel), expected, "ome");
                    assert_same(in_volume(&back, n, voxel), expected, "back");
                    let corner = in_volume(&old, n, [0; 3]);
                    let half = resolution.map(|r| r * f64::from(1 << n) / 2.0);
                    let corner = std::array::from_fn(|k| corner[k] - half[k]);
                    assert_same(corner_in_neuroglancer(&new, n), corner, "neuroglancer");
                }
            }
        }
    }

    #[test]
    fn an_image_is_at_the_same_place_in_every_form_but_for_a_shift_that_is_recorded(
        first in prop_oneof![Just(0.0), Just(0.5), Just(8.5), Just(-3.5), Just(4.0), -9f64..9.0],
        release in proptest::sample::select(&VERSIONS[..]),
        voxel in proptest::array::uniform3(0u64..3),
    ) {
        let old = memory();
        let scene = Scene::new(release, "czyx", &[1, 6, 7, 8], &[1, 4, 4, 4]);
        Scene { first, levels: 3, ..scene }.make(&old);
        let (pre, options) = (memory(), ConvertOptions::new());
        let (told, summary) = to_volume(&old, &pre, &VolumeForm::new(), &options).unwrap();
        let shift = summary.position_shift.unwrap_or_default();
        let half = [50.0, 50.0, 125.0];
        prop_assert!((0..3).all(|k| shift[k].abs() <= half[k] * (1.0 + 1e-9)), "{:?}", shift);
        for (n, report) in told.iter().enumerate() {
            let place = in_image(&old, n, voxel);
            let error = report.position_error;
            let moved = std::array::from_fn(|k| place[k] + shift[k] + error[k]);
            assert_same(in_volume(&pre, n, voxel), moved, "volume");
            // Not more than half a voxel of the level.
            let of_level = half.map(|h| h * f64::from(1 << n));
            prop_assert!((0..3).all(|k| error[k].abs() <= of_level[k] * (1.0 + 1e-9)));
        }
        // The usual case: all levels begin at the corner of the same voxel.
        if [0.0, 0.5, 8.5].contains(&first) {
            prop_assert!(told.iter().all(|report| report.position_error == [0.0; 3]));
            prop_assert_eq!(shift == [0.0; 3], first != 0.0);
        }
        for other in VERSIONS {
            let (new, back) = (memory(), memory());
            to_version(&old, &new, other);
            let (_, summary) = to_ome(&pre, &back, &OmeForm::new().version(other), &options).unwrap();
            prop_assert!(summary.image_kept);
            for n in 0..3 {
                // Exactly: the numbers are the same.
                prop_assert_eq!(in_image(&new, n, voxel), in_image(&old, n, voxel));
                prop_assert_eq!(in_image(&back, n, voxel), in_image(&old, n, voxel));
            }
        }
    }
}
