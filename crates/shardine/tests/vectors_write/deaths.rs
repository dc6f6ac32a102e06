//! A store that is being written, sharded or unsharded, and dies at each step on the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardine::files::FoundFile;
use shardine::jobs::{
    ObjectTables, RepackOptions, WriteVectorsOptions, repack, write_vectors_with,
};
use shardine::store::FileStore;
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{Error, ErrorKind, Location, Packing};
use shardine_geometry::files::{FileFormat, ReadOptions};
use shardine_geometry::{GROUP, GeometryKind, OBJECT_ID};

use super::common::deaths::Deaths;
use super::common::trees::{Tree, folder, restore, tree};
use super::{context, coordinate, tables};

const OBJECTS: u64 = 12;

fn at(root: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(root)))
}

/// Rows of paths in turns, with attributes and groups.
fn inputs() -> Tree {
    let mut rows = "x,y,object_id,row\n".to_owned();
    for row in 0..120u64 {
        let [x, y] = [0, 1].map(|axis| coordinate(row, axis));
        rows += &format!("{x},{y},{},{row}\n", row % OBJECTS);
    }
    let mut attributes = "object_id,weight\n".to_owned();
    let mut groups = "group,object_id\n".to_owned();
    for object in (0..OBJECTS).rev() {
        attributes += &format!("{object},{}.5\n", object * 2);
        groups += &format!("{},{object}\n", object % 3);
    }
    [("rows.csv", rows), ("objects.csv", attributes), ("groups.csv", groups)]
        .into_iter()
        .map(|(name, text)| (PathBuf::from(name), text.into_bytes()))
        .collect()
}

/// Writes the files of a folder to the store `s` in it. A store that is complete is left.
fn write(root: &Location) -> Result<(), Error> {
    let folder = PathBuf::from(root.to_string());
    let open = |name: &str| fs::File::open(folder.join(name)).unwrap();
    let mut rows =
        FileFormat::Csv.open(open("rows.csv"), &ReadOptions::new(GeometryKind::Polylines)).unwrap();
    let mut objects = FileFormat::Csv.open_table(open("objects.csv"), &[OBJECT_ID]).unwrap();
    let mut groups = FileFormat::Csv.open_table(open("groups.csv"), &[GROUP, OBJECT_ID]).unwrap();
    let names = ["rows.csv", "objects.csv", "groups.csv"];
    let inputs = names.map(|name| FoundFile::of(&folder.join(name)).unwrap());
    let tables = ObjectTables::default().attributes(&mut objects).groups(&mut groups);
    let options = WriteVectorsOptions::new(&[50.0, 50.0]).shard(&[2]).memory(0);
    let target = root.join("s")?;
    match write_vectors_with(context(), &mut *rows, tables, &inputs, &target, &options) {
        Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
        done => done.map(drop),
    }
}

fn rows(store: &Location) -> Vec<String> {
    tables::rows(store, &VectorQuery::new())
}

#[test]
fn a_store_whose_writer_dies_at_any_step_is_none_or_whole_and_the_same_call_finishes_it() {
    let files = inputs();
    let whole = folder();
    restore(&files, whole.path());
    write(&at(whole.path())).unwrap();
    let expected = rows(&at(&whole.path().join("s")));
    assert_eq!(expected.len(), 121);
    let complete = AtomicUsize::new(0);
    let steps = Deaths {
        old: &files,
        stride: 1,
        run: &write,
        check: &|root, step| {
            let store = at(&root.join("s"));
            match root.join("s/zarr.json").exists() {
                true => {
                    assert_eq!(rows(&store), expected, "dead at step {step}");
                    complete.fetch_add(1, Ordering::SeqCst);
                }
                false => assert!(VectorStore::open(&store).is_err(), "dead at step {step}"),
            }
        },
    }
    .everywhere();
    let complete = complete.into_inner();
    assert!(steps > 50 && complete > 0 && complete < steps / 4, "{complete} of {steps}");
}

#[test]
fn a_store_that_is_packed_and_dies_at_any_step_keeps_every_point() {
    let files = inputs();
    let template = folder();
    restore(&files, template.path());
    write(&at(template.path())).unwrap();
    let store = template.path().join("s");
    let expected = rows(&at(&store));
    for packing in [Packing::Unsharded, Packing::ChunksPerShard(vec![1, 2])] {
        let options = RepackOptions::new().packing(packing);
        let steps = Deaths {
            old: &tree(&store),
            stride: 7,
            run: &|root| repack(context(), root, None, &options, &mut |_| {}).map(drop),
            check: &|root, step| assert_eq!(rows(&at(root)), expected, "dead at step {step}"),
        }
        .everywhere();
        assert!(steps > 50, "{steps}");
    }
}
