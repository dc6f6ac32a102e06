//! Zarr Vectors: a store that is being written is not there or whole, and one that is being packed
//! has every point at each moment. Killed 12 times each, or as often as SHARDINE_KILLS says.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::program::{Victim, run, shardine, verify};
use crate::trees::{folder, restore, tree};

const ROWS: u64 = 12_000;
const OBJECTS: u64 = 300;

/// How often each command is killed.
fn kills() -> u64 {
    let asked = std::env::var("SHARDINE_KILLS").ok();
    asked.map_or(12, |count| count.parse().unwrap())
}

/// Paths whose rows come in turns, with attributes and groups.
fn inputs(folder: &Path) {
    let mut rows = "x,y,z,object_id,row\n".to_owned();
    for row in 0..ROWS {
        // Each path goes from a place of its own, with steps much smaller than a chunk.
        let (object, step) = (row % OBJECTS, (row / OBJECTS) as f64);
        let at = |axis: u64| (object * (31 + 6 * axis) % 101) as f64 + step * (0.5 + axis as f64);
        writeln!(rows, "{},{},{},{object},{row}", at(0), at(1), at(2)).unwrap();
    }
    let mut objects = "object_id,weight\n".to_owned();
    let mut groups = "group,object_id\n".to_owned();
    for object in 0..OBJECTS {
        writeln!(objects, "{object},{object}.5").unwrap();
        writeln!(groups, "{},{object}", object % 5).unwrap();
    }
    for (name, text) in [("rows", rows), ("objects", objects), ("groups", groups)] {
        fs::write(folder.join(format!("{name}.csv")), text).unwrap();
    }
}

/// Everything in a store, as a process of its own reads it.
fn read(store: &Path, scratch: &Path) -> Vec<u8> {
    let answer = scratch.join("answer.csv");
    let (from, to) = (store.to_str().unwrap(), answer.to_str().unwrap());
    run(&["vectors", "query", from, "-o", to, "--overwrite"]);
    fs::read(answer).unwrap()
}

/// The words that write a store from the files of a folder.
fn write(folder: &Path, target: &Path, more: &str) -> Vec<String> {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let mut words = vec!["vectors".to_owned(), "write".to_owned()];
    words.push(target.to_str().unwrap().to_owned());
    words.push(path("rows.csv"));
    words.extend("--kind polylines --chunk 25".split(' ').map(str::to_owned));
    words.extend(["--object-attributes".to_owned(), path("objects.csv")]);
    words.extend(["--groups".to_owned(), path("groups.csv")]);
    words.extend(more.split(' ').map(str::to_owned));
    words
}

#[test]
fn a_store_whose_writer_is_killed_is_none_or_whole_and_the_same_command_finishes_it() {
    let folder = folder();
    inputs(folder.path());
    let scene = folder.path().join("scene");
    let target = scene.join("s.zv");
    for more in ["--shard 4", "--codec none --memory 64MiB"] {
        fs::create_dir_all(&scene).unwrap();
        let words = write(folder.path(), &target, more);
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        run(&arguments);
        let whole = read(&target, folder.path());
        assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count() as u64, ROWS + 1);
        let (unfinished, complete) = (Cell::new(0), Cell::new(0));
        let victim = Victim {
            arguments: &arguments,
            scene: &scene,
            prepare: &|| {
                let _ = fs::remove_dir_all(&scene);
                fs::create_dir(&scene).unwrap();
            },
            check: &|context| {
                if target.join("zarr.json").exists() {
                    complete.set(complete.get() + 1);
                    assert!(read(&target, folder.path()) == whole, "{context}");
                } else {
                    unfinished.set(unfinished.get() + u64::from(target.exists()));
                    let arguments = ["vectors", "query", target.to_str().unwrap()];
                    let opened = shardine(&arguments).output().unwrap();
                    assert!(!opened.status.success(), "{context}: something was opened");
                }
                true
            },
            is_done: &|| false,
            may_exist: true,
            finished: &|context| {
                assert!(read(&target, folder.path()) == whole, "{context}");
                verify(&target);
            },
        };
        victim.kill(kills(), kills() / 3);
        let (unfinished, complete) = (unfinished.get(), complete.get());
        println!("{more}: {unfinished} unfinished, {complete} complete");
        assert!(unfinished > 0, "{more}: no kill left anything");
        fs::remove_dir_all(&scene).unwrap();
    }
}

#[test]
fn a_store_that_is_killed_while_it_is_packed_keeps_every_point() {
    let folder = folder();
    inputs(folder.path());
    let origin = folder.path().join("origin.zv");
    let words = write(folder.path(), &origin, "--codec zstd:1");
    run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let whole = read(&origin, folder.path());
    let scene = folder.path().join("scene");
    let store = scene.join("s.zv");
    let path = store.to_str().unwrap();
    let shard = ["shard", path, "--chunks-per-shard", "4"];
    let unshard = ["unshard", path];
    restore(&tree(&origin), &store);
    run(&shard);
    let sharded = tree(&store);
    for (arguments, old) in [(&shard[..], tree(&origin)), (&unshard, sharded)] {
        let victim = Victim {
            arguments,
            scene: &scene,
            prepare: &|| {
                let _ = fs::remove_dir_all(&scene);
                restore(&old, &store);
            },
            check: &|context| {
                assert!(read(&store, folder.path()) == whole, "{context}");
                true
            },
            is_done: &|| false,
            may_exist: false,
            finished: &|context| {
                assert!(read(&store, folder.path()) == whole, "{context}");
                verify(&store);
            },
        };
        victim.kill(kills(), kills() / 3);
    }
}
