//! What is not copied, what is overwritten, and sources that cannot be listed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use crate::common;

use std::sync::Arc;

use common::data_set::*;
use common::wrapped_store::{Tricks, WrappedStore};
use common::{bytes, document, engine};
use serde_json::json;
use shardine::jobs::{COPY_MARKER, CopyError, CopyOptions, copy};
use shardine::store::*;
use shardine::{Error, Location, open_in};

fn refused(source: &Location, target: &Location, options: &CopyOptions) -> CopyError {
    match copy(source, target, options).unwrap_err() {
        Error::Copy(error) => error,
        error => panic!("{error}"),
    }
}

fn small() -> Arc<dyn Store> {
    let store = memory();
    put(&*store, "zarr.json", b"{}");
    put(&*store, "c/0", b"chunk");
    store
}

#[test]
fn a_source_must_be_a_data_set() {
    let (from, to) = (small(), memory());
    let options = CopyOptions::new();
    let nowhere = at(&from).join("nowhere").unwrap();
    assert!(matches!(refused(&nowhere, &at(&to), &options), CopyError::Nothing { .. }));
    let object = at(&from).join("c/0").unwrap();
    assert!(matches!(refused(&object, &at(&to), &options), CopyError::SingleObject { .. }));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.npy");
    std::fs::write(&file, b"x").unwrap();
    let file = Location::parse(file.to_str().unwrap()).unwrap();
    assert!(matches!(refused(&file, &at(&to), &options), CopyError::SingleObject { .. }));
    // Nor is a file a valid target.
    let error = copy(&at(&from), &file, &options).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(dump(&*to).len(), 0);
}

#[test]
fn a_place_is_not_copied_into_itself() {
    let from = small();
    let before = dump(&*from);
    let here = at(&from);
    let (inside, options) = (here.join("x").unwrap(), CopyOptions::new().overwrite(true));
    assert!(matches!(refused(&here, &here, &options), CopyError::Overlap { .. }));
    assert!(matches!(refused(&here, &inside, &options), CopyError::Overlap { .. }));
    assert!(matches!(
        refused(&here.join("c").unwrap(), &here, &options),
        CopyError::Overlap { .. }
    ));
    // Under another name, which only the marker reveals.
    let store = MemoryStore::new();
    put(&store, "zarr.json", b"{}");
    let (one, other): (Arc<dyn Store>, Arc<dyn Store>) =
        (Arc::new(store.clone()), Arc::new(store.clone()));
    assert!(matches!(refused(&at(&one), &at(&other), &options), CopyError::Overlap { .. }));
    assert_eq!(dump(&store).len(), 1);
    assert_eq!(dump(&*from), before);
}

#[test]
fn what_is_there_is_kept_unless_it_is_to_be_overwritten() {
    let (from, to) = (small(), memory());
    hierarchy(&to);
    let before = dump(&*to);
    let error = copy(&at(&from), &at(&to), &CopyOptions::new()).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(dump(&*to), before);
    let report = copy(&at(&from), &at(&to), &CopyOptions::new().overwrite(true)).unwrap();
    assert_eq!((report.objects_copied, report.resumed), (2, false));
    assert_eq!(dump(&*to), dump(&*from));
}

#[test]
fn overwriting_removes_the_folders_of_the_old_data_set_too() {
    let folder = tempfile::tempdir().unwrap();
    let to: Arc<dyn Store> = Arc::new(FileStore::new(folder.path()));
    hierarchy(&to);
    let from = memory();
    put(&*from, "zarr.json", b"{}");
    put(&*from, "g", b"was a folder");
    copy(&at(&from), &at(&to), &CopyOptions::new().overwrite(true)).unwrap();
    assert_eq!(dump(&*to), dump(&*from));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn what_is_not_a_data_set_is_never_overwritten() {
    let (from, to) = (small(), memory());
    put(&*to, "letters/to-mother", b"dear");
    let options = CopyOptions::new().overwrite(true);
    let error = refused(&at(&from), &at(&to), &options);
    assert!(matches!(error, CopyError::NotADataSet { .. }), "{error}");
    assert_eq!(dump(&*to).len(), 1);
}

#[test]
fn an_unfinished_copy_is_neither_source_nor_target_of_another() {
    let to: Arc<dyn Store> = Arc::new(FaultStore::new(MemoryStore::new()));
    let faults = FaultStore::new(MemoryStore::new());
    let target: Arc<dyn Store> = Arc::new(faults.clone());
    let from = small();
    faults.fail(Operation::Publish, 1);
    copy(&at(&from).join("c").unwrap(), &at(&target), &CopyOptions::new()).unwrap_err();
    assert_eq!(faults.waiting(), 0);
    let left = dump(&*target);
    assert_eq!(left.keys().map(String::as_str).collect::<Vec<_>>(), [COPY_MARKER]);
    let error = refused(&at(&from), &at(&target), &CopyOptions::new());
    assert!(matches!(&error, CopyError::OtherCopy { from, .. } if from == "memory/c"), "{error}");
    let error = refused(&at(&target), &at(&to), &CopyOptions::new());
    assert!(matches!(error, CopyError::UnfinishedSource { .. }), "{error}");
    put(&*target, COPY_MARKER, b"nonsense");
    let error = refused(&at(&from), &at(&target), &CopyOptions::new());
    assert!(matches!(error, CopyError::Marker { .. }), "{error}");
    copy(&at(&from), &at(&target), &CopyOptions::new().overwrite(true)).unwrap();
    assert_eq!(dump(&*target), dump(&*from));
}

/// A store that cannot list.
fn unlisted(inner: &Arc<dyn Store>) -> Arc<dyn Store> {
    let tricks = Tricks { no_list: true, ..Tricks::default() };
    Arc::new(WrappedStore::new(inner.clone(), tricks))
}

#[test]
fn a_source_that_cannot_be_listed_is_copied_by_its_metadata() {
    let from = memory();
    zarr_only(&from);
    let (source, to) = (unlisted(&from), memory());
    let report = copy(&at(&source), &at(&to), &CopyOptions::new()).unwrap();
    assert_eq!(dump(&*to), dump(&*from));
    assert_eq!(report.objects_copied, dump(&*from).len() as u64);
    // Again, as if interrupted at its very end.
    put(&*to, COPY_MARKER, br#"{"shardine_copy": 1, "source": "memory", "clearing": false}"#);
    let report = copy(&at(&source), &at(&to), &CopyOptions::new()).unwrap();
    assert_eq!((report.resumed, report.objects_copied), (true, 4));
    assert_eq!(dump(&*to), dump(&*from));
    // One array of it.
    for name in ["plain", "g/sharded"] {
        let to = memory();
        copy(&at(&source).join(name).unwrap(), &at(&to), &CopyOptions::new()).unwrap();
        let expected = dump(&*from).into_iter().filter(|(key, _)| key.starts_with(name)).count();
        assert_eq!(dump(&*to).len(), expected);
    }
}

#[test]
fn what_cannot_be_decoded_here_is_copied_by_its_metadata_all_the_same() {
    let from = memory();
    let codecs = json!([bytes(), {"name": "unheard.of", "configuration": {}}]);
    let strange = document(&[40], &[10], "uint8".into(), 0.into(), codecs);
    put(&*from, "zarr.json", group(&[("strange", &strange)]).to_string().as_bytes());
    put(&*from, "strange/zarr.json", strange.to_string().as_bytes());
    put(&*from, "strange/c/0", b"chunk");
    put(&*from, "strange/c/3", b"chunk");
    let info = json!({
        "type": "image", "data_type": "uint8", "num_channels": 1,
        "scales": [{
            "key": "8", "size": [20, 10, 10], "resolution": [8, 8, 8], "voxel_offset": [0, 0, 0],
            "chunk_sizes": [[10, 10, 10]], "encoding": "unheard.of",
        }],
    });
    put(&*from, "v/info", info.to_string().as_bytes());
    put(&*from, "v/8/10-20_0-10_0-10", b"chunk");
    let source = unlisted(&from);
    let opened = open_in(&engine(), at(&source).join("strange").unwrap()).unwrap();
    assert!(opened.array(0).is_err());
    for (place, objects) in [("strange", 3), ("v", 2)] {
        let to = memory();
        copy(&at(&source).join(place).unwrap(), &at(&to), &CopyOptions::new()).unwrap();
        assert_eq!(dump(&*to).len(), objects);
    }
    let to = memory();
    copy(&at(&source), &at(&to), &CopyOptions::new()).unwrap();
    assert_eq!(dump(&*to).len(), 4);
}

#[test]
fn documents_of_version_2_that_may_be_missing_are_copied_if_they_are_there() {
    let (from, to) = (memory(), memory());
    let array = json!({
        "zarr_format": 2, "shape": [20], "chunks": [10], "dtype": "|u1", "fill_value": 0,
        "order": "C", "compressor": null, "filters": null,
    });
    let group = json!({ "zarr_format": 2 });
    let nodes =
        json!({ ".zgroup": group, "a/.zarray": array, "b/.zarray": array, "b/.zattrs": {} });
    let all = json!({ "zarr_consolidated_format": 1, "metadata": nodes });
    put(&*from, ".zgroup", group.to_string().as_bytes());
    put(&*from, ".zmetadata", all.to_string().as_bytes());
    put(&*from, "b/.zattrs", b"{}");
    for name in ["a", "b"] {
        put(&*from, &format!("{name}/.zarray"), array.to_string().as_bytes());
        put(&*from, &format!("{name}/1"), b"0123456789");
    }
    let report = copy(&at(&unlisted(&from)), &at(&to), &CopyOptions::new()).unwrap();
    assert_eq!((dump(&*to), report.objects_copied), (dump(&*from), 7));
}

#[test]
fn a_source_that_nothing_lists_is_refused_with_the_reason() {
    let from = memory();
    zarr_only(&from);
    put(&*from, "v2/.zgroup", b"{\"zarr_format\": 2}");
    let (source, to) = (unlisted(&from), memory());
    for (name, reason) in
        [("g", "no consolidated"), ("x", "no zarr.json"), ("v2", "no consolidated")]
    {
        let error = refused(&at(&source).join(name).unwrap(), &at(&to), &CopyOptions::new());
        assert!(error.to_string().contains(reason), "{error}");
        assert!(error.hint().is_some());
    }
    let object = at(&source).join("plain/c/1").unwrap();
    let error = refused(&object, &at(&to), &CopyOptions::new());
    assert!(matches!(error, CopyError::SingleObject { .. }), "{error}");
    // If a named node is missing, it is not a copy.
    from.delete(&key("plain/zarr.json"), &Condition::None).unwrap();
    let error = copy(&at(&source), &at(&to), &CopyOptions::new()).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::NotFound { .. })), "{error}");
    assert!(!dump(&*to).contains_key("zarr.json"));
}
