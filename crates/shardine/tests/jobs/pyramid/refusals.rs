//! What is refused, before anything is written.

use serde_json::json;
use shardine::jobs::{JobError, Part, PyramidError, PyramidOptions};

use super::*;
use crate::common::data_set::{dump, memory, put};

fn refused(place: &Location, options: &PyramidOptions) -> PyramidError {
    let before = dump(&*place.store);
    let error = run(place, options).unwrap_err();
    assert_eq!(dump(&*place.store), before, "{error}");
    match error {
        Error::Pyramid(error) => error,
        error => panic!("{error}"),
    }
}

#[test]
fn what_is_no_image_is_named() {
    let place = Location::root(memory());
    let array = create_in(Arc::clone(&place.store), &sharded(&[4, 4], &[4, 4], &[2, 2]));
    drop(array);
    assert!(matches!(refused(&place, &PyramidOptions::new()), PyramidError::NotAnImage { .. }));
    let plate = json!({"ome": {"version": "0.5", "plate":
        {"rows": [{"name": "A"}], "columns": [{"name": "1"}], "wells": []}}});
    for (attributes, word) in [(json!({}), "no such metadata"), (plate, "plate")] {
        let place = Location::root(memory());
        let attributes = attributes.as_object().unwrap().clone();
        Group::create(&engine(), &place, GroupMetadata::new(attributes)).unwrap();
        let error = refused(&place, &PyramidOptions::new());
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn factors_that_make_no_sense_are_refused() {
    let place = Location::root(memory());
    image(&place, &sharded(&[3, 20, 20, 20], &[1, 8, 8, 8], &[1, 4, 4, 4]));
    for factors in [&[2, 2][..], &[1, 1, 1], &[0, 2, 2], &[2, 1, 1, 1], &[1 << 20, 1 << 20, 1]] {
        let error = refused(&place, &PyramidOptions::new().factors(factors));
        let expected = matches!(error, PyramidError::Factors { .. } | PyramidError::Method { .. });
        assert!(expected, "{factors:?}: {error}");
    }
    for levels in [0, 1, 8, 1000] {
        let error = refused(&place, &PyramidOptions::new().levels(levels));
        assert!(matches!(error, PyramidError::Factors { .. }), "{levels}: {error}");
    }
    let shards = shardine::Packing::Shard(vec![5, 5, 5, 5]);
    let error = refused(&place, &PyramidOptions::new().packing(shards));
    assert!(matches!(error, PyramidError::Layout { .. }), "{error}");
}

#[test]
fn an_image_that_fits_one_chunk_needs_nothing() {
    let place = Location::root(memory());
    image(&place, &sharded(&[4, 4], &[8, 8], &[4, 4]));
    assert!(matches!(refused(&place, &PyramidOptions::new()), PyramidError::Nothing { .. }));
    let update = PyramidOptions::new().update(true);
    assert!(matches!(refused(&place, &update), PyramidError::Nothing { .. }));
}

#[test]
fn text_has_no_mean_and_other_types_can_only_be_thinned_out() {
    let place = Location::root(memory());
    let document = document(&[8], &[2], "complex64".into(), json!([0.0, 0.0]), json!([bytes()]));
    image(&place, &document);
    assert!(matches!(refused(&place, &PyramidOptions::new()), PyramidError::Method { .. }));
    let stride = PyramidOptions::new().method(DownsampleMethod::Stride);
    run(&place, &stride).unwrap();
}

#[test]
fn levels_that_exist_and_things_in_the_way_are_left_alone() {
    let place = Location::root(memory());
    usual(&place);
    put(&*place.store, "2/notes.txt", b"mine");
    assert!(matches!(refused(&place, &PyramidOptions::new()), PyramidError::InTheWay { .. }));
    let two = PyramidOptions::new().levels(2);
    let first = run(&place, &two).unwrap();
    assert!(!first.unchanged);
    let before = dump(&*place.store);
    // The same again is already there, anything else is refused.
    let again = run(&place, &two).unwrap();
    assert!(again.unchanged);
    assert_eq!(dump(&*place.store), before);
    let other = two.clone().method(DownsampleMethod::Max);
    assert!(matches!(refused(&place, &other), PyramidError::Exists { levels: 2, .. }));
    let overwrite = other.overwrite(true);
    assert!(matches!(refused(&place, &overwrite), PyramidError::NeedsFiles { .. }));
    let part = two.part(Some(Part::Of { index: 1, count: 2 })).overwrite(true);
    let part = part.method(DownsampleMethod::Min);
    let error = run(&place, &part).unwrap_err();
    assert!(
        matches!(error, Error::Job(JobError::NotInParts { .. }) | Error::Pyramid(_)),
        "{error}"
    );
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = Location::root(memory());
    usual(&place);
    let before = dump(&*place.store);
    let summary = run(&place, &PyramidOptions::new().dry_run(true)).unwrap();
    assert_eq!(summary.levels.len(), 4);
    assert_eq!(dump(&*place.store), before);
}

#[test]
fn damage_in_the_finest_level_is_named_and_nothing_is_declared() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = on_files(&folder, "image");
    let document =
        document(&[32, 32], &[8, 8], "uint16".into(), 0.into(), json!([bytes(), zstd()]));
    let array = image(&place, &document);
    write(&array, "...", noise(2048, 6));
    std::fs::write(folder.path().join("image/0/c/1/2"), b"garbage").unwrap();
    let error = run(&place, &PyramidOptions::new()).unwrap_err();
    assert!(error.to_string().contains("c/1/2"), "{error}");
    let root = std::fs::read_to_string(folder.path().join("image/zarr.json")).unwrap();
    assert!(!root.contains("\"1\""), "{root}");
}
