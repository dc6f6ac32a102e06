use serde_json::{Value, json};
use shardine::jobs::{ConvertOptions, RepackCheck, VolumeForm};
use shardine::plan::VolumePacking;
use shardine::precomputed::Volume;
use shardine::shard::uint64::{Encoding, Sharding};
use shardine::store::{Condition, Key, StoreExt};
use shardine::{Array, ArrayNode, Location};

use crate::common::data_set::dump;
use crate::common::*;
use crate::convert::scene::*;

fn gzip() -> Value {
    json!({"name": "gzip", "configuration": {"level": 1}})
}

fn transpose(order: &[u64]) -> Value {
    json!({"name": "transpose", "configuration": {"order": order}})
}

/// The elements of an array in C order of x, y, z and channel, computed without the code under
/// test.
fn turned(array: &Array, names: &[&str]) -> Vec<u8> {
    let stored = read(array, "");
    let shape = array.shape();
    let element = stored.len() / shape.iter().product::<u64>() as usize;
    let axis = |name: &str| names.iter().position(|n| *n == name);
    let axes = [axis("x"), axis("y"), axis("z"), axis("channel").or(axis("c"))];
    let len = |k: usize| axes[k].map_or(1, |k| shape[k]);
    let mut out = Vec::new();
    for x in 0..len(0) {
        for y in 0..len(1) {
            for z in 0..len(2) {
                for c in 0..len(3) {
                    let mut at = 0;
                    for (k, &len) in shape.iter().enumerate() {
                        let i = axes.iter().position(|axis| *axis == Some(k)).unwrap();
                        at = at * len + [x, y, z, c][i];
                    }
                    let at = at as usize * element;
                    out.extend_from_slice(&stored[at..at + element]);
                }
            }
        }
    }
    out
}

/// Names of axes, shape, chunk, codecs, and how many chunks are moved.
type Case = (&'static [&'static str], Vec<u64>, Vec<u64>, Value, u64);

#[test]
fn the_names_of_axes_decide_and_chunks_are_moved_where_their_bytes_are_those_of_a_volume() {
    let cases: Vec<Case> = vec![
        // The usual order of images: x is fastest, as in a volume.
        (&["z", "y", "x"], vec![6, 8, 9], vec![3, 4, 4], json!([bytes(), gzip()]), 8),
        (&["z", "y", "x"], vec![6, 8, 9], vec![3, 4, 4], json!([bytes()]), 0),
        (&["x", "y", "z"], vec![9, 8, 6], vec![4, 4, 3], json!([bytes(), gzip()]), 0),
        (
            &["x", "y", "z"],
            vec![9, 8, 6],
            vec![4, 4, 3],
            json!([transpose(&[2, 1, 0]), bytes(), gzip()]),
            8,
        ),
        (&["c", "z", "y", "x"], vec![2, 6, 8, 8], vec![2, 3, 4, 4], json!([bytes(), gzip()]), 8),
        // Channels in chunks of their own.
        (&["c", "z", "y", "x"], vec![2, 6, 8, 8], vec![1, 3, 4, 4], json!([bytes(), gzip()]), 0),
        (
            &["z", "y", "x", "channel"],
            vec![6, 8, 8, 2],
            vec![3, 4, 4, 2],
            json!([bytes(), gzip()]),
            0,
        ),
        // An axis along which chunks have one element may be anywhere.
        (&["z", "y", "x", "c"], vec![6, 8, 8, 1], vec![3, 4, 4, 1], json!([bytes(), gzip()]), 8),
        (&["y", "z", "x"], vec![8, 6, 8], vec![4, 1, 4], json!([bytes(), gzip()]), 24),
        (&["z", "y", "x"], vec![6, 8, 9], vec![3, 4, 4], json!([bytes(), gzip(), "crc32c"]), 0),
        // Shards, and nested shards, with permuted axes.
        (
            &["z", "y", "x"],
            vec![6, 8, 9],
            vec![6, 8, 8],
            json!([sharding(&[3, 4, 4], json!([bytes(), gzip()]))]),
            8,
        ),
        (
            &["x", "y", "z"],
            vec![9, 8, 6],
            vec![8, 8, 6],
            json!([transpose(&[2, 1, 0]), sharding(&[3, 4, 4], json!([bytes(), gzip()]))]),
            8,
        ),
    ];
    for (names, shape, chunk, codecs, moved) in cases {
        for data_type in ["uint8", "int16"] {
            let (old, new) = (memory(), memory());
            let document = document(&shape, &chunk, data_type.into(), 0.into(), codecs.clone());
            let document = named(document, names);
            let array = ArrayNode::create(&engine(), &old, metadata(&document)).unwrap();
            fill(&array, "", 1);
            let options = ConvertOptions::new().check(RepackCheck::Elements);
            let (told, _) = to_volume(&old, &new, &VolumeForm::new(), &options).unwrap();
            assert_eq!(told[0].chunks_moved, moved, "{document}");
            assert!(!told[0].axes_assumed);
            assert_eq!(voxels(&new, 0), turned(&array, names), "{document}");
        }
    }
}

#[test]
fn a_byte_order_is_not_taken_for_another() {
    let (old, new) = (memory(), memory());
    let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
    let document =
        document(&[4, 4, 4], &[4, 4, 4], "uint16".into(), 0.into(), json!([big, gzip()]));
    let document = named(document, &["z", "y", "x"]);
    let array = ArrayNode::create(&engine(), &old, metadata(&document)).unwrap();
    fill(&array, "", 1);
    let (told, _) = to_volume(&old, &new, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
    assert_eq!((told[0].chunks_moved, told[0].chunks_recoded), (0, 1));
    assert_eq!(voxels(&new, 0), turned(&array, &["z", "y", "x"]));
}

#[test]
fn a_fill_value_is_written_out() {
    for fill_value in [0, 7] {
        let (old, new) = (memory(), memory());
        let document =
            document(&[8, 8, 8], &[4, 4, 4], "uint8".into(), fill_value.into(), json!([bytes()]));
        let array = ArrayNode::create(&engine(), &old, metadata(&document)).unwrap();
        fill(&array, "0:4,0:4,0:4", 1);
        let form = VolumeForm::new().data_encoding(Encoding::Raw);
        let options = ConvertOptions::new().check(RepackCheck::Elements);
        let (told, _) = to_volume(&old, &new, &form, &options).unwrap();
        assert!(told[0].axes_assumed);
        let expected = if fill_value == 0 { (1, 7) } else { (8, 0) };
        assert_eq!((told[0].chunks_recoded, told[0].chunks_absent), expected);
        assert_eq!(voxels(&new, 0), turned(&array, &["x", "y", "z"]));
        // Some readers want every chunk.
        let (told, _) = to_volume(&old, &memory(), &form, &options.store_empty(true)).unwrap();
        assert_eq!((told[0].chunks_recoded, told[0].chunks_absent), (8, 0));
    }
}

#[test]
fn a_fill_value_is_written_out_beside_chunks_that_are_moved() {
    let (old, new) = (memory(), memory());
    let document = document(&[8, 8, 8], &[4, 4, 4], "uint8".into(), 7.into(), json!([bytes()]));
    let document = named(document, &["z", "y", "x"]);
    let array = ArrayNode::create(&engine(), &old, metadata(&document)).unwrap();
    fill(&array, "0:4,0:4,0:4", 1);
    let form = VolumeForm::new().data_encoding(Encoding::Raw);
    let options = ConvertOptions::new().check(RepackCheck::Elements);
    let (told, _) = to_volume(&old, &new, &form, &options).unwrap();
    assert_eq!((told[0].chunks_moved, told[0].chunks_recoded, told[0].chunks_absent), (1, 7, 0));
    assert_eq!(voxels(&new, 0), turned(&array, &["z", "y", "x"]));
}

#[test]
fn arrays_of_version_2_are_taken_with_their_chunks() {
    let (old, new) = (memory(), memory());
    let put = |name: &str, bytes: &[u8]| {
        old.store.put(&Key::new(name).unwrap(), bytes, Condition::None).unwrap();
    };
    let v2 = json!({
        "zarr_format": 2, "shape": [5, 4, 4], "chunks": [2, 4, 4], "dtype": "|u1", "fill_value": 0,
        "order": "C", "filters": null, "compressor": null,
    });
    put(".zarray", v2.to_string().as_bytes());
    put(".zattrs", json!({ "_ARRAY_DIMENSIONS": ["z", "y", "x"] }).to_string().as_bytes());
    for (i, name) in ["0.0.0", "1.0.0", "2.0.0"].iter().enumerate() {
        put(name, &noise(32, i as u64 + 1));
    }
    let form = VolumeForm::new().packing(VolumePacking::Unsharded).resolution([4.0, 4.0, 30.0]);
    let (told, _) = to_volume(&old, &new, &form, &ConvertOptions::new()).unwrap();
    assert_eq!((told[0].chunks_moved, told[0].chunks_recoded), (2, 1));
    let stored = dump(&*new.store);
    assert_eq!(stored["4_4_30/0-4_0-4_0-2"], noise(32, 1));
    assert_eq!(stored["4_4_30/0-4_0-4_2-4"], noise(32, 2));
    // The last chunk is cut off after its first plane.
    assert_eq!(stored["4_4_30/0-4_0-4_4-5"], noise(32, 3)[..16]);
    let array = ArrayNode::open(&engine(), &old).unwrap();
    assert_eq!(voxels(&new, 0), turned(&array, &["z", "y", "x"]));
}

fn pyramid(group: &Location, data_types: &[&str]) {
    let document = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    let key = Key::new("zarr.json").unwrap();
    group.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
    for (i, data_type) in data_types.iter().enumerate() {
        // The names are in the order of the coarsest first.
        let name = format!("l{}", data_types.len() - i);
        let n = 20u64.div_ceil(1 << i);
        let codecs = json!([bytes()]);
        let array = document_of(&[n, n, 7], &[4, 4, 4], data_type, codecs);
        let place = group.join(&name).unwrap();
        let array = ArrayNode::create(&engine(), &place, metadata(&array)).unwrap();
        fill(&array, "", i as u64);
    }
}

fn document_of(shape: &[u64], chunk: &[u64], data_type: &str, codecs: Value) -> Value {
    document(shape, chunk, data_type.into(), 0.into(), codecs)
}

#[test]
fn the_arrays_of_a_group_become_levels_by_their_size() {
    let (old, new) = (memory(), memory());
    pyramid(&old, &["uint32", "uint32", "uint32"]);
    let form = VolumeForm::new().resolution([4.0, 4.0, 40.0]).voxel_offset([-5, 8, 1]);
    let (told, _) = to_volume(&old, &new, &form, &ConvertOptions::new()).unwrap();
    let sources: Vec<&str> = told.iter().map(|level| level.source.as_str()).collect();
    assert_eq!(sources, ["l3", "l2", "l1"]);
    let volume = Volume::open(&engine(), &new).unwrap();
    assert_eq!(volume.info().document()["type"], "segmentation");
    let scales = volume.info().scales();
    let keys: Vec<&str> = scales.iter().map(|scale| scale.key.as_str()).collect();
    assert_eq!(keys, ["4_4_40", "8_8_40", "16_16_40"]);
    assert_eq!(scales[1].size, [10, 10, 7]);
    assert_eq!(scales[1].voxel_offset, [-3, 4, 1]);
    for (level, name) in ["l3", "l2", "l1"].iter().enumerate() {
        assert_eq!(voxels(&new, level), elements(&old, name));
        let sharding = scales[level].sharding.as_ref().unwrap();
        assert_eq!(sharding.data_encoding, Encoding::Gzip);
    }
}

#[test]
fn a_volume_is_packed_as_asked_for() {
    let old = memory();
    let document = document_of(&[16, 16, 8], &[4, 4, 4], "uint8", json!([bytes()]));
    let array = ArrayNode::create(&engine(), &old, metadata(&document)).unwrap();
    fill(&array, "", 1);
    let shards = |packing: VolumePacking| {
        let new = memory();
        let form = VolumeForm::new().packing(packing);
        let (told, _) = to_volume(&old, &new, &form, &ConvertOptions::new()).unwrap();
        assert_eq!(voxels(&new, 0), elements(&old, ""));
        (told[0].shard_shape.clone(), dump(&*new.store).len() - 1)
    };
    assert_eq!(shards(VolumePacking::Recommended), (Some(vec![16, 16, 8, 1]), 1));
    assert_eq!(shards(VolumePacking::Unsharded), (None, 32));
    assert_eq!(shards(VolumePacking::Box([8, 8, 8])), (Some(vec![8, 8, 8, 1]), 4));
    assert_eq!(shards(VolumePacking::Chunks([2, 2, 2])), (Some(vec![8, 8, 8, 1]), 4));
    assert_eq!(shards(VolumePacking::TargetSize(1000)), (Some(vec![8, 8, 8, 1]), 4));
    let sharding = Sharding::new(1, 1, 2).unwrap();
    assert_eq!(shards(VolumePacking::Sharding(sharding)), (None, 4));
}

#[test]
fn levels_that_are_not_alike_are_refused() {
    let old = memory();
    pyramid(&old, &["uint32", "uint64"]);
    let error = to_volume(&old, &memory(), &VolumeForm::new(), &ConvertOptions::new()).unwrap_err();
    assert!(error.to_string().contains("uint64"), "{error}");
}
