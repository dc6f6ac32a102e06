//! `verify` finds what was damaged, names it, and says nothing about what is sound.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::odd_store::OddStore;
use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::store::{
    Call, Condition, CountingStore, FaultStore, FileStore, Key, MemoryStore, Operation, Store,
    StoreExt,
};
use shardine::zarr::metadata::GroupMetadata;
use shardine::{
    Array, Finding, FindingKind, Group, Location, VerifyOptions, VerifySummary, verify,
};

fn check_at(location: &Location, decode: bool) -> (VerifySummary, Vec<Finding>) {
    let mut findings = Vec::new();
    let options = VerifyOptions::new().decode(decode);
    let summary =
        verify(&engine(), location, &options, &mut |finding| findings.push(finding)).unwrap();
    let damage = findings.iter().filter(|f| f.severity.name() == "damage").count();
    assert_eq!(summary.damage as usize, damage);
    assert_eq!(summary.notices as usize, findings.len() - damage);
    (summary, findings)
}

fn check(array: &Array, decode: bool) -> Vec<Finding> {
    check_at(array.location(), decode).1
}

fn kinds(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.kind.name()).collect()
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// 2 x 2 shards of 4 x 4 chunks; `uint16`, so that a chunk has 32 bytes.
fn written(codecs: Value, index: &str) -> Array {
    let mut sharding = sharding(&[4, 4], codecs);
    sharding["configuration"]["index_location"] = index.into();
    let document = document(&[32, 32], &[16, 16], "uint16".into(), 0.into(), json!([sharding]));
    let array = create(&document);
    write(&array, "", noise(2048, 3));
    array
}

fn plain() -> Array {
    written(json!([bytes()]), "end")
}

fn get(array: &Array, object: &str) -> Vec<u8> {
    array.location().store.get(&key(object)).unwrap().unwrap().to_vec()
}

fn put(array: &Array, object: &str, bytes: &[u8]) {
    array.location().store.put(&key(object), bytes, Condition::None).unwrap();
}

/// Replaces entries of a shard of 16 chunks with the index at the end, and its checksum.
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

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
    let byte = |crc: u32, &b: &u8| (0..8).fold(crc ^ u32::from(b), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
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
        // 4 shards of 16 entries, and in each perhaps 16 inner shards of 4.
        let inner = if nested { 4 * 16 * (4 * 16 + 4) } else { 0 };
        assert_eq!(counting.counts().bytes_read, document + 4 * (16 * 16 + 4) + inner);
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
    assert!(overlap.message.contains("overlaps [4, 0], which has the bytes 0..32"), "{overlap:?}");
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
fn one_bad_node_does_not_keep_the_others_from_being_checked() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let root = Location::root(store.clone());
    let group = |path: &str| {
        let at = if path.is_empty() { root.clone() } else { root.join(path).unwrap() };
        Group::create(&engine(), &at, GroupMetadata::new(Default::default())).unwrap();
    };
    group("");
    group("inner");
    let document = sharded(&[8, 8], &[8, 8], &[4, 4]);
    for name in ["a", "inner/b"] {
        let at = root.join(name).unwrap();
        let array = Array::create(&engine(), &at, metadata(&document), false).unwrap();
        write(&array, "", noise(128, 1));
    }
    assert_eq!(check_at(&root, true).1, []);
    let put = |at: &str, text: &[u8]| {
        store.put(&key(at), text, Condition::None).unwrap();
    };
    put("broken/zarr.json", b"{");
    let mut unknown = document;
    unknown["codecs"] = json!([{"name": "of-another-day"}]);
    put("newer/zarr.json", unknown.to_string().as_bytes());
    put("older/.zarray", b"{}");
    put("lost/c/0/0", b"1");
    let mut shard = store.get(&key("inner/b/c/0/0")).unwrap().unwrap().to_vec();
    *shard.last_mut().unwrap() ^= 1;
    put("inner/b/c/0/0", &shard);
    let (summary, findings) = check_at(&root, false);
    assert_eq!((summary.arrays, summary.groups), (2, 2));
    let told: Vec<_> =
        findings.iter().map(|f| (f.kind.name(), f.object.as_ref().unwrap().as_str())).collect();
    assert_eq!(
        told,
        [
            ("metadata", "broken/zarr.json"),
            ("index", "inner/b/c/0/0"),
            ("no-metadata", "lost"),
            ("not-checked", "newer/zarr.json"),
            ("not-checked", "older/.zarray"),
        ]
    );
    // By itself each is what it is; what is not known here leaves nothing to check.
    let alone = |name: &str| {
        let at = root.join(name).unwrap();
        verify(&engine(), &at, &VerifyOptions::new(), &mut |_| {}).map(|summary| summary.damage)
    };
    assert_eq!(alone("broken").unwrap(), 1);
    assert!(alone("newer").is_err() && alone("older").is_err() && alone("lost").is_err());
}

#[test]
fn consolidated_metadata_is_compared_with_the_nodes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let root = Location::root(store.clone());
    let array = sharded(&[8, 8], &[8, 8], &[4, 4]);
    let mut other = array.clone();
    other["shape"] = json!([9, 9]);
    let group = json!({
        "zarr_format": 3, "node_type": "group", "attributes": {},
        "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {
            "same": array, "differs": other, "gone": array, "refused": {"zarr_format": 3},
        }},
    });
    let put = |at: &str, json: &Value| {
        store.put(&key(at), json.to_string().as_bytes(), Condition::None).unwrap();
    };
    put("zarr.json", &group);
    for name in ["same", "differs", "refused", "unnamed"] {
        put(&format!("{name}/zarr.json"), &array);
    }
    let (summary, findings) = check_at(&root, false);
    assert!(summary.is_ok());
    let messages: Vec<&str> = findings.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the consolidated metadata is not that of the node \"differs\"",
            "the consolidated metadata cannot be read where it describes the node \"refused\"",
            "the consolidated metadata does not name the node \"unnamed\"",
            "the consolidated metadata names the node \"gone\", which is not there",
        ]
    );
}

/// A sharded array in files.
fn in_files(folder: &Path) -> Array {
    let document = document(
        &[32, 32],
        &[16, 16],
        "uint16".into(),
        0.into(),
        json!([sharding(&[4, 4], json!([bytes()]))]),
    );
    let array = create_in(Arc::new(FileStore::new(folder)), &document);
    write(&array, "", noise(2048, 3));
    array
}

#[test]
fn names_that_do_not_belong_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let array = in_files(folder.path());
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("notes"), "x").unwrap();
    std::fs::write(at("c/00"), "x").unwrap();
    std::fs::create_dir(at("backup")).unwrap();
    std::fs::create_dir_all(at("c/9/9")).unwrap();
    std::fs::remove_file(at("c/0/0")).unwrap();
    std::fs::create_dir(at("c/0/0")).unwrap();
    std::fs::remove_dir_all(at("c/1")).unwrap();
    std::fs::write(at("c/1"), "x").unwrap();
    std::fs::write(at("c/0/.shardine-1-1-1.tmp"), "x").unwrap();
    std::fs::write(at(".zattrs"), "{}").unwrap();
    let mut told: Vec<(&str, String)> = check(&array, false)
        .iter()
        .map(|f| (f.kind.name(), f.object.as_ref().unwrap().to_string()))
        .collect();
    told.sort();
    let expected = [
        ("blocked-key", "c/0/0"),
        ("blocked-key", "c/1"),
        ("leftover-temporary", "c/0/.shardine-1-1-1.tmp"),
        ("stray-object", "backup"),
        ("stray-object", "c/00"),
        ("stray-object", "c/9/9"),
        ("stray-object", "notes"),
    ];
    assert_eq!(told, expected.map(|(kind, name)| (kind, name.to_owned())));
}

#[test]
fn files_of_a_writer_at_work_are_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let array = in_files(folder.path());
    let writer = array.location().store.create(&key("c/0/0"), Default::default()).unwrap();
    writer.append(b"not yet").unwrap();
    assert_eq!(check(&array, true), []);
}

#[test]
fn an_interrupted_change_in_place_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let array = in_files(folder.path());
    let path = folder.path().join("c/0/1");
    let mut shard = std::fs::read(&path).unwrap();
    *shard.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &shard).unwrap();
    assert_eq!(kinds(&check(&array, true)), ["index"]);
    let journal = folder.path().join("c/0/.shardine-1.journal");
    std::fs::write(&journal, "journal").unwrap();
    let findings = check(&array, true);
    assert_eq!(kinds(&findings), ["leftover-journal"]);
    assert!(findings[0].hint().unwrap().contains("repair"));
    assert_eq!(std::fs::read(&path).unwrap(), shard);
    // A writer that is at work holds the lock of the shard.
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let findings = check(&array, true);
    assert_eq!(kinds(&findings), ["not-checked"]);
    assert_eq!(findings[0].shard, Some(vec![0, 1]));
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

#[test]
fn an_object_that_changes_while_it_is_checked_is_checked_again() {
    let store = OddStore::new();
    let codecs = json!([sharding(&[4, 4], json!([bytes(), "crc32c"]))]);
    let document = document(&[16, 8], &[8, 8], "uint16".into(), 0.into(), codecs);
    let array = create_in(store.clone(), &document);
    write(&array, "", noise(256, 3));
    // The document, and of two shards the index and four chunks each.
    for read in 0..11 {
        for after in [&store.garble_after, &store.change_after] {
            after.store(read, Ordering::SeqCst);
            let (summary, findings) = check_at(array.location(), true);
            assert_eq!(findings, [], "read {read}");
            assert_eq!((summary.objects, summary.chunks_decoded), (2, 8));
            assert!(after.swap(-1, Ordering::SeqCst) < 0);
        }
    }
}

#[test]
fn a_shard_that_is_being_replaced_is_judged_by_a_version_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let array = in_files(folder.path());
    let path = folder.path().join("c/0/0");
    let sound = std::fs::read(&path).unwrap();
    let broken: Vec<u8> = sound.iter().map(|b| b ^ 1).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for bytes in [&broken, &sound].into_iter().cycle() {
                put(&array, "c/0/0", bytes);
                if stop.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        for _ in 0..50 {
            let findings = check(&array, false);
            // A version that stayed for as long as the check took is a version that counts.
            assert!(findings.iter().all(|f| f.object == Some(key("c/0/0"))), "{findings:?}");
            assert!(
                kinds(&findings).iter().all(|kind| ["index", "not-checked"].contains(kind)),
                "{findings:?}"
            );
        }
        stop.store(true, Ordering::SeqCst);
    });
    put(&array, "c/0/0", &sound);
    assert_eq!(check(&array, true), []);
}

#[test]
fn storage_that_fails_is_told_and_the_rest_is_checked() {
    let array = plain();
    let memory = MemoryStore::new();
    for object in ["zarr.json", "c/0/0", "c/0/1", "c/1/0", "c/1/1"] {
        memory.put(&key(object), &get(&array, object), Condition::None).unwrap();
    }
    let faulty = Arc::new(FaultStore::new(memory));
    let location = Location::root(faulty.clone());
    // After the document, the first shard whose index is read; then the second folder of shards.
    for (operation, after, chunks) in [(Operation::Read, 1, 48), (Operation::List, 3, 32)] {
        faulty.fail(operation, after);
        let (summary, findings) = check_at(&location, false);
        assert_eq!(kinds(&findings), ["unreadable"]);
        assert_eq!(summary.chunks, chunks);
        assert_eq!(faulty.waiting(), 0);
    }
    faulty.fail(Operation::Read, 0);
    assert!(verify(&engine(), &location, &VerifyOptions::new(), &mut |_| {}).is_err());
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
        let sound = reopen(&array).read(&"".parse().unwrap()).is_ok();
        // Whatever cannot be read is damage; what can may still be (entries that overlap).
        prop_assert!(sound || !summary.is_ok());
    }
}
