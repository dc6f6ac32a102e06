//! Boxes, ids, groups, filters, and stores that lack a list of their chunks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use shardine::store::{Condition, Key, Store as _, StoreExt};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{Array, Location};

use crate::golden::{Answer, ask, engine, golden, sorted};

const LOW: [f64; 3] = [-20.0, -10.0, 0.0];
const HIGH: [f64; 3] = [60.0, 70.0, 55.5];

fn inside(position: &[f64]) -> bool {
    position.iter().zip(LOW.iter().zip(HIGH)).all(|(at, (low, high))| at >= low && *at <= high)
}

fn ids(answer: &Answer) -> BTreeSet<i64> {
    answer.rows.iter().map(|row| row.id.unwrap()).collect()
}

#[test]
fn a_box_takes_the_points_inside() {
    for name in ["points", "point_objects", "point_genes"] {
        let golden = golden(name);
        let answer = ask(&golden.open(), &VectorQuery::new().bounds(LOW, HIGH)).unwrap();
        let expected: Vec<_> = golden.positions().into_iter().filter(|one| inside(one)).collect();
        assert!(!expected.is_empty() && expected.len() < golden.positions().len());
        assert_eq!(answer.sorted_positions(), sorted(expected), "{name}");
    }
}

#[test]
fn the_bounds_of_a_box_are_inside() {
    let golden = golden("points");
    let store = golden.open();
    let point = golden.positions()[7].clone();
    let answer = ask(&store, &VectorQuery::new().bounds(point.clone(), point.clone())).unwrap();
    assert_eq!(answer.positions(), [point]);
    let beyond = VectorQuery::new().bounds([1e300; 3], [f64::INFINITY; 3]);
    assert!(ask(&store, &beyond).unwrap().rows.is_empty());
    let everywhere = VectorQuery::new().bounds([f64::NEG_INFINITY; 3], [f64::INFINITY; 3]);
    assert_eq!(ask(&store, &everywhere).unwrap().rows.len(), 40);
    let flat = VectorQuery::new().bounds([0.0; 2], [1.0; 2]);
    assert!(ask(&store, &flat).unwrap_err().to_string().contains("must have 3 axes"));
    assert!(ask(&store, &VectorQuery::new().bounds([f64::NAN; 3], [1.0; 3])).is_err());
}

#[test]
fn a_box_takes_objects_whole_and_clipped_only_what_is_inside() {
    for name in ["lines", "polylines", "skeleton", "graph", "mesh"] {
        let golden = golden(name);
        let store = golden.open();
        let (low, high) = ([0.0; 3], [45.0; 3]);
        let is_in = |one: &[f64]| one.iter().all(|at| (0.0..=45.0).contains(at));
        let query = VectorQuery::new().bounds(low, high);
        let rows: Vec<(i64, Vec<f64>)> = golden.ids().into_iter().zip(golden.positions()).collect();
        let touched: BTreeSet<i64> =
            rows.iter().filter(|row| is_in(&row.1)).map(|row| row.0).collect();
        let answer = ask(&store, &query).unwrap();
        assert_eq!(ids(&answer), touched, "{name}");
        let whole: Vec<_> =
            rows.iter().filter(|row| touched.contains(&row.0)).map(|row| row.1.clone()).collect();
        assert_eq!(answer.sorted_positions(), sorted(whole), "{name}");
        let clipped = ask(&store, &query.clip(true)).unwrap();
        let expected: Vec<_> =
            rows.iter().filter(|row| is_in(&row.1)).map(|row| row.1.clone()).collect();
        assert_eq!(clipped.sorted_positions(), sorted(expected), "{name}");
        if let Value::Array(_) = golden.given["links"] {
            let links: Vec<Vec<Vec<f64>>> =
                serde_json::from_value(golden.given["links"].clone()).unwrap();
            let both = |link: &Vec<Vec<f64>>| link.iter().all(|end| is_in(end));
            let expected: Vec<_> = links.into_iter().filter(both).collect();
            assert_eq!(clipped.linked_positions().len(), expected.len(), "{name}");
            if name != "mesh" {
                assert_eq!(clipped.linked_positions(), sorted(expected), "{name}");
            }
        }
    }
}

#[test]
fn objects_are_found_by_id_also_where_ids_are_sparse() {
    let golden = golden("point_objects");
    let store = golden.open();
    let answer = ask(&store, &VectorQuery::new().ids([21, 7])).unwrap();
    let rows = golden.ids().into_iter().zip(golden.positions());
    let expected: Vec<_> = rows.filter(|row| row.0 == 7 || row.0 == 21).map(|row| row.1).collect();
    assert_eq!(answer.sorted_positions(), sorted(expected));
    let error = ask(&store, &VectorQuery::new().ids([7, 8])).unwrap_err().to_string();
    assert!(error.ends_with("there is no object 8"), "{error}");
    let paths = crate::golden::golden("polylines").open();
    assert_eq!(ids(&ask(&paths, &VectorQuery::new().ids([1])).unwrap()), BTreeSet::from([1]));
    let none = crate::golden::golden("points").open();
    let error = ask(&none, &VectorQuery::new().ids([1])).unwrap_err().to_string();
    assert!(error.ends_with("the store has no objects that could be asked for"), "{error}");
}

#[test]
fn groups_take_their_objects_given_as_a_list_or_as_a_range() {
    let points = golden("point_objects").open();
    let of = |store: &VectorStore, groups: Vec<u64>| {
        ids(&ask(store, &VectorQuery::new().groups(groups)).unwrap())
    };
    assert_eq!(of(&points, vec![0]), BTreeSet::from([0, 7]));
    assert_eq!(of(&points, vec![2]), BTreeSet::from([21]));
    // A gap in the numbers is a group without members.
    assert_eq!(of(&points, vec![1]), BTreeSet::new());
    assert_eq!(of(&points, vec![0, 2]), BTreeSet::from([0, 7, 21]));
    let paths = golden("polylines").open();
    assert_eq!(of(&paths, vec![0]), BTreeSet::from([0, 1]));
    assert_eq!(of(&paths, vec![1]), BTreeSet::from([2]));
    let both = VectorQuery::new().groups([0]).ids([1]);
    assert_eq!(ids(&ask(&paths, &both).unwrap()), BTreeSet::from([1]));
    let error = ask(&paths, &VectorQuery::new().groups([9])).unwrap_err().to_string();
    assert!(error.ends_with("there is no group 9"), "{error}");
}

#[test]
fn filters_take_points_by_their_attributes_and_objects_by_theirs() {
    let points = golden("points");
    let store = points.open();
    let filtered = |text: &str| {
        let query = VectorQuery::new().filter(text.parse().unwrap());
        ask(&store, &query).unwrap().sorted_positions()
    };
    let given = |name: &str, keep: &dyn Fn(f64) -> bool| {
        let values: Vec<f64> =
            serde_json::from_value(points.given["attributes"][name].clone()).unwrap();
        let rows = points.positions().into_iter().zip(values);
        sorted(rows.filter(|row| keep(row.1)).map(|row| row.0).collect())
    };
    assert_eq!(filtered("i >= 0.5"), given("i", &|i| i >= 0.5));
    assert_eq!(filtered("ok=true"), given("ok", &|ok| ok == 1.0));
    assert_eq!(filtered("ok!=true"), given("ok", &|ok| ok == 0.0));
    let genes = golden("point_genes").open();
    let query = VectorQuery::new().filter("gene=sox2".parse().unwrap());
    let answer = ask(&genes, &query).unwrap();
    assert!(!answer.rows.is_empty());
    assert!(answer.rows.iter().all(|row| row.words["gene"].as_deref() == Some("sox2")));
    let objects = golden("point_objects").open();
    let query = VectorQuery::new().filter("size>2".parse().unwrap());
    // An object without a size is neither larger nor smaller.
    assert_eq!(ids(&ask(&objects, &query).unwrap()), BTreeSet::from([7, 21]));
    let unknown = VectorQuery::new().filter("colour=1".parse().unwrap());
    let error = ask(&store, &unknown).unwrap_err().to_string();
    assert!(error.ends_with("the level has no attribute \"colour\""), "{error}");
    for wrong in ["", "i", "=3", ">="] {
        assert!(wrong.parse::<shardine::vectors::AttributeFilter>().is_err(), "{wrong}");
    }
}

#[test]
fn without_a_list_of_chunks_they_are_found_and_that_is_told() {
    for (name, how) in [("points", "indexes of shards"), ("point_genes", "a listing")] {
        let mut golden = golden(name);
        let whole = ask(&golden.open(), &VectorQuery::new()).unwrap();
        let vertices = golden.files.get_mut("0/vertices/zarr.json").unwrap();
        vertices["attributes"].as_object_mut().unwrap().remove("nonempty_chunks");
        let answer = ask(&golden.open(), &VectorQuery::new()).unwrap();
        assert_eq!(answer.rows, whole.rows, "{name}");
        assert!(answer.notes[0].contains("has no list of its chunks"), "{:?}", answer.notes);
        assert!(answer.notes[0].ends_with(how), "{:?}", answer.notes);
        // A list with a chunk that the array has no room for is no list.
        let vertices = golden.files.get_mut("0/vertices/zarr.json").unwrap();
        let rank = vertices["shape"].as_array().unwrap().len();
        let outside = vec!["99"; rank].join(".");
        vertices["attributes"]["nonempty_chunks"] = json!([outside]);
        let answer = ask(&golden.open(), &VectorQuery::new()).unwrap();
        assert_eq!(answer.rows, whole.rows, "{name}");
        let notes = answer.notes.join("\n");
        assert!(notes.contains("which is outside"), "{notes}");
    }
}

/// The manifests of `polylines` as two arrays of numbers.
fn dense(location: &Location) {
    let store = VectorStore::open_in(&engine(), location).unwrap();
    drop(store);
    let index = location.join("0/object_index").unwrap();
    let manifests = Array::open(index.join("manifests").unwrap()).unwrap();
    let shardine::Elements::Variable(rows) = manifests.read_elements(..).unwrap() else { panic!() };
    let (mut spans, mut blocks) = (Vec::new(), Vec::new());
    for manifest in rows.iter() {
        let start = blocks.len() as i64 / 4;
        let count = u32::from_le_bytes(manifest[..4].try_into().unwrap());
        for block in manifest[4..].chunks(33) {
            let number = |at: usize| i64::from_le_bytes(block[at..at + 8].try_into().unwrap());
            assert_eq!(block[24], 0);
            blocks.extend([number(0), number(8), number(16), number(25)]);
        }
        spans.extend([start, i64::from(count)]);
    }
    let objects = spans.len() as u64 / 2;
    let create = |name: &str, shape: [u64; 2], values: &[i64]| {
        let at = index.join(name).unwrap();
        Array::builder(shape, "int64").create(&at).unwrap().write(.., values).unwrap();
    };
    create("manifest_spans", [objects, 2], &spans);
    create("manifest_blocks", [blocks.len() as u64 / 4, 4], &blocks);
}

#[test]
fn manifests_may_be_dense_or_without_ids() {
    let golden = golden("polylines");
    let whole = ask(&golden.open(), &VectorQuery::new()).unwrap();
    let remove = |location: &Location, name: &str| {
        for key in
            golden.files.keys().filter(|key| key.starts_with(&format!("0/object_index/{name}/")))
        {
            let key = shardine::store::Key::new(key).unwrap();
            location.store.delete(&key, &shardine::store::Condition::None).unwrap();
        }
    };
    let location = golden.location();
    dense(&location);
    remove(&location, "manifests");
    let store = VectorStore::open_in(&engine(), &location).unwrap();
    assert_eq!(ask(&store, &VectorQuery::new()).unwrap().rows, whole.rows);
    let one = ask(&store, &VectorQuery::new().ids([1])).unwrap();
    assert_eq!(ids(&one), BTreeSet::from([1]));
    let location = golden.location();
    remove(&location, "object_ids");
    let store = VectorStore::open_in(&engine(), &location).unwrap();
    assert_eq!(ask(&store, &VectorQuery::new()).unwrap().rows, whole.rows);
    assert_eq!(ids(&ask(&store, &VectorQuery::new().ids([2])).unwrap()), BTreeSet::from([2]));
    assert!(ask(&store, &VectorQuery::new().ids([3])).is_err());
}

#[test]
fn a_dictionary_gives_words_and_the_missing_none() {
    let mut golden = golden("points");
    let array = golden.files.get_mut("0/vertex_attributes/ok/zarr.json").unwrap();
    let attributes = array["attributes"].as_object_mut().unwrap();
    attributes.insert("dtype".into(), json!("uint8"));
    attributes.insert("encoding".into(), json!("dictionary"));
    attributes.insert("categories".into(), json!(["axon", "soma"]));
    attributes.insert("_FillValue".into(), json!(0));
    let answer = ask(&golden.open(), &VectorQuery::new()).unwrap();
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    answer.rows.iter().for_each(|row| *counts.entry(row.words["ok"].clone()).or_default() += 1);
    let given: Vec<f64> = serde_json::from_value(golden.given["attributes"]["ok"].clone()).unwrap();
    let somas = given.iter().filter(|ok| **ok == 1.0).count();
    assert_eq!(counts, BTreeMap::from([(None, 40 - somas), (Some("soma".to_owned()), somas)]));
    let query = VectorQuery::new().filter("ok=soma".parse().unwrap());
    assert_eq!(ask(&golden.open(), &query).unwrap().rows.len(), somas);
    let array = golden.files.get_mut("0/vertex_attributes/ok/zarr.json").unwrap();
    array["attributes"]["categories"] = json!(["axon"]);
    let error = ask(&golden.open(), &VectorQuery::new()).unwrap_err().to_string();
    assert!(error.contains("its code 1 is none of 1 categories"), "{error}");
}

#[test]
fn groups_are_given_with_their_members_whether_listed_or_in_a_range() {
    let groups = |location: &Location| {
        let store = VectorStore::open_in(&engine(), location).unwrap();
        let mut all = Vec::new();
        store
            .each_group(0, |group, members| {
                all.push((group, members.to_vec()));
                Ok(())
            })
            .unwrap();
        all
    };
    let location = golden("polylines").location();
    assert_eq!(groups(&location), [(0, vec![0, 1]), (1, vec![2])]);
    assert_eq!(groups(&golden("point_objects").location()), [(0, vec![0, 7]), (2, vec![21])]);
    assert_eq!(groups(&golden("graph").location()), []);
    // Of a range that no store bears out, what there is.
    let key = Key::new("0/groups/zarr.json").unwrap();
    let document = location.store.get(&key).unwrap().unwrap();
    let mut document: Value = serde_json::from_slice(&document).unwrap();
    document["attributes"]["group_ranges"] = json!({"0": [1, i64::MAX]});
    location.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
    assert_eq!(groups(&location), [(0, vec![1, 2]), (1, vec![2])]);
}
