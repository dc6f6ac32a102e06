//! Zarr version 2 hierarchies: read as they are, and changed only by a migration.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::odd_store::OddStore;
use common::{engine, read, sharded, write};
use serde_json::{Value, json};
use shardine::jobs::{
    MigrateError, MigrateOptions, MigrateSummary, VerifyOptions, migrate, verify,
};
use shardine::store::{Condition, Key, MemoryStore, Store, StoreExt};
use shardine::zarr::CreateOptions;
use shardine::zarr::ZarrFormat;
use shardine::zarr::formats_at;
use shardine::{ArrayNode, Error, Group, Location, Node, SliceOptions, SliceWriter};

fn put(store: &dyn Store, name: &str, bytes: &[u8]) {
    store.put(&Key::new(name).unwrap(), bytes, Condition::None).unwrap();
}

fn zarray(dtype: Value) -> Value {
    json!({
        "zarr_format": 2, "shape": [4, 3], "chunks": [2, 3], "dtype": dtype, "order": "F",
        "fill_value": null, "filters": null, "compressor": null,
    })
}

/// A group with an array `a`, a group `g` and an array in that, with consolidated metadata.
fn hierarchy(store: &dyn Store) {
    let group = json!({"zarr_format": 2});
    let documents = [
        (".zgroup", group.clone()),
        (".zattrs", json!({"title": "trial"})),
        ("a/.zarray", zarray(json!(">u2"))),
        ("a/.zattrs", json!({"_ARRAY_DIMENSIONS": ["y", "x"]})),
        ("g/.zgroup", group),
        ("g/b/.zarray", zarray(json!("|u1"))),
    ];
    for (name, document) in &documents {
        put(store, name, document.to_string().as_bytes());
    }
    let all: serde_json::Map<String, Value> =
        documents.iter().map(|(name, json)| ((*name).to_owned(), json.clone())).collect();
    let consolidated = json!({"zarr_consolidated_format": 1, "metadata": all});
    put(store, ".zmetadata", consolidated.to_string().as_bytes());
    // Column by column, each number with its high byte first.
    put(store, "a/0.0", &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]);
    put(store, "g/b/1.0", &[1, 4, 2, 5, 3, 6]);
}

fn stored() -> Location {
    let store = Arc::new(MemoryStore::new());
    hierarchy(&*store);
    Location::root(store)
}

fn get(location: &Location, name: &str) -> Option<Vec<u8>> {
    location.store.get(&Key::new(name).unwrap()).unwrap().map(|bytes| bytes.to_vec())
}

fn run(location: &Location, options: &MigrateOptions) -> Result<MigrateSummary, Error> {
    migrate(&engine(), location, options, &mut |_| {})
}

/// `a` as it is in memory.
fn numbers() -> Vec<u8> {
    let rows = [1u16, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0];
    rows.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn findings(location: &Location) -> Vec<String> {
    let mut messages = Vec::new();
    let options = VerifyOptions::new().decode(true);
    verify(&engine(), location, &options, &mut |finding| messages.push(finding.message.clone()))
        .unwrap();
    messages
}

#[test]
fn an_array_is_read_and_written_and_its_documents_stay() {
    let location = stored();
    let array = ArrayNode::open(&engine(), &location.join("a").unwrap()).unwrap();
    assert_eq!(array.zarr_format(), ZarrFormat::V2);
    assert_eq!(read(&array, "..."), numbers());
    assert_eq!(array.metadata().dimension_names().unwrap()[1].as_deref(), Some("x"));
    let before = get(&location, "a/.zarray");
    write(&array, "2,0", vec![9, 0]);
    assert_eq!(get(&location, "a/1.0").unwrap(), [0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(get(&location, "a/.zarray"), before);
    assert!(findings(&location).is_empty(), "{:?}", findings(&location));
}

#[test]
fn the_nodes_of_a_group_are_listed() {
    let location = stored();
    let Node::Group(group) = Node::open(&engine(), &location).unwrap() else { panic!("an array") };
    assert_eq!(group.zarr_format(), ZarrFormat::V2);
    let names: Vec<String> =
        group.children().unwrap().into_iter().map(|child| child.name).collect();
    assert_eq!(names, ["a", "g"]);
}

#[test]
fn a_store_that_cannot_list_is_looked_at_by_consolidated_metadata() {
    let store = OddStore::new();
    hierarchy(&*store);
    store.unlistable.store(true, Ordering::SeqCst);
    let location = Location::root(store);
    let Node::Group(group) = Node::open(&engine(), &location).unwrap() else { panic!("an array") };
    let children = group.children().unwrap();
    assert_eq!(children.len(), 2);
    let Ok(Node::Group(inner)) = &children[1].node else { panic!("not a group") };
    let Ok(Node::Array(array)) = &inner.children().unwrap()[0].node else { panic!("no array") };
    assert_eq!(read(array, "2:,:"), [1, 2, 3, 4, 5, 6]);
    assert!(findings(&location).is_empty());
    let to = Location::root(Arc::new(MemoryStore::new()));
    shardine::jobs::copy(&location, &to, &shardine::jobs::CopyOptions::new()).unwrap();
    for name in [".zgroup", ".zattrs", ".zmetadata", "a/.zarray", "a/.zattrs", "a/0.0", "g/b/1.0"] {
        assert_eq!(get(&to, name), get(&location, name), "{name}");
    }
}

#[test]
fn consolidated_metadata_that_is_out_of_date_is_found() {
    let location = stored();
    put(&*location.store, "a/.zattrs", br#"{"changed": true}"#);
    let found = findings(&location);
    assert!(
        matches!(found.as_slice(), [one] if one.contains("does not match the node")),
        "{found:?}"
    );
}

#[test]
fn version_3_goes_first_and_version_2_can_be_asked_for() {
    let location = stored().join("a").unwrap();
    run(&location, &MigrateOptions::new()).unwrap();
    assert_eq!(formats_at(&location).unwrap(), [ZarrFormat::V3, ZarrFormat::V2]);
    for (asked, found) in [
        (None, ZarrFormat::V3),
        (Some(ZarrFormat::V2), ZarrFormat::V2),
        (Some(ZarrFormat::V3), ZarrFormat::V3),
    ] {
        let array = ArrayNode::open(&engine(), &location.clone().with_format(asked)).unwrap();
        assert_eq!(array.zarr_format(), found);
        assert_eq!(read(&array, "..."), numbers());
    }
}

#[test]
fn what_would_change_the_metadata_is_refused() {
    let location = stored();
    let place = location.join("a").unwrap();
    let mut array = ArrayNode::open(&engine(), &place).unwrap();
    let is_v2 = |error: Error| {
        assert!(matches!(error, Error::ZarrV2 { .. }), "{error}");
        assert!(error.hint().unwrap().contains("migrate"));
    };
    is_v2(array.resize(&[8, 3]).unwrap_err());
    is_v2(SliceWriter::new(array, 0, SliceOptions::new()).map(drop).unwrap_err());
    let new = common::metadata(&sharded(&[4], &[4], &[2]));
    let overwrite = CreateOptions::new().overwrite(true);
    let replaced = ArrayNode::create_with(&engine(), &place, new.clone(), &overwrite);
    is_v2(replaced.map(drop).unwrap_err());
    let taken = ArrayNode::create(&engine(), &place, new).map(drop).unwrap_err();
    assert!(matches!(taken, Error::Exists { .. }));
    let group = shardine::zarr::metadata::GroupMetadata::new(serde_json::Map::new());
    let taken = Group::create(&engine(), &location, group).map(drop).unwrap_err();
    assert!(matches!(taken, Error::Exists { .. }));
    assert_eq!(read(&ArrayNode::open(&engine(), &place).unwrap(), "..."), numbers());
}

#[test]
fn a_migration_writes_the_outermost_document_last_and_a_second_one_nothing() {
    let location = stored();
    let mut order = Vec::new();
    let summary = migrate(&engine(), &location, &MigrateOptions::new(), &mut |done| {
        order.push(done.object.clone());
    })
    .unwrap();
    assert_eq!(order, ["g/b/zarr.json", "a/zarr.json", "g/zarr.json", "zarr.json"]);
    assert_eq!((summary.arrays, summary.groups, summary.written, summary.ome), (2, 2, 4, 0));
    let root: Value = serde_json::from_slice(&get(&location, "zarr.json").unwrap()).unwrap();
    let known = root["consolidated_metadata"]["metadata"].as_object().unwrap();
    assert_eq!(known.keys().collect::<Vec<_>>(), ["a", "g", "g/b"]);
    assert!(findings(&location).is_empty(), "{:?}", findings(&location));
    let again = run(&location, &MigrateOptions::new()).unwrap();
    assert_eq!((again.written, again.removed), (0, 0));
}

#[test]
fn a_killed_migration_is_finished_by_the_same() {
    let whole = stored();
    run(&whole, &MigrateOptions::new()).unwrap();
    let names = ["g/b/zarr.json", "a/zarr.json", "g/zarr.json", "zarr.json"];
    for done in 0..names.len() {
        let location = stored();
        for name in &names[..done] {
            put(&*location.store, name, &get(&whole, name).unwrap());
        }
        let array = ArrayNode::open(&engine(), &location.join("a").unwrap()).unwrap();
        assert_eq!(read(&array, "..."), numbers());
        run(&location, &MigrateOptions::new()).unwrap();
        for name in names {
            assert_eq!(get(&location, name), get(&whole, name), "{name} after {done}");
        }
    }
}

#[test]
fn nothing_is_written_if_one_array_has_no_equivalent_and_all_such_are_named() {
    let location = stored();
    put(&*location.store, "s/.zarray", zarray(json!([["x", "<i4"]])).to_string().as_bytes());
    let mut odd = zarray(json!("<f4"));
    odd["compressor"] = json!({"id": "zfpy"});
    put(&*location.store, "g/z/.zarray", odd.to_string().as_bytes());
    let Err(Error::Migrate(MigrateError::Refused { nodes })) =
        run(&location, &MigrateOptions::new().remove_v2(true))
    else {
        panic!("not refused");
    };
    assert_eq!(nodes.len(), 2);
    assert!(nodes[0].reason.contains("structured") && nodes[1].reason.contains("zfpy"));
    assert_eq!(get(&location, "a/zarr.json"), None);
    assert!(get(&location, ".zgroup").is_some());
}

#[test]
fn a_dry_run_changes_nothing() {
    let location = stored();
    let summary = run(&location, &MigrateOptions::new().dry_run(true).remove_v2(true)).unwrap();
    assert_eq!((summary.written, summary.removed), (4, 7));
    assert_eq!(get(&location, "zarr.json"), None);
    assert!(get(&location, "a/.zattrs").is_some());
}

#[test]
fn the_older_documents_go_only_if_the_newer_say_the_same() {
    let location = stored();
    run(&location, &MigrateOptions::new()).unwrap();
    let place = location.join("a").unwrap();
    ArrayNode::open(&engine(), &place).unwrap().resize(&[6, 3]).unwrap();
    let refused = run(&location, &MigrateOptions::new().remove_v2(true)).unwrap_err();
    let what = MigrateError::Differs { at: place.to_string(), what: "the shape" };
    assert!(matches!(refused, Error::Migrate(error) if error == what));
    assert!(get(&location, "g/.zgroup").is_some());
    ArrayNode::open(&engine(), &place).unwrap().resize(&[4, 3]).unwrap();
    let summary = run(&location, &MigrateOptions::new().remove_v2(true)).unwrap();
    assert_eq!((summary.written, summary.removed), (0, 7));
    assert_eq!(formats_at(&location).unwrap(), [ZarrFormat::V3]);
    assert_eq!(read(&ArrayNode::open(&engine(), &place).unwrap(), "..."), numbers());
    let again = run(&location, &MigrateOptions::new().remove_v2(true)).unwrap();
    assert_eq!((again.written, again.removed), (0, 0));
}

#[test]
fn a_killed_removal_is_finished_and_foreign_attributes_are_kept() {
    let location = stored();
    let attributes = get(&location, "a/.zattrs").unwrap();
    run(&location, &MigrateOptions::new().remove_v2(true)).unwrap();
    put(&*location.store, "a/.zattrs", &attributes);
    put(&*location.store, "g/.zattrs", br#"{"only": "here"}"#);
    let summary = run(&location, &MigrateOptions::new().remove_v2(true)).unwrap();
    assert_eq!(summary.removed, 1);
    assert_eq!(get(&location, "a/.zattrs"), None);
    assert!(get(&location, "g/.zattrs").is_some());
}

#[test]
fn a_place_without_a_node_is_no_hierarchy() {
    let location = Location::root(Arc::new(MemoryStore::new()));
    let refused = run(&location, &MigrateOptions::new()).unwrap_err();
    assert!(matches!(refused, Error::NoNode { .. }));
}
