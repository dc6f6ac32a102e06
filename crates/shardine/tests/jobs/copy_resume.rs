//! Copies that are interrupted, and resume.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::data_set::*;
use common::odd_store::OddStore;
use shardine::jobs::{COPY_MARKER, CopyCheck, CopyOptions, copy};
use shardine::store::*;

fn options() -> CopyOptions {
    CopyOptions::new().requests(4).memory(64 << 10)
}

/// Whether an object is metadata, which is copied again.
fn is_metadata(key: &str) -> bool {
    ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "info"]
        .contains(&key.rsplit('/').next().unwrap())
}

/// What an interrupted copy may leave: whole objects, and a document only where everything that it
/// describes exists.
fn check_left(left: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    for (key, data) in left.iter().filter(|(key, _)| *key != COPY_MARKER) {
        assert_eq!(Some(data), expected.get(key), "{key}");
        let Some(folder) = key.strip_suffix("zarr.json") else { continue };
        let missing: Vec<_> = expected
            .keys()
            .filter(|key| key.starts_with(folder) && !left.contains_key(*key))
            .collect();
        assert!(missing.is_empty(), "{key} is there, but not {missing:?}");
    }
}

const OPERATIONS: [Operation; 9] = [
    Operation::Open,
    Operation::Read,
    Operation::Create,
    Operation::Append,
    Operation::Finish,
    Operation::Publish,
    Operation::PublishAnswer,
    Operation::Delete,
    Operation::List,
];

/// Fails every operation on the source or the target once, and resumes.
fn break_everywhere(
    from: &Arc<dyn Store>,
    fresh: &dyn Fn() -> Arc<dyn Store>,
    between_files: bool,
    step: u64,
    options: &CopyOptions,
) {
    let expected = dump(&**from);
    for operation in OPERATIONS {
        for at_source in [true, false] {
            for after in (0..).step_by(step as usize) {
                let source = FaultStore::new(Arc::clone(from));
                let target = FaultStore::new(fresh());
                if at_source {
                    source.fail(operation, after);
                } else {
                    target.fail(operation, after);
                }
                let stores: [Arc<dyn Store>; 2] =
                    [Arc::new(source.clone()), Arc::new(target.clone())];
                let result = copy(&at(&stores[0]), &at(&stores[1]), options);
                if source.waiting() + target.waiting() > 0 {
                    result.unwrap();
                    let happens = match operation {
                        Operation::Open | Operation::List => true,
                        // Between files bytes are moved by the kernel, and an empty target is not
                        // read.
                        Operation::Read => at_source && !between_files,
                        _ => !at_source,
                    };
                    assert_eq!(after > 0, happens, "{operation:?}, at the source: {at_source}");
                    break;
                }
                assert!(result.is_err(), "{operation:?} {after}");
                let left = dump(&stores[1]);
                check_left(&left, &expected);
                let counting = CountingStore::new(Arc::clone(from));
                let again: Arc<dyn Store> = Arc::new(counting.clone());
                let report = copy(&at(&again), &at(&stores[1]), options);
                if left.len() == expected.len() && !left.contains_key(COPY_MARKER) {
                    // Everything was done except reporting that the marker is gone.
                    assert!(result.is_err() && report.is_err());
                } else {
                    let report = report.unwrap();
                    assert_eq!(report.resumed, left.contains_key(COPY_MARKER));
                    let kept = left.keys().filter(|key| *key != COPY_MARKER && !is_metadata(key));
                    assert_eq!(report.objects_skipped, kept.count() as u64);
                }
                assert_eq!(dump(&stores[1]), expected, "{operation:?} {after}");
                for call in counting.calls() {
                    if let Call::Read { key, .. } = call {
                        let key = key.as_str();
                        let wanted = is_metadata(key) || key == COPY_MARKER;
                        assert!(wanted || !left.contains_key(key), "{key} was read again");
                    }
                }
            }
        }
    }
}

#[test]
fn a_copy_that_breaks_off_anywhere_goes_on_and_reads_nothing_twice() {
    let from = memory();
    hierarchy(&from);
    break_everywhere(&from, &memory, false, 3, &options());
}

#[test]
fn a_copy_to_files_that_breaks_off_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let from: Arc<dyn Store> = Arc::new(FileStore::new(folder.path().join("from")));
    zarr_only(&from);
    let count = std::cell::Cell::new(0);
    let fresh = || -> Arc<dyn Store> {
        count.set(count.get() + 1);
        Arc::new(FileStore::new(folder.path().join(count.get().to_string())))
    };
    break_everywhere(&from, &fresh, true, 4, &options());
}

#[test]
fn a_copy_from_a_store_that_tells_no_lengths_goes_on() {
    let from: Arc<dyn Store> = OddStore::new();
    zarr_only(&from);
    put(&*from, "large", &common::noise(100_000, 1));
    break_everywhere(&from, &memory, false, 2, &options());
}

/// A target with all objects and a marker, as if the last step of a copy had been lost.
fn nearly_done(from: &Arc<dyn Store>) -> Arc<dyn Store> {
    let faults = FaultStore::new(MemoryStore::new());
    let to: Arc<dyn Store> = Arc::new(faults.clone());
    faults.fail(Operation::Delete, 0);
    copy(&at(from), &at(&to), &options()).unwrap_err();
    assert_eq!(faults.waiting(), 0);
    to
}

#[test]
fn an_object_of_another_length_is_copied_again() {
    let from = memory();
    hierarchy(&from);
    for source in [Arc::clone(&from), {
        let odd: Arc<dyn Store> = OddStore::new();
        copy(&at(&from), &at(&odd), &options()).unwrap();
        odd
    }] {
        let to = nearly_done(&source);
        put(&*to, "large/one", b"short");
        put(&*to, "g/empty", b"not empty");
        to.delete(&key("many/0/3"), &Condition::None).unwrap();
        let report = copy(&at(&source), &at(&to), &options()).unwrap();
        assert_eq!(dump(&*to), dump(&*source));
        assert_eq!(report.objects_copied, 3 + 9);
    }
}

#[test]
fn an_object_of_the_same_length_is_compared_if_contents_are_checked() {
    let from = memory();
    hierarchy(&from);
    let to = nearly_done(&from);
    put(&*to, "old/a/0", b"012345678X");
    // Metadata is never taken on trust.
    put(&*to, "zarr.json", &vec![b' '; dump(&*from)["zarr.json"].len()]);
    copy(&at(&from), &at(&to), &options()).unwrap();
    let mut expected = dump(&*from);
    expected.insert("old/a/0".to_owned(), b"012345678X".to_vec());
    assert_eq!(dump(&*to), expected);
    let to = nearly_done(&from);
    put(&*to, "old/a/0", b"012345678X");
    let report = copy(&at(&from), &at(&to), &options().check(CopyCheck::Content)).unwrap();
    assert_eq!(dump(&*to), dump(&*from));
    assert_eq!(report.objects_copied, 1 + 9);
}

#[test]
fn a_removal_that_breaks_off_is_gone_on_with_before_anything_is_believed() {
    let from = memory();
    put(&*from, "zarr.json", b"{}");
    put(&*from, "a/0", b"new");
    for after in 0.. {
        let faults = FaultStore::new(MemoryStore::new());
        let to: Arc<dyn Store> = Arc::new(faults.clone());
        put(&*to, "zarr.json", b"[]");
        put(&*to, "a/0", b"old");
        put(&*to, "a/1", b"old");
        faults.fail(Operation::Delete, after);
        let options = options().requests(1).overwrite(true);
        let result = copy(&at(&from), &at(&to), &options);
        if faults.waiting() > 0 {
            result.unwrap();
            assert!(after > 3);
            break;
        }
        result.unwrap_err();
        // Without the option, because the removal was requested before.
        copy(&at(&from), &at(&to), &options.overwrite(false)).unwrap();
        assert_eq!(dump(&*to), dump(&*from), "{after}");
    }
}
