//! Levels in a new store.

use std::path::Path;

use shardine::ErrorKind;
use shardine::jobs::pyramid_vectors_to;
use shardine::store::FileStore;

use super::common::deaths::Deaths;
use super::common::trees::{Tree, assert_same, folder, leftovers, restore, tree};
use super::parts::{store, whole};
use super::*;

fn at(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
}

/// Fails unless a store is the expected one. Its root may be spelled differently.
pub fn assert_same_store(found: &Path, expected: &Tree) {
    let (mut found, mut expected) = (tree(found), expected.clone());
    let root = |tree: &mut Tree| -> Value {
        serde_json::from_slice(&tree.remove(Path::new("zarr.json")).unwrap()).unwrap()
    };
    assert_eq!(root(&mut found), root(&mut expected));
    assert_same(&found, &expected, "the new store");
}

#[test]
fn a_new_store_has_the_finest_level_as_it_is_and_new_levels() {
    let old = store(GeometryKind::Polylines, &[4]);
    let (source, target) = (folder(), folder());
    restore(&old, source.path());
    fs::write(source.path().join("README"), "mine").unwrap();
    let new = target.path().join("new");
    let report = pyramid_vectors_to(&engine(), &at(source.path()), &at(&new), &two()).unwrap();
    assert_eq!(report.levels.len(), 2);
    let mut expected = whole(&old);
    expected.insert("README".into(), b"mine".to_vec());
    assert_same_store(&new, &expected);
    let again = pyramid_vectors_to(&engine(), &at(source.path()), &at(&new), &two()).unwrap();
    assert!(again.unchanged);
    let other = PyramidVectorsOptions::new().factors(&[(4.0, 1.0)]);
    let refused = pyramid_vectors_to(&engine(), &at(source.path()), &at(&new), &other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exists, "{refused}");
    assert_same_store(&new, &expected);
    let other = other.overwrite(true);
    pyramid_vectors_to(&engine(), &at(source.path()), &at(&new), &other).unwrap();
    assert_eq!(VectorStore::open_in(&engine(), at(&new)).unwrap().levels(), [0, 1]);
    assert!(leftovers(&new).is_empty());
}

#[test]
fn levels_that_the_source_has_are_not_carried_over() {
    let old = store(GeometryKind::Points, &[4]);
    let (source, target) = (folder(), folder());
    restore(&old, source.path());
    let other = PyramidVectorsOptions::new().factors(&[(3.0, 1.0), (3.0, 1.0), (2.0, 1.0)]);
    pyramid_vectors(&engine(), &at(source.path()), &other).unwrap();
    let before = tree(source.path());
    let new = target.path().join("new");
    pyramid_vectors_to(&engine(), &at(source.path()), &at(&new), &two()).unwrap();
    assert_same_store(&new, &whole(&old));
    assert_same(&tree(source.path()), &before, "the source stays");
}

#[test]
fn a_copy_of_the_metadata_in_the_root_is_made_for_the_new_store() {
    let source = folder();
    restore(&store(GeometryKind::Points, &[4]), source.path());
    shardine::zarr::consolidate(&at(source.path())).unwrap();
    let target = folder();
    let new = target.path().join("new");
    pyramid_vectors_to(&engine(), &at(source.path()), &at(&new), &two()).unwrap();
    let root = document(&at(&new), "zarr.json");
    let nodes = &root["consolidated_metadata"]["metadata"];
    assert!(nodes.get("2/vertices").is_some() && nodes.get("0/links/+1").is_some(), "{nodes}");
}

#[test]
fn the_store_itself_and_what_has_the_name_of_a_level_are_refused() {
    let source = folder();
    restore(&store(GeometryKind::Points, &[4]), source.path());
    let inside = source.path().join("new");
    for target in [source.path(), &inside] {
        assert!(pyramid_vectors_to(&engine(), &at(source.path()), &at(target), &two()).is_err());
    }
    fs::create_dir(source.path().join("2")).unwrap();
    fs::write(source.path().join("2/mine"), "important").unwrap();
    let target = folder();
    let new = target.path().join("new");
    let error = pyramid_vectors_to(&engine(), &at(source.path()), &at(&new), &two()).unwrap_err();
    assert!(matches!(error, Error::PyramidVectors(_)), "{error}");
    assert!(!new.exists());
}

#[test]
fn a_new_store_whose_maker_dies_at_any_step_is_made_by_the_same_call() {
    let old = store(GeometryKind::Polylines, &[4]);
    let expected = whole(&old);
    let source = folder();
    restore(&old, source.path());
    let steps = Deaths {
        old: &Tree::new(),
        stride: 9,
        run: &|root| {
            let target = root.join("new")?;
            pyramid_vectors_to(&engine(), &at(source.path()), &target, &two()).map(drop)
        },
        check: &|root, step| {
            let new = root.join("new");
            let Ok(store) = VectorStore::open_in(&engine(), at(&new)) else { return };
            for level in store.levels() {
                let own = if *level == 0 { 400 } else { vertices(&at(&new), *level) };
                assert_eq!(vertices(&at(&new), *level), own, "dead at step {step}");
            }
            if leftovers(&new).is_empty() {
                assert_same_store(&new, &expected);
            }
        },
    }
    .everywhere();
    assert!(steps > 50, "{steps}");
}
