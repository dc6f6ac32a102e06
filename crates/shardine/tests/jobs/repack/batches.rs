//! Many small arrays below groups that keep copies of their metadata: the copies are updated once
//! for many arrays, and agree with them whatever happens meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shardine::jobs::{
    CancelToken, JobContext, RepackError, RepackOptions, RepackOutcome, RepackedArray,
};
use shardine::store::{DiskLook, DiskStep, FileStore};
use shardine::zarr::consolidate;
use shardine::{ArrayNode, Elements, Error, Location, Packing};

use crate::common::findings::check_at;
use crate::common::*;
use crate::repack::left::When;
use crate::repack::scene::*;

fn by(per_shard: u64) -> RepackOptions {
    RepackOptions::new().packing(Packing::ChunksPerShard(vec![per_shard]))
}

fn json_at(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Arrays of four chunks at these paths, below a group that knows all of them; the groups in
/// between have copies of their own.
fn hierarchy(root: &Path, arrays: &[&str]) {
    for (array, seed) in arrays.iter().zip(1..) {
        let document = document(&[8], &[2], "uint8".into(), 0.into(), json!([bytes()]));
        let array = create_at(&at(&root.join(array)), &document);
        write(&array, "", noise(8, seed));
    }
    let folders: Vec<&Path> = arrays.iter().flat_map(|path| Path::new(path).ancestors()).collect();
    let mut groups: Vec<_> =
        folders.into_iter().filter(|path| !root.join(path).join("zarr.json").exists()).collect();
    groups.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    groups.dedup();
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    for folder in &groups {
        fs::write(root.join(folder).join("zarr.json"), group.to_string()).unwrap();
    }
    for folder in groups {
        consolidate(&at(&root.join(folder))).unwrap();
    }
}

const ARRAYS: [&str; 4] = ["g/a", "g/b", "h/c", "top"];

/// Whether the copy of a group agrees with its arrays; `None` if it has no copy.
fn agrees(group: &Path) -> Option<bool> {
    let copy = json_at(&group.join("zarr.json"));
    let nodes = copy["consolidated_metadata"]["metadata"].as_object()?;
    let arrays = nodes.iter().filter(|(_, node)| node["node_type"] == "array");
    Some(arrays.fold(true, |all, (path, node)| {
        all && *node == json_at(&group.join(path).join("zarr.json"))
    }))
}

/// All copies exist, know this many arrays, and agree with them.
fn assert_copies(root: &Path, known: &[(&str, usize)]) {
    for (group, arrays) in known {
        let group = root.join(group);
        assert_eq!(agrees(&group), Some(true), "{}", group.display());
        let copy = json_at(&group.join("zarr.json"));
        let nodes = copy["consolidated_metadata"]["metadata"].as_object().unwrap();
        assert_eq!(nodes.values().filter(|node| node["node_type"] == "array").count(), *arrays);
    }
}

const COPIES: [(&str, usize); 3] = [("", 4), ("g", 2), ("h", 1)];

fn all_elements(root: &Path, arrays: &[&str]) -> Vec<Elements> {
    arrays.iter().map(|array| elements(&at(&root.join(array)))).collect()
}

fn shard_shape(root: &Path, array: &str) -> Option<Vec<u64>> {
    let array = ArrayNode::open(&engine(), &at(&root.join(array))).unwrap();
    array.shard_shape().map(<[u64]>::to_vec)
}

/// Nothing is left that a job has made for itself.
fn assert_no_remains(root: &Path) {
    let own = |path: &PathBuf| path.to_string_lossy().contains(".shardine-");
    let left: Vec<PathBuf> = tree(root).into_keys().filter(own).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The location with a function that is called before each step.
fn watched(
    root: &Path,
    step: impl Fn(DiskStep<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> Location {
    let observer = When(step, |_: DiskLook<'_>| Ok(()));
    Location::root(Arc::new(FileStore::observed(root, Arc::new(observer))))
}

fn io_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// The name of the array that is being exchanged.
fn exchanged(step: DiskStep<'_>) -> Option<String> {
    match step {
        DiskStep::Exchange { one, .. } => one.file_name()?.to_str().map(str::to_owned),
        _ => None,
    }
}

/// Runs a job that may fail; returns its reports, and its outcome.
fn run(place: &Location, options: &RepackOptions) -> (Vec<RepackedArray>, Result<(), Error>) {
    let mut told = Vec::new();
    let done =
        shardine::jobs::repack(&engine(), place, None, options, &mut |array| told.push(array));
    (told, done.map(drop))
}

fn paths(told: &[RepackedArray]) -> Vec<&str> {
    told.iter().map(|array| array.path.as_str()).collect()
}

#[test]
fn documents_are_read_in_proportion_to_the_arrays() {
    let reads = |arrays: usize| {
        let folder = folder();
        let root = folder.path().join("h.zarr");
        let names: Vec<String> = (0..arrays).map(|i| format!("g/a{i:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        hierarchy(&root, &names);
        // The timestamps of new files do not reveal whether they have changed.
        thread::sleep(Duration::from_millis(100));
        let (opened, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (opens, puts) = (Arc::clone(&opened), Arc::clone(&written));
        let (of_root, of_group) = (root.join("zarr.json"), root.join("g/zarr.json"));
        let step = move |step: DiskStep<'_>| {
            if let DiskStep::Rename { to, .. } = step
                && (to == of_root || to == of_group)
            {
                puts.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        };
        let look = move |look: DiskLook<'_>| {
            if let DiskLook::Open { path } = look
                && path.ends_with("zarr.json")
            {
                opens.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        };
        let store = FileStore::observed(&root, Arc::new(When(step, look)));
        let told = repack(&Location::root(Arc::new(store)), None, &by(2)).unwrap();
        assert_eq!(told.len(), arrays);
        assert_copies(&root, &[("", arrays), ("g", arrays)]);
        // One copy is removed and put back, then the other; each may be updated once more.
        let written = written.load(Ordering::SeqCst);
        assert!((4..=6).contains(&written), "{written} writes of two groups");
        opened.load(Ordering::SeqCst)
    };
    let (few, many) = (reads(15), reads(60));
    println!("{few} documents are opened for 15 arrays, {many} for 60");
    assert!(many <= 60 * 16, "{many} for 60 arrays");
    assert!(many <= 5 * few, "{few} for 15 arrays, {many} for 60");
}

/// Dies at a step: from there on nothing changes on the disk.
fn dies(root: &Path, at: usize) -> (Location, Arc<AtomicUsize>) {
    let steps = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&steps);
    let place = watched(root, move |_| match count.fetch_add(1, Ordering::SeqCst) >= at {
        true => Err(io_error()),
        false => Ok(()),
    });
    (place, steps)
}

fn copy(from: &BTreeMap<PathBuf, Vec<u8>>, to: &Path) {
    let _ = fs::remove_dir_all(to);
    for (name, bytes) in from {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_batch_that_dies_at_any_step_is_finished_by_the_same_call_and_so_is_the_copy() {
    let folder = folder();
    let (origin, scene) = (folder.path().join("origin"), folder.path().join("scene"));
    hierarchy(&origin, &ARRAYS);
    let old = all_elements(&origin, &ARRAYS);
    let origin = tree(&origin);
    copy(&origin, &scene);
    // The window begins when the first copy is kept, and all steps after that are part of it.
    let (begun, steps) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (first, count) = (Arc::clone(&begun), Arc::clone(&steps));
    let place = watched(&scene, move |step| {
        let now = count.fetch_add(1, Ordering::SeqCst);
        if let DiskStep::Rename { to, .. } = step
            && to.ends_with("group-0-0.json")
        {
            let _ = first.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
        }
        Ok(())
    });
    assert_eq!(repack(&place, None, &by(2)).unwrap().len(), 4);
    let expected = tree(&scene);
    assert_copies(&scene, &COPIES);
    let (begun, steps) = (begun.load(Ordering::SeqCst), steps.load(Ordering::SeqCst));
    assert!(begun > 50 && steps > begun + 50, "from {begun} to {steps}");
    let (mut away, mut resumed) = (0, 0);
    // Some steps before it too: threads may share them differently.
    for step in begun - 12..steps {
        copy(&origin, &scene);
        let (dying, _) = dies(&scene, step);
        let (_, ended) = run(&dying, &by(2));
        let context = format!("dead at step {step} of {steps} ({ended:?})");
        assert_eq!(all_elements(&scene, &ARRAYS), old, "{context}");
        for (group, _) in COPIES {
            assert_ne!(agrees(&scene.join(group)), Some(false), "{group}, {context}");
        }
        away += usize::from(agrees(&scene).is_none());
        assert_eq!(check_at(&at(&scene), true).0.damage, 0, "{context}");
        // The run that resumes it dies too, somewhere.
        let (dying, _) = dies(&scene, (step * 7) % 61);
        let _ = run(&dying, &by(2));
        assert_eq!(all_elements(&scene, &ARRAYS), old, "{context}");
        let (told, done) = run(&at(&scene), &by(2));
        done.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(told.len(), 4, "{context}");
        resumed += told.iter().filter(|array| array.outcome == RepackOutcome::Resumed).count();
        let now = tree(&scene);
        assert!(now.keys().eq(expected.keys()), "{context}: {:?}", now.keys());
        assert!(now == expected, "{context}: other bytes");
    }
    println!("{} steps, the copy was away after {away}, {resumed} resumed", steps - begun);
    assert!(away > 20 && resumed > steps - begun);
}

#[test]
fn an_array_that_cannot_be_exchanged_keeps_no_other_from_it() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    hierarchy(&root, &ARRAYS);
    let old = all_elements(&root, &ARRAYS);
    let fails = |step: DiskStep<'_>| match exchanged(step).as_deref() {
        Some("a") => Err(io_error()),
        _ => Ok(()),
    };
    // The first one, whose job folder keeps the copies.
    let (told, done) = run(&watched(&root, fails), &by(2));
    assert!(matches!(done, Err(Error::Store(_))), "{done:?}");
    assert_eq!(paths(&told), ["g/b", "h/c", "top"]);
    assert_eq!(shard_shape(&root, "g/a"), None);
    for array in ["g/b", "h/c", "top"] {
        assert_eq!(shard_shape(&root, array).as_deref(), Some(&[4][..]), "{array}");
    }
    assert_copies(&root, &COPIES);
    assert_eq!(all_elements(&root, &ARRAYS), old);
    let (told, done) = run(&at(&root), &by(2));
    done.unwrap();
    let resumed: Vec<_> =
        told.iter().filter(|array| array.outcome == RepackOutcome::Resumed).collect();
    assert_eq!(resumed.len(), 1);
    assert_eq!(resumed[0].path, "g/a");
    assert_copies(&root, &COPIES);
    assert_eq!(all_elements(&root, &ARRAYS), old);
    assert_no_remains(&root);
}

#[test]
fn an_array_that_others_hold_is_waited_for_when_the_copies_are_back() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    hierarchy(&root, &ARRAYS);
    let array = ArrayNode::open(&engine(), &at(&root.join("g/b"))).unwrap();
    let held = array.hold().unwrap();
    let options = by(2).wait(Duration::from_millis(400));
    let done = AtomicBool::new(false);
    let (told, failed) = thread::scope(|scope| {
        scope.spawn(|| {
            // The others are done while this one is still waited for.
            let start = Instant::now();
            while shard_shape(&root, "top").is_none() || agrees(&root) != Some(true) {
                assert!(start.elapsed() < Duration::from_secs(20));
                thread::sleep(Duration::from_millis(1));
            }
            assert!(!done.load(Ordering::SeqCst));
        });
        let ran = run(&at(&root), &options);
        done.store(true, Ordering::SeqCst);
        ran
    });
    assert!(matches!(failed, Err(Error::Repack(RepackError::InUse { .. }))), "{failed:?}");
    assert_eq!(paths(&told), ["g/a", "h/c", "top"]);
    assert_copies(&root, &COPIES);
    drop(held);
    assert_eq!(repack(&at(&root), None, &options).unwrap().len(), 4);
    assert_eq!(shard_shape(&root, "g/b").as_deref(), Some(&[4][..]));
    assert_copies(&root, &COPIES);
    assert_no_remains(&root);
}

#[test]
fn an_array_that_is_written_to_while_it_waits_is_built_again() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    hierarchy(&root, &ARRAYS);
    let path = root.join("h/c");
    let writes = move |step: DiskStep<'_>| {
        if exchanged(step).as_deref() == Some("a") {
            write(&ArrayNode::open(&engine(), &at(&path)).unwrap(), "3:5", vec![77, 78]);
        }
        Ok(())
    };
    let (told, done) = run(&watched(&root, writes), &by(2));
    done.unwrap();
    // It comes after those that it was built with.
    assert_eq!(paths(&told), ["g/a", "g/b", "top", "h/c"]);
    let Elements::Fixed(found) = elements(&at(&root.join("h/c"))) else { panic!("not fixed") };
    assert_eq!(&found[3..5], [77, 78]);
    assert_eq!(shard_shape(&root, "h/c").as_deref(), Some(&[4][..]));
    assert_copies(&root, &COPIES);
    assert_no_remains(&root);
}

#[test]
fn a_copy_that_comes_back_during_a_batch_is_taken_away_again() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    hierarchy(&root, &ARRAYS);
    let there: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let (seen, path) = (Arc::clone(&there), root.clone());
    let puts_back = move |step: DiskStep<'_>| {
        if let Some(array) = exchanged(step) {
            seen.lock().unwrap().push((array.clone(), agrees(&path).is_some()));
            if array == "a" {
                // Another array comes, and a copy that knows it.
                hierarchy(&path, &["late"]);
                consolidate(&at(&path)).unwrap();
            }
        }
        Ok(())
    };
    let (told, done) = run(&watched(&root, puts_back), &by(2));
    done.unwrap();
    assert_eq!(paths(&told), ARRAYS);
    let there = there.lock().unwrap().clone();
    assert_eq!(there, ["a", "b", "c", "top"].map(|array| (array.to_owned(), false)));
    assert_copies(&root, &[("", 5), ("g", 2), ("h", 1)]);
    assert_no_remains(&root);
}

#[test]
fn a_job_that_is_cancelled_leaves_what_it_has_built_to_the_next() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    hierarchy(&root, &ARRAYS);
    let old = all_elements(&root, &ARRAYS);
    let cancelled = |place: &Location, context: &JobContext| {
        let mut told = Vec::new();
        let done =
            shardine::jobs::repack(context, place, None, &by(2), &mut |array| told.push(array));
        assert!(matches!(done, Err(Error::Cancelled)), "{done:?}");
        told
    };
    // While the third array is built: nothing is exchanged.
    let token = CancelToken::new();
    let stop = token.clone();
    let context = JobContext::new(&engine()).cancel(&token).progress(move |now| {
        if now.part == "h/c" {
            stop.cancel();
        }
    });
    assert!(cancelled(&at(&root), &context).is_empty());
    assert!(ARRAYS.iter().all(|array| shard_shape(&root, array).is_none()));
    assert_copies(&root, &COPIES);
    // While the second one is exchanged: the others wait.
    let token = CancelToken::new();
    let stop = token.clone();
    let place = watched(&root, move |step| {
        if exchanged(step).as_deref() == Some("b") {
            stop.cancel();
        }
        Ok(())
    });
    let told = cancelled(&place, &JobContext::new(&engine()).cancel(&token));
    assert_eq!(paths(&told), ["g/a", "g/b"]);
    assert!(told.iter().all(|array| array.outcome == RepackOutcome::Resumed));
    assert_eq!(shard_shape(&root, "top"), None);
    assert_copies(&root, &COPIES);
    assert_eq!(repack(&at(&root), None, &by(2)).unwrap().len(), 4);
    assert_eq!(shard_shape(&root, "top").as_deref(), Some(&[4][..]));
    assert_eq!(all_elements(&root, &ARRAYS), old);
    assert_copies(&root, &COPIES);
    assert_no_remains(&root);
}

#[test]
fn a_batch_that_was_killed_ends_though_an_array_of_it_was_changed_since() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    hierarchy(&root, &ARRAYS);
    let old = all_elements(&root, &ARRAYS);
    let dead = AtomicBool::new(false);
    let place = watched(&root, move |step| {
        if exchanged(step).as_deref() == Some("b") {
            dead.store(true, Ordering::SeqCst);
        }
        if dead.load(Ordering::SeqCst) { Err(io_error()) } else { Ok(()) }
    });
    assert!(run(&place, &by(2)).1.is_err());
    // The first one is in place, and nothing is left of the old one.
    assert_eq!(shard_shape(&root, "g/a").as_deref(), Some(&[4][..]));
    assert_eq!(agrees(&root), None);
    let document = root.join("g/a/zarr.json");
    let mut text = json_at(&document);
    text["attributes"] = json!({"later": 1});
    fs::write(&document, text.to_string()).unwrap();
    assert_eq!(repack(&at(&root), None, &by(2)).unwrap().len(), 4);
    assert_eq!(all_elements(&root, &ARRAYS), old);
    assert_eq!(json_at(&document)["attributes"], json!({"later": 1}));
    assert_copies(&root, &COPIES);
    assert_no_remains(&root);
}

#[test]
fn a_document_that_cannot_be_read_by_the_run_that_resumes_a_batch_loses_no_copy() {
    let folder = folder();
    let (killed, scene) = (folder.path().join("killed"), folder.path().join("scene"));
    hierarchy(&killed, &ARRAYS);
    let old = all_elements(&killed, &ARRAYS);
    let dead = AtomicBool::new(false);
    let place = watched(&killed, move |step| {
        if exchanged(step).as_deref() == Some("c") {
            dead.store(true, Ordering::SeqCst);
        }
        if dead.load(Ordering::SeqCst) { Err(io_error()) } else { Ok(()) }
    });
    assert!(run(&place, &by(2)).1.is_err());
    let killed = tree(&killed);
    let mut failures = 0;
    for at_look in 0.. {
        copy(&killed, &scene);
        assert_eq!((agrees(&scene), agrees(&scene.join("g"))), (None, None));
        let looks = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&looks);
        let look = move |look: DiskLook<'_>| {
            let DiskLook::Open { path } = look else { return Ok(()) };
            let name = path.file_name().unwrap().to_string_lossy();
            let counts = name == "zarr.json" || name.starts_with("group-");
            match counts && count.fetch_add(1, Ordering::SeqCst) == at_look {
                true => Err(io_error()),
                false => Ok(()),
            }
        };
        let observer = When(|_: DiskStep<'_>| Ok(()), look);
        let place = Location::root(Arc::new(FileStore::observed(&scene, Arc::new(observer))));
        let (_, ended) = run(&place, &by(2));
        if looks.load(Ordering::SeqCst) <= at_look {
            ended.unwrap();
            break;
        }
        failures += usize::from(ended.is_err());
        for (group, _) in COPIES {
            assert_ne!(agrees(&scene.join(group)), Some(false), "{group}, {at_look}: {ended:?}");
        }
        repack(&at(&scene), None, &by(2)).unwrap();
        assert_copies(&scene, &COPIES);
        assert_eq!(all_elements(&scene, &ARRAYS), old);
        assert_no_remains(&scene);
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn no_more_arrays_wait_than_a_process_has_files_for() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    let names: Vec<String> = (0..150).map(|i| format!("a{i:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    hierarchy(&root, &names);
    let waiting = Arc::new(Mutex::new(Vec::new()));
    let (seen, path) = (Arc::clone(&waiting), root.clone());
    let place = watched(&root, move |step| {
        if exchanged(step).is_some() {
            let jobs = self::names(&path).iter().filter(|name| name.ends_with(".job")).count();
            seen.lock().unwrap().push(jobs);
        }
        Ok(())
    });
    let (told, done) = run(&place, &by(2));
    done.unwrap();
    assert_eq!(paths(&told), names);
    let waiting = waiting.lock().unwrap();
    assert_eq!((waiting.iter().max(), waiting.last()), (Some(&128), Some(&22)));
    assert_copies(&root, &[("", 150)]);
    assert_no_remains(&root);
}

#[test]
fn a_large_array_does_not_wait_for_others() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    hierarchy(&root, &ARRAYS);
    // A file beside the chunks counts too, though it takes no space.
    let large = File::create(root.join("g/b/large.bin")).unwrap();
    large.set_len(256 << 20).unwrap();
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&order);
    let place = watched(&root, move |step| {
        let what = match step {
            DiskStep::CreateFolder { path } => {
                path.file_name().filter(|name| name.to_string_lossy().ends_with(".job"))
            }
            DiskStep::Exchange { one, .. } => one.file_name(),
            _ => None,
        };
        seen.lock().unwrap().extend(what.map(|what| what.to_string_lossy().into_owned()));
        Ok(())
    });
    let (told, done) = run(&place, &by(2));
    done.unwrap();
    assert_eq!(paths(&told), ARRAYS);
    let job = |name: &str| format!(".shardine-{name}.job");
    let expected = [
        job("a"),
        job("b"),
        "a".to_owned(),
        "b".to_owned(),
        job("c"),
        job("top"),
        "c".to_owned(),
        "top".to_owned(),
    ];
    assert_eq!(*order.lock().unwrap(), expected);
    assert_copies(&root, &COPIES);
}

/// Another job on another part of the hierarchy begins and ends while the copy is away, either at
/// the first exchange or when the copy is about to be put back, with all arrays read.
#[test]
fn arrays_that_another_job_exchanges_while_a_copy_is_away_are_in_it_when_it_is_back() {
    for when_put_back in [false, true] {
        let folder = folder();
        let root = folder.path().join("h.zarr");
        hierarchy(&root, &ARRAYS);
        let old = all_elements(&root, &ARRAYS);
        let (path, puts, exchanges) = (root.clone(), AtomicUsize::new(0), AtomicUsize::new(0));
        let ran = Arc::new(AtomicBool::new(false));
        let did = Arc::clone(&ran);
        let place = watched(&root.join("g"), move |step| {
            let now = match step {
                DiskStep::Rename { to, .. } if to == path.join("zarr.json") => {
                    when_put_back && puts.fetch_add(1, Ordering::SeqCst) == 1
                }
                DiskStep::Exchange { .. } => {
                    !when_put_back && exchanges.fetch_add(1, Ordering::SeqCst) == 0
                }
                _ => false,
            };
            if now {
                assert_eq!(agrees(&path), None);
                assert_eq!(repack(&at(&path.join("h")), None, &by(2)).unwrap().len(), 1);
                assert_eq!(agrees(&path), None);
                did.store(true, Ordering::SeqCst);
            }
            Ok(())
        });
        assert_eq!(repack(&place, None, &by(2)).unwrap().len(), 2);
        assert!(ran.load(Ordering::SeqCst));
        assert_eq!(shard_shape(&root, "h/c").as_deref(), Some(&[4][..]));
        assert_copies(&root, &COPIES);
        assert_eq!(all_elements(&root, &ARRAYS), old);
        assert_no_remains(&root);
    }
}

#[test]
fn groups_above_a_link_to_the_hierarchy_are_renewed_too() {
    let folder = folder();
    let (root, outer) = (folder.path().join("h.zarr"), folder.path().join("outer.zarr"));
    hierarchy(&root, &ARRAYS);
    fs::create_dir(&outer).unwrap();
    symlink(&root, outer.join("link")).unwrap();
    let mut group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": {
        "kind": "inline", "must_understand": false, "metadata": {}}});
    for array in ARRAYS {
        let node = json_at(&root.join(array).join("zarr.json"));
        group["consolidated_metadata"]["metadata"][format!("link/{array}")] = node;
    }
    fs::write(outer.join("zarr.json"), group.to_string()).unwrap();
    assert_eq!(repack(&at(&outer.join("link")), None, &by(2)).unwrap().len(), 4);
    assert_copies(&root, &COPIES);
    assert_copies(&outer, &[("", 4)]);
    assert_eq!(shard_shape(&outer, "link/g/a").as_deref(), Some(&[4][..]));
    assert_no_remains(folder.path());
}

#[test]
fn jobs_on_two_parts_of_a_hierarchy_leave_a_copy_that_agrees() {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    let parts = ["g", "h"]
        .map(|part| -> Vec<String> { (0..12).map(|i| format!("{part}/a{i:02}")).collect() });
    let names: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
    hierarchy(&root, &names);
    let old = all_elements(&root, &names);
    for round in 0..12 {
        let options = if round % 2 == 0 { by(2) } else { by(4) };
        thread::scope(|scope| {
            for part in ["g", "h"] {
                let (root, options) = (&root, &options);
                scope.spawn(move || {
                    let told = repack(&at(&root.join(part)), None, options).unwrap();
                    let done = told.iter().filter(|array| array.outcome == RepackOutcome::Done);
                    assert_eq!(done.count(), 12);
                });
            }
        });
        assert_copies(&root, &[("", 24), ("g", 12), ("h", 12)]);
        assert_no_remains(&root);
    }
    assert_eq!(all_elements(&root, &names), old);
}
