//! Data sets that are not OME-Zarr become images.

use serde_json::{Value, json};
use shardine::jobs::{ConvertOptions, FindingKind, OmeForm, VolumeForm, ZarrForm};
use shardine::ome::{AxisRole, OmeRelease};
use shardine::store::{Condition, Key, StoreExt};
use shardine::{ArrayNode, CodecChoice, Location, open_in};

use crate::common::data_set::dump;
use crate::common::wkw::{self, put_set};
use crate::common::*;
use crate::convert::ome_scene::*;
use crate::convert::scene::*;

fn array_at(place: &Location, shape: &[u64], chunk: &[u64], names: &[&str], codecs: Value) {
    let mut document = document(shape, chunk, "uint16".into(), 0.into(), codecs);
    if !names.is_empty() {
        document["dimension_names"] = json!(names);
    }
    document["attributes"] = json!({"kept": shape});
    let array = ArrayNode::create(&engine(), place, metadata(&document)).unwrap();
    fill(&array, "", shape.iter().sum());
}

fn refused(old: &Location, form: &OmeForm) -> String {
    let new = memory();
    let error = to_ome(old, &new, form, &ConvertOptions::new()).unwrap_err();
    assert!(dump(&*new.store).is_empty(), "{error}");
    error.to_string()
}

fn names_of(place: &Location) -> Vec<String> {
    image(place).axes.into_iter().map(|axis| axis.name).collect()
}

#[test]
fn an_array_becomes_an_image_of_one_level() {
    let (old, new) = (memory(), memory());
    array_at(&old, &[9, 10, 11], &[4, 4, 4], &[], json!([bytes(), zstd()]));
    old.store.put(&Key::new("readme.txt").unwrap(), b"hello", Condition::None).unwrap();
    assert!(refused(&old, &OmeForm::new()).contains("its 3 axes have no names"));
    assert!(refused(&old, &OmeForm::new().axes(["y", "x"])).contains("2 axes were named"));
    let form = OmeForm::new()
        .axes(["z", "y", "x"])
        .scale(&[0.5, 0.2, 0.2])
        .unit("micrometer")
        .name("cells");
    let (told, _) = to_ome(&old, &new, &form, &ConvertOptions::new()).unwrap();
    assert_eq!((told.len(), told[0].target.as_str(), told[0].chunks_recoded), (1, "0", 0));
    check_ome(&new, OmeRelease::V0_5);
    let found = image(&new);
    assert_eq!(found.placement(0).unwrap().scale, [0.5, 0.2, 0.2]);
    assert!(found.axes.iter().all(|axis| axis.unit.as_deref() == Some("micrometer")));
    assert_eq!(found.name.as_deref(), Some("cells"));
    assert_eq!(elements(&new, "0"), elements(&old, ""));
    let stored = dump(&*new.store);
    assert_eq!(stored["readme.txt"], b"hello");
    let array = ArrayNode::open(&engine(), &new.join("0").unwrap()).unwrap();
    assert_eq!(array.metadata().attributes()["kept"], json!([9, 10, 11]));
    // Nothing else is possible of two axes.
    let (old, new) = (memory(), memory());
    array_at(&old, &[9, 10], &[4, 4], &[], json!([bytes()]));
    to_ome(&old, &new, &OmeForm::new(), &ConvertOptions::new()).unwrap();
    assert_eq!(names_of(&new), ["y", "x"]);
}

#[test]
fn axes_are_put_in_the_order_of_images_without_touching_chunks() {
    let codecs = json!([bytes(), zstd()]);
    for (names, expected) in [
        (&["x", "y", "z"][..], &["z", "y", "x"][..]),
        (&["y", "x", "c"], &["c", "y", "x"]),
        (&["x", "y", "z", "channel"], &["channel", "z", "y", "x"]),
        (&["y", "time", "x"], &["time", "y", "x"]),
    ] {
        for release in [OmeRelease::V0_5, OmeRelease::V0_4] {
            let (old, new) = (memory(), memory());
            let shape: Vec<u64> = (0..names.len() as u64).map(|n| 5 + n).collect();
            let chunk: Vec<u64> = names.iter().map(|_| 3).collect();
            array_at(&old, &shape, &chunk, names, codecs.clone());
            let form = OmeForm::new().version(release);
            let (told, _) = to_ome(&old, &new, &form, &ConvertOptions::new()).unwrap();
            check_ome(&new, release);
            assert_eq!(names_of(&new), expected);
            // Version 2 has no other orders than C and Fortran.
            let turned = expected.iter().rev().eq(names);
            let moves = release == OmeRelease::V0_5 || turned;
            assert_eq!((told[0].moves, told[0].chunks_recoded == 0), (moves, moves), "{names:?}");
            let array = open_in(&engine(), &old).unwrap().array(0).unwrap();
            let other = open_in(&engine(), &new).unwrap().array(0).unwrap();
            // The elements along the last axis of the source, at some place.
            let at = |axis: &str| expected.iter().position(|name| *name == axis).unwrap();
            for (k, name) in names.iter().enumerate() {
                assert_eq!(array.shape()[k], other.shape()[at(name)]);
            }
            let place: Vec<u64> = (0..names.len() as u64).map(|n| 1 + n).collect();
            let text = |order: &dyn Fn(usize) -> usize| -> String {
                let items: Vec<String> = (0..names.len())
                    .map(|k| format!("{}:{}", place[order(k)], place[order(k)] + 1))
                    .collect();
                items.join(",")
            };
            let own = |k: usize| names.iter().position(|name| *name == expected[k]).unwrap();
            assert_eq!(read(&array, &text(&|k| k)), read(&other, &text(&own)));
        }
    }
}

#[test]
fn axes_that_no_image_has_are_refused() {
    for (names, why) in [
        (&["a", "b", "c", "d", "x"][..], "two or three axes of space"),
        (&["t", "c", "x"], "two or three axes of space"),
        (&["t", "time", "y", "x"], "one axis of time"),
        (&["x", "y", "x"], "x twice"),
    ] {
        let old = memory();
        let shape = vec![2; names.len()];
        array_at(&old, &shape, &shape, names, json!([bytes()]));
        let said = refused(&old, &OmeForm::new());
        assert!(said.contains(why), "{names:?}: {said}");
    }
}

#[test]
fn a_group_whose_arrays_are_levels_becomes_an_image_with_their_names() {
    let (old, new) = (memory(), memory());
    group(&old, OmeRelease::V0_5, &json!({"lab": 7}));
    let zyx = ["z", "y", "x"];
    // The finest is the last by name.
    for (name, shape) in [("a", [2, 5, 5]), ("b", [3, 10, 10]), ("c", [5, 19, 20])] {
        array_at(&old.join(name).unwrap(), &shape, &[4, 4, 4], &zyx, json!([bytes(), zstd()]));
    }
    let labels = old.join("labels").unwrap();
    group(&labels, OmeRelease::V0_5, &json!({}));
    array_at(&labels.join("cells").unwrap(), &[5, 19, 20], &[4, 4, 4], &zyx, json!([bytes()]));
    group(&labels.join("nuclei").unwrap(), OmeRelease::V0_5, &json!({"by": "hand"}));
    for (name, shape) in [("s0", [5, 19, 20]), ("s1", [3, 10, 10])] {
        let place = labels.join("nuclei").unwrap().join(name).unwrap();
        array_at(&place, &shape, &[4, 4, 4], &zyx, json!([bytes()]));
    }
    let form = OmeForm::new().scale(&[2.0, 0.5, 0.5]).unit("micrometer");
    let (told, _) = to_ome(&old, &new, &form, &ConvertOptions::new()).unwrap();
    assert!(told.iter().all(|level| level.chunks_recoded == 0 && level.chunks_moved > 0));
    check_ome_but(&new, OmeRelease::V0_5, &[FindingKind::OmeLabels]);
    let found = image(&new);
    let paths: Vec<&str> = found.levels.iter().map(|level| level.path.as_str()).collect();
    assert_eq!(paths, ["c", "b", "a"]);
    let placement = found.placement(2).unwrap();
    // 5 became 2, 19 and 20 became 5.
    assert_eq!(placement.scale, [4.0, 2.0, 2.0]);
    assert_eq!(placement.translation, [1.0, 0.75, 0.75]);
    assert_eq!(shardine::zarr::attributes(&new).unwrap()["lab"], 7);
    let labels = new.join("labels").unwrap();
    assert_eq!(ome(&labels).labels, Some(vec!["cells".to_owned(), "nuclei".to_owned()]));
    for (name, levels) in [("cells", &["0"][..]), ("nuclei", &["s0", "s1"])] {
        let label = labels.join(name).unwrap();
        assert!(ome(&label).image_label.is_some());
        let paths: Vec<String> = image(&label).levels.into_iter().map(|l| l.path).collect();
        assert_eq!(paths, levels);
        assert_eq!(image(&label).placement(0).unwrap().scale, [2.0, 0.5, 0.5]);
    }
    assert_eq!(elements(&new, "labels/cells/0"), elements(&old, "labels/cells"));
}

#[test]
fn arrays_that_are_not_levels_are_refused_with_what_differs() {
    let yx = ["y", "x"];
    let cyx = ["c", "y", "x"];
    type Place<'a> = (&'a str, &'a [u64], &'a [&'a str]);
    let cases: [(&[Place<'_>], &str); 5] = [
        (&[("a", &[4, 4], &yx), ("b", &[4, 4], &yx)], "smaller"),
        (&[("a", &[4, 4], &yx), ("b", &[4], &["x"])], "2 axes"),
        (&[("a", &[4, 4], &yx), ("b", &[2, 2], &["x", "y"])], "different names"),
        (&[("a", &[2, 4, 4], &cyx), ("b", &[1, 2, 2], &cyx)], "smaller"),
        (&[], "no arrays"),
    ];
    for (arrays, why) in cases {
        let old = memory();
        group(&old, OmeRelease::V0_5, &json!({}));
        for (name, shape, names) in arrays {
            let chunk = vec![2; shape.len()];
            array_at(&old.join(name).unwrap(), shape, &chunk, names, json!([bytes()]));
        }
        let said = refused(&old, &OmeForm::new());
        assert!(said.contains(why), "{said}");
    }
    // Labels are whole numbers.
    let old = memory();
    group(&old, OmeRelease::V0_5, &json!({}));
    array_at(&old.join("0").unwrap(), &[4, 4], &[2, 2], &yx, json!([bytes()]));
    group(&old.join("labels").unwrap(), OmeRelease::V0_5, &json!({}));
    let float = document(&[4, 4], &[2, 2], "float32".into(), 0.into(), json!([bytes()]));
    ArrayNode::create(&engine(), &old.join("labels/a").unwrap(), metadata(&float)).unwrap();
    assert!(refused(&old, &OmeForm::new()).contains("whole numbers"));
}

#[test]
fn a_volume_becomes_an_image_of_the_same_bytes_and_comes_back_as_it_was() {
    for (data, channels) in [("raw", 1), ("gzip", 1), ("gzip", 3)] {
        let (old, new, back) = (memory(), memory(), memory());
        let mut scales = [
            scale("8_8_40", [16, 12, 9], [4, 4, 3], uint64([3, 1, 2], "identity", data)),
            scale("16_16_40", [8, 6, 9], [4, 3, 3], uint64([0, 2, 4], "murmurhash3_x86_128", data)),
            scale("32_32_40", [4, 3, 9], [4, 3, 3], Value::Null),
        ];
        scales[1]["resolution"] = json!([16, 17, 40]);
        scales[2]["resolution"] = json!([32, 34, 40]);
        volume(&old, info("uint16", channels, &scales), "");
        let (told, _) = to_ome(&old, &new, &OmeForm::new(), &ConvertOptions::new()).unwrap();
        assert!(told.iter().all(|level| level.chunks_recoded == 0 && level.chunks_moved > 0));
        check_ome(&new, OmeRelease::V0_5);
        assert_eq!(names_of(&new), ["c", "z", "y", "x"]);
        let array = ArrayNode::open(&engine(), &new.join("1").unwrap()).unwrap();
        // In C order, x fastest: no transposition.
        assert!(array.codecs().iter().all(|codec| codec.name != "transpose"));
        assert_eq!(array.shape(), [channels, 9, 6, 8]);
        let found = image(&new);
        let placement = found.placement(1).unwrap();
        assert_eq!(placement.scale, [1.0, 40.0, 17.0, 16.0]);
        // Offsets of -3, 0 and 1000 voxels along x, y and z, to the centre of the first.
        assert_eq!(placement.translation, [0.0, 1000.5 * 40.0, 0.5 * 17.0, -2.5 * 16.0]);
        let (told, summary) =
            to_volume(&new, &back, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
        assert!(summary.info_kept, "{:?}", summary.info_not_kept);
        assert_eq!(summary.position_shift, None);
        assert!(told.iter().all(|level| level.moves));
        assert_eq!(dump(&*back.store), dump(&*old.store));
        // An image that was moved since is not where the volume was.
        let mut attributes = shardine::zarr::attributes(&new).unwrap();
        attributes["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"][1]["translation"] =
            json!([0, 0, 0, 0]);
        let document = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
        put(&new, "zarr.json", &document);
        let (_, summary) =
            to_volume(&new, &memory(), &VolumeForm::new(), &ConvertOptions::new()).unwrap();
        assert!(summary.info_not_kept.unwrap().contains("translation"));
    }
}

#[test]
fn other_encodings_of_volumes_are_encoded_anew_in_the_order_of_images() {
    let (old, new) = (memory(), memory());
    let mut scale = scale("s", [10, 9, 8], [8, 8, 8], Value::Null);
    scale["encoding"] = json!("compressed_segmentation");
    scale["compressed_segmentation_block_size"] = json!([8, 8, 8]);
    volume(&old, info("uint32", 1, &[scale]), "");
    let (told, _) = to_ome(&old, &new, &OmeForm::new(), &ConvertOptions::new()).unwrap();
    assert!(!told[0].moves && told[0].chunks_recoded > 0);
    let array = ArrayNode::open(&engine(), &new.join("0").unwrap()).unwrap();
    let names: Vec<&str> = array.codecs().iter().map(|codec| codec.name.as_str()).collect();
    assert_eq!(names, ["bytes", "zstd"]);
    check_ome(&new, OmeRelease::V0_5);
}

#[test]
fn an_image_keeps_its_place_in_a_volume_until_that_is_changed() {
    let (old, pre, new) = (memory(), memory(), memory());
    let scene = Scene::new(OmeRelease::V0_5, "tzyx", &[1, 8, 8, 8], &[1, 4, 4, 4]);
    Scene { codec: "gzip", ..scene }.make(&old);
    let (_, summary) = to_volume(&old, &pre, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
    assert_eq!(summary.position_shift, Some([50.0, 50.0, 125.0]));
    let key = Key::new("info").unwrap();
    let mut info: Value = serde_json::from_slice(&pre.store.get(&key).unwrap().unwrap()).unwrap();
    assert_eq!(info["shardine"]["position_shift"], json!([50.0, 50.0, 125.0]));
    let (_, summary) = to_ome(&pre, &new, &OmeForm::new(), &ConvertOptions::new()).unwrap();
    assert!(summary.image_kept);
    assert_eq!(said(&new), said(&old));
    assert!(!shardine::zarr::attributes(&new).unwrap().contains_key("shardine"));
    info["scales"][0]["voxel_offset"] = json!([1, 2, 3]);
    put(&pre, "info", &info);
    let again = memory();
    let (_, summary) = to_ome(&pre, &again, &OmeForm::new(), &ConvertOptions::new()).unwrap();
    assert!(summary.image_not_kept.unwrap().contains("changed"));
    assert_eq!(names_of(&again), ["c", "z", "y", "x"]);
    let first = image(&again).placement(0).unwrap();
    assert_eq!(first.translation, [0.0, 3.5 * 250.0, 2.5 * 100.0, 1.5 * 100.0]);
    // Asked for elsewhere, an image is not where it was.
    let form = VolumeForm::new().voxel_offset([5, 5, 5]);
    let pre = memory();
    let (_, summary) = to_volume(&old, &pre, &form, &ConvertOptions::new()).unwrap();
    assert_eq!(summary.position_shift, None);
    let info: Value = serde_json::from_slice(&pre.store.get(&key).unwrap().unwrap()).unwrap();
    assert!(info.get("shardine").is_none());
}

#[test]
fn layers_of_webknossos_become_images() {
    let (all, new) = (memory(), memory());
    put_set(&*all.store);
    let layer = all.join("ds/color").unwrap();
    let form = OmeForm::new();
    let (told, _) = to_ome(&layer, &new, &form, &ConvertOptions::new()).unwrap();
    assert_eq!(told.len(), 2);
    check_ome(&new, OmeRelease::V0_5);
    assert_eq!(names_of(&new), ["c", "z", "y", "x"]);
    let found = image(&new);
    let placement = found.placement(1).unwrap();
    assert_eq!(placement.scale, [1.0, 25.0, 23.0, 23.0]);
    assert_eq!(placement.translation, [0.0, 12.5, 11.5, 11.5]);
    let nanometres = |axis: &shardine::ome::OmeAxis| axis.unit.as_deref() == Some("nanometer");
    assert!(found.axes.iter().filter(|a| a.role() == AxisRole::Space).all(nanometres));
    let old = open_in(&engine(), &layer).unwrap().array(0).unwrap();
    let array = open_in(&engine(), &new).unwrap().array(0).unwrap();
    assert_eq!(read(&old, "3:4,2:3,1:2,:"), read(&array, ":,1:2,2:3,3:4"));
    // Blocks of LZ4 are moved where Zarr has their codec.
    let form = form.codecs(CodecChoice::Words(vec!["lz4".to_owned()]));
    let new = memory();
    let (told, _) = to_ome(&layer, &new, &form, &ConvertOptions::new()).unwrap();
    assert!(told[0].moves && told[0].chunks_moved > 0);
    assert_eq!(read(&old, "3:4,2:3,1:2,:"), {
        let array = open_in(&engine(), &new).unwrap().array(0).unwrap();
        read(&array, ":,1:2,2:3,3:4")
    });
    // Several channels vary fastest, which a transposition says.
    let raw = memory();
    wkw::put_array(&*raw.store, "x", wkw::Form { blocks: 1, voxel: 2, channels: 3 });
    for (release, moves) in [(OmeRelease::V0_5, true), (OmeRelease::V0_4, false)] {
        let new = memory();
        let form = OmeForm::new().version(release);
        let source = raw.join("x").unwrap();
        let (told, _) = to_ome(&source, &new, &form, &ConvertOptions::new()).unwrap();
        assert_eq!(told[0].moves, moves);
        check_ome(&new, release);
        let old = open_in(&engine(), &source).unwrap().array(0).unwrap();
        let array = open_in(&engine(), &new).unwrap().array(0).unwrap();
        assert_eq!(read(&old, "3:4,2:3,1:2,2:3"), read(&array, "2:3,1:2,2:3,3:4"));
    }
}

#[test]
fn arrays_made_from_a_volume_become_the_image_that_the_volume_becomes() {
    let (old, zarr, direct, indirect) = (memory(), memory(), memory(), memory());
    let mut scales = [
        scale("a", [16, 12, 9], [4, 4, 3], Value::Null),
        scale("b", [8, 6, 9], [4, 3, 3], Value::Null),
    ];
    scales[1]["resolution"] = json!([16, 17, 40]);
    volume(&old, info("uint8", 1, &scales), "");
    to_zarr(&old, &zarr, &ZarrForm::new(), &ConvertOptions::new()).unwrap();
    to_ome(&old, &direct, &OmeForm::new(), &ConvertOptions::new()).unwrap();
    let (told, _) = to_ome(&zarr, &indirect, &OmeForm::new(), &ConvertOptions::new()).unwrap();
    assert!(told.iter().all(|level| level.chunks_recoded == 0));
    for n in 0..2 {
        let (a, b) = (image(&direct), image(&indirect));
        assert_eq!(a.placement(n).unwrap(), b.placement(n).unwrap());
        assert_eq!(level(&direct, n), level(&indirect, n));
    }
    let back = memory();
    let (_, summary) =
        to_volume(&indirect, &back, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
    assert!(summary.info_kept, "{:?}", summary.info_not_kept);
    assert_eq!(dump(&*back.store), dump(&*old.store));
}
