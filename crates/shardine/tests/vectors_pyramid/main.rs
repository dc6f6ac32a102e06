//! Levels of geometry: runs that are stopped, other runs beside them, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

#[path = "../common/mod.rs"]
mod common;
mod parts;
mod to;

use std::fs;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::Float32Array;
use serde_json::{Value, json};
use shardine::jobs::{
    CancelToken, JobContext, PyramidVectorsError, PyramidVectorsOptions, PyramidVectorsReport,
    VerifyOptions, WriteVectorsOptions, pyramid_vectors, verify, write_vectors,
};
use shardine::store::{Condition, StoreExt};
use shardine::vectors::{GeometryKind, GeometrySource, VectorQuery, VectorStore};
use shardine::{Elements, ElementsRef, Engine, Error, Location, VariableElements};
use shardine_geometry::files::{FileFormat, ReadOptions};

fn engine() -> Arc<Engine> {
    Engine::shared().unwrap()
}

/// Writes rows of CSV as a store with chunks of 10.
fn write(place: &Location, kind: GeometryKind, text: &str) {
    let options = ReadOptions::new(kind);
    let mut rows = FileFormat::Csv.open(Cursor::new(text.to_owned()), &options).unwrap();
    let rank = rows.schema().axes.len();
    let options = WriteVectorsOptions::new(&vec![10.0; rank]).shard(&[4]);
    write_vectors(&engine(), &mut *rows, &[], place, &options).unwrap();
}

/// 40 paths of 5 vertices.
fn paths(place: &Location) {
    let mut text = "x,y,object_id\n".to_owned();
    for path in 0..40 {
        for step in 0..5 {
            text += &format!("{}.5,{}.25,{path}\n", (path * 7 + step * 3) % 80, (path + step) % 50);
        }
    }
    write(place, GeometryKind::Polylines, &text);
}

fn two() -> PyramidVectorsOptions {
    PyramidVectorsOptions::new().factors(&[(2.0, 1.0), (2.0, 2.0)])
}

fn make(place: &Location) -> Result<PyramidVectorsReport, Error> {
    pyramid_vectors(&engine(), place, &two())
}

fn vertices(place: &Location, level: u64) -> usize {
    let store = VectorStore::open_in(&engine(), place).unwrap();
    let mut rows = store.query(&VectorQuery::new().level(level)).unwrap();
    let mut count = 0;
    while let Some(batch) = rows.next_batch().unwrap() {
        count += batch.vertices.num_rows();
    }
    count
}

fn document(place: &Location, key: &str) -> Value {
    let bytes = place.store.get(&place.key(key).unwrap()).unwrap().unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn points_become_means_of_bins_and_a_store_in_memory_names_them() {
    let place = Location::memory();
    write(&place, GeometryKind::Points, "x,y\n1,1\n3,5\n15,5\n25,5\n39,9\n");
    let report =
        pyramid_vectors(&engine(), &place, &PyramidVectorsOptions::new().factors(&[(2.0, 1.0)]))
            .unwrap();
    assert_eq!((report.levels.len(), report.levels[0].vertices), (1, 2));
    let store = VectorStore::open_in(&engine(), &place).unwrap();
    let mut rows = store.query(&VectorQuery::new().level(1)).unwrap();
    let batch = rows.next_batch().unwrap().unwrap();
    let x = batch.vertices.column(0);
    let x = x.as_any().downcast_ref::<Float32Array>().map(|x| x.values().to_vec());
    // (1 + 3 + 15) / 3 and (25 + 39) / 2, in 32 bits.
    assert_eq!(x, Some(vec![6.333_333_5, 32.0]));
    let root = document(&place, "zarr.json");
    assert_eq!(
        root["attributes"]["zarr_vectors"]["format_capabilities"],
        json!(["shared_fragments", "multiscale_links"])
    );
}

#[test]
fn a_second_run_does_nothing_and_another_is_refused_unless_it_may_replace() {
    let place = Location::memory();
    paths(&place);
    let first = make(&place).unwrap();
    assert!(!first.unchanged && first.written.objects_written > 0);
    assert_eq!(first.left_out, Vec::<String>::new());
    let again = make(&place).unwrap();
    assert!(again.unchanged && again.written.objects_written == 0);
    assert_eq!(again.levels[1].vertices, first.levels[1].vertices);
    let other = PyramidVectorsOptions::new().factors(&[(4.0, 1.0)]);
    let error = pyramid_vectors(&engine(), &place, &other).unwrap_err();
    assert!(
        matches!(error, Error::PyramidVectors(PyramidVectorsError::Exists { levels: 3, .. })),
        "{error}"
    );
    pyramid_vectors(&engine(), &place, &other.overwrite(true)).unwrap();
    let store = VectorStore::open_in(&engine(), &place).unwrap();
    assert_eq!(store.levels(), [0, 1]);
    let datasets =
        document(&place, "zarr.json")["attributes"]["multiscales"][0]["datasets"].clone();
    assert_eq!(datasets.as_array().unwrap().len(), 2);
    assert!(place.store.list(place.join("2").unwrap().path.as_ref()).unwrap().is_empty());
}

#[test]
fn levels_with_other_objects_than_the_seed_draws_are_not_taken_for_those_asked_for() {
    let place = Location::memory();
    paths(&place);
    let first = pyramid_vectors(&engine(), &place, &two().seed(1)).unwrap();
    let again = pyramid_vectors(&engine(), &place, &two().seed(1)).unwrap();
    assert!(!first.unchanged && again.unchanged);
    let error = pyramid_vectors(&engine(), &place, &two().seed(2)).unwrap_err();
    assert!(
        matches!(error, Error::PyramidVectors(PyramidVectorsError::Exists { levels: 3, .. })),
        "{error}"
    );
    let other = pyramid_vectors(&engine(), &place, &two().seed(2).overwrite(true)).unwrap();
    assert!(!other.unchanged);
    assert!(pyramid_vectors(&engine(), &place, &two().seed(2)).unwrap().unchanged);
    // Where all objects are kept, nothing is drawn.
    let all = PyramidVectorsOptions::new().factors(&[(2.0, 1.0)]);
    pyramid_vectors(&engine(), &place, &all.clone().seed(1).overwrite(true)).unwrap();
    assert!(pyramid_vectors(&engine(), &place, &all.seed(2)).unwrap().unchanged);
}

#[test]
fn an_attribute_of_objects_that_is_not_carried_over_is_said() {
    let place = Location::memory();
    paths(&place);
    let strings = json!({
        "zarr_format": 3, "node_type": "array", "shape": [40], "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [40]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "", "codecs": [{"name": "vlen-utf8"}],
    });
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    for (name, document) in [("", &group), ("/note", &strings)] {
        let key = place.key(&format!("0/object_attributes{name}/zarr.json")).unwrap();
        place.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
    }
    let said = ["the attribute note of objects, whose values are of any length"];
    let planned = pyramid_vectors(&engine(), &place, &two().dry_run(true)).unwrap();
    assert_eq!(planned.left_out, said);
    assert_eq!(make(&place).unwrap().left_out, said);
    assert!(
        place
            .store
            .list(place.join("1/object_attributes").unwrap().path.as_ref())
            .unwrap()
            .is_empty()
    );
}

/// Changes a document of a store.
fn change(place: &Location, key: &str, change: impl FnOnce(&mut Value)) {
    let mut text = document(place, key);
    change(&mut text);
    let key = place.key(key).unwrap();
    place.store.put(&key, text.to_string().as_bytes(), Condition::None).unwrap();
}

#[test]
fn numbers_of_a_store_that_nothing_bears_out_cost_neither_memory_nor_time() {
    let huge = 1u64 << 40;
    let place = Location::memory();
    paths(&place);
    let mut weights = json!({
        "zarr_format": 3, "node_type": "array", "shape": [40, huge], "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [40, 1]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN", "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    });
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    let put = |place: &Location, name: &str, document: &Value| {
        let key = place.key(&format!("0/object_attributes{name}/zarr.json")).unwrap();
        place.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
    };
    put(&place, "", &group);
    put(&place, "/weights", &weights);
    // One value of so many is stored, and carried over.
    let weights_of = |level: u64| {
        let path = format!("{level}/object_attributes/weights");
        shardine::Array::open(place.join(&path).unwrap()).unwrap()
    };
    let region = shardine::Region::of_box(&[0, huge - 1], &[40, 1]);
    weights_of(0).write(&region, &[0.5f32; 40]).unwrap();
    make(&place).unwrap();
    let values: Vec<f32> = weights_of(1).read(&region).unwrap();
    assert_eq!(values, [0.5; 40]);
    let kept = weights_of(2).read::<f32>(&region).unwrap();
    assert_eq!(kept.iter().filter(|value| !value.is_nan()).count(), 20);

    // As many rows as there are objects.
    let place = Location::memory();
    paths(&place);
    weights["shape"] = json!([39, 2]);
    put(&place, "", &group);
    put(&place, "/weights", &weights);
    let error = make(&place).unwrap_err().to_string();
    assert!(error.contains("has the shape [39, 2], and there are 40 objects"), "{error}");

    // As many ids as fit into memory.
    let place = Location::memory();
    paths(&place);
    for array in ["object_ids", "manifests"] {
        change(&place, &format!("0/object_index/{array}/zarr.json"), |array| {
            array["shape"] = json!([huge]);
        });
    }
    let error = make(&place).unwrap_err().to_string();
    assert!(error.contains(&format!("it takes about {} bytes of memory", 16 * huge)), "{error}");
    assert!(place.store.get(&place.key("1/zarr.json").unwrap()).unwrap().is_none());
}

#[test]
fn a_list_that_leaves_a_chunk_out_is_refused_before_a_level_is_made() {
    let place = Location::memory();
    paths(&place);
    change(&place, "0/vertices/zarr.json", |array| {
        array["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop().unwrap();
    });
    let error = make(&place).unwrap_err();
    assert!(matches!(error, Error::Vectors { .. }), "{error}");
    assert!(
        error.to_string().contains("nonempty_chunks") || error.to_string().contains("list"),
        "{error}"
    );
    assert!(place.store.get(&place.key("1/zarr.json").unwrap()).unwrap().is_none());
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = Location::memory();
    paths(&place);
    let before = document(&place, "zarr.json");
    let report = pyramid_vectors(&engine(), &place, &two().dry_run(true)).unwrap();
    assert_eq!((report.levels.len(), report.levels[1].bin.clone()), (2, vec![40.0, 40.0]));
    assert_eq!(document(&place, "zarr.json"), before);
    assert!(place.store.list(place.join("1").unwrap().path.as_ref()).unwrap().is_empty());
}

/// Stops a run after this many reports of progress.
fn stopped(place: &Location, after: u64) -> Result<PyramidVectorsReport, Error> {
    let (token, seen) = (CancelToken::new(), AtomicU64::new(0));
    let cancel = token.clone();
    let context = JobContext::new(&engine())
        .progress(move |_| {
            if seen.fetch_add(1, Ordering::SeqCst) == after {
                cancel.cancel();
            }
        })
        .cancel(&token);
    pyramid_vectors(&context, place, &two())
}

#[test]
fn a_run_that_is_stopped_anywhere_shows_whole_levels_and_is_resumed() {
    let folder = common::trees::folder();
    let whole = Location::parse(folder.path().join("whole").to_str().unwrap()).unwrap();
    paths(&whole);
    let done = make(&whole).unwrap();
    let mut stops = 0;
    for after in 0..40 {
        let name = folder.path().join(format!("after-{after}"));
        let place = Location::parse(name.to_str().unwrap()).unwrap();
        paths(&place);
        let result = stopped(&place, after);
        if let Err(error) = &result {
            assert!(matches!(error, Error::Cancelled), "{error}");
            stops += 1;
            let store = VectorStore::open_in(&engine(), &place).unwrap();
            for level in store.levels() {
                let own = if *level == 0 { 200 } else { vertices(&whole, *level) };
                assert_eq!(vertices(&place, *level), own, "stopped after {after}");
            }
            let other = PyramidVectorsOptions::new().factors(&[(4.0, 1.0)]);
            let refused = pyramid_vectors(&engine(), &place, &other);
            assert!(matches!(refused, Err(Error::Copy(_))), "{refused:?}");
        }
        let report = make(&place).unwrap();
        assert_eq!(report.resumed, result.is_err(), "stopped after {after}");
        let counts = |report: &PyramidVectorsReport| {
            report.levels.iter().map(|level| (level.vertices, level.objects)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&report), counts(&done));
        assert!(!name.join(".shardine-pyramid.json").exists());
    }
    assert!(stops > 10, "{stops}");
}

#[test]
fn what_was_made_from_other_vertices_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("s");
    let place = Location::parse(name.to_str().unwrap()).unwrap();
    paths(&place);
    let mut after = 0;
    // Until one level is complete and the other is not.
    while !name.join("1/zarr.json").exists() {
        fs::remove_dir_all(&name).unwrap();
        paths(&place);
        assert!(stopped(&place, after).is_err(), "nothing was between the levels");
        after += 1;
    }
    let elsewhere = Location::parse(folder.path().join("other").to_str().unwrap()).unwrap();
    write(&elsewhere, GeometryKind::Polylines, "x,y,object_id\n1,1,0\n2,2,0\n31,1,1\n");
    for part in ["0/vertices", "0/vertex_fragments", "0/object_index"] {
        fs::remove_dir_all(name.join(part)).unwrap();
        fs::rename(folder.path().join("other").join(part), name.join(part)).unwrap();
    }
    let lost = make(&place).unwrap_err().to_string();
    assert!(lost.contains("says 200 vertices, and 3 are stored"), "{lost}");
    fs::rename(folder.path().join("other/0/zarr.json"), name.join("0/zarr.json")).unwrap();
    let report = make(&place).unwrap();
    assert!(report.resumed && !report.levels[0].kept);
    assert_eq!(report.levels[0].vertices, 2);
}

/// The kinds and places of what is wrong with a store.
fn told(place: &Location) -> Vec<String> {
    let mut all = Vec::new();
    verify(&engine(), place, &VerifyOptions::new(), &mut |finding| {
        let object = finding.object.as_ref().map(ToString::to_string).unwrap_or_default();
        all.push(format!("{} {object}: {}", finding.kind, finding.message));
    })
    .unwrap();
    all
}

#[test]
fn levels_with_longer_chunks_are_sound_and_a_vertex_lost_in_one_is_missed() {
    let mut text = "x,y,object_id\n".to_owned();
    for path in 0..30 {
        for step in 0..6 {
            let (x, y) = ((path * 17 + step * 9) % 190, (path * 29 + step * 4) % 130);
            text += &format!("{}.5,{}.25,{path}\n", x - 100, y - 70);
        }
    }
    let make = || {
        let place = Location::memory();
        write(&place, GeometryKind::Polylines, &text);
        let mut options = PyramidVectorsOptions::new().factors(&[(2.0, 1.0), (3.0, 2.0)]);
        options.chunk_scale = vec![2, 3];
        pyramid_vectors(&engine(), &place, &options).unwrap();
        place
    };
    let place = make();
    assert_eq!(
        document(&place, "2/zarr.json")["attributes"]["zarr_vectors_level"]["chunk_shape"],
        json!([60.0, 60.0])
    );
    assert_eq!(told(&place), Vec::<String>::new());
    // Level 2 has half of the objects, but each of its vertices has links to what it was made of.
    for (lost, row, families) in
        [(0, 16, ["0/links/+1", "1/links/-1"]), (2, 8, ["1/links/+1", "2/links/-1"])]
    {
        let place = make();
        let array =
            shardine::Array::open(place.join(&format!("{lost}/vertices")).unwrap()).unwrap();
        let region = shardine::Region::of_box(&vec![0; array.shape().len()], array.shape());
        let Elements::Variable(cells) = array.read_elements(&region).unwrap() else { panic!() };
        let full: Vec<&[u8]> = cells.iter().filter(|cell| !cell.is_empty()).collect();
        let longest = full.iter().max_by_key(|cell| cell.len()).copied().unwrap();
        let shorter: VariableElements = cells
            .iter()
            .map(|cell| if cell == longest { &cell[..cell.len() - row] } else { cell })
            .collect();
        array
            .write_elements(&region, ElementsRef::Variable(&shorter), &Default::default())
            .unwrap();
        let found = told(&place);
        for family in families {
            let is_it = |text: &&String| text.starts_with("vectors-links") && text.contains(family);
            assert!(found.iter().any(|text| is_it(&text)), "{family} in {found:#?}");
        }
    }
}

#[test]
fn a_copy_of_the_metadata_in_the_root_has_the_new_levels() {
    let folder = tempfile::tempdir().unwrap();
    let place = Location::parse(folder.path().join("s").to_str().unwrap()).unwrap();
    paths(&place);
    shardine::zarr::consolidate(&place).unwrap();
    make(&place).unwrap();
    let found = document(&place, "zarr.json");
    let nodes = &found["consolidated_metadata"]["metadata"];
    assert!(nodes.get("2/vertices").is_some() && nodes.get("0/links/+1").is_some(), "{nodes}");
    let report = verify(&engine(), &place, &VerifyOptions::new(), &mut |finding| {
        panic!("{}: {}", finding.kind, finding.message)
    })
    .unwrap();
    assert!(report.is_ok());
    let other = PyramidVectorsOptions::new().factors(&[(4.0, 1.0)]).overwrite(true);
    pyramid_vectors(&engine(), &place, &other).unwrap();
    let found = document(&place, "zarr.json");
    let nodes = &found["consolidated_metadata"]["metadata"];
    assert!(nodes.get("2/vertices").is_none() && nodes.get("1/vertices").is_some(), "{nodes}");
}

#[test]
fn a_finest_level_with_other_chunks_than_the_store_is_refused() {
    let place = Location::memory();
    paths(&place);
    change(&place, "0/zarr.json", |level| {
        level["attributes"]["zarr_vectors_level"]["chunk_shape"] = json!([20.0, 20.0]);
    });
    let error = make(&place).unwrap_err();
    let Error::PyramidVectors(PyramidVectorsError::Unfit { reason, .. }) = &error else {
        panic!("{error}")
    };
    assert!(reason.contains("[20.0, 20.0]"), "{reason}");
}

#[test]
fn a_link_to_a_folder_in_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("s");
    let place = Location::parse(name.to_str().unwrap()).unwrap();
    paths(&place);
    fs::rename(name.join("0/object_index"), folder.path().join("aside")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("aside"), name.join("0/object_index")).unwrap();
    let error = make(&place).unwrap_err();
    assert!(matches!(error, Error::LeftOut { .. }), "{error}");
    assert!(!name.join("1").exists() && !name.join(".shardine-pyramid.json").exists());
}

#[test]
fn something_else_with_the_name_of_a_level_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("s");
    let place = Location::parse(name.to_str().unwrap()).unwrap();
    paths(&place);
    fs::create_dir(name.join("2")).unwrap();
    fs::write(name.join("2/mine"), "important").unwrap();
    for options in [two(), two().overwrite(true)] {
        let error = pyramid_vectors(&engine(), &place, &options).unwrap_err();
        let in_the_way = PyramidVectorsError::InTheWay { at: String::new() };
        let Error::PyramidVectors(found) = &error else { panic!("{error}") };
        assert_eq!(std::mem::discriminant(found), std::mem::discriminant(&in_the_way), "{error}");
    }
    assert_eq!(fs::read(name.join("2/mine")).unwrap(), b"important");
}

#[test]
fn a_manifest_that_names_what_does_not_exist_is_named_and_no_level_appears() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("s");
    let place = Location::parse(name.to_str().unwrap()).unwrap();
    paths(&place);
    let before = vertices(&place, 0);
    // Manifests refer to fragments that are no longer there.
    let shard = fs::read_dir(name.join("0/vertex_fragments/c/0")).unwrap().next().unwrap().unwrap();
    fs::remove_file(shard.path()).unwrap();
    let error = make(&place).unwrap_err();
    assert!(matches!(error, Error::Vectors { .. }), "{error}");
    assert!(!name.join("1/zarr.json").exists());
    assert_eq!(
        document(&place, "zarr.json")["attributes"]["multiscales"][0]["datasets"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let store = VectorStore::open_in(&engine(), &place).unwrap();
    assert_eq!((store.levels(), before), (&[0][..], 200));
}
