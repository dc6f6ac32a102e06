//! The coarser levels of geometry.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use serde_json::Value;
use shardine::jobs::{
    Part, PyramidVectorsOptions, WriteVectorsOptions, pyramid_vectors, pyramid_vectors_to,
    write_vectors,
};
use shardine::vectors::{GeometryKind, GeometrySource, VectorQuery, VectorStore};
use shardine_geometry::files::{FileFormat, ReadOptions};

use crate::disk::{State, Verb, at, engine};
use crate::verbs::told;

/// Twelve paths, in shards of 2 x 2 chunks.
fn set_up(root: &Path) {
    let mut text = "x,y,object_id\n".to_owned();
    for path in 0..12 {
        for step in 0..6 {
            text += &format!("{},{},{path}\n", (path * 7 + step * 3) % 40, (path * 5 + step) % 40);
        }
    }
    let options = ReadOptions::new(GeometryKind::Polylines);
    let mut rows = FileFormat::Csv.open(Cursor::new(text), &options).unwrap();
    let place = at(root).join("v").unwrap();
    let options = WriteVectorsOptions::new(&[10.0, 10.0]).shard(&[2]);
    write_vectors(&engine(), &mut *rows, &[], &place, &options).unwrap();
}

fn set_up_levels(root: &Path) {
    set_up(root);
    let options = PyramidVectorsOptions::new().factors(&[(2.0, 1.0), (2.0, 1.0), (2.0, 1.0)]);
    pyramid_vectors(&engine(), &at(root).join("v").unwrap(), &options).unwrap();
}

/// The rows of a level.
fn rows(store: &VectorStore, level: u64) -> Result<String, String> {
    let mut rows = store.query(&VectorQuery::new().level(level)).map_err(told)?;
    let mut all = String::new();
    while let Some(batch) = rows.next_batch().map_err(|error| error.to_string())? {
        all += &format!("{:?} {:?}", batch.vertices, batch.links);
    }
    Ok(all)
}

/// The finest level, if all that can be seen can be read.
fn finest(root: &Path) -> State {
    let store = VectorStore::open_in(&engine(), at(root).join("v").unwrap()).map_err(told)?;
    let read: Result<Vec<String>, String> =
        store.levels().iter().map(|level| rows(&store, *level)).collect();
    Ok(read?.remove(0).into_bytes())
}

/// All levels, the attributes of the root, and the names of all files: nothing else is left.
fn all(root: &Path) -> State {
    all_of(root, "v")
}

/// The same of the new store.
fn all_new(root: &Path) -> State {
    all_of(root, "w")
}

fn all_of(root: &Path, name: &str) -> State {
    let store = VectorStore::open_in(&engine(), at(root).join(name).unwrap()).map_err(told)?;
    let mut state = String::new();
    for level in store.levels() {
        state += &rows(&store, *level)?;
    }
    let mut waiting = vec![root.join(name)];
    let mut names = Vec::new();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            match path.is_dir() {
                true => waiting.push(path),
                false => names.push(path.strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    names.sort();
    state += &names.join(" ");
    let document =
        fs::read(root.join(name).join("zarr.json")).map_err(|error| error.to_string())?;
    let document: Value = serde_json::from_slice(&document).map_err(|error| error.to_string())?;
    state += &document["attributes"].to_string();
    Ok(state.into_bytes())
}

pub fn vectors() -> Vec<Verb> {
    vec![
        Verb {
            name: "levels of geometry",
            set_up,
            run: |engine, root| {
                let options = PyramidVectorsOptions::new().factors(&[(2.0, 2.0), (2.0, 1.0)]);
                pyramid_vectors(engine, &root.join("v").unwrap(), &options).map_err(told)?;
                Ok(String::new())
            },
            kept: finest,
            done: all,
            again: true,
        },
        Verb {
            name: "levels of geometry over others",
            set_up: set_up_levels,
            run: |engine, root| {
                let options = PyramidVectorsOptions::new().factors(&[(3.0, 1.0)]).overwrite(true);
                pyramid_vectors(engine, &root.join("v").unwrap(), &options).map_err(told)?;
                Ok(String::new())
            },
            kept: finest,
            done: all,
            again: true,
        },
        Verb {
            name: "a part of levels of geometry",
            set_up,
            run: |engine, root| {
                let options = PyramidVectorsOptions::new().factors(&[(2.0, 2.0), (2.0, 1.0)]);
                let options = options.part(Part::Of { index: 1, count: 1 });
                pyramid_vectors(engine, &root.join("v").unwrap(), &options).map_err(told)?;
                Ok(String::new())
            },
            kept: finest,
            done: all,
            again: true,
        },
        Verb {
            name: "levels of geometry in a new store",
            set_up: set_up_levels,
            run: |engine, root| {
                let options = PyramidVectorsOptions::new().factors(&[(2.0, 2.0), (2.0, 1.0)]);
                let [from, to] = ["v", "w"].map(|name| root.join(name).unwrap());
                pyramid_vectors_to(engine, &from, &to, &options).map_err(told)?;
                Ok(String::new())
            },
            kept: finest,
            done: all_new,
            again: true,
        },
    ]
}
