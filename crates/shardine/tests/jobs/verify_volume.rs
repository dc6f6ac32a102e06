//! `verify` of precomputed volumes and of folders of values by key: all damage is named, and
//! nothing sound is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use common::volumes::*;
use common::{engine, noise};
use serde_json::json;
use shardine::Location;
use shardine::jobs::{VerifyOptions, verify};
use shardine::precomputed::{KeyValueStore, KeyValues};
use shardine::store::{CountingStore, MemoryStore, StoreExt};
use std::sync::Arc;

#[test]
fn what_is_sound_has_no_findings() {
    for size in [[64, 64, 64], [50, 33, 70], [16, 16, 16], [5, 200, 16]] {
        for sharding in shardings() {
            let at = volume(&[scale("1", size, Some(&sharding))]);
            fill(&at, 0);
            for decode in [false, true] {
                let (summary, findings) = check(&at, decode);
                assert_eq!(findings, [], "{size:?} {sharding}");
                let grid: u64 = size.iter().map(|n: &u64| n.div_ceil(16)).product();
                assert_eq!((summary.arrays, summary.chunks), (1, grid));
                assert_eq!(summary.chunks_decoded, if decode { grid } else { 0 });
            }
        }
        let at = volume(&[scale("1", size, None), scale("2", size.map(|n| n.div_ceil(2)), None)]);
        fill(&at, 0);
        fill(&at, 1);
        assert_eq!(kinds(&at, false), Vec::<&str>::new());
        assert_eq!(kinds(&at, true), Vec::<&str>::new());
    }
}

#[test]
fn a_volume_without_chunks_is_sound() {
    for sharding in shardings() {
        let at = volume(&[scale("1", [64, 64, 64], Some(&sharding))]);
        assert_eq!(kinds(&at, true), Vec::<&str>::new());
    }
}

/// One shard of one minishard with 8 raw chunks of 4096 bytes.
fn one_shard() -> Location {
    let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "raw", "raw")))]);
    fill(&at, 0);
    at
}

const CHUNK: u64 = 4096;

#[test]
fn damaged_entries_are_named_with_chunk_and_bytes() {
    let table = 16;
    let cases: [(&str, u64, u64, u64); 5] = [
        ("entry-out-of-bounds", 7, 1 << 40, CHUNK),
        ("entry-out-of-bounds", 7, u64::MAX - 5, CHUNK),
        ("entry-in-index", 7, 3, CHUNK),
        ("zero-length-entry", 7, table + 7 * CHUNK, 0),
        ("chunk-size", 7, table + 7 * CHUNK, CHUNK - 1),
    ];
    for (kind, key, start, len) in cases {
        let at = one_shard();
        with_index(&at, "1/0.shard", |entries| entries[7] = (key, start, len));
        let (_, findings) = check(&at, false);
        let found = only(&findings);
        assert_eq!((found.kind.name(), found.severity.name()), (kind, "damage"));
        assert_eq!(found.object.as_ref().unwrap().as_str(), "1/0.shard");
        assert_eq!(
            (found.shard.clone(), found.chunk.clone()),
            (Some(vec![0]), Some(vec![1, 1, 1, 0]))
        );
        assert_eq!(found.range, Some(start..start.saturating_add(len)));
        assert!(found.message.contains("key 7"), "{}", found.message);
    }
}

#[test]
fn values_that_share_bytes_are_told() {
    let at = one_shard();
    with_index(&at, "1/0.shard", |entries| entries[3].1 -= 100);
    assert_eq!(kinds(&at, false), ["overlap"]);
    let at = one_shard();
    with_index(&at, "1/0.shard", |entries| entries[3].1 = entries[2].1);
    // Its former bytes are a gap now.
    assert_eq!(kinds(&at, false), ["shared-bytes", "gap"]);
}

#[test]
fn keys_that_no_reader_finds_are_damage() {
    // Two shards of two minishards: key 1 belongs in another minishard, key 2 in another shard.
    for (key, says) in [(1, "minishard 1 of 0.shard"), (2, "minishard 0 of 1.shard")] {
        let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 1, 1, "raw", "raw")))]);
        fill(&at, 0);
        // Shard 0 has the keys 0 and 4 in its first minishard.
        with_index(&at, "1/0.shard", |entries| entries[1].0 = key);
        let (_, findings) = check(&at, false);
        let found = only(&findings);
        assert_eq!(found.kind.name(), "misplaced-key");
        assert!(found.message.contains(says), "{}", found.message);
    }
}

#[test]
fn duplicate_and_unsorted_keys_are_told() {
    let at = one_shard();
    with_index(&at, "1/0.shard", |entries| entries[5].0 = 4);
    assert_eq!(kinds(&at, false), ["duplicate-key"]);
    let at = one_shard();
    with_values(&at, "1/0.shard", |values| values.swap(2, 3));
    let (summary, findings) = check(&at, true);
    assert_eq!(only(&findings).kind.name(), "unsorted-keys");
    assert!(summary.is_ok());
}

#[test]
fn chunks_outside_the_grid_are_a_notice() {
    let at = volume(&[scale("1", [33, 16, 16], Some(&sharding(0, 0, 0, "raw", "raw")))]);
    fill(&at, 0);
    // Two-bit numbers, of which the last belongs to no chunk.
    with_index(&at, "1/0.shard", |entries| entries[2].0 = 3);
    let (summary, findings) = check(&at, true);
    assert_eq!(only(&findings).kind.name(), "entry-outside-array");
    assert!(summary.is_ok());
}

#[test]
fn a_damaged_table_or_index_is_told() {
    let at = one_shard();
    let shard = get(&at, "1/0.shard");
    put(&at, "1/0.shard", &shard[..10]);
    assert_eq!(kinds(&at, false), ["truncated"]);
    put(&at, "1/0.shard", &[]);
    assert_eq!(kinds(&at, false), ["empty-object"]);
    put(&at, "1/0.shard", &shard[..shard.len() - 1]);
    assert_eq!(kinds(&at, false), ["index"]);
    let mut other = shard.clone();
    other[8] -= 1;
    put(&at, "1/0.shard", &other);
    assert_eq!(kinds(&at, false), ["index"]);
    let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "gzip", "raw")))]);
    fill(&at, 0);
    let mut shard = get(&at, "1/0.shard");
    let last = shard.len() - 12;
    shard[last] ^= 0x10;
    put(&at, "1/0.shard", &shard);
    assert_eq!(kinds(&at, false), ["index"]);
}

#[test]
fn a_gap_is_a_notice() {
    let at = one_shard();
    let mut shard = get(&at, "1/0.shard");
    shard.extend([0; 100]);
    put(&at, "1/0.shard", &shard);
    let (summary, findings) = check(&at, false);
    assert_eq!((only(&findings).kind.name(), summary.gap_bytes), ("gap", 100));
}

#[test]
fn values_stored_otherwise_than_info_says_are_told_once() {
    for (data, said, index) in
        [("raw", "gzip", "raw"), ("gzip", "raw", "raw"), ("raw", "gzip", "gzip")]
    {
        let at = volume(&[scale("1", [40, 32, 32], Some(&sharding(1, 1, 1, index, data)))]);
        fill(&at, 0);
        edit_info(&at, |info| info["scales"][0]["sharding"]["data_encoding"] = json!(said));
        for decode in [false, true] {
            let (_, findings) = check(&at, decode);
            let found = only(&findings);
            assert_eq!(
                (found.kind.name(), found.object.as_ref().unwrap().as_str()),
                ("data-encoding", "info")
            );
            assert!(found.message.contains(&format!("are {data}")), "{}", found.message);
        }
    }
    for (index, said) in [("raw", "gzip"), ("gzip", "raw")] {
        let at = volume(&[scale("1", [40, 32, 32], Some(&sharding(1, 1, 1, index, "gzip")))]);
        fill(&at, 0);
        let member = "minishard_index_encoding";
        edit_info(&at, |info| info["scales"][0]["sharding"][member] = json!(said));
        let (_, findings) = check(&at, true);
        assert!(only(&findings).message.contains(member), "{findings:?}");
    }
}

#[test]
fn in_a_far_store_one_value_of_each_shard_tells_how_they_are_stored() {
    let counting = Arc::new(CountingStore::new(MemoryStore::new()));
    for (data, said) in [("raw", "gzip"), ("gzip", "raw")] {
        let sharding = sharding(1, 1, 2, "raw", data);
        let far = Location::root(Arc::new(CountingStore::new(MemoryStore::new())));
        let at = volume_at(&far, &[scale("1", [64, 64, 64], Some(&sharding))]);
        fill(&at, 0);
        edit_info(&at, |info| info["scales"][0]["sharding"]["data_encoding"] = json!(said));
        assert_eq!(kinds(&at, false), ["data-encoding"]);
        assert_eq!(kinds(&at, true), ["data-encoding"]);
    }
    let at = volume_at(
        &Location::root(counting.clone()),
        &[scale("1", [64, 64, 64], Some(&sharding(1, 1, 2, "raw", "gzip")))],
    );
    fill(&at, 0);
    counting.reset();
    assert_eq!(kinds(&at, false), Vec::<&str>::new());
    // The document, and for each shard the table, the indexes and a value.
    assert_eq!(counting.counts().reads, 1 + 4 * 3);
}

#[test]
fn one_value_stored_otherwise_is_told_with_its_shard() {
    let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "raw", "gzip")))]);
    fill(&at, 0);
    let raw = noise(CHUNK as usize, 3);
    with_value(&at, "1/0.shard", 4, &raw);
    for decode in [false, true] {
        let (_, findings) = check(&at, decode);
        let found = only(&findings);
        assert_eq!(
            (found.kind.name(), found.object.as_ref().unwrap().as_str()),
            ("data-encoding", "1/0.shard")
        );
        assert!(found.message.contains("1 of 8 values are raw"), "{}", found.message);
    }
    with_value(&at, "1/0.shard", 4, &raw[..50]);
    assert_eq!(kinds(&at, false), ["chunk"]);
}

#[test]
fn zlib_is_not_gzip() {
    let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "raw", "gzip")))]);
    fill(&at, 0);
    with_value(&at, "1/0.shard", 4, &zlib(&noise(CHUNK as usize, 3)));
    for decode in [false, true] {
        let (_, findings) = check(&at, decode);
        assert_eq!(only(&findings).kind.name(), "zlib");
        assert!(findings[0].message.contains("1 of 8 values"), "{}", findings[0].message);
    }
}

#[test]
fn damage_inside_a_chunk_is_found_by_decoding() {
    let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "raw", "gzip")))]);
    fill(&at, 0);
    with_values(&at, "1/0.shard", |values| values[6].2.truncate(200));
    assert_eq!(kinds(&at, false), Vec::<&str>::new());
    let (_, findings) = check(&at, true);
    assert_eq!(only(&findings).kind.name(), "chunk");
    assert_eq!(findings[0].chunk, Some(vec![0, 1, 1, 0]));
    // A chunk of another shape.
    fill(&at, 0);
    with_value(&at, "1/0.shard", 6, &gzip(&noise(100, 3)));
    assert_eq!(kinds(&at, false), Vec::<&str>::new());
    assert_eq!(kinds(&at, true), ["chunk"]);
}

#[test]
fn labels_whose_tables_lie_too_far_away_are_found_by_decoding() {
    let mut scale = scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "raw", "raw")));
    scale["encoding"] = json!("compressed_segmentation");
    scale["compressed_segmentation_block_size"] = json!([8, 8, 8]);
    let at = near();
    let info = json!({"type": "segmentation", "data_type": "uint32", "num_channels": 1, "scales": [scale]});
    put(&at, "info", info.to_string().as_bytes());
    let array = shardine::precomputed::Volume::open(&engine(), &at).unwrap().array(0).unwrap();
    let labels = shardine::Elements::Fixed(noise(32 * 32 * 32 * 4, 1));
    let all = shardine::Region::all();
    array.write_elements(&all, labels.as_ref(), &shardine::WriteOptions::new()).unwrap();
    assert_eq!(kinds(&at, true), Vec::<&str>::new());
    // The offset of the first table has 24 bits; one that needs more has overflowed into other
    // data.
    with_values(&at, "1/0.shard", |values| values[5].2[4..7].copy_from_slice(&[0xF0, 0xFF, 0xFF]));
    assert_eq!(kinds(&at, false), Vec::<&str>::new());
    let (_, findings) = check(&at, true);
    assert_eq!(only(&findings).kind.name(), "chunk");
    assert_eq!(findings[0].chunk, Some(vec![1, 0, 1, 0]));
}

#[test]
fn other_names_among_shards_are_told() {
    let sharding = sharding(0, 1, 5, "raw", "raw");
    let at = volume(&[scale("1", [64, 64, 64], Some(&sharding))]);
    fill(&at, 0);
    let shard = get(&at, "1/00.shard");
    for (name, kind) in [
        ("20.shard", "misnamed-shard"),
        ("1F.shard", "misnamed-shard"),
        ("0.shard", "misnamed-shard"),
        ("00.shard.gz", "wrapped-shard"),
        ("00.shard.br", "wrapped-shard"),
        ("00.index", "stray-object"),
        ("readme", "stray-object"),
        ("a-b.shard", "stray-object"),
    ] {
        put(&at, &format!("1/{name}"), &shard);
        let (_, findings) = check(&at, true);
        assert_eq!(
            (only(&findings).kind.name(), findings[0].object.as_ref().unwrap().as_str()),
            (kind, format!("1/{name}").as_str())
        );
        remove(&at, &format!("1/{name}"));
    }
    // As a compressed file of its own, nobody finds it.
    put(&at, "1/00.shard.gz", &gzip(&shard));
    remove(&at, "1/00.shard");
    assert_eq!(kinds(&at, true), ["wrapped-shard"]);
    remove(&at, "1/00.shard.gz");
    put(&at, "1/00.index", &shard[..32]);
    put(&at, "1/00.data", &shard[32..]);
    assert_eq!(kinds(&at, true), ["older-form"]);
}

#[test]
fn a_shard_that_lost_chunks_is_told_among_full_ones() {
    let sharding = sharding(3, 1, 2, "raw", "raw");
    let at = volume(&[scale("1", [64, 64, 64], Some(&sharding))]);
    fill(&at, 0);
    with_values(&at, "1/1.shard", |values| values.truncate(3));
    let (summary, findings) = check(&at, false);
    assert_eq!(only(&findings).kind.name(), "sparse-shard");
    assert_eq!(findings[0].object.as_ref().unwrap().as_str(), "1/1.shard");
    assert!(findings[0].message.contains("3 of 16"), "{}", findings[0].message);
    assert!(summary.is_ok());
}

#[test]
fn a_shard_that_is_missing_among_full_ones_is_told() {
    let at = volume(&[scale("1", [64, 64, 64], Some(&sharding(3, 1, 2, "raw", "raw")))]);
    fill(&at, 0);
    remove(&at, "1/2.shard");
    let (_, findings) = check(&at, false);
    assert_eq!(only(&findings).kind.name(), "sparse-shard");
    assert_eq!(findings[0].shard, Some(vec![2]));
}

#[test]
fn a_scale_with_less_than_a_coarser_one_is_told() {
    let scales = [
        scale("1", [64, 64, 64], Some(&sharding(0, 1, 0, "raw", "gzip"))),
        scale("2", [32, 32, 32], Some(&sharding(0, 1, 0, "raw", "gzip"))),
    ];
    let at = volume(&scales);
    fill(&at, 1);
    // As if each task had replaced the single shard.
    write(&at, 0, "32:64,:,:");
    let (summary, findings) = check(&at, false);
    let found = only(&findings);
    assert_eq!(
        (found.kind.name(), found.object.as_ref().unwrap().as_str()),
        ("missing-chunks", "1")
    );
    assert!(found.message.contains("below 4 of 8 chunks"), "{}", found.message);
    assert!(summary.is_ok());
    fill(&at, 0);
    assert_eq!(kinds(&at, false), Vec::<&str>::new());
}

#[test]
fn scales_that_cost_too_much_to_compare_are_not() {
    // Below each of the 4096 chunks of the coarser scale there are the 4 million of the finer one.
    let wide = 1u64 << 22;
    let mut fine = scale("1", [wide, 4096, 1], None);
    fine["chunk_sizes"] = json!([[1, 4096, 1]]);
    let mut coarse = scale("2", [wide / 2, 4096, 1], None);
    coarse["chunk_sizes"] = json!([[wide / 2, 1, 1]]);
    coarse["resolution"] = json!([2, 1, 1]);
    let at = volume(&[fine, coarse]);
    for y in 0..4096 {
        put(&at, &format!("2/0-{}_{y}-{}_0-1", wide / 2, y + 1), b"x");
    }
    let found = kinds(&at, false);
    assert_eq!(found.len(), 4096);
    assert!(found.iter().all(|kind| *kind == "chunk-size"));
}

#[test]
fn a_box_in_an_empty_shard_is_told() {
    let at = volume(&[scale("1", [64, 64, 64], Some(&sharding(0, 1, 0, "raw", "raw")))]);
    write(&at, 0, "32:64,:,32:64");
    assert_eq!(kinds(&at, false), ["missing-chunks"]);
    // Scattered losses are unlikely to come from a job.
    let at = volume(&[scale("1", [64, 64, 64], Some(&sharding(0, 1, 0, "raw", "raw")))]);
    write(&at, 0, "0:16,0:16,0:16");
    write(&at, 0, "48:64,0:16,0:16");
    assert_eq!(kinds(&at, false), Vec::<&str>::new());
}

#[test]
fn a_name_of_no_voxels_is_not_taken_for_a_damaged_chunk() {
    let at = volume(&[scale("1", [40, 32, 32], None)]);
    fill(&at, 0);
    put(&at, "1/0-16_32-32_0-16", b"x");
    let (summary, findings) = check(&at, true);
    assert_eq!((only(&findings).kind.name(), summary.is_ok()), ("stray-object", true));
}

#[test]
fn chunks_that_are_objects_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let at = volume_at(
        &Location::parse(dir.path().to_str().unwrap()).unwrap(),
        &[scale("1", [40, 32, 32], None)],
    );
    fill(&at, 0);
    assert_eq!(kinds(&at, true), Vec::<&str>::new());
    let chunk = get(&at, "1/0-16_0-16_0-16");
    for (name, bytes, kind) in [
        ("0-16_0-16_0-17", chunk.clone(), "stray-object"),
        ("0-16_0-16_0-16", chunk[..100].to_vec(), "chunk-size"),
        ("0-16_0-16_0-16", Vec::new(), "empty-object"),
    ] {
        put(&at, &format!("1/{name}"), &bytes);
        assert_eq!(kinds(&at, false), [kind]);
        remove(&at, &format!("1/{name}"));
        put(&at, "1/0-16_0-16_0-16", &chunk);
    }
    put(&at, "1/0-16_0-16_0-16.gz", &gzip(&chunk));
    assert_eq!(kinds(&at, true), ["two-forms", "wrapped-chunks"]);
    remove(&at, "1/0-16_0-16_0-16");
    let (summary, findings) = check(&at, true);
    assert_eq!((only(&findings).kind.name(), summary.is_ok()), ("wrapped-chunks", true));
    put(&at, "1/0-16_0-16_0-16.gz", &chunk);
    assert_eq!(kinds(&at, false), ["wrapped-chunks", "chunk"]);
    assert_eq!(kinds(&at, true), ["wrapped-chunks", "chunk"]);
    remove(&at, "1/0-16_0-16_0-16.gz");
    let zstd = encoded("zstd", &chunk);
    put(&at, "1/0-16_0-16_0-16.zstd", &zstd);
    let (summary, findings) = check(&at, true);
    assert_eq!((only(&findings).kind.name(), summary.chunks_decoded), ("wrapped-chunks", 12));
    // Too short, inside and outside the compressed data, and something else.
    put(&at, "1/0-16_0-16_0-16.zstd", &encoded("zstd", &chunk[..100]));
    assert_eq!(kinds(&at, true), ["wrapped-chunks", "chunk"]);
    put(&at, "1/0-16_0-16_0-16.zstd", &zstd[..zstd.len() / 2]);
    assert_eq!(kinds(&at, true), ["wrapped-chunks", "chunk"]);
    put(&at, "1/0-16_0-16_0-16.zstd", &chunk);
    assert_eq!(kinds(&at, false), ["wrapped-chunks", "chunk"]);
}

#[test]
fn an_info_that_is_none_is_damage_and_beside_zarr_a_notice() {
    let at = one_shard();
    edit_info(&at, |info| info["data_type"] = json!("int128"));
    assert_eq!(kinds(&at, false), ["metadata"]);
    put(&at, "info", b"{");
    assert_eq!(kinds(&at, false), ["metadata"]);
    let group = json!({"zarr_format": 3, "node_type": "group"});
    let at = Location::root(Arc::new(MemoryStore::new()));
    put(&at, "zarr.json", group.to_string().as_bytes());
    put(&at, "info", b"{}");
    let (summary, findings) = check(&at, false);
    assert_eq!((only(&findings).kind.name(), summary.is_ok()), ("two-documents", true));
}

#[test]
fn chunks_of_more_voxels_than_can_be_counted_are_damage() {
    let at = volume(&[scale("1", [64, 64, 64], None)]);
    let side = 1_u64 << 22;
    edit_info(&at, |info| {
        // A chunk is no longer than the volume.
        info["scales"][0]["size"] = json!([side, side, side]);
        info["scales"][0]["chunk_sizes"] = json!([[side, side, side]]);
    });
    for decode in [false, true] {
        assert_eq!(kinds(&at, decode), ["metadata"]);
    }
}

/// A manifest of one fragment of this many bytes.
fn manifest(bytes: u32) -> Vec<u8> {
    let words = [&[0u32; 6][..], &[1], &[0; 4], &[1], &[0, 0, 0, bytes]].concat();
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn meshes(data: &str) -> (Location, KeyValueStore) {
    let at = near();
    let info = json!({
        "@type": "neuroglancer_multilod_draco", "vertex_quantization_bits": 10, "lod_scale_multiplier": 1,
        "transform": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0], "sharding": sharding(1, 1, 1, "gzip", data),
    });
    put(&at, "info", info.to_string().as_bytes());
    let store = KeyValueStore::open(&engine(), &at).unwrap();
    let values = (0..20).fold(KeyValues::new(), |values, key| {
        values.put_mesh(key, manifest(key as u32 * 10), vec![7; key as usize * 10])
    });
    store.update(&values).unwrap();
    (at, store)
}

#[test]
fn meshes_are_sound_with_their_fragments_only() {
    for data in ["raw", "gzip"] {
        let (at, _) = meshes(data);
        for decode in [false, true] {
            let (summary, findings) = check(&at, decode);
            assert_eq!((findings.as_slice(), summary.chunks), (&[][..], 20));
        }
    }
    // As if a writer unaware of fragments had moved the manifests.
    let (at, _) = meshes("raw");
    with_values(&at, "0.shard", |_| {});
    let found = kinds(&at, false);
    // Of the 12 meshes of this shard, the one with key 0 has no bytes of fragments.
    assert_eq!(found, ["mesh-fragments"; 11]);
    let (at, _) = meshes("raw");
    let first = vec![(0, 0, manifest(0)), (0, 1, manifest(0)[4..].to_vec()), (1, 2, manifest(0))];
    put(&at, "0.shard", &built(1, true, &first));
    assert_eq!(kinds(&at, false), ["mesh-manifest"]);
}

#[test]
fn skeletons_are_checked_by_their_container() {
    let at = near();
    let info =
        json!({"@type": "neuroglancer_skeletons", "sharding": sharding(0, 1, 1, "raw", "gzip")});
    put(&at, "info", info.to_string().as_bytes());
    let store = KeyValueStore::open(&engine(), &at).unwrap();
    let values = (0..20).fold(KeyValues::new(), |values, key| values.put(key, noise(100, key)));
    store.update(&values).unwrap();
    put(&at, "0-10_0-10_0-10.spatial", b"{}");
    assert_eq!(kinds(&at, true), Vec::<&str>::new());
    with_value(&at, "0.shard", 4, &noise(100, 3));
    assert_eq!(kinds(&at, true), ["data-encoding"]);
}

#[test]
fn a_volume_is_checked_without_writing_and_costs_its_indexes() {
    let counting = Arc::new(CountingStore::new(MemoryStore::new()));
    let at = volume_at(
        &Location::root(counting.clone()),
        &[scale("1", [64, 64, 64], Some(&sharding(2, 2, 2, "raw", "raw")))],
    );
    fill(&at, 0);
    counting.reset();
    verify(&engine(), &at, &VerifyOptions::new(), &mut |_| {}).unwrap();
    // The documents, and for each shard the table and all indexes together.
    let info = at.store.get(&key("info")).unwrap().unwrap().len() as u64;
    assert_eq!(counting.counts().bytes_read - info, info + 4 * (4 * 16 + 16 * 24));
}
