//! Conversions to OME-Zarr and Zarr version 2 that are stopped, and resumed.

use std::sync::Arc;

use serde_json::json;
use shardine::jobs::{ConvertOptions, OmeForm, RepackOutcome, ZarrForm};
use shardine::ome::OmeRelease;
use shardine::store::{FaultStore, FileStore, MemoryStore, Operation, Store};
use shardine::zarr::{CONVERT_MARKER, ZarrFormat};
use shardine::{Error, Location};

use crate::common::data_set::dump;
use crate::common::*;
use crate::convert::ome_scene::*;
use crate::convert::scene::*;

fn old(folder: &std::path::Path) -> Location {
    let place = Location::root(Arc::new(FileStore::new(folder)));
    Scene::new(OmeRelease::V0_4, "czyx", &[2, 9, 10, 11], &[1, 4, 4, 4]).make(&place);
    let labels = place.join("labels").unwrap();
    group(&labels, OmeRelease::V0_4, &json!({"labels": ["a"]}));
    let scene = Scene::new(OmeRelease::V0_4, "zyx", &[9, 10, 11], &[4, 4, 4]);
    scene.make_with(&labels.join("a").unwrap(), &json!({"image-label": {}}));
    put(&place, "notes.json", &json!("kept"));
    place
}

type Convert = fn(&Location, &Location) -> Result<Told, Error>;

fn to_0_5(source: &Location, target: &Location) -> Result<Told, Error> {
    to_ome(source, target, &OmeForm::new(), &ConvertOptions::new())
}

fn to_0_4(source: &Location, target: &Location) -> Result<Told, Error> {
    let form = OmeForm::new().version(OmeRelease::V0_4);
    to_ome(source, target, &form, &ConvertOptions::new())
}

fn to_zarr2(source: &Location, target: &Location) -> Result<Told, Error> {
    let form = ZarrForm::new().zarr_format(ZarrFormat::V2);
    to_zarr(source, target, &form, &ConvertOptions::new())
}

#[test]
fn a_conversion_that_fails_anywhere_is_resumed_and_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = old(folder.path());
    for (convert, other) in
        [(to_0_5 as Convert, to_0_4 as Convert), (to_0_4, to_zarr2), (to_zarr2, to_0_5)]
    {
        let clean = memory();
        convert(&source, &clean).unwrap();
        let expected = dump(&*clean.store);
        for published in 1.. {
            let store = FaultStore::new(MemoryStore::new());
            let target = Location::root(Arc::new(store.clone()));
            store.fail(Operation::Publish, published);
            let result = convert(&source, &target);
            if store.waiting() > 0 {
                result.unwrap();
                assert!(published > 4, "only {published} objects are published");
                break;
            }
            result.unwrap_err();
            let left = dump(&store);
            assert!(left.contains_key(CONVERT_MARKER), "{:?}", left.keys());
            // The root comes last: until then there is no hierarchy.
            let makes_root = |key: &String| ["zarr.json", ".zgroup"].contains(&key.as_str());
            assert!(!left.keys().any(makes_root), "{published}: {:?}", left.keys());
            let refused = other(&source, &target).unwrap_err();
            assert!(matches!(refused, Error::Copy(_)), "{refused}");
            assert_eq!(dump(&store), left);
            let (told, _) = convert(&source, &target).unwrap();
            assert!(
                told.iter().any(|level| level.outcome == RepackOutcome::Resumed) || published == 1
            );
            assert_eq!(dump(&store), expected);
        }
    }
}

#[test]
fn documents_that_cannot_be_written_leave_the_job_to_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let source = old(folder.path());
    for convert in [to_0_5 as Convert, to_0_4] {
        let clean = memory();
        convert(&source, &clean).unwrap();
        for call in 1.. {
            let store = FaultStore::new(MemoryStore::new());
            let target = Location::root(Arc::new(store.clone()));
            store.fail(Operation::Create, call);
            let result = convert(&source, &target);
            if store.waiting() > 0 {
                result.unwrap();
                assert!(call > 8, "only {call} documents are written");
                break;
            }
            result.unwrap_err();
            convert(&source, &target).unwrap();
            assert_eq!(dump(&store), dump(&*clean.store), "{call}");
        }
    }
}

#[test]
fn a_source_that_changed_in_between_is_converted_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = old(folder.path());
    let store = FaultStore::new(MemoryStore::new());
    let target = Location::root(Arc::new(store.clone()));
    store.fail(Operation::Publish, 3);
    to_0_5(&source, &target).unwrap_err();
    let place = source.join("0").unwrap();
    fill(&shardine::ArrayNode::open(&engine(), &place).unwrap(), "", 77);
    to_0_5(&source, &target).unwrap();
    let clean = memory();
    to_0_5(&source, &clean).unwrap();
    assert_eq!(dump(&store), dump(&*clean.store));
}

#[test]
fn a_target_that_exists_is_only_replaced_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (old(folder.path()), memory());
    to_0_5(&source, &target).unwrap();
    let before = dump(&*target.store);
    for convert in [to_0_5 as Convert, to_0_4, to_zarr2] {
        let refused = convert(&source, &target).unwrap_err();
        assert!(matches!(refused, Error::Exists { .. }), "{refused}");
        assert_eq!(dump(&*target.store), before);
    }
    let form = OmeForm::new().version(OmeRelease::V0_4);
    to_ome(&source, &target, &form, &ConvertOptions::new().overwrite(true)).unwrap();
    check_ome(&target, OmeRelease::V0_4);
    let store: &dyn Store = &*target.store;
    assert!(!dump(store).keys().any(|key| key.ends_with("zarr.json")));
    to_ome(&source, &target, &OmeForm::new(), &ConvertOptions::new().overwrite(true)).unwrap();
    assert_eq!(dump(store), before);
    let dry = ConvertOptions::new().dry_run(true);
    let nothing = memory();
    let (told, _) = to_ome(&source, &nothing, &OmeForm::new(), &dry).unwrap();
    assert!(told.len() == 4 && told.iter().all(|level| level.moves));
    assert!(dump(&*nothing.store).is_empty());
    check_ome(&target, OmeRelease::V0_5);
}
