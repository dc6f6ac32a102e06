//! `verify` finds what was damaged, names it, and says nothing about what is sound.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::Arc;

use common::findings::*;
use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::Array;
use shardine::jobs::FindingKind;
use shardine::store::{Call, CountingStore, MemoryStore};

/// Replaces entries of a shard of 16 chunks with the index at the end, and updates its checksum.
fn with_entries(array: &Array, object: &str, entries: &[(usize, u64, u64)]) {
    let mut shard = get(array, object);
    let start = shard.len() - 16 * 16 - 4;
    for &(entry, offset, len) in entries {
        let at = start + 16 * entry;
        shard[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        shard[at + 8..at + 16].copy_from_slice(&len.to_le_bytes());
    }
    let end = shard.len() - 4;
    let checksum = crc32c(&shard[start..end]);
    shard[end..].copy_from_slice(&checksum.to_le_bytes());
    put(array, object, &shard);
}

#[test]
fn what_is_sound_has_no_findings_and_costs_its_indexes() {
    for (codecs, index) in [
        (json!([bytes()]), "end"),
        (json!([bytes(), zstd()]), "start"),
        (json!([bytes(), zstd(), "crc32c"]), "end"),
        (json!([sharding(&[2, 2], json!([bytes(), zstd()]))]), "end"),
    ] {
        let nested = codecs[0]["name"] == "sharding_indexed";
        let counting = Arc::new(CountingStore::new(MemoryStore::new()));
        let mut outer = sharding(&[4, 4], codecs);
        outer["configuration"]["index_location"] = index.into();
        let document = document(&[32, 31], &[16, 16], "uint16".into(), 0.into(), json!([outer]));
        let array = create_in(counting.clone(), &document);
        write(&array, "", noise(32 * 31 * 2, 3));
        let document = get(&array, "zarr.json").len() as u64;
        counting.reset();
        let (summary, findings) = check_at(array.location(), false);
        assert_eq!(findings, []);
        assert_eq!((summary.arrays, summary.objects), (1, 4));
        assert_eq!((summary.chunks, summary.chunks_decoded), (if nested { 256 } else { 64 }, 0));
        // 4 shards of 16 entries, and in each perhaps 16 inner shards of 4, which are so close
        // together that one read fetches the indexes of all.
        let (counts, outer) = (counting.counts(), document + 4 * (16 * 16 + 4));
        if nested {
            assert_eq!(counts.reads, 1 + 4 * 2);
            assert!(counts.bytes_read <= outer + summary.bytes);
        } else {
            assert_eq!((counts.reads, counts.bytes_read), (1 + 4, outer));
        }
        let changes = |call: &Call| {
            !matches!(
                call,
                Call::Open { .. } | Call::Read { .. } | Call::Check { .. } | Call::List { .. }
            )
        };
        assert!(!counting.calls().iter().any(changes));
        let (summary, findings) = check_at(array.location(), true);
        assert_eq!(findings, []);
        assert_eq!(summary.chunks_decoded, summary.chunks);
    }
}

#[test]
fn every_damaged_entry_is_named_with_its_chunk_and_bytes() {
    let array = plain();
    let len = get(&array, "c/1/0").len() as u64;
    let chunk = |entry: u64| entry * 32;
    with_entries(
        &array,
        "c/1/0",
        &[
            (1, u64::MAX, 32),
            (2, len - 10, 32),
            (3, u64::MAX - 5, 32),
            (4, chunk(4), 0),
            (5, len - 200, 32),
            (6, chunk(6), 31),
            (7, 8, 32),
        ],
    );
    let mut findings = check(&array, false);
    findings.sort_by_key(|finding| finding.chunk.clone());
    let damage: Vec<_> = findings
        .iter()
        .filter(|finding| finding.severity.name() == "damage")
        .map(|f| (f.kind.name(), f.chunk.clone().unwrap(), f.range.clone().unwrap()))
        .collect();
    assert_eq!(
        damage,
        [
            ("half-empty-entry", vec![4, 1], u64::MAX..u64::MAX),
            ("entry-out-of-bounds", vec![4, 2], len - 10..len + 22),
            ("entry-out-of-bounds", vec![4, 3], u64::MAX - 5..u64::MAX),
            ("zero-length-entry", vec![5, 0], chunk(4)..chunk(4)),
            ("entry-in-index", vec![5, 1], len - 200..len - 168),
            ("chunk-size", vec![5, 2], chunk(6)..chunk(6) + 31),
            ("overlap", vec![5, 3], 8..40),
        ]
    );
    for finding in &findings {
        assert_eq!(finding.object, Some(key("c/1/0")));
        assert_eq!(finding.shard, Some(vec![1, 0]));
    }
    let overlap = findings.iter().find(|f| f.kind == FindingKind::Overlap).unwrap();
    assert!(overlap.message.contains("overlaps [4, 0], which is at bytes 0..32"), "{overlap:?}");
}

#[test]
fn entries_of_the_same_bytes_are_a_notice_and_so_are_gaps() {
    let array = plain();
    with_entries(&array, "c/0/1", &[(3, 32, 32)]);
    let findings = check(&array, true);
    assert_eq!(kinds(&findings), ["shared-bytes", "gap"]);
    assert_eq!(findings[0].chunk, Some(vec![0, 7]));
    assert!(findings[0].message.contains("[0, 5]"), "{}", findings[0].message);
    assert!(findings[1].message.starts_with("32 of 772 bytes (4.1 %)"), "{}", findings[1].message);
}

#[test]
fn damage_inside_a_chunk_is_found_by_decoding_only() {
    for codecs in [json!([bytes(), "crc32c"]), json!([bytes(), zstd()])] {
        let array = written(codecs, "start");
        let mut shard = get(&array, "c/0/0");
        let head = 16 * 16 + 4;
        shard[head] ^= 1;
        put(&array, "c/0/0", &shard);
        assert_eq!(check(&array, false), []);
        let findings = check(&array, true);
        assert_eq!(kinds(&findings), ["chunk"]);
        assert_eq!(findings[0].chunk, Some(vec![0, 0]));
        assert_eq!(findings[0].range.clone().unwrap().start, head as u64);
    }
}

#[test]
fn an_object_without_an_index_is_told_by_what_is_left_of_it() {
    let array = plain();
    let shard = get(&array, "c/0/0");
    for (len, kind) in [(0, "empty-object"), (100, "truncated"), (shard.len() - 1, "index")] {
        put(&array, "c/0/0", &shard[..len]);
        let findings = check(&array, false);
        assert_eq!(kinds(&findings), [kind]);
        assert_eq!((&findings[0].shard, &findings[0].chunk), (&Some(vec![0, 0]), &None));
        assert!(findings[0].hint().is_some());
    }
}

#[test]
fn a_damaged_inner_shard_does_not_hide_its_neighbours() {
    let array = written(json!([sharding(&[2, 2], json!([bytes(), "crc32c"]))]), "start");
    let mut shard = get(&array, "c/0/0");
    let inner = 4 * (8 + 4) + 4 * 16 + 4;
    let head = 16 * 16 + 4;
    // The index of the first inner shard, and a chunk of the second, which lies behind it.
    shard[head + inner - 1] ^= 1;
    shard[head + inner + 2] ^= 1;
    put(&array, "c/0/0", &shard);
    let findings = check(&array, true);
    assert_eq!(kinds(&findings), ["index", "chunk"]);
    assert!(findings[0].message.starts_with("inner shard [0, 0]: "), "{}", findings[0].message);
    assert_eq!(findings[0].chunk, None);
    let index = head + inner - 68..head + inner;
    assert_eq!(findings[0].range, Some(index.start as u64..index.end as u64));
    assert_eq!(findings[1].chunk, Some(vec![0, 2]));
}

#[test]
fn a_shard_behind_another_codec_is_checked_when_it_is_decoded() {
    let inner = sharding(&[4, 4], json!([bytes(), "crc32c"]));
    for codecs in [json!([inner, zstd()]), json!([inner, "crc32c"])] {
        let document = document(&[16, 16], &[16, 16], "uint16".into(), 0.into(), codecs);
        let array = create(&document);
        write(&array, "", noise(512, 3));
        assert_eq!(check(&array, true), []);
        let mut object = get(&array, "c/0/0");
        object[1] ^= 0xFF;
        put(&array, "c/0/0", &object);
        assert_eq!(check(&array, false), []);
        let findings = check(&array, true);
        assert_eq!(kinds(&findings), ["chunk"]);
        assert_eq!(findings[0].range, Some(0..object.len() as u64));
        assert_eq!(findings[0].shard, Some(vec![0, 0]));
    }
}

#[test]
fn chunks_past_the_edge_belong_to_a_shard_whose_codecs_need_all_elements() {
    let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "<u2"}});
    let codecs = json!([delta, sharding(&[4], json!([bytes()]))]);
    let document = document(&[10], &[16], "uint16".into(), 0.into(), codecs);
    let array = create(&document);
    write(&array, "", noise(20, 3));
    assert_eq!(check(&array, true), []);
}

#[test]
fn what_lies_outside_a_shrunk_array_is_a_notice() {
    let array = plain();
    let mut document: Value = serde_json::from_slice(&get(&array, "zarr.json")).unwrap();
    document["shape"] = json!([16, 9]);
    put(&array, "zarr.json", document.to_string().as_bytes());
    let (summary, findings) = check_at(array.location(), true);
    assert!(summary.is_ok());
    let outside = ["object-outside-array"; 3];
    assert_eq!(kinds(&findings), [&outside[..], &["entry-outside-array"; 4]].concat());
    assert_eq!(findings[0].shard, Some(vec![0, 1]));
    assert_eq!(findings[3].chunk, Some(vec![0, 3]));
    assert_eq!(summary.chunks, 12);
}

#[test]
fn chunks_without_shards_are_checked_too() {
    let document = document(&[8, 8], &[4, 4], "uint8".into(), 0.into(), json!([bytes(), "crc32c"]));
    let array = create(&document);
    write(&array, "", noise(64, 3));
    assert_eq!(check(&array, true), []);
    let mut object = get(&array, "c/0/1");
    object[3] ^= 1;
    put(&array, "c/0/1", &object);
    put(&array, "c/1/1", &object[1..]);
    let findings = check(&array, true);
    assert_eq!(kinds(&findings), ["chunk", "chunk-size"]);
    assert_eq!(findings[0].chunk, Some(vec![0, 1]));
    assert_eq!((&findings[1].chunk, &findings[1].shard), (&Some(vec![1, 1]), &None));
    assert_eq!(kinds(&check(&array, false)), ["chunk-size"]);
}

#[test]
fn an_array_without_axes_is_checked() {
    let array = create(&document(&[], &[], "uint16".into(), 0.into(), json!([bytes()])));
    write(&array, "", vec![1, 2]);
    assert_eq!(check(&array, true), []);
    put(&array, "c", &[1]);
    assert_eq!(kinds(&check(&array, false)), ["chunk-size"]);
}

#[test]
fn many_findings_of_one_object_are_all_told_once() {
    let document = document(
        &[64, 64],
        &[64, 64],
        "uint8".into(),
        0.into(),
        json!([sharding(&[1, 1], json!([bytes()]))]),
    );
    let array = create(&document);
    let entries: Vec<u8> =
        (0..4096u64).flat_map(|i| [(1 << 40) + i, 1]).flat_map(u64::to_le_bytes).collect();
    let checksum = crc32c(&entries);
    put(&array, "c/0/0", &[entries, checksum.to_le_bytes().to_vec()].concat());
    let findings = check(&array, false);
    assert_eq!(kinds(&findings), ["entry-out-of-bounds"; 4096]);
    assert_eq!(findings[4095].chunk, Some(vec![63, 63]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_checked_without_a_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in 0usize..40,
        nested in any::<bool>(),
    ) {
        let inner = if nested {
            json!([{"name": "sharding_indexed", "configuration": {
                "chunk_shape": [2, 2], "codecs": [bytes(), zstd()], "index_codecs": [bytes()],
            }}])
        } else {
            json!([bytes(), zstd()])
        };
        let codecs = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [4, 4], "codecs": inner, "index_codecs": [bytes()],
        }}]);
        let array = create(&document(&[7, 8], &[8, 8], "uint16".into(), 0.into(), codecs));
        write(&array, "", noise(112, 3));
        let mut shard = get(&array, "c/0/0");
        for (at, byte) in damage {
            let at = at.index(shard.len());
            shard[at] = byte;
        }
        shard.truncate(shard.len() - cut);
        put(&array, "c/0/0", &shard);
        let (summary, _) = check_at(array.location(), true);
        let sound = reopen(&array).read_elements("").is_ok();
        // Whatever cannot be read is damage; what can be read may still be damaged (overlapping
        // entries).
        prop_assert!(sound || !summary.is_ok());
    }
}
