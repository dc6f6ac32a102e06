//! Two data sets against each other: what is equal is called equal, and what differs is found.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::odd_store::OddStore;
use common::volumes;
use common::wkw::{Form, put_array, put_set};
use common::{bytes, document, engine, metadata, noise, sharding, zstd};
use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::files::Input;
use shardine::jobs::{
    CancelToken, CompareError, CompareOptions, CompareSide, CompareSummary, ConvertOptions,
    Difference, DifferenceKind, ElementsDiffer, JobContext, ObjectDifference, VolumeForm, ZarrForm,
    compare, compare_objects, convert_to_volume, convert_to_zarr,
};
use shardine::precomputed::Volume;
use shardine::store::{Condition, FileStore, Key, StoreExt};
use shardine::{
    Array, ArrayNode, Distance, Element, ElementsRef, Engine, EngineOptions, Error, Location,
    Region, VariableElements, WriteOptions,
};

fn compared_with(
    a: &Location,
    b: &Location,
    options: &CompareOptions,
) -> Result<(CompareSummary, Vec<Difference>), Error> {
    let mut found = Vec::new();
    let summary = compare(&engine(), a, b, options, &mut |difference| found.push(difference))?;
    assert_eq!(summary.differences, found.len() as u64);
    Ok((summary, found))
}

fn compared(a: &Location, b: &Location) -> (CompareSummary, Vec<Difference>) {
    compared_with(a, b, &CompareOptions::new()).unwrap()
}

fn kinds(a: &Location, b: &Location) -> Vec<String> {
    let kind = |found: &Difference| format!("{} {}", found.path, found.kind.name());
    compared(a, b).1.iter().map(kind).collect()
}

fn elements(found: &[Difference]) -> &ElementsDiffer {
    match found {
        [Difference { kind: DifferenceKind::Elements(found), .. }] => found,
        found => panic!("{found:#?}"),
    }
}

fn made(document: &Value) -> (Location, ArrayNode) {
    let place = Location::memory();
    let array = ArrayNode::create(&engine(), &place, metadata(document)).unwrap();
    (place, array)
}

fn put(place: &Location, name: &str, bytes: impl AsRef<[u8]>) {
    let key = place.key(name).unwrap();
    place.store.put(&key, bytes.as_ref(), Condition::None).unwrap();
}

/// An array of one byte per element, in shards or not.
fn packed(shape: &[u64], chunk: &[u64], per_shard: u64, codecs: Value) -> Value {
    let inner = json!([codecs, "crc32c"]);
    match per_shard {
        0 => document(shape, chunk, "uint8".into(), 0.into(), inner),
        n => {
            let shard: Vec<u64> = chunk.iter().map(|len| len * n).collect();
            let codecs = json!([sharding(chunk, inner)]);
            document(shape, &shard, "uint8".into(), 0.into(), codecs)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_planted_difference_is_found_exactly_however_both_are_packed(
        (shape, chunks, at) in prop::collection::vec(1u64..12, 1..4).prop_flat_map(|shape| {
            let chunk = prop::collection::vec(1u64..7, shape.len());
            let at: Vec<_> = shape.iter().map(|&len| 0..len).collect();
            (Just(shape), (chunk.clone(), chunk), at)
        }),
        per_shard in (0u64..3, 0u64..3),
        (seed, start) in (any::<u64>(), 0usize..2),
        other in any::<bool>(),
    ) {
        let len: u64 = shape.iter().product();
        let elements = noise(len as usize, seed);
        let second = if other { &chunks.1 } else { &chunks.0 };
        let (a, first) = made(&packed(&shape, &chunks.0, per_shard.0, bytes()));
        let (b, second) = made(&packed(&shape, second, per_shard.1, bytes()));
        // One of them is only stored in part: the rest has the fill value in both.
        let region = Region::of_box(&vec![0; shape.len()], &shape);
        for array in [&first, &second] {
            array.write(&region, &elements[..]).unwrap();
            if start == 1 {
                array.write((0..1,), &vec![0u8; elements.len() / shape[0] as usize][..]).unwrap();
            }
        }
        let (summary, found) = compared(&a, &b);
        prop_assert!(summary.is_equal(), "{found:#?}");
        prop_assert_eq!((summary.arrays, summary.elements), (1, len));

        let place = Region::of_box(&at, &vec![1; shape.len()]);
        let old: Vec<u8> = second.read(&place).unwrap();
        second.write(&place, &[old[0] ^ 0x80]).unwrap();
        let (summary, found) = compared(&a, &b);
        let one = self::elements(&found);
        prop_assert_eq!((one.count, one.total, summary.differing), (1, len, 1));
        prop_assert_eq!((&one.a.at, &one.b.at), (&at, &at));
        prop_assert_eq!((&one.a.value, &one.b.value), (&json!(old[0]), &json!(old[0] ^ 0x80)));
        prop_assert_eq!(one.largest, Some(Distance::Integer(0x80)));
        let chunk: Vec<u64> = at.iter().zip(&chunks.0).map(|(at, n)| at / n).collect();
        prop_assert_eq!(one.a.chunk.as_ref(), Some(&chunk));
        prop_assert_eq!(one.a.shard.is_some(), per_shard.0 > 0);
        prop_assert!(one.b.stored);
    }
}

/// Two arrays of one type with these values.
fn values<T: Element>(data_type: &str, a: &[T], b: &[T]) -> (CompareSummary, Vec<Difference>) {
    let place = |values: &[T]| {
        let place = Location::memory();
        let array = Array::builder([values.len() as u64], data_type).create(&place).unwrap();
        array.write(.., values).unwrap();
        place
    };
    compared(&place(a), &place(b))
}

#[test]
fn nans_are_equal_and_so_are_zeros_of_both_signs() {
    let other = f32::from_bits(f32::NAN.to_bits() ^ 1);
    let (summary, _) = values("float32", &[f32::NAN, 0.0, 5.0], &[other, -0.0, 5.0]);
    assert!(summary.is_equal());
    let (_, found) = values("float32", &[f32::NAN, 1.0, 5.0], &[2.0, 1.25, 5.0]);
    let found = elements(&found);
    assert_eq!((found.count, found.a.text.as_str()), (2, "NaN"));
    assert_eq!(found.largest, Some(Distance::Real(0.25)));
    let (_, found) = values("uint64", &[0, u64::MAX], &[0, 1]);
    assert_eq!(elements(&found).largest, Some(Distance::Integer(u64::MAX - 1)));
}

#[test]
fn strings_are_compared_as_strings() {
    let place = |words: &[&str]| {
        let place = Location::memory();
        let array = Array::builder([2, 2], "string").chunks([1, 2]).create(&place).unwrap();
        let words: VariableElements = words.iter().collect();
        array.write_elements(.., ElementsRef::Variable(&words), &WriteOptions::new()).unwrap();
        place
    };
    let a = place(&["a", "", "c", "d"]);
    assert!(compared(&a, &place(&["a", "", "c", "d"])).0.is_equal());
    let (_, found) = compared(&a, &place(&["a", "", "cc", "x"]));
    let found = elements(&found);
    assert_eq!((found.count, &found.a.at[..], found.largest), (2, &[1, 0][..], None));
    assert_eq!((found.a.text.as_str(), &found.b.value), ("\"c\"", &json!("cc")));
}

#[test]
fn a_chunk_of_the_fill_value_is_equal_to_one_that_is_not_stored() {
    let fill = |fill: Value| document(&[8], &[4], "uint8".into(), fill, json!([bytes()]));
    let (a, _) = made(&fill(7.into()));
    let (b, stored) = made(&fill(7.into()));
    stored
        .write_elements(.., ElementsRef::Fixed(&[7; 8]), &WriteOptions::new().store_empty(true))
        .unwrap();
    assert!(!stored.objects().unwrap().is_empty());
    assert!(compared(&a, &b).0.is_equal());
    // Another fill value is a difference in itself, and in each element that is not stored.
    let (c, _) = made(&fill(9.into()));
    assert_eq!(kinds(&a, &c), [" fill-value", " elements"]);
    let (_, found) = compared_with(&b, &c, &CompareOptions::new().data_only(true)).unwrap();
    let found = elements(&found);
    assert_eq!((found.count, found.a.stored, found.b.stored), (8, true, false));
}

#[test]
fn what_is_equal_as_it_is_stored_is_not_decoded() {
    let (a, first) = made(&packed(&[40, 40], &[4, 4], 2, bytes()));
    let (b, second) = made(&packed(&[40, 40], &[4, 4], 5, bytes()));
    for array in [&first, &second] {
        array.write(.., &noise(1600, 3)[..]).unwrap();
    }
    let (summary, _) = compared(&a, &b);
    assert!(summary.is_equal());
    assert_eq!(summary.chunks_not_decoded, 100);
    second.write((39, 39), &[0u8]).unwrap();
    let (summary, found) = compared(&a, &b);
    assert_eq!((summary.chunks_not_decoded, elements(&found).count), (99, 1));
    assert_eq!(elements(&found).b.shard, Some(vec![1, 1]));
    // Other codecs have other bytes, and the same elements.
    let codecs = json!([bytes(), zstd()]);
    let (c, third) = made(&document(&[40, 40], &[4, 4], "uint8".into(), 0.into(), codecs));
    third.write(.., &noise(1600, 3)[..]).unwrap();
    let (summary, _) = compared(&a, &c);
    assert!(summary.is_equal() && summary.chunks_not_decoded == 0);
}

#[test]
fn damage_is_an_error_and_never_equal_nor_different() {
    let (a, first) = made(&packed(&[8, 8], &[4, 4], 2, bytes()));
    let (b, second) = made(&packed(&[8, 8], &[2, 2], 2, bytes()));
    for array in [&first, &second] {
        array.write(.., &noise(64, 3)[..]).unwrap();
    }
    let key = Key::new("c/0/0").unwrap();
    let whole = a.store.get(&key).unwrap().unwrap();
    for at in [0, 20, whole.len() - 3] {
        let mut damaged = whole.to_vec();
        damaged[at] ^= 1;
        put(&a, "c/0/0", damaged);
        for (a, b) in [(&a, &b), (&b, &a)] {
            compared_with(a, b, &CompareOptions::new()).unwrap_err();
        }
    }
    put(&a, "c/0/0", &whole[..]);
    assert!(compared(&a, &b).0.is_equal());
}

fn group(place: &Location, name: &str, attributes: Value) {
    let document = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
    let name = if name.is_empty() { "zarr.json".to_owned() } else { format!("{name}/zarr.json") };
    put(place, &name, document.to_string());
}

fn array_in(place: &Location, name: &str, value: u8) -> ArrayNode {
    let array =
        Array::builder([4, 4], "uint8").chunks([2, 2]).create(place.join(name).unwrap()).unwrap();
    array.write(.., &[value; 16]).unwrap();
    array
}

#[test]
fn hierarchies_are_compared_node_by_node() {
    let scene = || {
        let place = Location::memory();
        group(&place, "", json!({"title": "x"}));
        group(&place, "g", json!({}));
        array_in(&place, "a", 1);
        array_in(&place, "g/b", 2);
        place
    };
    let (a, b) = (scene(), scene());
    let (summary, _) = compared(&a, &b);
    assert!(summary.is_equal());
    assert_eq!((summary.arrays, summary.elements), (2, 32));

    group(&b, "", json!({"title": "y", "more": 1}));
    array_in(&b, "new", 1);
    array_in(&a, "g/old", 1);
    Array::open(b.join("g/b").unwrap()).unwrap().write((3, 3), &[9u8]).unwrap();
    assert_eq!(kinds(&a, &b), [" attributes", "g/b elements", "g/old only-in-a", "new only-in-b"]);
    let (_, found) = compared(&a, &b);
    let DifferenceKind::Attributes(attributes) = &found[0].kind else { panic!("{found:?}") };
    assert_eq!((&attributes[0].name[..], &attributes[0].b), ("more", &Some(json!(1))));
    assert_eq!((&attributes[1].a, &attributes[1].b), (&Some(json!("x")), &Some(json!("y"))));
    let DifferenceKind::OnlyIn { side, node } = &found[3].kind else { panic!("{found:?}") };
    assert_eq!((*side, *node), (CompareSide::B, "array"));
    let (_, found) = compared_with(&a, &b, &CompareOptions::new().data_only(true)).unwrap();
    assert_eq!(found.len(), 3);

    // A group against an array.
    let (c, d) = (scene(), scene());
    group(&c, "n", json!({}));
    array_in(&d, "n", 1);
    assert_eq!(kinds(&c, &d), ["n node"]);
}

#[test]
fn a_node_that_cannot_be_opened_is_an_error() {
    let (a, b) = (Location::memory(), Location::memory());
    for place in [&a, &b] {
        group(place, "", json!({}));
        array_in(place, "a", 1);
    }
    put(&b, "a/zarr.json", "{");
    compared_with(&a, &b, &CompareOptions::new()).unwrap_err();
    compared_with(&b, &b, &CompareOptions::new()).unwrap_err();
}

#[test]
fn versions_2_and_3_are_equal_if_their_elements_are() {
    let (v2, v3) = (Location::memory(), Location::memory());
    let zarray = json!({
        "zarr_format": 2, "shape": [4, 3], "chunks": [2, 3], "dtype": ">u2", "order": "F",
        "fill_value": 0, "filters": null, "compressor": null,
    });
    put(&v2, ".zarray", zarray.to_string());
    put(&v2, ".zattrs", json!({"_ARRAY_DIMENSIONS": ["y", "x"], "k": [1]}).to_string());
    // Column by column, each number with its high byte first.
    put(&v2, "0.0", [0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]);
    let mut document = document(&[4, 3], &[3, 2], "uint16".into(), 0.into(), json!([bytes()]));
    document["dimension_names"] = json!(["y", "x"]);
    document["attributes"] = json!({"k": [1]});
    let array = ArrayNode::create(&engine(), &v3, metadata(&document)).unwrap();
    array.write(0..2, &[1u16, 2, 3, 4, 5, 6]).unwrap();
    assert!(compared(&v2, &v3).0.is_equal());
    // What xarray masks by the fill value of version 2, and masks here by an attribute.
    for (fill, same) in [(0, true), (7, false)] {
        let masked = Location::memory();
        document["attributes"] = json!({"k": [1], "_FillValue": fill});
        let array = ArrayNode::create(&engine(), &masked, metadata(&document)).unwrap();
        array.write(0..2, &[1u16, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(compared(&v2, &masked).0.is_equal(), same, "{fill}");
        assert_eq!(compared(&masked, &v2).0.is_equal(), same, "{fill}");
    }
    array.write((1, 2), &[9u16]).unwrap();
    let (_, found) = compared(&v2, &v3);
    assert_eq!((&elements(&found).a.at[..], &elements(&found).a.value), (&[1, 2][..], &json!(6)));
    assert!(elements(&found).a.object.ends_with("/0.0"), "{found:?}");
}

#[test]
fn shape_type_and_names_are_told() {
    let place = |shape: &[u64], data_type: &str, names: Value| {
        let mut document = document(shape, shape, data_type.into(), 0.into(), json!([bytes()]));
        if !names.is_null() {
            document["dimension_names"] = names;
        }
        made(&document).0
    };
    let a = place(&[2, 3], "uint16", json!(["y", "x"]));
    assert_eq!(kinds(&a, &place(&[2, 4], "uint16", json!(["y", "x"]))), [" shape"]);
    assert_eq!(kinds(&a, &place(&[2, 3], "int16", json!(["y", "x"]))), [" dtype"]);
    assert_eq!(kinds(&a, &place(&[2, 3], "uint16", json!(["b", "a"]))), [" dimension-names"]);
    assert_eq!(kinds(&a, &place(&[2, 3], "uint16", json!([null, null]))), [" dimension-names"]);
    // The same axes in another order: the elements are the same, the names are in another order.
    assert_eq!(kinds(&a, &place(&[3, 2], "uint16", json!(["x", "y"]))), [" dimension-names"]);
    assert_eq!(kinds(&a, &place(&[3, 2], "uint16", Value::Null)), [" dimension-names", " shape"]);
}

/// A volume of two scales, written in part.
fn volume() -> Location {
    let scales = [
        volumes::scale("8", [40, 20, 17], Some(&volumes::sharding(1, 1, 7, "raw", "gzip"))),
        volumes::scale("16", [20, 10, 9], None),
    ];
    let at = volumes::volume(&scales);
    volumes::write(&at, 0, "0:20,1:7,2:17");
    volumes::fill(&at, 1);
    at
}

#[test]
fn a_volume_is_equal_to_what_is_made_of_it_and_that_to_what_is_made_of_it() {
    let (at, group, back) = (volume(), Location::memory(), Location::memory());
    let options = ConvertOptions::new();
    convert_to_zarr(&engine(), &at, &group, &ZarrForm::new(), &options, &mut |_| ()).unwrap();
    convert_to_volume(&engine(), &group, &back, &VolumeForm::new(), &options, &mut |_| ()).unwrap();
    for (a, b) in [(&at, &group), (&group, &at), (&at, &back), (&group, &group)] {
        let (summary, found) = compared(a, b);
        assert!(summary.is_equal(), "{found:#?}");
        assert_eq!(summary.arrays, 2);
    }
    // A level against an array, and the finest against an array without more words.
    let array = group.join("16").unwrap();
    let level = CompareOptions::new().level(Some(1));
    assert!(compared_with(&at, &array, &level).unwrap().0.is_equal());
    assert!(compared(&group.join("8").unwrap(), &at).0.is_equal());
    assert_eq!(kinds(&at, &array), ["8 shape"]);
    let refused = compared_with(&at, &array, &CompareOptions::new().level(Some(2)));
    assert!(matches!(refused, Err(Error::NoLevel { level: 2, levels: 2, .. })));
    let refused = compared_with(&array, &array, &level);
    assert!(matches!(refused, Err(Error::Compare(CompareError::NoLevels { .. }))));

    let scale = Volume::open(&engine(), &at).unwrap().array(1).unwrap();
    scale.write((4, 3, 2), &[0u8]).unwrap();
    for (a, b) in [(&at, &group), (&group, &at)] {
        let (_, found) = compared(a, b);
        let found = elements(&found);
        assert_eq!((found.count, &found.a.at[..]), (1, &[4, 3, 2, 0][..]));
    }
}

#[test]
fn axes_are_matched_by_name_in_whatever_order_they_are() {
    let (zyx, at) = (Location::memory(), Location::memory());
    let mut document =
        document(&[5, 7, 9], &[2, 4, 8], "uint16".into(), 0.into(), json!([bytes(), zstd()]));
    document["dimension_names"] = json!(["z", "y", "x"]);
    let array = ArrayNode::create(&engine(), &zyx, metadata(&document)).unwrap();
    let elements: Vec<u16> = (1..=315).collect();
    array.write(.., &elements[..]).unwrap();
    let form = VolumeForm::new().resolution([8.0, 8.0, 8.0]);
    convert_to_volume(&engine(), &zyx, &at, &form, &ConvertOptions::new(), &mut |_| ()).unwrap();
    assert!(compared(&zyx, &at).0.is_equal() && compared(&at, &zyx).0.is_equal());
    array.write((1, 2, 3), &[0u16]).unwrap();
    let (_, found) = compared(&at, &zyx);
    let found = self::elements(&found);
    assert_eq!((&found.a.at[..], &found.b.at[..]), (&[3, 2, 1, 0][..], &[1, 2, 3][..]));
    assert_eq!((found.count, &found.b.value), (1, &json!(0)));
}

#[test]
fn levels_that_multiscales_names_are_compared_in_their_order() {
    let at = volume();
    let group = Location::memory();
    convert_to_zarr(&engine(), &at, &group, &ZarrForm::new(), &ConvertOptions::new(), &mut |_| ())
        .unwrap();
    // The same arrays under other names.
    let renamed = Location::memory();
    for (old, new) in [("8", "s/fine"), ("16", "coarse")] {
        let (from, to) = (group.join(old).unwrap(), renamed.join(new).unwrap());
        shardine::jobs::copy(&from, &to, &Default::default()).unwrap();
    }
    let image = |levels: &[&str]| {
        let datasets: Vec<Value> = levels.iter().map(|path| json!({"path": path})).collect();
        json!({"multiscales": [{"axes": ["x", "y", "z", "c"], "datasets": datasets}]})
    };
    group_at(&renamed, image(&["s/fine", "coarse"]));
    self::group(&renamed, "s", json!({}));
    let (summary, found) = compared(&at, &renamed);
    assert!(summary.is_equal(), "{found:#?}");
    group_at(&renamed, image(&["coarse", "s/fine"]));
    assert_eq!(kinds(&at, &renamed), ["8 shape", "16 shape"]);
    // A level that is not there is no difference but an error.
    group_at(&renamed, image(&["s/fine", "gone"]));
    compared_with(&at, &renamed, &CompareOptions::new()).unwrap_err();
}

fn group_at(place: &Location, attributes: Value) {
    group(place, "", attributes);
}

#[test]
fn webknossos_wrap_is_compared_with_what_is_made_of_it() {
    let (place, zarr) = (Location::memory(), Location::memory());
    put_set(&*place.store);
    let set = place.join("ds/color").unwrap();
    let options = ConvertOptions::new();
    convert_to_zarr(&engine(), &set, &zarr, &ZarrForm::new(), &options, &mut |_| ()).unwrap();
    let (summary, found) = compared(&set, &zarr);
    assert!(summary.is_equal() && summary.arrays > 1, "{found:#?}");
    let (a, b) = (Location::memory(), Location::memory());
    for (place, blocks) in [(&a, 1), (&b, 2)] {
        put_array(&*place.store, "x", Form { blocks, voxel: 2, channels: 3 });
    }
    let (a, b) = (a.join("x").unwrap(), b.join("x").unwrap());
    let (summary, found) = compared(&a, &b);
    assert!(summary.is_equal() && summary.elements > 0, "{found:#?}");
}

#[test]
fn values_by_key_are_refused_and_not_called_equal() {
    let place = Location::memory();
    let info = json!({"@type": "neuroglancer_multilod_draco", "sharding": {
        "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": 0,
        "minishard_bits": 0, "shard_bits": 0}});
    put(&place, "info", info.to_string());
    let refused = compared_with(&place, &place, &CompareOptions::new());
    assert!(matches!(refused, Err(Error::Compare(CompareError::KeyValues { .. }))), "{refused:?}");
}

#[test]
fn a_file_is_compared_like_an_array() {
    let folder = tempfile::tempdir().unwrap();
    let array =
        Array::builder([3, 5], "uint16").chunks([2, 2]).create(folder.path().join("a")).unwrap();
    let elements: Vec<u16> = (0..15).collect();
    array.write(.., &elements[..]).unwrap();
    let npy = |name: &str, order: &str, values: &[u16], big: bool| {
        let path = folder.path().join(name);
        let descr = if big { ">u2" } else { "<u2" };
        let mut text =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (3, 5), }}");
        while (text.len() + 11) % 64 != 0 {
            text.push(' ');
        }
        text.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        for value in values {
            bytes.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
        }
        std::fs::write(&path, bytes).unwrap();
        Input::open(&path).unwrap()
    };
    let columns: Vec<u16> = (0..15).map(|i| i % 3 * 5 + i / 3).collect();
    let same = [
        npy("c.npy", "False", &elements, false),
        npy("f.npy", "True", &columns, false),
        npy("b.npy", "False", &elements, true),
    ];
    let options = CompareOptions::new();
    for input in same {
        let summary = compare(&engine(), input, array.location(), &options, &mut |_| ()).unwrap();
        assert!(summary.is_equal() && summary.elements == 15);
    }
    let mut found = Vec::new();
    let input = npy("d.npy", "False", &[&elements[..14], &[99]].concat(), false);
    compare(&engine(), array.location(), input, &options, &mut |one| found.push(one)).unwrap();
    let found = self::elements(&found);
    assert_eq!((&found.b.at[..], found.b.chunk.as_ref()), (&[2, 4][..], None));
    assert!(found.b.object.ends_with("d.npy"));
    let (one, two) =
        (npy("1.npy", "False", &elements, false), npy("2.npy", "True", &columns, true));
    assert!(compare(&engine(), one, two, &options, &mut |_| ()).unwrap().is_equal());
    // A file that ends too early is an error, not a difference.
    std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("c.npy"))
        .unwrap()
        .set_len(100)
        .unwrap();
    let cut = Input::open(&folder.path().join("c.npy"));
    let outcome = cut
        .map_err(Error::from)
        .and_then(|cut| compare(&engine(), cut, array.location(), &options, &mut |_| ()).map(drop));
    outcome.unwrap_err();
}

#[test]
fn a_link_that_hides_chunks_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    for path in [&a, &b] {
        let array =
            Array::builder([4, 4], "uint8").chunks([2, 2]).unsharded().create(path).unwrap();
        array.write((0..2, 0..2), &[1u8; 4]).unwrap();
    }
    let places = || {
        (Location::root(Arc::new(FileStore::new(&a))), Location::root(Arc::new(FileStore::new(&b))))
    };
    let (in_a, in_b) = places();
    assert!(compared(&in_a, &in_b).0.is_equal());
    // Leads nowhere: it reads as if the chunk had never been written.
    std::os::unix::fs::symlink(folder.path().join("gone"), b.join("c/0/1")).unwrap();
    let refused = compared_with(&in_a, &in_b, &CompareOptions::new());
    assert!(matches!(refused, Err(Error::Compare(CompareError::LeftOut { .. }))), "{refused:?}");
    let refused = compare_objects(&engine(), &in_b, &in_a, &mut |_| ());
    assert!(matches!(refused, Err(Error::Compare(CompareError::LeftOut { .. }))), "{refused:?}");
    // A link to a file is the file.
    std::fs::remove_file(b.join("c/0/1")).unwrap();
    std::fs::rename(b.join("c/0/0"), folder.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), b.join("c/0/0")).unwrap();
    assert!(compared(&in_a, &in_b).0.is_equal());
    assert!(compare_objects(&engine(), &in_a, &in_b, &mut |_| ()).unwrap().is_equal());
}

#[test]
fn a_sparse_grid_is_compared_by_what_is_stored() {
    let place = |chunk: u64| {
        let shape = [34_240, 34_240, 34_240];
        let (place, array) =
            made(&document(&shape, &[chunk; 3], "uint8".into(), 0.into(), json!([bytes()])));
        array.write((8_000..8_004, 16_000, 24_000), &[1u8, 2, 3, 4]).unwrap();
        (place, array)
    };
    let begun = std::time::Instant::now();
    let ((a, _), (b, other)) = (place(80), place(64));
    let (summary, _) = compared(&a, &b);
    assert!(summary.is_equal());
    assert_eq!(summary.elements, 34_240u64.pow(3));
    other.write((34_239, 5, 6), &[1u8]).unwrap();
    let (_, found) = compared(&a, &b);
    assert_eq!((elements(&found).count, &elements(&found).a.at[..]), (1, &[34_239, 5, 6][..]));
    assert!(!elements(&found).a.stored && elements(&found).b.stored);
    // Nothing is stored, and all of it differs but what is.
    let shape = [34_240; 3];
    let (c, _) = made(&document(&shape, &[80; 3], "uint8".into(), 1.into(), json!([bytes()])));
    let options = CompareOptions::new().data_only(true);
    let (_, found) = compared_with(&a, &c, &options).unwrap();
    assert_eq!(elements(&found).count, 34_240u64.pow(3) - 1);
    assert_eq!(elements(&found).a.at, [0, 0, 0]);
    assert!(begun.elapsed().as_secs() < 20, "it walks the grid: {:?}", begun.elapsed());
}

#[test]
fn chunks_larger_than_the_memory_are_compared_all_the_same() {
    let engine = Engine::new(&EngineOptions::new().threads(2).memory(1 << 20)).unwrap();
    let (a, first) = made(&document(
        &[200, 100, 100],
        &[200, 100, 100],
        "uint16".into(),
        0.into(),
        json!([bytes()]),
    ));
    let (b, second) = made(&document(
        &[200, 100, 100],
        &[7, 100, 100],
        "uint16".into(),
        0.into(),
        json!([bytes()]),
    ));
    let elements: Vec<u16> = (0..2_000_000u32).map(|i| i as u16).collect();
    for array in [&first, &second] {
        array.write(.., &elements[..]).unwrap();
    }
    second.write((199, 99, 99), &[0u16]).unwrap();
    let mut found = Vec::new();
    compare(&engine, &a, &b, &CompareOptions::new(), &mut |one| found.push(one)).unwrap();
    assert_eq!(
        (self::elements(&found).count, &self::elements(&found).a.at[..]),
        (1, &[199, 99, 99][..])
    );
}

#[test]
fn a_comparison_reports_progress_and_can_be_stopped() {
    let (a, first) = made(&packed(&[64, 64], &[4, 4], 0, bytes()));
    first.write(.., &noise(4096, 1)[..]).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let context = JobContext::new(&engine()).progress(move |now| {
        assert!(now.done <= now.total);
        count.fetch_max(now.done, Ordering::Relaxed);
    });
    assert!(compare(&context, &a, &a, &CompareOptions::new(), &mut |_| ()).unwrap().is_equal());
    assert!(seen.load(Ordering::Relaxed) > 0);
    let token = CancelToken::new();
    let context = JobContext::new(&engine()).cancel(&token);
    token.cancel();
    let stopped = compare(&context, &a, &a, &CompareOptions::new(), &mut |_| ());
    assert!(matches!(stopped, Err(Error::Cancelled)));
}

#[test]
fn arrays_in_a_far_store_are_compared_with_those_in_a_near_one() {
    let far = Location::root(OddStore::new());
    let (near, first) = made(&packed(&[16, 16], &[4, 4], 2, bytes()));
    let second = ArrayNode::create(&engine(), &far, first.metadata().clone()).unwrap();
    let third = Location::root(OddStore::new());
    let plain = packed(&[16, 16], &[4, 4], 0, bytes());
    let unsharded = ArrayNode::create(&engine(), &third, metadata(&plain)).unwrap();
    for array in [&first, &second, &unsharded] {
        // Some chunks are not stored.
        array.write((0..9, ..), &noise(144, 1)[..]).unwrap();
    }
    for (a, b) in [(&near, &far), (&far, &near), (&far, &third), (&third, &near), (&third, &third)]
    {
        let (summary, found) = compared(a, b);
        assert!(summary.is_equal(), "{found:#?}");
    }
    unsharded.write((15, 15), &[1u8]).unwrap();
    for (a, b) in [(&near, &third), (&far, &third), (&third, &far)] {
        assert_eq!(elements(&compared(a, b).1).a.at, [15, 15]);
    }
}

fn objects(a: &Location, b: &Location) -> Vec<ObjectDifference> {
    let mut found = Vec::new();
    let summary = compare_objects(&engine(), a, b, &mut |one| found.push(one)).unwrap();
    assert_eq!(summary.differences, found.len() as u64);
    found
}

#[test]
fn objects_are_compared_byte_for_byte() {
    let scene = || {
        let place = Location::memory();
        group(&place, "", json!({}));
        array_in(&place, "g/a", 1);
        place
    };
    let (a, b) = (scene(), scene());
    assert!(objects(&a, &b).is_empty());
    assert!(objects(&a.join("g").unwrap(), &b.join("g").unwrap()).is_empty());
    put(&a, "large", vec![7; 1 << 20]);
    let mut other = vec![7; 1 << 20];
    other[(1 << 20) - 2] = 8;
    put(&b, "large", other);
    put(&a, "longer", [1, 2, 3]);
    put(&b, "longer", [1, 2, 3, 4]);
    put(&a, "x/only", [1]);
    put(&b, "y", [1, 2]);
    let found: Vec<Value> = objects(&a, &b).iter().map(ObjectDifference::to_json).collect();
    let expected = [
        json!({"kind": "only-in-b", "object": "y", "length": 2}),
        json!({"kind": "bytes", "object": "large", "first": (1 << 20) - 2,
               "length_a": 1 << 20, "length_b": 1 << 20}),
        json!({"kind": "bytes", "object": "longer", "first": 3, "length_a": 3, "length_b": 4}),
        json!({"kind": "only-in-a", "object": "x/only", "length": 1}),
    ];
    assert_eq!(found, expected);
    let nothing = compare_objects(&engine(), &a, &Location::memory(), &mut |_| ());
    assert!(matches!(nothing, Err(Error::Compare(CompareError::Nothing { .. }))), "{nothing:?}");
    // Two objects, and an object against a folder.
    let (large, y) = (a.join("large").unwrap(), b.join("y").unwrap());
    assert_eq!(objects(&large, &y).len(), 1);
    assert!(objects(&large, &large).is_empty());
    assert!(matches!(objects(&a, &y)[..], [ObjectDifference::OnlyIn { side: CompareSide::B, .. }]));
}
