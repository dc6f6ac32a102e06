//! Arrays and hierarchies become Zarr version 2.

use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::jobs::{ConvertOptions, VolumeForm, ZarrForm};
use shardine::ome::OmeRelease;
use shardine::zarr::ZarrFormat;
use shardine::zarr::metadata::Separator;
use shardine::{ArrayNode, CodecChoice, Error, Group, Location, Node, Packing};

use crate::common::data_set::{dump, zarr_only};
use crate::common::findings::check_at;
use crate::common::*;
use crate::convert::ome_scene::{Scene, group, put};
use crate::convert::scene::*;

fn zarr2() -> ZarrForm {
    ZarrForm::new().zarr_format(ZarrFormat::V2)
}

fn json_of(place: &Location, name: &str) -> Value {
    serde_json::from_slice(&dump(&*place.store)[name]).unwrap()
}

/// Codecs of version 3, and the compressor of version 2; the others are filters.
fn codecs() -> Vec<(Value, Value)> {
    let configured =
        |name: &str, configuration: Value| json!({"name": name, "configuration": configuration});
    vec![
        (json!([bytes()]), Value::Null),
        (json!([bytes(), zstd()]), json!({"id": "zstd", "level": 1})),
        (
            json!([bytes(), configured("gzip", json!({"level": 4}))]),
            json!({"id": "gzip", "level": 4}),
        ),
        (
            json!([
                bytes(),
                configured(
                    "blosc",
                    json!({"cname": "zstd", "clevel": 3,
                "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0})
                )
            ]),
            json!({"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0}),
        ),
        (
            json!([
                bytes(),
                configured("numcodecs.shuffle", json!({"elementsize": 2})),
                configured("numcodecs.lz4", json!({"acceleration": 1}))
            ]),
            json!({"id": "lz4", "acceleration": 1}),
        ),
        (
            json!([configured("numcodecs.delta", json!({"dtype": "<u2"})), bytes(), zstd()]),
            json!({"id": "zstd", "level": 1}),
        ),
        (
            json!([configured("transpose", json!({"order": [1, 0]})), bytes(), zstd(), "crc32c"]),
            Value::Null,
        ),
        (
            json!([configured("bytes", json!({"endian": "big"})), zstd()]),
            json!({"id": "zstd", "level": 1}),
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunks_are_moved_out_of_shards_into_version_2_and_back(
        codecs in proptest::sample::select(codecs()),
        shape in proptest::array::uniform2(1u64..30),
        chunk in proptest::array::uniform2(1u64..8),
        per in proptest::option::of(2u64..4),
        region in prop_oneof![Just(""), Just("0:1,:")],
    ) {
        let (codecs, compressor) = codecs;
        let (old, new, back) = (memory(), memory(), memory());
        let (outer, inner) = match per {
            None => (chunk, codecs),
            Some(per) => (chunk.map(|n| n * per), json!([sharding(&chunk, codecs)])),
        };
        let mut document = document(&shape, &outer, "uint16".into(), 7.into(), inner);
        document["dimension_names"] = json!(["y", "x"]);
        document["attributes"] = json!({"a": [1, {"b": null}]});
        let array = ArrayNode::create(&engine(), &old, metadata(&document)).unwrap();
        fill(&array, region, 3);
        let (told, _) = to_zarr(&old, &new, &zarr2(), &ConvertOptions::new()).unwrap();
        prop_assert_eq!(told[0].chunks_recoded, 0);
        prop_assert!(told[0].chunks_moved > 0 && told[0].shard_shape.is_none());
        let zarray = json_of(&new, ".zarray");
        prop_assert_eq!(&zarray["compressor"], &compressor);
        prop_assert_eq!(&zarray["chunks"], &json!(chunk));
        prop_assert_eq!(&zarray["dimension_separator"], ".");
        let zattrs = json_of(&new, ".zattrs");
        prop_assert_eq!(&zattrs, &json!({"a": [1, {"b": null}], "_ARRAY_DIMENSIONS": ["y", "x"]}));
        let opened = ArrayNode::open(&engine(), &new).unwrap();
        prop_assert_eq!(opened.zarr_format(), ZarrFormat::V2);
        prop_assert_eq!(read(&opened, ""), read(&array, ""));
        prop_assert!(check_at(&new, true).1.is_empty());
        let (told, _) = to_zarr(&new, &back, &ZarrForm::new(), &ConvertOptions::new()).unwrap();
        prop_assert_eq!(told[0].chunks_recoded, 0);
        prop_assert_eq!(elements(&back, ""), read(&array, ""));
    }
}

#[test]
fn hierarchies_keep_everything_in_them() {
    let (old, new) = (memory(), memory());
    zarr_only(&old.store);
    put(&old, "g/notes.json", &json!("kept"));
    to_zarr(&old, &new, &zarr2(), &ConvertOptions::new()).unwrap();
    let stored = dump(&*new.store);
    assert!(!stored.keys().any(|key| key.ends_with("zarr.json") || key.contains("shardine")));
    assert_eq!(stored["g/notes.json"], b"\"kept\"");
    for name in ["g/sharded", "plain"] {
        assert_eq!(elements(&new, name), elements(&old, name));
    }
    // The source has consolidated metadata, so the target has it, too.
    let Node::Group(root) = Node::open(&engine(), &new).unwrap() else { panic!("an array") };
    let names: Vec<&str> =
        root.metadata().consolidated().unwrap().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["g", "g/sharded", "plain"]);
    assert_eq!(Group::zarr_format(&root), ZarrFormat::V2);
    assert!(check_at(&new, true).1.is_empty());
    let form = zarr2().separator(Separator::Slash);
    let slashed = memory();
    to_zarr(&old, &slashed, &form, &ConvertOptions::new()).unwrap();
    assert!(dump(&*slashed.store).contains_key("g/sharded/0/0"));
    // Version 2 keeps its own.
    let again = memory();
    to_zarr(&slashed, &again, &zarr2(), &ConvertOptions::new()).unwrap();
    assert_eq!(dump(&*again.store), dump(&*slashed.store));
}

#[test]
fn volumes_become_arrays_of_version_2_in_fortran_order() {
    let (old, new, back) = (memory(), memory(), memory());
    let scales = [scale("a", [8, 8, 6], [4, 4, 3], uint64([1, 1, 4], "identity", "gzip"))];
    volume(&old, info("uint16", 1, &scales), "");
    let (told, _) = to_zarr(&old, &new, &zarr2(), &ConvertOptions::new()).unwrap();
    assert_eq!((told[0].chunks_moved, told[0].chunks_recoded), (8, 0));
    assert_eq!(json_of(&new, "a/.zarray")["order"], "F");
    assert_eq!(elements(&new, "a"), voxels(&old, 0));
    let (_, summary) = to_volume(&new, &back, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
    assert!(summary.info_kept);
    assert_eq!(dump(&*back.store), dump(&*old.store));
}

#[test]
fn what_version_2_does_not_have_is_refused_before_anything_is_made() {
    let refused = |old: &Location, form: &ZarrForm| {
        let new = memory();
        let error = to_zarr(old, &new, form, &ConvertOptions::new()).unwrap_err();
        assert!(matches!(error, Error::Convert(_)), "{error}");
        assert!(dump(&*new.store).is_empty());
        error
    };
    let old = memory();
    let turned = json!({"name": "transpose", "configuration": {"order": [1, 2, 0]}});
    let array =
        document(&[4, 4, 4], &[2, 2, 2], "uint16".into(), 0.into(), json!([turned, bytes()]));
    ArrayNode::create(&engine(), &old, metadata(&array)).unwrap();
    let error = refused(&old, &zarr2());
    assert!(error.to_string().contains("\"transpose\" has no equivalent in Zarr v2"), "{error}");
    assert!(error.hint().is_some());
    // Other codecs are possible.
    let form = zarr2().codecs(CodecChoice::Words(vec!["zstd:3".to_owned()]));
    to_zarr(&old, &memory(), &form, &ConvertOptions::new()).unwrap();
    let error = refused(&old, &zarr2().packing(Packing::ChunksPerShard(vec![2])));
    assert!(error.to_string().contains("no shards"), "{error}");
    let old = memory();
    let array = document(&[4], &[2], "bfloat16".into(), 0.into(), json!([bytes()]));
    ArrayNode::create(&engine(), &old, metadata(&array)).unwrap();
    assert!(refused(&old, &zarr2()).to_string().contains("bfloat16"));
    // OME-Zarr of a version that is not Zarr version 2.
    let old = memory();
    Scene::new(OmeRelease::V0_5, "yx", &[4, 4], &[2, 2]).make(&old.join("a").unwrap());
    group(&old, OmeRelease::V0_5, &json!({}));
    let error = refused(&old, &zarr2());
    assert!(error.to_string().contains("OME-Zarr 0.5"), "{error}");
    let old = memory();
    Scene::new(OmeRelease::V0_4, "yx", &[4, 4], &[2, 2]).make(&old);
    let new = memory();
    to_zarr(&old, &new, &zarr2(), &ConvertOptions::new()).unwrap();
    assert_eq!(json_of(&new, ".zattrs"), json_of(&old, ".zattrs"));
}
