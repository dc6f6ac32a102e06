use std::sync::Arc;

use serde_json::Value;
use shardine::jobs::{ConvertOptions, ConvertedLevel, RepackOutcome, VolumeForm, ZarrForm};
use shardine::precomputed::Volume;
use shardine::store::{FaultStore, FileStore, MemoryStore, Operation, Store, StoreExt};
use shardine::zarr::CONVERT_MARKER;
use shardine::{Location, Packing};

use crate::common::data_set::dump;
use crate::common::*;
use crate::convert::scene::*;

fn old(folder: &std::path::Path) -> Location {
    let place = Location::root(Arc::new(FileStore::new(folder)));
    let scales = [
        scale("a", [9, 9, 9], [4, 4, 4], uint64([1, 1, 4], "identity", "gzip")),
        scale("b", [5, 5, 5], [4, 4, 4], Value::Null),
    ];
    volume(&place, info("uint8", 2, &scales), "");
    place
}

fn there(source: &Location, target: &Location) -> Result<Told, shardine::Error> {
    let form = ZarrForm::new().packing(Packing::ChunksPerShard(vec![2]));
    to_zarr(source, target, &form, &ConvertOptions::new())
}

fn back(source: &Location, target: &Location) -> Result<Told, shardine::Error> {
    to_volume(source, target, &VolumeForm::new(), &ConvertOptions::new())
}

#[test]
fn a_conversion_that_was_stopped_is_gone_on_with_and_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (old, group) = (old(folder.path()), memory());
    there(&old, &group).unwrap();
    type Convert = fn(&Location, &Location) -> Result<Told, shardine::Error>;
    for (source, convert) in [(&old, there as Convert), (&group, back)] {
        let clean = memory();
        convert(source, &clean).unwrap();
        for published in 1..12 {
            let store = FaultStore::new(MemoryStore::new());
            let target = Location::root(Arc::new(store.clone()));
            store.fail(Operation::Publish, published);
            let result = convert(source, &target);
            if store.waiting() > 0 {
                result.unwrap();
                assert!(published > 4, "only {published} objects are published");
                break;
            }
            result.unwrap_err();
            let left = dump(&store);
            assert!(left.contains_key(CONVERT_MARKER), "{:?}", left.keys());
            assert!(!left.contains_key("zarr.json") && !left.contains_key("info"));
            let options = ConvertOptions::new().chunk(&[2, 2, 2]);
            match source.store.name() == old.store.name() {
                true => to_zarr(source, &target, &ZarrForm::new(), &options).map(drop),
                false => to_volume(source, &target, &VolumeForm::new(), &options).map(drop),
            }
            .unwrap_err();
            assert_eq!(dump(&store), left);
            let (told, _) = convert(source, &target).unwrap();
            // Until the source is recorded, nothing that exists counts.
            let is_resumed = |level: &ConvertedLevel| level.outcome == RepackOutcome::Resumed;
            match source.store.has_folders() {
                true => assert!(told.iter().all(is_resumed) || published == 1),
                // Nor where it cannot be determined whether it is still the same.
                false => assert!(!told.iter().any(is_resumed)),
            }
            assert_eq!(dump(&store), dump(&*clean.store));
        }
    }
}

#[test]
fn what_was_made_of_a_source_that_has_changed_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let old = old(folder.path());
    let store = FaultStore::new(MemoryStore::new());
    let target = Location::root(Arc::new(store.clone()));
    store.fail(Operation::Publish, 3);
    there(&old, &target).unwrap_err();
    assert_eq!(store.waiting(), 0);
    let volume = Volume::open(&engine(), &old).unwrap();
    fill(&volume.array(0).unwrap(), "", 77);
    there(&old, &target).unwrap();
    let clean = memory();
    there(&old, &clean).unwrap();
    assert_eq!(dump(&store), dump(&*clean.store));
    let store: &dyn Store = &*target.store;
    assert!(!dump(store).contains_key(CONVERT_MARKER));
}

#[test]
fn a_source_that_may_have_changed_in_an_object_store_is_converted_anew() {
    let old = memory();
    let scales = [scale("a", [9, 9, 9], [4, 4, 4], uint64([1, 1, 4], "identity", "gzip"))];
    let made = volume(&old, info("uint8", 1, &scales), "");
    let options = ConvertOptions::new().chunk(&[2, 2, 2]);
    let form = ZarrForm::new().packing(Packing::ChunksPerShard(vec![2]));
    let store = FaultStore::new(MemoryStore::new());
    let target = Location::root(Arc::new(store.clone()));
    store.fail(Operation::Publish, 3);
    to_zarr(&old, &target, &form, &options).unwrap_err();
    assert_eq!(store.waiting(), 0);
    fill(&made.array(0).unwrap(), "", 77);
    to_zarr(&old, &target, &form, &options).unwrap();
    let clean = memory();
    to_zarr(&old, &clean, &form, &options).unwrap();
    assert_eq!(dump(&store), dump(&*clean.store));
}
