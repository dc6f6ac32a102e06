use serde_json::{Value, json};
use shardine::jobs::{ConvertOptions, RepackCheck, VolumeForm, ZarrForm};
use shardine::{ArrayNode, CodecChoice, Location, Packing};

use crate::common::data_set::dump;
use crate::common::*;
use crate::convert::scene::*;

/// How many chunks of a grid are whole, and how many are cut off.
fn whole_and_cut(size: [u64; 3], chunk: [u64; 3]) -> (u64, u64) {
    // No chunk is longer than the volume.
    let chunk: Vec<u64> = (0..3).map(|axis| chunk[axis].min(size[axis])).collect();
    let whole: u64 = (0..3).map(|axis| size[axis] / chunk[axis]).product();
    let all: u64 = (0..3).map(|axis| size[axis].div_ceil(chunk[axis])).product();
    (whole, all - whole)
}

fn shardings() -> Vec<Value> {
    vec![
        Value::Null,
        uint64([1, 1, 7], "identity", "raw"),
        uint64([0, 2, 4], "identity", "gzip"),
        uint64([9, 0, 0], "identity", "gzip"),
        uint64([0, 1, 2], "murmurhash3_x86_128", "gzip"),
        // More chunks than bits: several boxes share a shard.
        uint64([0, 1, 1], "identity", "raw"),
    ]
}

#[test]
fn a_volume_comes_back_byte_for_byte() {
    let sizes = [
        ([8, 8, 8], [4, 4, 4]),
        ([9, 7, 5], [4, 4, 4]),
        ([5, 3, 2], [8, 2, 2]),
        ([1, 1, 1], [4, 4, 4]),
        ([17, 1, 6], [3, 1, 6]),
    ];
    for (size, chunk) in sizes {
        for sharding in shardings() {
            for (data_type, channels) in [("uint8", 1), ("uint16", 3), ("float32", 1)] {
                let (old, group, back) = (memory(), memory(), memory());
                let coarse: [u64; 3] = size.map(|n: u64| n.div_ceil(2));
                let scales = [
                    scale("8_8_40", size, chunk, sharding.clone()),
                    scale("16_16_40", coarse, chunk, sharding.clone()),
                ];
                let what = format!("{size:?} {chunk:?} {sharding} {data_type} {channels}");
                volume(&old, info(data_type, channels, &scales), "");
                let options = ConvertOptions::new().check(RepackCheck::Elements);
                let (told, _) = to_zarr(&old, &group, &ZarrForm::new(), &options).unwrap();
                assert_eq!(told.len(), 2);
                for (level, size) in [size, coarse].into_iter().enumerate() {
                    let counts = (told[level].chunks_moved, told[level].chunks_recoded);
                    assert_eq!(counts, whole_and_cut(size, chunk), "{what}");
                    assert_eq!(told[level].chunks_absent, 0, "{what}");
                    assert_eq!(elements(&group, &told[level].target), voxels(&old, level));
                }
                let (told, summary) =
                    to_volume(&group, &back, &VolumeForm::new(), &options).unwrap();
                assert!(summary.info_kept, "{what} {summary:?}");
                for (level, size) in [size, coarse].into_iter().enumerate() {
                    let counts = (told[level].chunks_moved, told[level].chunks_recoded);
                    assert_eq!(counts, whole_and_cut(size, chunk), "{what}");
                }
                // The document is rewritten, with all members in order; everything else is the same
                // bytes.
                assert_eq!(dump(&*back.store), dump(&*old.store), "{what}");
            }
        }
    }
}

#[test]
fn what_is_not_stored_stays_so() {
    let (old, group, back) = (memory(), memory(), memory());
    let scales = [scale("a/b", [20, 20, 20], [4, 4, 4], uint64([2, 1, 6], "identity", "gzip"))];
    volume(&old, info("uint32", 1, &scales), "3:9,0:4,19");
    let (told, _) = to_zarr(&old, &group, &ZarrForm::new(), &ConvertOptions::new()).unwrap();
    assert_eq!((told[0].chunks_moved, told[0].chunks_absent), (3, 122));
    assert_eq!(told[0].target, "a_b");
    to_volume(&group, &back, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
    assert_eq!(dump(&*back.store), dump(&*old.store));
}

#[test]
fn shards_are_the_same_boxes_unless_others_are_asked_for() {
    let old = memory();
    let scales = [scale("s", [16, 16, 9], [4, 4, 4], uint64([2, 1, 3], "identity", "raw"))];
    volume(&old, info("uint8", 2, &scales), "");
    let shard = |packing: Packing| {
        let group = memory();
        let form = ZarrForm::new().packing(packing);
        let (told, _) = to_zarr(&old, &group, &form, &ConvertOptions::new()).unwrap();
        assert_eq!(elements(&group, "s"), voxels(&old, 0));
        assert!(told[0].chunks_moved > 0);
        (told[0].shard_shape.clone(), dump(&*group.store).len() - 2)
    };
    assert_eq!(shard(Packing::Keep), (Some(vec![8, 8, 8, 2]), 8));
    assert_eq!(shard(Packing::Unsharded), (None, 48));
    assert_eq!(shard(Packing::ChunksPerShard(vec![4])), (Some(vec![16, 16, 16, 2]), 1));
    assert_eq!(shard(Packing::ChunksPerShard(vec![1, 2, 4])), (Some(vec![4, 8, 16, 2]), 8));
    assert_eq!(shard(Packing::Shard(vec![16, 4, 12])), (Some(vec![16, 4, 12, 2]), 4));
    assert_eq!(shard(Packing::Shard(vec![8, 8, 8, 2])), (Some(vec![8, 8, 8, 2]), 8));
    // About 100 bytes per chunk with its entry, as a third of them is cut off.
    assert_eq!(shard(Packing::TargetSize(600)), (Some(vec![4, 8, 12, 2]), 8));
}

#[test]
fn other_chunks_and_codecs_are_encoded_anew() {
    let old = memory();
    let scales = [scale("s", [19, 10, 9], [4, 4, 4], uint64([2, 1, 5], "identity", "gzip"))];
    volume(&old, info("uint16", 2, &scales), "");
    let zstd = || CodecChoice::Codecs(codecs(json!([bytes(), zstd()])));
    let by_gzip = || {
        let gzip = json!({"name": "gzip", "configuration": {"level": 1}});
        let transpose = json!({"name": "transpose", "configuration": {"order": [3, 2, 1, 0]}});
        CodecChoice::Codecs(codecs(json!([transpose, bytes(), gzip])))
    };
    let plain = ConvertOptions::new;
    let keep = ZarrForm::new;
    for (form, options, moved) in [
        (keep().codecs(zstd()), plain(), 0),
        // The gzip level does not matter for decoding.
        (keep().codecs(by_gzip()), plain(), 16),
        (keep(), plain().chunk(&[5, 4, 3]), 0),
        (keep(), plain().chunk(&[2, 2, 2, 1]), 0),
        (keep().packing(Packing::ChunksPerShard(vec![2])), plain().chunk(&[32, 32, 32]), 0),
    ] {
        let (group, back) = (memory(), memory());
        let options = options.check(RepackCheck::Elements);
        let (told, _) = to_zarr(&old, &group, &form, &options).unwrap();
        assert_eq!(told[0].chunks_moved, moved, "{form:?} {options:?}");
        assert_eq!(elements(&group, "s"), voxels(&old, 0), "{form:?} {options:?}");
        to_volume(&group, &back, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
        assert_eq!(dump(&*back.store), dump(&*old.store), "{form:?} {options:?}");
    }
}

fn codecs(json: Value) -> Vec<shardine::CodecSpec> {
    shardine::zarr::metadata::codec_specs_from_json(&json).unwrap()
}

#[test]
fn arrays_say_what_a_reader_of_zarr_needs() {
    let (old, group) = (memory(), memory());
    let scales = [scale("8_8_40", [5, 6, 7], [4, 4, 4], Value::Null)];
    volume(&old, info("int8", 1, &scales), "");
    to_zarr(&old, &group, &ZarrForm::new(), &ConvertOptions::new()).unwrap();
    let array = ArrayNode::open(&engine(), &group.join("8_8_40").unwrap()).unwrap();
    let document = array.metadata().to_json();
    assert_eq!(document["dimension_names"], json!(["x", "y", "z", "channel"]));
    assert_eq!(document["attributes"]["resolution"], json!([8.0, 8.5, 40.0]));
    assert_eq!(document["attributes"]["voxel_offset"], json!([-3, 0, 1000]));
    assert_eq!(document["fill_value"], json!(0));
}

#[test]
fn an_info_that_does_not_fit_any_more_is_not_written_back() {
    let make = || -> Location {
        let (old, group) = (memory(), memory());
        let scales = [
            scale("a", [8, 8, 8], [4, 4, 4], Value::Null),
            scale("b", [4, 4, 4], [4, 4, 4], Value::Null),
        ];
        volume(&old, info("uint8", 1, &scales), "");
        to_zarr(&old, &group, &ZarrForm::new(), &ConvertOptions::new()).unwrap();
        group
    };
    let why = |group: &Location, form: &VolumeForm| {
        let (_, summary) = to_volume(group, &memory(), form, &ConvertOptions::new()).unwrap();
        assert!(!summary.info_kept);
        summary.info_not_kept.unwrap()
    };
    let group = make();
    assert!(why(&group, &VolumeForm::new().resolution([1.0; 3])).contains("requested"));
    let mut array = ArrayNode::open(&engine(), &group.join("a").unwrap()).unwrap();
    array.resize(&[9, 8, 8, 1]).unwrap();
    assert!(why(&group, &VolumeForm::new()).contains("does not have the shape"));
    let group = make();
    let third = document(&[2, 2, 2], &[2, 2, 2], "uint8".into(), 0.into(), json!([bytes()]));
    let place = group.join("c").unwrap();
    ArrayNode::create(&engine(), &place, metadata(&third)).unwrap();
    assert!(why(&group, &VolumeForm::new()).contains("2 scales, not 3"));
}

#[test]
fn chunks_of_another_shape_are_written_within_the_budget() {
    // Planes of 1 MiB to cubes, and back: with 4 MiB of memory nothing unbounded is held.
    let engine = shardine::Engine::new(&shardine::EngineOptions::new().threads(2).memory(4 << 20));
    let engine = engine.unwrap();
    let (old, group) = (memory(), memory());
    let codecs = json!([bytes(), zstd()]);
    let document = document(&[16, 512, 512], &[1, 512, 512], "uint32".into(), 0.into(), codecs);
    let document = named(document, &["z", "y", "x"]);
    let array = ArrayNode::create(&engine, &old, metadata(&document)).unwrap();
    fill(&array, "", 3);
    let options = ConvertOptions::new().chunk(&[64, 64, 16]).check(RepackCheck::Elements);
    let mut told = Vec::new();
    let tell = &mut |level| told.push(level);
    let form = VolumeForm::new();
    shardine::jobs::convert_to_volume(&engine, &old, &group, &form, &options, tell).unwrap();
    assert_eq!((told[0].chunks_moved, told[0].chunks_recoded), (0, 64));
}
