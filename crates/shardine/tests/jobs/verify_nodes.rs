//! `verify` on hierarchies and folders, beside active writers, and on failing storage.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::findings::*;
use common::odd_store::OddStore;
use common::*;
use serde_json::{Value, json};
use shardine::jobs::{VerifyOptions, verify};
use shardine::store::{Condition, FaultStore, FileStore, MemoryStore, Operation, Store, StoreExt};
use shardine::zarr::change_attributes;
use shardine::zarr::metadata::GroupMetadata;
use shardine::{ArrayNode, Group, Location};

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
        let array = ArrayNode::create(&engine(), &at, metadata(&document)).unwrap();
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
    let older = json!({
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": [["x", "<i4"]], "order": "C",
        "fill_value": null, "filters": null, "compressor": null,
    });
    put("older/.zarray", older.to_string().as_bytes());
    put("lost/c/0/0", b"1");
    let mut shard = store.get(&key("inner/b/c/0/0")).unwrap().unwrap().to_vec();
    *shard.last_mut().unwrap() ^= 1;
    put("inner/b/c/0/0", &shard);
    let (summary, findings) = check_at(&root, false);
    assert_eq!((summary.arrays, summary.groups), (4, 2));
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
    // Each by itself is recognized; of an unknown one only the elements are not checked.
    let alone = |name: &str| {
        let at = root.join(name).unwrap();
        verify(&engine(), &at, &VerifyOptions::new(), &mut |_| {}).map(|summary| summary.damage)
    };
    assert_eq!(alone("broken").unwrap(), 1);
    assert_eq!((alone("newer").unwrap(), alone("older").unwrap()), (0, 0));
    assert!(alone("lost").is_err());
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
            "the consolidated metadata does not match the node \"differs\"",
            "the consolidated metadata cannot be read for the node \"refused\"",
            "the consolidated metadata does not name the node \"unnamed\"",
            "the consolidated metadata names the node \"gone\", which does not exist",
        ]
    );
}

#[test]
fn a_copy_that_spells_defaults_out_is_not_out_of_date() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let root = Location::root(store.clone());
    let mut array = sharded(&[8, 8], &[8, 8], &[4, 4]);
    let mut spelled = array.clone();
    array.as_object_mut().unwrap().remove("attributes");
    array["chunk_key_encoding"] = json!("default");
    spelled["attributes"] = json!({});
    spelled["storage_transformers"] = json!([]);
    spelled["chunk_key_encoding"] = json!({"name": "default", "configuration": {"separator": "/"}});
    let inner = json!({"zarr_format": 3, "node_type": "group"});
    let mut copied = inner.clone();
    copied["attributes"] = json!({});
    copied["consolidated_metadata"] = json!(null);
    let group = json!({
        "zarr_format": 3, "node_type": "group",
        "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {
            "a": spelled, "inner": copied,
        }},
    });
    for (at, json) in [("zarr.json", &group), ("a/zarr.json", &array), ("inner/zarr.json", &inner)]
    {
        store.put(&key(at), json.to_string().as_bytes(), Condition::None).unwrap();
    }
    assert_eq!(check_at(&root, false).1, []);
}

#[test]
fn metadata_that_deviates_is_a_notice_until_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = Location::root(Arc::new(FileStore::new(folder.path())));
    let mut document = sharded(&[8, 8], &[8, 8], &[4, 4]);
    document["fill_value"] = json!("0");
    document["shape"] = json!([8.0, 8.0]);
    document["dimension_names"] = json!(null);
    let key = key("zarr.json");
    root.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
    let (summary, findings) = check_at(&root, true);
    assert!(summary.is_ok());
    assert_eq!(kinds(&findings), ["metadata-form"; 3]);
    assert!(findings.iter().all(|finding| finding.object.as_ref() == Some(&key)));
    let array = ArrayNode::open(&engine(), &root).unwrap();
    assert_eq!(read(&array, ""), vec![0; 128]);
    change_attributes(&root, &|attributes| drop(attributes.insert("a".into(), json!(1)))).unwrap();
    assert_eq!(check_at(&root, true).1, []);
    let written: Value = serde_json::from_slice(&root.store.get(&key).unwrap().unwrap()).unwrap();
    assert_eq!((&written["fill_value"], &written["shape"]), (&json!(0), &json!([8, 8])));
}

#[test]
fn a_node_that_is_not_supported_is_not_called_missing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let root = Location::root(store.clone());
    let array = sharded(&[8, 8], &[8, 8], &[4, 4]);
    let mut strange = array.clone();
    strange["data_type"] = json!("int1024");
    let mut encoded = array.clone();
    encoded["codecs"] = json!([{"name": "of-another-day"}]);
    let mut member = array.clone();
    member["secret"] = json!({"name": "of-another-day"});
    let group = json!({
        "zarr_format": 3, "node_type": "group", "attributes": {},
        "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {
            "broken": array, "encoded": encoded, "gone": strange, "member": member,
            "strange": strange,
        }},
    });
    store.put(&key("zarr.json"), group.to_string().as_bytes(), Condition::None).unwrap();
    store.put(&key("broken/zarr.json"), b"{", Condition::None).unwrap();
    for (name, json) in [("encoded", &encoded), ("member", &member), ("strange", &strange)] {
        let at = key(&format!("{name}/zarr.json"));
        store.put(&at, json.to_string().as_bytes(), Condition::None).unwrap();
    }
    let (summary, findings) = check_at(&root, false);
    assert_eq!(summary.damage, 1);
    let told: Vec<_> = findings
        .iter()
        .map(|f| (f.object.as_ref().unwrap().as_str(), f.kind.name(), f.message.as_str()))
        .collect();
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!((told[0].0, told[0].1), ("broken/zarr.json", "metadata"));
    for (finding, object, reason) in [
        (told[1], "encoded/zarr.json", "of-another-day"),
        (told[2], "member/zarr.json", "secret"),
        (told[3], "strange/zarr.json", "int1024"),
    ] {
        assert_eq!((finding.0, finding.1), (object, "not-checked"));
        assert!(finding.2.contains(reason), "{finding:?}");
    }
    let gone = "the consolidated metadata names the node \"gone\", which does not exist";
    assert_eq!(told[4], ("zarr.json", "consolidated-metadata", gone));
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
    // An active writer holds the lock of the shard.
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let findings = check(&array, true);
    assert_eq!(kinds(&findings), ["not-checked"]);
    assert_eq!(findings[0].shard, Some(vec![0, 1]));
}

#[test]
fn an_object_that_changes_while_it_is_checked_is_checked_again() {
    let store = OddStore::new();
    let codecs = json!([sharding(&[4, 4], json!([bytes(), "crc32c"]))]);
    let document = document(&[16, 8], &[8, 8], "uint16".into(), 0.into(), codecs);
    let array = create_in(store.clone(), &document);
    write(&array, "", noise(256, 3));
    // The document, and two shards that are so small that each is read whole.
    for read in 0..3 {
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
        // A failing check ends the other thread too.
        let _stop = StopOnDrop(&stop);
        for _ in 0..50 {
            let findings = check(&array, false);
            // A version that stayed for the whole check is a version that counts.
            assert!(findings.iter().all(|f| f.object == Some(key("c/0/0"))), "{findings:?}");
            assert!(
                kinds(&findings).iter().all(|kind| ["index", "not-checked"].contains(kind)),
                "{findings:?}"
            );
        }
    });
    put(&array, "c/0/0", &sound);
    assert_eq!(check(&array, true), []);
}

/// Stops another thread, even if this one panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
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
    assert_eq!(faulty.waiting(), 0);
}
