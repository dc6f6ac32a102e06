//! All arrays of a hierarchy, other files in it, and copies of the metadata.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use shardine::jobs::{JobContext, RepackError, RepackOptions, RepackOutcome};
use shardine::store::FileStore;
use shardine::{Elements, Error, Location, Packing, WriteOptions};

use crate::common::data_set::{self, zarr_only};
use crate::common::findings::{check_at, kinds};
use crate::common::*;
use crate::repack::scene::*;

fn by_two() -> RepackOptions {
    RepackOptions::new().packing(Packing::ChunksPerShard(vec![2]))
}

fn json_at(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Checks that the root's consolidated metadata agrees with the arrays.
fn assert_consolidated(root: &Path) {
    let nodes = &json_at(&root.join("zarr.json"))["consolidated_metadata"]["metadata"];
    for name in ["g", "g/sharded", "plain"] {
        assert_eq!(nodes[name], json_at(&root.join(name).join("zarr.json")), "{name}");
    }
}

/// The hierarchy with files of other tools in it.
fn with_strays(root: &Path) -> Vec<(&'static str, &'static [u8])> {
    let store: Arc<dyn shardine::store::Store> = Arc::new(FileStore::new(root));
    zarr_only(&store);
    let strays: Vec<(&str, &[u8])> = vec![
        ("notes.txt", b"of the root"),
        ("g/notes.txt", b"of the group"),
        ("g/sharded/notes.txt", b"of the array"),
        ("g/sharded/table/deep/a.csv", b"1,2"),
        ("plain/.hidden", b""),
    ];
    for (name, bytes) in &strays {
        data_set::put(&*store, name, bytes);
    }
    strays
}

fn assert_strays(root: &Path, strays: &[(&str, &[u8])]) {
    for (name, bytes) in strays {
        assert_eq!(&fs::read(root.join(name)).unwrap(), bytes, "{name}");
    }
}

fn no_damage(location: &Location) {
    let (summary, findings) = check_at(location, true);
    assert_eq!(summary.damage, 0, "{findings:?}");
    assert!(kinds(&findings).iter().all(|kind| *kind == "stray-object"), "{findings:?}");
}

#[test]
fn all_arrays_are_packed_in_place_and_what_else_is_there_stays() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    let strays = with_strays(&root);
    let place = at(&root);
    let arrays = ["g/sharded", "plain"].map(|name| place.join(name).unwrap());
    let old = arrays.clone().map(|array| elements(&array));
    let mut told = repack(&place, None, &by_two()).unwrap();
    told.sort_by(|a, b| a.path.cmp(&b.path));
    let paths: Vec<_> = told.iter().map(|array| (array.path.as_str(), array.outcome)).collect();
    assert_eq!(paths, [("g/sharded", RepackOutcome::Done), ("plain", RepackOutcome::Done)]);
    assert_eq!(told[0].shard_shape.as_deref(), Some(&[16, 16][..]));
    assert_eq!(told[1].shard_shape.as_deref(), Some(&[4][..]));
    assert_eq!(arrays.map(|array| elements(&array)), old);
    assert_strays(&root, &strays);
    assert_consolidated(&root);
    no_damage(&place);
    assert_eq!(names(folder.path()), ["h.zarr"]);
    assert_eq!(names(&root), ["g", "notes.txt", "plain", "zarr.json"]);
    assert_eq!(names(&root.join("g")), ["notes.txt", "sharded", "zarr.json"]);
    let before = tree(&root);
    let again = repack(&place, None, &by_two()).unwrap();
    assert!(again.iter().all(|array| array.outcome == RepackOutcome::Unchanged));
    assert_eq!(tree(&root), before);
}

#[test]
fn a_target_gets_the_whole_hierarchy() {
    let folder = folder();
    let (root, target) = (folder.path().join("h.zarr"), folder.path().join("new.zarr"));
    let strays = with_strays(&root);
    let before = tree(&root);
    let told = repack(&at(&root), Some(&at(&target)), &by_two()).unwrap();
    assert_eq!(told.len(), 2);
    assert_eq!(tree(&root), before);
    assert_strays(&target, &strays);
    assert_consolidated(&target);
    no_damage(&at(&target));
    for name in ["g/sharded", "plain"] {
        let [old, new] = [&root, &target].map(|root| elements(&at(root).join(name).unwrap()));
        assert_eq!(old, new);
    }
    assert_eq!(names(&target), ["g", "notes.txt", "plain", "zarr.json"]);
}

#[test]
fn metadata_that_groups_above_keep_is_renewed() {
    // Whether the store begins at the root of the hierarchy, or at the array.
    for from_root in [true, false] {
        let folder = folder();
        let root = folder.path().join("h.zarr");
        with_strays(&root);
        let mut inner = json_at(&root.join("g/zarr.json"));
        let array = json_at(&root.join("g/sharded/zarr.json"));
        inner["consolidated_metadata"] =
            json!({"kind": "inline", "must_understand": false, "metadata": {"sharded": array}});
        fs::write(root.join("g/zarr.json"), inner.to_string()).unwrap();
        let mut outer = json_at(&root.join("zarr.json"));
        outer["consolidated_metadata"]["metadata"]["g"] = inner;
        fs::write(root.join("zarr.json"), outer.to_string()).unwrap();
        let place = match from_root {
            true => at(&root).join("g/sharded").unwrap(),
            false => at(&root.join("g/sharded")),
        };
        one(&place, None, &by_two());
        let new = json_at(&root.join("g/sharded/zarr.json"));
        assert_ne!(new, array);
        let inner = json_at(&root.join("g/zarr.json"));
        assert_eq!(inner["consolidated_metadata"]["metadata"]["sharded"], new, "{from_root}");
        let outer = json_at(&root.join("zarr.json"));
        assert_eq!(outer["consolidated_metadata"]["metadata"]["g/sharded"], new, "{from_root}");
        no_damage(&at(&root));
    }
}

#[test]
fn an_array_that_cannot_be_packed_keeps_no_other_from_it() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    with_strays(&root);
    let plain = tree(&root.join("plain"));
    // The array `plain` has one axis.
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2, 2]));
    let mut told = Vec::new();
    let error =
        shardine::jobs::repack(&engine(), &at(&root), None, &options, &mut |a| told.push(a));
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Repack(RepackError::Layout { .. })), "{error}");
    assert!(error.to_string().contains("plain"), "{error}");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].path.as_str(), told[0].outcome), ("g/sharded", RepackOutcome::Done));
    assert_eq!(tree(&root.join("plain")), plain);
    no_damage(&at(&root));
}

#[test]
fn a_dry_run_changes_nothing_and_tells_the_packing() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    with_strays(&root);
    let before = tree(folder.path());
    let target = at(&folder.path().join("new.zarr"));
    for target in [None, Some(&target)] {
        let mut told = repack(&at(&root), target, &by_two().dry_run(true)).unwrap();
        told.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(told[0].shard_shape.as_deref(), Some(&[16, 16][..]));
        assert!(told[0].moves);
        assert_eq!(tree(folder.path()), before);
        assert_eq!(names(folder.path()), ["h.zarr"]);
    }
}

#[test]
fn an_array_of_version_2_goes_to_a_target_and_not_in_place() {
    let folder = folder();
    let root = folder.path().join("old");
    fs::create_dir(&root).unwrap();
    let metadata = json!({
        "zarr_format": 2, "shape": [5, 6], "chunks": [2, 3], "dtype": ">u2", "order": "F",
        "compressor": null, "filters": null, "fill_value": 7, "dimension_separator": ".",
    });
    fs::write(root.join(".zarray"), metadata.to_string()).unwrap();
    fs::write(root.join(".zattrs"), r#"{"units": "nm"}"#).unwrap();
    for (name, seed) in [("0.0", 1), ("1.1", 2), ("2.0", 3)] {
        fs::write(root.join(name), noise(12, seed)).unwrap();
    }
    let before = tree(&root);
    let old = elements(&at(&root));
    assert!(matches!(refused(&at(&root), None, &by_two()), RepackError::ZarrV2 { .. }));
    assert_eq!(tree(&root), before);
    assert_eq!(names(folder.path()), ["old"]);
    let target = folder.path().join("new");
    let told = one(&at(&root), Some(&at(&target)), &by_two());
    assert_eq!((told.moves, told.chunks_moved, told.chunks_empty), (true, 3, 3));
    assert_eq!(told.shard_shape.as_deref(), Some(&[4, 6][..]));
    assert_eq!(elements(&at(&target)), old);
    assert_eq!(json_at(&target.join("zarr.json"))["attributes"], json!({"units": "nm"}));
    assert!(!names(&target).iter().any(|name| name.starts_with(".z")), "{:?}", names(&target));
    no_damage(&at(&target));
    assert_eq!(tree(&root), before);
}

/// A group with small arrays, as many of numbers as of strings of bytes.
fn small_arrays(root: &Path, count: usize) -> Location {
    let place = at(root);
    let document = |data_type: &str, fill: Value, codec: Value| {
        json!({
            "zarr_format": 3, "node_type": "array", "shape": [64], "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill, "codecs": [codec],
        })
    };
    fs::create_dir_all(root).unwrap();
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    fs::write(root.join("zarr.json"), group.to_string()).unwrap();
    for number in 0..count {
        let bytes = json!({"name": "bytes"});
        let numbers = create_at(
            &place.join(&format!("numbers-{number}")).unwrap(),
            &document("uint8", json!(0), bytes),
        );
        numbers.write(.., &[number as u8 + 1; 64]).unwrap();
        let strings = create_at(
            &place.join(&format!("strings-{number}")).unwrap(),
            &document("variable_length_bytes", json!(""), json!({"name": "vlen-bytes"})),
        );
        let values = Elements::Variable((0..64).map(|at| vec![at as u8; number + 1]).collect());
        strings.write_elements(.., values.as_ref(), &WriteOptions::new()).unwrap();
    }
    place
}

#[test]
fn small_arrays_are_made_in_parallel_and_progress_never_goes_back() {
    let folder = folder();
    let place = small_arrays(&folder.path().join("small"), 12);
    let seen: Arc<Mutex<Vec<(String, u64, u64)>>> = Arc::default();
    let (told, first) = (Arc::clone(&seen), AtomicBool::new(true));
    let context = JobContext::new(&engine()).progress(move |progress| {
        // A report that takes long must not be overtaken by that of a later array.
        if first.swap(false, Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(200));
        }
        told.lock().unwrap().push((progress.part, progress.done, progress.total));
    });
    let target = at(&folder.path().join("large"));
    shardine::jobs::repack(&context, &place, Some(&target), &by_two(), &mut |_| {}).unwrap();
    let seen = seen.lock().unwrap();
    // Together they are as large as all numbers. How much strings take, their number does not say,
    // so each array of them is a step of its own.
    let together: Vec<_> = seen.iter().filter(|(.., total)| *total == 12 * 64).collect();
    assert!(together.iter().all(|(name, ..)| name.starts_with("numbers-")), "{seen:?}");
    let done: Vec<u64> = together.iter().map(|(_, done, _)| *done).collect();
    assert_eq!(done, (1..=12).map(|number| number * 64).collect::<Vec<_>>(), "{seen:?}");
    assert!(seen.iter().any(|(name, ..)| name.starts_with("strings-")), "{seen:?}");
    for name in names(&folder.path().join("small")).iter().filter(|name| name.contains('-')) {
        let both = [&place, &target].map(|place| elements(&place.join(name).unwrap()));
        assert_eq!(both[0], both[1], "{name}");
    }
}
