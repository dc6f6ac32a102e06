//! Stores of Zarr Vectors.

use std::fs;
use std::path::{Path, PathBuf};

use shardine::ErrorKind;
use shardine::files::FoundFile;
use shardine::jobs::{ObjectTables, WriteVectorsOptions, write_vectors_with};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine_geometry::files::{CsvWriter, FileFormat, ReadOptions};
use shardine_geometry::{GROUP, GeometryKind, GeometrySink, GeometrySource, OBJECT_ID};

use crate::disk::{State, Verb, at};
use crate::verbs::told;

/// A graph with objects, their attributes and groups, as files.
fn set_up(root: &Path) {
    let mut rows = "x,y,object_id\n".to_owned();
    let (mut objects, mut groups) = ("object_id,v\n".to_owned(), "group,object_id\n".to_owned());
    for row in 0..40 {
        rows += &format!("{},{},{}\n", row * 37 % 41, row * 29 % 43, row % 4);
    }
    for object in 0..4 {
        objects += &format!("{object},{}\n", object * 3);
        groups += &format!("{},{object}\n", object % 2);
    }
    fs::write(root.join("rows.csv"), rows).unwrap();
    fs::write(root.join("objects.csv"), objects).unwrap();
    fs::write(root.join("groups.csv"), groups).unwrap();
}

/// All rows; "none" if there is no store.
fn stored(root: &Path) -> State {
    if !root.join("s/zarr.json").exists() {
        return Ok(b"none".to_vec());
    }
    let store = VectorStore::open(at(root).join("s").unwrap()).map_err(told)?;
    let mut found = store.query(&VectorQuery::new()).map_err(told)?;
    let mut text = Vec::new();
    let wrong = |error: shardine_geometry::GeometryError| error.to_string();
    let mut writer = Box::new(CsvWriter::create(&mut text, found.schema()).map_err(wrong)?);
    while let Some(batch) = found.next_batch().map_err(wrong)? {
        writer.push(&batch).map_err(wrong)?;
    }
    writer.finish().map_err(wrong)?;
    let mut groups = store.query(&VectorQuery::new().groups([1])).map_err(told)?;
    let mut members = 0;
    while let Some(batch) = groups.next_batch().map_err(wrong)? {
        members += batch.vertices.num_rows();
    }
    text.extend(format!("{members} in group 1").into_bytes());
    Ok(text)
}

pub fn all() -> Vec<Verb> {
    vec![Verb {
        name: "vectors write",
        set_up,
        run: |engine, root| {
            let folder = PathBuf::from(root.to_string());
            let open = |name: &str| fs::File::open(folder.join(name)).unwrap();
            let options = ReadOptions::new(GeometryKind::Graph);
            let mut rows = FileFormat::Csv.open(open("rows.csv"), &options).unwrap();
            let csv = FileFormat::Csv;
            let mut objects = csv.open_table(open("objects.csv"), &[OBJECT_ID]).unwrap();
            let mut groups = csv.open_table(open("groups.csv"), &[GROUP, OBJECT_ID]).unwrap();
            let names = ["rows.csv", "objects.csv", "groups.csv"];
            let inputs = names.map(|name| FoundFile::of(&folder.join(name)).unwrap());
            let tables = ObjectTables::default().attributes(&mut objects).groups(&mut groups);
            let options = WriteVectorsOptions::new(&[20.0, 20.0]).shard(&[2]).memory(0);
            let target = root.join("s").unwrap();
            match write_vectors_with(engine, &mut *rows, tables, &inputs, &target, &options) {
                // All was done when the fault came.
                Err(error) if error.kind() == ErrorKind::Exists => {}
                done => drop(done.map_err(told)?),
            }
            Ok(String::new())
        },
        kept: stored,
        done: stored,
        again: true,
    }]
}
