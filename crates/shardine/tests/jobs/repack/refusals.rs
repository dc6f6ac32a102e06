//! What is refused, and that a failed job leaves the array as it was.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use shardine::jobs::{CopyError, REPACK_MARKER, RepackError, RepackOptions, RepackOutcome};
use shardine::shard::IndexLocation;
use shardine::store::{FaultStore, MemoryStore, Operation, Store};
use shardine::zarr::APPEND_MARKER;
use shardine::{Error, Location, Packing};

use crate::common::data_set::{dump, key};
use crate::common::wrapped_store::{Tricks, WrappedStore};
use crate::common::*;
use crate::repack::scene::*;

fn by(chunks: u64) -> RepackOptions {
    RepackOptions::new().packing(Packing::ChunksPerShard(vec![chunks]))
}

/// 3 x 3 shards of 2 x 2 chunks, in the folder `a`.
fn written(folder: &Path) -> Location {
    let place = at(&folder.join("a"));
    let array = create_at(&place, &sharded(&[40, 40], &[16, 16], &[8, 8]));
    write(&array, "", noise(40 * 40 * 2, 1));
    place
}

#[test]
fn shapes_that_do_not_fit_are_refused_and_nothing_is_touched() {
    let folder = folder();
    let place = written(folder.path());
    let before = tree(folder.path());
    for packing in [
        Packing::Shard(vec![12, 16]),
        Packing::Shard(vec![16]),
        Packing::Shard(vec![0, 16]),
        Packing::Shard(vec![u64::MAX - 7, 8]),
        Packing::ChunksPerShard(vec![2, 2, 2]),
        Packing::ChunksPerShard(vec![0]),
        Packing::ChunksPerShard(vec![]),
        Packing::ChunksPerShard(vec![u64::MAX]),
        Packing::ChunksPerShard(vec![1 << 40, 1 << 40]),
    ] {
        for target in [None, Some(at(&folder.path().join("b")))] {
            let options = RepackOptions::new().packing(packing.clone());
            let error = refused(&place, target.as_ref(), &options);
            assert!(matches!(error, RepackError::Layout { .. }), "{packing:?}: {error}");
            assert!(tree(folder.path()) == before, "{packing:?}: {:?}", names(folder.path()));
        }
    }
    for chunk in [vec![0, 8], vec![8], vec![7, 7]] {
        let error = refused(&place, None, &RepackOptions::new().chunk(&chunk));
        assert!(matches!(error, RepackError::Layout { .. }), "{chunk:?}: {error}");
    }
    assert_eq!(tree(folder.path()), before);
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn only_files_are_changed_in_place() {
    let array = create(&sharded(&[40, 40], &[16, 16], &[8, 8]));
    write(&array, "", noise(40 * 40 * 2, 1));
    let before = dump(&*array.location().store);
    let error = refused(array.location(), None, &by(4));
    assert!(matches!(error, RepackError::NeedsTarget { .. }), "{error}");
    assert_eq!(dump(&*array.location().store), before);
}

#[test]
fn an_array_of_both_versions_is_not_changed_in_place() {
    let folder = folder();
    let place = written(folder.path());
    fs::write(folder.path().join("a/.zarray"), br#"{"zarr_format": 2}"#).unwrap();
    let before = tree(folder.path());
    let error = refused(&place, None, &by(4));
    assert!(matches!(error, RepackError::BothVersions { .. }), "{error}");
    assert_eq!(tree(folder.path()), before);
}

#[test]
fn an_array_with_an_unfinished_append_is_not_packed() {
    let folder = folder();
    let place = written(folder.path());
    let marker = folder.path().join("a").join(APPEND_MARKER);
    fs::write(&marker, b"{}").unwrap();
    let before = tree(folder.path());
    let error = refused(&place, None, &by(4));
    assert!(error.to_string().contains("append"), "{error}");
    assert_eq!(tree(folder.path()), before);
    // A copy has what was committed, and nothing of the append.
    let target = at(&folder.path().join("b"));
    one(&place, Some(&target), &by(4));
    assert_eq!(elements(&target), elements(&place));
    assert!(!folder.path().join("b").join(APPEND_MARKER).exists());
    fs::remove_file(marker).unwrap();
    assert_eq!(one(&place, None, &by(4)).outcome, RepackOutcome::Done);
}

#[test]
fn a_target_that_exists_is_kept_unless_it_is_to_be_overwritten() {
    let folder = folder();
    let place = written(folder.path());
    let target = at(&folder.path().join("b"));
    let other = create_at(&target, &sharded(&[8, 8], &[8, 8], &[4, 4]));
    write(&other, "", noise(128, 5));
    let before = tree(folder.path());
    let error = repack(&place, Some(&target), &by(4)).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(tree(folder.path()), before);
    assert_eq!(one(&place, Some(&target), &by(4).overwrite(true)).outcome, RepackOutcome::Done);
    assert_eq!(elements(&target), elements(&place));
    let clean = at(&folder.path().join("c"));
    one(&place, Some(&clean), &by(4));
    assert_eq!(tree(&folder.path().join("b")), tree(&folder.path().join("c")));
}

#[test]
fn a_target_is_not_removed_for_a_job_that_is_refused() {
    let folder = folder();
    let place = written(folder.path());
    let target = at(&folder.path().join("b"));
    one(&place, Some(&target), &by(4));
    let before = tree(folder.path());
    let options = RepackOptions::new().packing(Packing::Shard(vec![12, 16])).overwrite(true);
    let error = refused(&place, Some(&target), &options);
    assert!(matches!(error, RepackError::Layout { .. }), "{error}");
    assert!(tree(folder.path()) == before);
}

#[test]
fn no_array_goes_into_itself() {
    let folder = folder();
    let place = written(folder.path());
    let before = tree(folder.path());
    let inside = place.join("inside").unwrap();
    let around = at(folder.path());
    for target in [&place, &inside, &at(&folder.path().join("a/c")), &around] {
        for overwrite in [false, true] {
            repack(&place, Some(target), &by(4).overwrite(overwrite)).unwrap_err();
            assert_eq!(tree(folder.path()), before, "{target}");
        }
    }
}

#[test]
fn a_damaged_source_is_not_packed_and_stays() {
    for (object, cut) in [("c/1/1", true), ("c/2/0", false)] {
        let folder = folder();
        let place = written(folder.path());
        let path = folder.path().join("a").join(object);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        match cut {
            true => bad.truncate(good.len() / 2),
            false => bad[good.len() - 20] ^= 0xFF,
        }
        fs::write(&path, &bad).unwrap();
        let before = tree(&folder.path().join("a"));
        for target in [None, Some(at(&folder.path().join("b")))] {
            let error = repack(&place, target.as_ref(), &by(4)).unwrap_err();
            assert!(error.to_string().contains(object), "{error}");
            assert_eq!(tree(&folder.path().join("a")), before);
        }
        // The same jobs resume once it is repaired.
        fs::write(&path, &good).unwrap();
        let old = elements(&place);
        let target = at(&folder.path().join("b"));
        for target in [Some(&target), None] {
            one(&place, target, &by(4));
            assert_eq!(elements(target.unwrap_or(&place)), old);
        }
        assert_eq!(names(folder.path()), ["a", "b"]);
        assert!(!names(&folder.path().join("b")).contains(&REPACK_MARKER.to_owned()));
    }
}

#[test]
fn a_chunk_that_arrives_otherwise_is_noticed() {
    let folder = folder();
    let place = written(folder.path());
    for check in [shardine::jobs::RepackCheck::Bytes, shardine::jobs::RepackCheck::Elements] {
        let tricks = Tricks::default();
        tricks.garble.lock().unwrap().push(key("c/1/0"));
        let target = Location::root(Arc::new(WrappedStore::new(MemoryStore::new(), tricks)));
        let options = RepackOptions::new().packing(Packing::Unsharded).check(check);
        let error = refused(&place, Some(&target), &options);
        assert!(matches!(error, RepackError::Differs { .. }), "{error}");
        assert!(!dump(&*target.store).contains_key("zarr.json"));
    }
}

#[test]
fn a_job_at_a_target_is_gone_on_with_and_another_is_refused() {
    for failures in [0, 1, 2, 3] {
        let folder = folder();
        let place = written(folder.path());
        let store = FaultStore::new(MemoryStore::new());
        let target = Location::root(Arc::new(store.clone()));
        store.fail(Operation::Publish, failures);
        repack(&place, Some(&target), &by(4)).unwrap_err();
        assert_eq!(store.waiting(), 0);
        let left = dump(&store);
        if failures > 0 {
            assert!(left.contains_key(REPACK_MARKER), "{:?}", left.keys());
            assert!(!left.contains_key("zarr.json"));
            let other = by(2).index(IndexLocation::Start);
            let error = repack(&place, Some(&target), &other).unwrap_err();
            let Error::Copy(CopyError::OtherCopy { request: Some(request), .. }) = &error else {
                panic!("{error:?}")
            };
            assert!(request.contains("chunks_per_shard"), "{request}");
            assert!(error.to_string().contains("with different options"), "{error}");
            assert!(error.hint().is_some());
            assert_eq!(dump(&store), left);
        }
        let told = one(&place, Some(&target), &by(4));
        assert_eq!(told.outcome == RepackOutcome::Resumed, failures > 0);
        assert_eq!(elements(&target), elements(&place));
        assert!(!dump(&store).contains_key(REPACK_MARKER));
        let clean: Arc<dyn Store> = Arc::new(MemoryStore::new());
        one(&place, Some(&Location::root(Arc::clone(&clean))), &by(4));
        assert_eq!(dump(&store), dump(&*clean));
    }
}

#[test]
fn an_unfinished_job_at_a_target_is_given_up_when_asked() {
    let folder = folder();
    let place = written(folder.path());
    let store = FaultStore::new(MemoryStore::new());
    let target = Location::root(Arc::new(store.clone()));
    store.fail(Operation::Publish, 2);
    repack(&place, Some(&target), &RepackOptions::new().packing(Packing::Unsharded)).unwrap_err();
    assert_eq!(store.waiting(), 0);
    let told = one(&place, Some(&target), &by(4).restart(true));
    assert_eq!(told.outcome, RepackOutcome::Done);
    let clean: Arc<dyn Store> = Arc::new(MemoryStore::new());
    one(&place, Some(&Location::root(Arc::clone(&clean))), &by(4));
    assert_eq!(dump(&store), dump(&*clean));
}

#[test]
fn a_target_is_never_a_mixture_of_two_states_of_the_source() {
    let recode = RepackOptions::new().chunk(&[4, 5]).packing(Packing::Unsharded);
    let moved = RepackOptions::new().packing(Packing::Unsharded);
    for options in [recode, moved.clone(), moved.check(shardine::jobs::RepackCheck::None)] {
        for published in [3, 9, 16] {
            let folder = folder();
            let place = written(folder.path());
            let store = FaultStore::new(MemoryStore::new());
            let target = Location::root(Arc::new(store.clone()));
            store.fail(Operation::Publish, published);
            repack(&place, Some(&target), &options).unwrap_err();
            assert_eq!(store.waiting(), 0);
            let array = shardine::ArrayNode::open(&engine(), &place).unwrap();
            write(&array, "", noise(40 * 40 * 2, 2));
            write(&array, "0:8,0:8", vec![0; 128]);
            assert_eq!(one(&place, Some(&target), &options).outcome, RepackOutcome::Resumed);
            assert_eq!(elements(&target), elements(&place));
            let clean: Arc<dyn Store> = Arc::new(MemoryStore::new());
            one(&place, Some(&Location::root(Arc::clone(&clean))), &options);
            assert_eq!(dump(&store), dump(&*clean));
        }
    }
}
