//! Whole data sets from store to store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use crate::common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::data_set::*;
use common::odd_store::OddStore;
use common::wrapped_store::{Tricks, WrappedStore};
use shardine::jobs::{COPY_MARKER, CopyCheck, CopyError, CopyOptions, VerifyOptions, copy, verify};
use shardine::store::*;
use shardine::{EngineError, Error, Location};

fn options() -> CopyOptions {
    // Pieces of 16 KiB.
    CopyOptions::new().requests(6).memory(64 << 10)
}

fn refused(source: &Location, target: &Location, options: &CopyOptions) -> CopyError {
    match copy(source, target, options).unwrap_err() {
        Error::Copy(error) => error,
        error => panic!("{error}"),
    }
}

#[test]
fn a_hierarchy_comes_back_byte_for_byte_through_every_kind_of_store() {
    let folder = tempfile::tempdir().unwrap();
    let file =
        |name: &str| -> Arc<dyn Store> { Arc::new(FileStore::new(folder.path().join(name))) };
    for check in [CopyCheck::None, CopyCheck::Size, CopyCheck::Content] {
        let stores = [
            memory(),
            file(&format!("{check:?}-first")),
            memory(),
            OddStore::new(),
            file(&format!("{check:?}-second")),
            file(&format!("{check:?}-third")),
        ];
        hierarchy(&stores[0]);
        let expected = dump(&*stores[0]);
        for pair in stores.windows(2) {
            let report = copy(&at(&pair[0]), &at(&pair[1]), &options().check(check)).unwrap();
            assert_eq!(dump(&*pair[1]), expected);
            let bytes: usize = expected.values().map(Vec::len).sum();
            assert_eq!(report.objects_copied, expected.len() as u64);
            assert_eq!(report.bytes_copied, bytes as u64);
            assert_eq!((report.objects_skipped, report.bytes_skipped), (0, 0));
            assert_eq!((report.resumed, report.check), (false, check));
        }
        let last = at(&stores[5]).join("g").unwrap();
        let found =
            verify(&common::engine(), &last, &VerifyOptions::new().decode(true), &mut |finding| {
                panic!("{}", finding.message)
            });
        assert_eq!(found.unwrap().arrays, 1);
    }
}

#[test]
fn a_part_of_a_store_goes_to_a_part_of_another() {
    let (from, to) = (memory(), memory());
    hierarchy(&from);
    put(&*to, "other/zarr.json", b"{}");
    let (source, target) = (at(&from).join("g").unwrap(), at(&to).join("x/y").unwrap());
    copy(&source, &target, &options()).unwrap();
    let mut expected: Vec<_> = dump(&*from)
        .into_iter()
        .filter_map(|(key, data)| Some((format!("x/y/{}", key.strip_prefix("g/")?), data)))
        .collect();
    expected.insert(0, ("other/zarr.json".to_owned(), b"{}".to_vec()));
    assert_eq!(dump(&*to).into_iter().collect::<Vec<_>>(), expected);
    // The same store, side by side.
    copy(&source, &at(&from).join("g2").unwrap(), &options()).unwrap();
}

#[test]
fn metadata_comes_last_the_deepest_first() {
    let from = memory();
    hierarchy(&from);
    let counting = CountingStore::new(MemoryStore::new());
    let to: Arc<dyn Store> = Arc::new(counting.clone());
    copy(&at(&from), &at(&to), &options()).unwrap();
    let calls = counting.calls();
    let published: Vec<String> = calls
        .iter()
        .filter_map(|call| match call {
            Call::Publish { keys } => Some(keys.iter().map(Key::to_string)),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(published[0], COPY_MARKER);
    assert_eq!(*published.last().unwrap(), "zarr.json");
    let names = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "info"];
    let is_metadata = |key: &str| names.contains(&key.rsplit('/').next().unwrap());
    let first = published.iter().position(|key| is_metadata(key)).unwrap();
    let documents = &published[first..];
    assert!(documents.iter().all(|key| is_metadata(key)), "{published:?}");
    assert_eq!(documents.len(), 9);
    let depths: Vec<usize> = documents.iter().map(|key| key.split('/').count()).collect();
    assert!(depths.is_sorted_by(|a, b| a >= b), "{documents:?}");
    let place = |key: &str| documents.iter().position(|k| k == key).unwrap();
    assert!(place("old/.zattrs") < place("old/.zgroup"));
    assert!(place("old/.zgroup") < place("old/.zmetadata"));
    // The marker is removed when everything is there.
    let gone = calls.iter().rposition(|c| matches!(c, Call::Delete { .. })).unwrap();
    let last = calls.iter().rposition(|c| matches!(c, Call::Publish { .. })).unwrap();
    assert!(gone > last);
}

#[test]
fn lengths_are_checked_by_one_listing_for_each_folder() {
    let from = memory();
    for i in 0..50 {
        put(&*from, &format!("a/{i}"), b"x");
    }
    put(&*from, "zarr.json", b"{}");
    for (check, lists) in [(CopyCheck::None, 1), (CopyCheck::Size, 3)] {
        let (source, target) =
            (CountingStore::new(from.clone()), CountingStore::new(MemoryStore::new()));
        let (one, other): (Arc<dyn Store>, Arc<dyn Store>) =
            (Arc::new(source.clone()), Arc::new(target.clone()));
        copy(&at(&one), &at(&other), &options().check(check)).unwrap();
        let (read, written) = (source.counts(), target.counts());
        assert_eq!(read.lists, 2);
        // The marker is looked for twice.
        assert_eq!((read.opens, read.reads), (51 + 2, 51));
        assert_eq!(written.lists, lists);
        assert_eq!((written.creates, written.reads, written.deletes), (52, 0, 1));
    }
}

#[test]
fn files_are_moved_by_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let from = CountingStore::new(FileStore::new(folder.path().join("from")));
    let to = CountingStore::new(FileStore::new(folder.path().join("to")));
    let stores: [Arc<dyn Store>; 2] = [Arc::new(from.clone()), Arc::new(to.clone())];
    hierarchy(&stores[0]);
    from.reset();
    copy(&at(&stores[0]), &at(&stores[1]), &options()).unwrap();
    // An `info` is inspected: it may name folders that would not be copied.
    let is_copied =
        |call: &Call| matches!(call, Call::Read { key, .. } if !key.as_str().ends_with("/info"));
    assert_eq!(from.calls().iter().filter(|call| is_copied(call)).count(), 0);
    assert_eq!(to.counts().reads, 0);
}

#[test]
fn what_is_under_way_stays_within_the_memory() {
    let from = MemoryStore::new();
    for i in 0..6 {
        put(&from, &format!("large/{i}"), &common::noise(300_000 + i, 1));
        put(&from, &format!("small/{i}"), &common::noise(9_000, 1));
    }
    let slow = Tricks { delay: Duration::from_millis(1), ..Tricks::default() };
    let wrapped = WrappedStore::new(from.clone(), slow);
    let source: Arc<dyn Store> = Arc::new(wrapped.clone());
    for requests in [1, 3, 40] {
        for memory_bytes in [1_000, 40_000, 64 << 10] {
            let from = match memory_bytes {
                // Pieces are small: so may objects be.
                1_000 => Location::root(source.clone()).at(Some(key("small"))),
                _ => at(&source),
            };
            let to = memory();
            let options = CopyOptions::new().requests(requests).memory(memory_bytes);
            wrapped.tricks.most_held.store(0, Ordering::SeqCst);
            wrapped.tricks.most_reading.store(0, Ordering::SeqCst);
            copy(&from, &at(&to), &options).unwrap();
            let most = wrapped.tricks.most_held.load(Ordering::SeqCst);
            assert!(most > 0 && most as u64 <= memory_bytes, "{requests} {memory_bytes}: {most}");
            let reading = wrapped.tricks.most_reading.load(Ordering::SeqCst);
            assert!(reading as usize <= requests, "{reading}");
            assert_eq!(reading > 1, requests > 1);
        }
    }
}

#[test]
fn one_large_object_is_read_by_many() {
    let from = MemoryStore::new();
    put(&from, "a", &common::noise(3_000_000, 1));
    let slow = Tricks { delay: Duration::from_millis(3), ..Tricks::default() };
    let wrapped = WrappedStore::new(from.clone(), slow);
    let (source, to): (Arc<dyn Store>, _) = (Arc::new(wrapped.clone()), memory());
    let options = CopyOptions::new().requests(8).memory(1 << 20);
    copy(&at(&source), &at(&to), &options).unwrap();
    assert_eq!(dump(&*to), dump(&from));
    assert!(wrapped.tricks.most_reading.load(Ordering::SeqCst) >= 3);
}

#[test]
fn progress_ends_with_all_of_it() {
    let (from, to) = (memory(), memory());
    hierarchy(&from);
    let last = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&last);
    let options = options().requests(1).progress(move |now| told.lock().unwrap().push(now));
    let report = copy(&at(&from), &at(&to), &options).unwrap();
    let told = last.lock().unwrap();
    assert!(told.is_sorted_by_key(|now| now.bytes));
    let last = told.last().unwrap();
    assert_eq!((last.objects, last.bytes), (report.objects_copied, report.bytes_copied));
    assert_eq!((last.objects_found, last.bytes_found), (last.objects, last.bytes));
}

#[test]
fn an_object_that_changes_is_begun_again() {
    for reads in 0..16 {
        let odd = OddStore::new();
        let from: Arc<dyn Store> = odd.clone();
        put(&*from, "a", &common::noise(150_000, 1));
        put(&*from, "b", b"small");
        odd.change_after.store(reads, Ordering::SeqCst);
        let to = memory();
        copy(&at(&from), &at(&to), &options()).unwrap();
        let left = odd.change_after.swap(-1, Ordering::SeqCst);
        assert!(left < 0 || reads > 8, "{reads}");
        assert_eq!(dump(&*to), dump(&*from), "{reads}");
    }
    // Bytes that were being overwritten while they were read are not trusted.
    for reads in 0..12 {
        let odd = OddStore::new();
        let from: Arc<dyn Store> = odd.clone();
        put(&*from, "a", &common::noise(150_000, 1));
        odd.garble_after.store(reads, Ordering::SeqCst);
        let to = memory();
        copy(&at(&from), &at(&to), &options()).unwrap();
        odd.garble_after.store(-1, Ordering::SeqCst);
        assert_eq!(dump(&*to), dump(&*from), "{reads}");
    }
}

#[test]
fn an_object_that_always_changes_is_named() {
    let from = MemoryStore::new();
    put(&from, "a", b"a");
    put(&from, "b", b"b");
    let tricks = Tricks { restless: Mutex::new(vec![key("b")]), ..Tricks::default() };
    let source: Arc<dyn Store> = Arc::new(WrappedStore::new(from, tricks));
    let to = memory();
    let error = copy(&at(&source), &at(&to), &options()).unwrap_err();
    assert!(
        matches!(&error, Error::Engine(EngineError::Unstable { object, .. }) if object.as_str() == "b"),
        "{error}"
    );
}

#[test]
fn a_target_that_stores_something_else_is_found_out() {
    let from = memory();
    hierarchy(&from);
    for name in ["large/one", "old/a/0", "zarr.json"] {
        for (garble, check) in
            [(false, CopyCheck::Size), (false, CopyCheck::Content), (true, CopyCheck::Content)]
        {
            let lies = Mutex::new(vec![key(name)]);
            let tricks = match garble {
                true => Tricks { garble: lies, ..Tricks::default() },
                false => Tricks { shorten: lies, ..Tricks::default() },
            };
            let wrapped = WrappedStore::new(MemoryStore::new(), tricks);
            let to: Arc<dyn Store> = Arc::new(wrapped.clone());
            let options = options().check(check);
            let error = refused(&at(&from), &at(&to), &options);
            let object = match &error {
                CopyError::Length { object, expected, found } if check == CopyCheck::Size => {
                    assert!(found.unwrap() < *expected);
                    object
                }
                CopyError::Content { object } if check == CopyCheck::Content => object,
                error => panic!("{error}"),
            };
            assert_eq!(object.as_str(), name);
            let left = dump(&*to);
            assert!(!left.contains_key(name) && !left.contains_key("zarr.json"));
            wrapped.tricks.garble.lock().unwrap().clear();
            wrapped.tricks.shorten.lock().unwrap().clear();
            assert!(copy(&at(&from), &at(&to), &options).unwrap().resumed);
            assert_eq!(dump(&*to), dump(&*from));
        }
    }
}
