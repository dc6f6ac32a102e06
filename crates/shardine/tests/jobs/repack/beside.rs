//! What lies in and beside the folder of an array: unrelated files, an unfinished job, links to it;
//! and who may look into it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardine::jobs::{RepackOptions, repack};
use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{ArrayNode, Elements, Engine, Location, Packing, Region, WriteOptions};

fn make(path: &Path) -> Location {
    let document = br#"{
        "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": ["bytes"]
    }"#;
    let NodeMetadata::Array(metadata) = NodeMetadata::parse(document).unwrap() else {
        panic!("it is an array");
    };
    let place = Location::parse(path.to_str().unwrap()).unwrap();
    let array = ArrayNode::create(&Engine::shared().unwrap(), &place, metadata).unwrap();
    let elements = Elements::Fixed((1..9).collect());
    array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).unwrap();
    place
}

fn by(per_shard: u64) -> RepackOptions {
    RepackOptions::new().packing(Packing::ChunksPerShard(vec![per_shard]))
}

fn run(place: &Location, options: &RepackOptions) -> Result<(), shardine::Error> {
    repack(&Engine::shared().unwrap(), place, None, options, &mut |_| {}).map(drop)
}

fn shard(place: &Location, per_shard: u64) -> Result<(), shardine::Error> {
    run(place, &by(per_shard))
}

/// A disk on which folders can be neither exchanged nor renamed.
#[derive(Debug)]
struct Stop;

impl DiskObserver for Stop {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        match step {
            DiskStep::Exchange { .. } => Verdict::Fail(std::io::Error::other("stop")),
            _ => Verdict::Go,
        }
    }
}

/// Starts a job that stops before its end.
fn begin(path: &Path, per_shard: u64) {
    let place = Location::root(Arc::new(FileStore::observed(path, Arc::new(Stop))));
    assert!(shard(&place, per_shard).is_err());
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { BTreeSet::from([path]) })
        .collect()
}

#[test]
fn a_dry_run_does_not_go_on_with_a_job_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let place = make(&path);
    begin(&path, 2);
    let before = files(folder.path());
    assert!(before.contains(&folder.path().join(".shardine-a.zarr.job/job.json")));
    run(&place, &by(2).dry_run(true)).unwrap();
    run(&place, &by(4).dry_run(true).restart(true)).unwrap();
    assert_eq!(files(folder.path()), before);
    let refused = shard(&place, 4).unwrap_err().to_string();
    assert!(refused.contains("with different options"), "{refused}");
    run(&place, &by(4).restart(true)).unwrap();
    let array = ArrayNode::open(&Engine::shared().unwrap(), &place).unwrap();
    assert_eq!(array.shard_shape(), Some(&[8][..]));
    assert_eq!(array.read_elements(Region::all()).unwrap(), Elements::Fixed((1..9).collect()));
    assert!(files(folder.path()).iter().all(|file| file.starts_with(&path)));
}

#[test]
fn names_of_any_bytes_are_carried_over_and_the_latest_state_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let place = make(&path);
    let odd = path.join(OsStr::from_bytes(b"caf\xe9.txt"));
    fs::write(&odd, "odd").unwrap();
    fs::create_dir(path.join("notes")).unwrap();
    fs::write(path.join("notes/one"), "first").unwrap();
    fs::write(path.join("c/readme"), "of the chunks").unwrap();
    fs::write(path.join("gone"), "soon").unwrap();
    begin(&path, 2);
    // As editors save: a new file of the same name.
    fs::write(path.join("notes/new"), "second").unwrap();
    fs::rename(path.join("notes/new"), path.join("notes/one")).unwrap();
    fs::remove_file(path.join("gone")).unwrap();
    shard(&place, 2).unwrap();
    assert_eq!(fs::read_to_string(&odd).unwrap(), "odd");
    assert_eq!(fs::read_to_string(path.join("notes/one")).unwrap(), "second");
    assert_eq!(fs::read_to_string(path.join("c/readme")).unwrap(), "of the chunks");
    assert!(!path.join("gone").exists());
    let array = ArrayNode::open(&Engine::shared().unwrap(), &place).unwrap();
    assert_eq!(array.read_elements(Region::all()).unwrap(), Elements::Fixed((1..9).collect()));
}

#[test]
fn what_nobody_else_may_look_into_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let place = make(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    shard(&place, 2).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn an_array_that_a_group_reaches_by_a_link_is_packed_by_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    make(&folder.path().join("far/a"));
    let group = folder.path().join("g.zarr");
    fs::create_dir(&group).unwrap();
    std::os::unix::fs::symlink(folder.path().join("far/a"), group.join("a")).unwrap();
    let array: serde_json::Value =
        serde_json::from_slice(&fs::read(group.join("a/zarr.json")).unwrap()).unwrap();
    let document = serde_json::json!({
        "zarr_format": 3, "node_type": "group", "attributes": {},
        "consolidated_metadata": {
            "kind": "inline", "must_understand": false, "metadata": { "a": array },
        },
    });
    fs::write(group.join("zarr.json"), document.to_string()).unwrap();
    let place = |path: &Path| Location::parse(path.to_str().unwrap()).unwrap();
    let refused = shard(&place(&group), 2).unwrap_err().to_string();
    assert!(refused.contains("\"a\" (a link to a folder)"), "{refused}");
    shard(&place(&group.join("a")), 2).unwrap();
    let read = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(group.join(path)).unwrap()).unwrap()
    };
    assert_eq!(read("zarr.json")["consolidated_metadata"]["metadata"]["a"], read("a/zarr.json"));
    assert_eq!(read("a/zarr.json")["chunk_grid"]["configuration"]["chunk_shape"][0], 4);
}
