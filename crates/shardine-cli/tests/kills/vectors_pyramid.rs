//! Levels of geometry that are killed: what the finest level holds stays, a level that can be seen
//! is complete, and the same command makes the bytes of a run that was not killed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Victim, run, verify};
use crate::trees::{Tree, folder, restore, tree};

/// 300 paths of 30 vertices each.
fn store(folder: &Path) -> std::path::PathBuf {
    let (rows, store) = (folder.join("rows.csv"), folder.join("tracts.zv"));
    let mut text = "x,y,z,object_id\n".to_owned();
    for path in 0..300u32 {
        for step in 0..30u32 {
            let at = |by: u32| f64::from((path * by + step * 7) % 1000) / 10.0;
            text += &format!("{},{},{},{path}\n", at(37), at(101), at(59));
        }
    }
    fs::write(&rows, text).unwrap();
    run(&[
        "vectors",
        "write",
        store.to_str().unwrap(),
        rows.to_str().unwrap(),
        "--kind",
        "polylines",
        "--chunk",
        "10",
        "--shard",
        "4",
    ]);
    store
}

/// The levels that the root names.
fn named(store: &Path) -> usize {
    let document = fs::read(store.join("zarr.json")).unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    document["attributes"]["multiscales"][0]["datasets"].as_array().unwrap().len()
}

/// A level without the links that the next one adds to it.
fn level(store: &Path, number: usize) -> Tree {
    let folder = store.join(number.to_string());
    let mut files = if folder.exists() { tree(&folder) } else { Tree::new() };
    files.retain(|name, _| !name.starts_with("links/+1") && name.as_os_str() != "links/zarr.json");
    files
}

/// Kills `shardine pyramid STORE` with these words, begun from a store with the levels that the
/// commands `before` have made.
fn kill(words: &[&str], before: &[&[&str]], may_name: &[usize]) {
    let folder = folder();
    let origin = store(folder.path());
    for words in before {
        run(&[&["pyramid", origin.to_str().unwrap()], *words].concat());
    }
    let files = tree(&origin);
    let finished = folder.path().join("finished.zv");
    restore(&files, &finished);
    run(&[&["pyramid", finished.to_str().unwrap()], words].concat());
    let parent = folder.path().join("scene");
    let scene = parent.join("tracts.zv");
    let whole = |number: usize, context: &str| {
        if !scene.join(number.to_string()).join("zarr.json").exists() {
            return;
        }
        let found = level(&scene, number);
        let known = found == level(&finished, number) || found == level(&origin, number);
        assert!(known, "{context}: level {number} is neither old nor new");
    };
    let victim = Victim {
        arguments: &[&["pyramid", scene.to_str().unwrap()], words].concat(),
        scene: &parent,
        prepare: &|| {
            let _ = fs::remove_dir_all(&parent);
            restore(&files, &scene);
        },
        check: &|context| {
            (0..5).for_each(|number| whole(number, context));
            let names = named(&scene);
            assert!(may_name.contains(&names), "{context}: {names} levels");
            assert!((0..names).all(|n| scene.join(n.to_string()).join("zarr.json").exists()));
            verify(&scene);
            true
        },
        is_done: &|| false,
        may_exist: false,
        finished: &|context| {
            (0..5).for_each(|number| whole(number, context));
            verify(&scene);
        },
    };
    victim.kill(24, 10);
}

#[test]
fn levels_that_are_killed_are_finished_by_the_same_command() {
    kill(&["--coarsen", "2,2,2", "--sparsity", "1,2,1"], &[], &[1, 4]);
}

#[test]
fn levels_that_are_replaced_and_killed_are_finished_by_the_same_command() {
    kill(&["--coarsen", "3,2", "--overwrite"], &[&["--coarsen", "2,2,2"]], &[4, 1, 3]);
}
