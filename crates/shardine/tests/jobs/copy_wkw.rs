//! webknossos-wrap data sets from store to store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::data_set::{at, dump, key, memory, put};
use common::wkw::*;
use common::wrapped_store::{Tricks, WrappedStore};
use common::{engine, noise};
use serde_json::{Value, json};
use shardine::jobs::{COPY_MARKER, CopyCheck, CopyError, CopyOptions, VerifyOptions, copy, verify};
use shardine::store::*;
use shardine::{Error, Location};

fn options() -> CopyOptions {
    CopyOptions::new().requests(4).memory(64 << 10)
}

/// The same objects in a store that cannot list.
fn unlisted(inner: &Arc<dyn Store>) -> Arc<dyn Store> {
    let tricks = Tricks { no_list: true, ..Tricks::default() };
    Arc::new(WrappedStore::new(Arc::clone(inner), tricks))
}

/// Two magnifications: three of eight possible files, and both of two.
fn set() -> Arc<dyn Store> {
    let store = memory();
    put_set(&*store);
    for outside in ["z0/y0/x1", "z1/y1/x0"] {
        store.delete(&key(&format!("ds/color/2-2-1/{outside}.wkw")), &Condition::None).unwrap();
    }
    put(&*store, "ds/color/2-2-1/z1/y0/x0.wkw", &LZ4.cube([0, 0, 1]));
    store
}

fn place(store: &Arc<dyn Store>, path: &str) -> Location {
    at(store).join(path).unwrap()
}

fn refused(source: &Location, target: &Location) -> CopyError {
    match copy(source, target, &options()).unwrap_err() {
        Error::Copy(error) => error,
        error => panic!("{error}"),
    }
}

/// The contents of a store below a folder, by name.
fn below(store: &Arc<dyn Store>, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let prefix = format!("{folder}/");
    let inside =
        |(key, data): (String, Vec<u8>)| Some((key.strip_prefix(&prefix)?.to_owned(), data));
    dump(&**store).into_iter().filter_map(inside).collect()
}

/// Prints only names on failure.
#[track_caller]
fn assert_same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    let other = expected.iter().find(|(key, data)| found[*key] != **data);
    assert_eq!(other.map(|(key, _)| key), None);
}

fn edit(store: &Arc<dyn Store>, change: impl FnOnce(&mut Value)) {
    let document = key("ds/datasource-properties.json");
    let mut properties = serde_json::from_slice(&store.get(&document).unwrap().unwrap()).unwrap();
    change(&mut properties);
    store.put(&document, properties.to_string().as_bytes(), Condition::None).unwrap();
}

#[test]
fn documents_come_last_and_that_of_the_data_set_at_the_very_end() {
    let from = set();
    for source in [Arc::clone(&from), unlisted(&from)] {
        let counting = CountingStore::new(MemoryStore::new());
        let to: Arc<dyn Store> = Arc::new(counting.clone());
        copy(&place(&source, "ds"), &at(&to), &options()).unwrap();
        assert_same(&dump(&*to), &below(&from, "ds"));
        let published: Vec<String> = counting
            .calls()
            .iter()
            .filter_map(|call| match call {
                Call::Publish { keys } => Some(keys.iter().map(Key::to_string)),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(published[0], COPY_MARKER);
        let (files, documents) = published[1..].split_at(5);
        assert!(files.iter().all(|key| key.ends_with(".wkw") && !key.ends_with("header.wkw")));
        let mut headers = documents[..2].to_vec();
        headers.sort();
        assert_eq!(headers, ["color/1/header.wkw", "color/2-2-1/header.wkw"]);
        assert_eq!(documents[2..], ["datasource-properties.json"]);
    }
}

#[test]
fn what_cannot_be_listed_is_copied_by_its_documents() {
    let from = set();
    // What no document names is not found.
    let source = unlisted(&from);
    put(&*from, "ds/color/1/z9/y0/x0.wkw", b"outside of the bounding box");
    put(&*from, "ds/color/1/z0/y0/notes.txt", b"by hand");
    let mut expected = below(&from, "ds");
    expected.retain(|key, _| !key.contains("z9") && !key.contains("notes"));
    for check in [CopyCheck::Size, CopyCheck::Content] {
        let to = memory();
        let report = copy(&place(&source, "ds"), &at(&to), &options().check(check)).unwrap();
        assert_same(&dump(&*to), &expected);
        assert_eq!(report.objects_copied, 8);
        // Again, as if interrupted at its very end: three documents are copied again.
        let marker = json!({"shardine_copy": 1, "source": "memory/ds", "clearing": false});
        put(&*to, COPY_MARKER, marker.to_string().as_bytes());
        let report = copy(&place(&source, "ds"), &at(&to), &options().check(check)).unwrap();
        assert_eq!((report.resumed, report.objects_copied), (true, 3));
        assert_same(&dump(&*to), &expected);
    }
    let to = memory();
    copy(&place(&source, "ds"), &at(&to), &options()).unwrap();
    let found = verify(&engine(), &at(&to), &VerifyOptions::new().decode(true), &mut |_| {});
    assert!(found.unwrap().is_ok());
    // A layer and a magnification, whose extents are given above them.
    for folder in ["color", "color/1"] {
        let to = memory();
        copy(&place(&source, &format!("ds/{folder}")), &at(&to), &options()).unwrap();
        let prefix = format!("{folder}/");
        let inside = expected
            .iter()
            .filter_map(|(key, data)| Some((key.strip_prefix(&prefix)?.to_owned(), data.clone())));
        assert_same(&dump(&*to), &inside.collect());
    }
}

#[test]
fn every_file_of_the_grid_is_asked_for_once() {
    let from = set();
    let counting = CountingStore::new(unlisted(&from));
    let source: Arc<dyn Store> = Arc::new(counting.clone());
    copy(&place(&source, "ds/color/1"), &at(&memory()), &options()).unwrap();
    let mut asked: Vec<String> = Vec::new();
    for call in counting.calls() {
        match call {
            Call::Open { key, .. } if key.as_str().contains("/y") => asked.push(key.to_string()),
            Call::List { prefix } => assert_eq!(prefix, Some(key("ds/color/1"))),
            _ => {}
        }
    }
    asked.sort();
    // 13, 13 and 9 voxels in files of 8.
    let file = |x, y, z| format!("ds/color/1/z{z}/y{y}/x{x}.wkw");
    let mut expected: Vec<String> = (0..8).map(|i| file(i & 1, i >> 1 & 1, i >> 2)).collect();
    expected.sort();
    assert_eq!(asked, expected);
}

#[test]
fn a_copy_that_breaks_off_anywhere_is_resumed_and_never_taken_for_a_whole_one() {
    let from = set();
    let expected = below(&from, "ds");
    for listed in [true, false] {
        for operation in [Operation::Open, Operation::Read, Operation::Create, Operation::Publish] {
            for at_source in [true, false] {
                for after in 0.. {
                    let (source, to) = (FaultStore::new(Arc::clone(&from)), memory());
                    let target = FaultStore::new(Arc::clone(&to));
                    let faults = if at_source { &source } else { &target };
                    faults.fail(operation, after);
                    let source_store: Arc<dyn Store> = Arc::new(source.clone());
                    let source_store = if listed { source_store } else { unlisted(&source_store) };
                    let target_store: Arc<dyn Store> = Arc::new(target.clone());
                    let result = copy(&place(&source_store, "ds"), &at(&target_store), &options());
                    if source.waiting() + target.waiting() > 0 {
                        result.unwrap();
                        break;
                    }
                    let what = format!("{operation:?} {after} {at_source} {listed}");
                    assert!(result.is_err(), "{what}");
                    let left = dump(&*to);
                    if left.contains_key("datasource-properties.json") {
                        assert!(expected.keys().all(|key| left.contains_key(key)), "{what}");
                    }
                    for folder in ["color/1/", "color/2-2-1/"] {
                        let of_folder = |key: &&String| key.starts_with(folder);
                        if left.contains_key(&format!("{folder}header.wkw")) {
                            let mut needed = expected.keys().filter(of_folder);
                            assert!(needed.all(|key| left.contains_key(key)), "{what}");
                        }
                    }
                    let again = if listed { Arc::clone(&from) } else { unlisted(&from) };
                    copy(&place(&again, "ds"), &at(&to), &options()).unwrap();
                    assert_same(&dump(&*to), &expected);
                }
            }
        }
    }
}

#[test]
fn what_its_documents_do_not_tell_is_refused_with_the_reason() {
    let from = set();
    let (source, to) = (unlisted(&from), memory());
    put_array(&*from, "alone", LZ4);
    let error = refused(&place(&source, "alone"), &at(&to));
    assert!(error.to_string().contains("datasource-properties.json above"), "{error}");
    assert!(error.hint().unwrap().starts_with("copy the data set that it is part of, or use"));
    edit(&from, |properties| {
        properties["dataLayers"][1]["mags"] = json!([{ "mag": [1, 1, 1] }]);
    });
    let error = refused(&place(&source, "ds"), &at(&to));
    assert!(error.to_string().contains("another format"), "{error}");
    assert!(error.hint().unwrap().starts_with("copy its layers one by one, or use a URL"));
    copy(&place(&source, "ds/color"), &at(&memory()), &options()).unwrap();
    // If a named magnification is missing, it is not a copy.
    edit(&from, |properties| {
        properties["dataLayers"][1]["mags"] = json!([]);
        properties["dataLayers"][0]["wkwResolutions"][0]["resolution"] = json!([4, 4, 1]);
    });
    let error = copy(&place(&source, "ds"), &at(&to), &options()).unwrap_err();
    assert!(error.to_string().contains("color/4-4-1"), "{error}");
    let nothing = refused(&place(&source, "nowhere"), &at(&to)).to_string();
    assert!(nothing.contains("header.wkw"), "{nothing}");
    assert_eq!(dump(&*to).len(), 0);
}

#[test]
fn a_magnification_outside_of_what_is_copied_is_refused() {
    let from = set();
    put_array(&*from, "elsewhere/1", LZ4);
    let path = |path: &str| {
        edit(&from, |properties| {
            let layer = properties["dataLayers"][0].as_object_mut().unwrap();
            layer.insert("mags".to_owned(), json!([{ "mag": 1, "path": path }]));
        });
    };
    path("../elsewhere/1");
    for source in [Arc::clone(&from), unlisted(&from)] {
        let to = memory();
        let error = refused(&place(&source, "ds"), &at(&to));
        assert!(
            matches!(&error, CopyError::Outside { document, folder, .. }
                if document.as_str() == "ds/datasource-properties.json" && folder == "../elsewhere/1"),
            "{error}"
        );
        assert_eq!(dump(&*to).len(), 0);
    }
    // Relative to the folder above, it is inside.
    copy(&at(&from), &at(&memory()), &options()).unwrap();
    // In the data set, but not in the layer.
    put_array(&*from, "ds/raw", LZ4);
    path("raw");
    copy(&place(&from, "ds"), &at(&memory()), &options()).unwrap();
    let to = memory();
    copy(&place(&unlisted(&from), "ds"), &at(&to), &options()).unwrap();
    assert!(dump(&*to).contains_key("raw/z0/y0/x1.wkw"));
    let error = refused(&place(&unlisted(&from), "ds/color"), &at(&memory()));
    assert!(matches!(error, CopyError::Outside { .. }), "{error}");
    // What is on another server stays there.
    path("https://example.org/ds/color/1");
    copy(&place(&from, "ds"), &at(&memory()), &options()).unwrap();
    copy(&place(&unlisted(&from), "ds"), &at(&memory()), &options()).unwrap();
    // An invalid document describes nothing, and is copied unchanged.
    put(&*from, "ds/datasource-properties.json", b"{");
    let to = memory();
    copy(&place(&from, "ds"), &at(&to), &options()).unwrap();
    assert_same(&dump(&*to), &below(&from, "ds"));
}

#[test]
fn an_old_data_set_is_overwritten_document_first() {
    for (old, document) in [("ds", "datasource-properties.json"), ("ds/color/1", "header.wkw")] {
        let from = memory();
        put(&*from, "zarr.json", b"{}");
        put(&*from, "c/0", &noise(100, 1));
        let store = set();
        let counting = CountingStore::new(Arc::clone(&store));
        let to: Arc<dyn Store> = Arc::new(counting.clone());
        let target = place(&to, old);
        let error = copy(&at(&from), &target, &options()).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        copy(&at(&from), &target, &options().overwrite(true)).unwrap();
        assert_same(&below(&store, old), &dump(&*from));
        let deleted = counting.calls().into_iter().find_map(|call| match call {
            Call::Delete { key } => Some(key.to_string()),
            _ => None,
        });
        assert_eq!(deleted, Some(format!("{old}/{document}")));
    }
    // Nor is a folder that merely has such files taken for a data set.
    let store = memory();
    put(&*store, "z0/y0/x0.wkw", b"x");
    let error = copy(&place(&set(), "ds"), &at(&store), &options().overwrite(true)).unwrap_err();
    assert!(matches!(error, Error::Copy(CopyError::NotADataSet { .. })), "{error}");
}

#[test]
fn a_header_that_changes_during_the_copy_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let from: Arc<dyn Store> = Arc::new(FileStore::new(folder.path()));
    put_array(&*from, "a", LZ4);
    let to = memory();
    let changed = std::sync::atomic::AtomicBool::new(false);
    let header = folder.path().join("a/header.wkw");
    let options = options().requests(1).progress(move |now| {
        if now.objects == 1 && !changed.swap(true, std::sync::atomic::Ordering::SeqCst) {
            std::fs::write(&header, Form { voxel: 1, ..LZ4 }.header(0)).unwrap();
        }
    });
    let error = copy(&place(&from, "a"), &at(&to), &options).unwrap_err();
    assert!(matches!(error, Error::Copy(CopyError::SourceChanged { .. })), "{error}");
    assert!(dump(&*to).keys().all(|key| key == COPY_MARKER));
}
