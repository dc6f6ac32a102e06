//! A new image with all its levels, from an array of any format or an image of one level.

use std::collections::BTreeMap;

use shardine::Packing;
use shardine::jobs::{
    ConvertOptions, OmeForm, PyramidError, PyramidOptions, RepackOptions, convert_to_ome,
    pyramid_to, repack,
};
use shardine::ome::OmeRelease;
use shardine::store::{FaultStore, MemoryStore, Operation};

use super::*;
use crate::common::data_set::{dump, memory, put};

fn form() -> OmeForm {
    OmeForm::new().axes(["z", "y", "x"])
}

fn to(
    source: &Location,
    target: &Location,
    form: &OmeForm,
    options: &PyramidOptions,
) -> Result<PyramidSummary, Error> {
    pyramid_to(&engine(), source, target, form, options, &mut |_| ())
}

/// A plain array of 24 x 20 x 18 elements in shards of 8 x 8 x 8, with a hole.
fn plain(place: &Location) -> ArrayNode {
    let document = sharded(&[24, 20, 18], &[8, 8, 8], &[4, 4, 4]);
    let array = ArrayNode::create(&engine(), place, metadata(&document)).unwrap();
    write(&array, "0:13,:,:", noise(13 * 20 * 18 * 2, 3));
    array
}

/// A source and a target in memory.
fn places() -> (Location, Location) {
    let (source, target) = (Location::root(memory()), Location::root(memory()));
    plain(&source.join("a").unwrap());
    (source.join("a").unwrap(), target.join("i").unwrap())
}

/// The finest level of an image has the elements of an array, and the others are made from it.
fn check_made(source: &Location, image: &Location, summary: &PyramidSummary) {
    let of = |place: &Location| Elements::of(&ArrayNode::open(&engine(), place).unwrap());
    assert_eq!(of(source), of(&image.join("0").unwrap()));
    check(image, summary);
}

#[test]
fn an_array_becomes_an_image_and_stays_as_it_is() {
    let (source, target) = places();
    let before = dump(&*source.store);
    let form = form().scale(&[2.0, 0.5, 0.5]).unit("micrometer");
    let summary = to(&source, &target, &form, &PyramidOptions::new()).unwrap();
    // Voxels are halved along y and x until they are cubes.
    let shapes: Vec<_> = summary.levels.iter().map(|level| level.shape.clone()).collect();
    assert_eq!(shapes, [[24, 10, 9], [24, 5, 5], [12, 3, 3], [6, 2, 2], [3, 1, 1]]);
    check_made(&source, &target, &summary);
    assert_eq!(dump(&*source.store), before);
    // The same again changes nothing.
    let made = dump(&*target.store);
    let again = to(&source, &target, &form, &PyramidOptions::new()).unwrap();
    assert!(again.unchanged);
    assert_eq!(dump(&*target.store), made);
}

#[test]
fn what_concerns_storage_holds_for_all_levels() {
    let (source, target) = places();
    let form = form().packing(Packing::Shard(vec![16, 16, 16])).version(OmeRelease::V0_5);
    let options = PyramidOptions::new().chunk(&[8, 8, 8]).levels(3);
    let summary = to(&source, &target, &form, &options).unwrap();
    check_made(&source, &target, &summary);
    for (level, shard) in [("0", [16, 16, 16]), ("1", [16, 16, 16]), ("2", [8, 8, 8])] {
        let array = ArrayNode::open(&engine(), &target.join(level).unwrap()).unwrap();
        assert_eq!(array.chunk_shape(), [8, 8, 8], "{level}");
        assert_eq!(array.shard_shape(), Some(&shard[..]), "{level}");
    }
}

#[test]
fn an_array_becomes_an_image_of_0_4() {
    let (source, target) = places();
    let form = form().version(OmeRelease::V0_4);
    to(&source, &target, &form, &PyramidOptions::new().levels(3)).unwrap();
    assert_eq!(check_named(&target), 3);
    let finest = ArrayNode::open(&engine(), &target.join("0").unwrap()).unwrap();
    assert_eq!(Elements::of(&finest), Elements::of(&ArrayNode::open(&engine(), &source).unwrap()));
    let names: Vec<String> = dump(&*target.store).into_keys().collect();
    assert!(
        names.contains(&"i/2/.zarray".to_owned()) && !names.contains(&"i/zarr.json".to_owned())
    );
}

#[test]
fn an_image_of_one_level_gets_the_others_elsewhere() {
    let (source, image) = places();
    convert_to_ome(&engine(), &source, &image, &form(), &ConvertOptions::new(), &mut |_| ())
        .unwrap();
    let target = Location::root(memory());
    let summary = to(&image, &target, &OmeForm::new(), &PyramidOptions::new()).unwrap();
    check_made(&source, &target, &summary);
    // One that has more is refused, and nothing is written.
    let other = Location::root(memory());
    let error = to(&target, &other, &OmeForm::new(), &PyramidOptions::new()).unwrap_err();
    assert!(matches!(error, Error::Pyramid(PyramidError::Exists { levels: 4, .. })), "{error}");
    assert_eq!(dump(&*other.store), BTreeMap::new());
}

#[test]
fn what_cannot_be_done_is_refused_before_the_finest_level_is_moved() {
    let (source, target) = places();
    for options in [
        PyramidOptions::new().factors(&[1, 1, 1]),
        PyramidOptions::new().levels(40),
        PyramidOptions::new().part(Some(shardine::jobs::Part::Of { index: 1, count: 2 })),
        PyramidOptions::new().chunk(&[64, 64, 64]),
    ] {
        let error = to(&source, &target, &form(), &options).unwrap_err();
        assert_eq!(dump(&*target.store), BTreeMap::new(), "{error}");
    }
    let unnamed = to(&source, &target, &OmeForm::new(), &PyramidOptions::new()).unwrap_err();
    assert_eq!(dump(&*target.store), BTreeMap::new(), "{unnamed}");
    let dry = to(&source, &target, &form(), &PyramidOptions::new().dry_run(true)).unwrap();
    assert_eq!(dry.levels.len(), 3);
    assert_eq!(dump(&*target.store), BTreeMap::new());
}

#[test]
fn something_else_at_the_target_is_left_alone_unless_it_may_be_replaced() {
    let (source, target) = places();
    put(&*target.store, "i/notes.txt", b"mine");
    let before = dump(&*target.store);
    to(&source, &target, &form(), &PyramidOptions::new()).unwrap_err();
    assert_eq!(dump(&*target.store), before);
    let (source, target) = places();
    let max = PyramidOptions::new().method(DownsampleMethod::Max);
    to(&source, &target, &form(), &max).unwrap();
    let before = dump(&*target.store);
    to(&source, &target, &form(), &PyramidOptions::new()).unwrap_err();
    assert_eq!(dump(&*target.store), before);
    let overwrite = PyramidOptions::new().levels(3).overwrite(true);
    let summary = to(&source, &target, &form(), &overwrite).unwrap();
    check_made(&source, &target, &summary);
    assert!(!dump(&*target.store).keys().any(|name| name.starts_with("i/3/")));
}

#[test]
fn a_source_that_was_changed_after_the_first_half_is_not_mixed_with_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let (_, root) = on_files(&folder, "");
    let (source, target) = (root.join("a").unwrap(), root.join("i").unwrap());
    let array = plain(&source);
    // The finest level is there, the others are not.
    convert_to_ome(&engine(), &source, &target, &form(), &ConvertOptions::new(), &mut |_| ())
        .unwrap();
    write(&array, "0:4,0:4,0:4", noise(128, 11));
    match to(&source, &target, &form(), &PyramidOptions::new()) {
        // The levels belong to the finest one, whichever it is.
        Ok(summary) => check(&target, &summary),
        Err(error) => panic!("{error}"),
    }
    // A form that the source has taken on since is another request.
    let reshard = RepackOptions::new().packing(Packing::Unsharded);
    repack(&engine(), &source, None, &reshard, &mut |_| ()).unwrap();
    check_named(&target);
}

#[test]
fn a_fault_at_any_call_leaves_what_the_same_call_finishes() {
    let (source, target) = places();
    to(&source, &target, &form(), &PyramidOptions::new()).unwrap();
    let whole = dump(&*target.store);
    for operation in [
        Operation::Read,
        Operation::Create,
        Operation::Append,
        Operation::Finish,
        Operation::Publish,
        Operation::PublishAnswer,
        Operation::List,
    ] {
        let mut failed = 0;
        for call in (1..).step_by(2) {
            let store = FaultStore::new(MemoryStore::new());
            let root = Location::root(Arc::new(store.clone()));
            let target = root.join("i").unwrap();
            store.fail(operation, call);
            let first = to(&source, &target, &form(), &PyramidOptions::new());
            if store.waiting() > 0 {
                first.unwrap();
                break;
            }
            store.clear();
            failed += usize::from(first.is_err());
            let again = to(&source, &target, &form(), &PyramidOptions::new());
            again.unwrap_or_else(|error| panic!("{operation:?} {call}: {error}"));
            assert!(dump(&store) == whole, "{operation:?} {call}");
        }
        assert!(failed > 0, "{operation:?}");
    }
}
