//! Pyramids that are killed: the finest level is as it was at each moment, the image never names a
//! level that is not complete, and the same command makes the bytes of a run that was not killed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Victim, noise, run, verify};
use crate::trees::{folder, restore, tree};

/// An array of 64 chunks in 8 shards, of noise with a hole.
fn array(path: &Path) {
    let raw = path.with_extension("raw");
    let mut bytes = noise(96 * 96 * 96, 5);
    bytes[..96 * 96 * 30].fill(0);
    fs::write(&raw, bytes).unwrap();
    let (raw_name, name) = (raw.to_str().unwrap(), path.to_str().unwrap());
    run(&[
        "convert", raw_name, name, "--shape", "96,96,96", "--dtype", "uint8", "--chunk",
        "24,24,24", "--shard", "48,48,48", "--codec", "zstd:1",
    ]);
    fs::remove_file(raw).unwrap();
}

/// The same as an image of one level.
fn image(folder: &Path) -> std::path::PathBuf {
    let (plain, image) = (folder.join("plain.zarr"), folder.join("image.zarr"));
    array(&plain);
    run(&[
        "convert",
        plain.to_str().unwrap(),
        image.to_str().unwrap(),
        "--to",
        "ome-zarr",
        "--axes",
        "zyx",
    ]);
    image
}

/// How many levels an image names.
fn levels(image: &Path) -> usize {
    let document = fs::read(image.join("zarr.json")).unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let levels = document["attributes"]["ome"]["multiscales"][0]["datasets"].as_array();
    levels.unwrap().len()
}

/// Kills `shardine pyramid IMAGE` with these words, begun from an image prepared by the commands
/// `before`. `named` are the numbers of levels that it may name meanwhile.
fn kill(words: &[&str], before: &[&[&str]], named: &[usize]) -> u64 {
    let folder = folder();
    let origin = image(folder.path());
    for words in before {
        run(&[&["pyramid", origin.to_str().unwrap()], *words].concat());
    }
    let files = tree(&origin);
    let finest = tree(&origin.join("0"));
    let parent = folder.path().join("scene");
    let scene = parent.join("image.zarr");
    let victim = Victim {
        arguments: &[&["pyramid", scene.to_str().unwrap()], words].concat(),
        scene: &parent,
        prepare: &|| {
            let _ = fs::remove_dir_all(&parent);
            restore(&files, &scene);
        },
        check: &|context| {
            assert!(tree(&scene.join("0")) == finest, "{context}: the finest level has changed");
            assert!(named.contains(&levels(&scene)), "{context}: {} levels", levels(&scene));
            verify(&scene);
            true
        },
        is_done: &|| false,
        may_exist: false,
        finished: &|_| {
            assert!(tree(&scene.join("0")) == finest);
            verify(&scene);
        },
    };
    victim.kill(24, 10)
}

#[test]
fn a_pyramid_that_is_killed_is_finished_by_the_same_command() {
    kill(&["--levels", "4"], &[], &[1, 4]);
}

#[test]
fn a_pyramid_of_small_tasks_that_is_killed_is_finished_by_the_same_command() {
    kill(&["--task-size", "1", "--method", "median", "--threads", "1"], &[], &[1, 3]);
}

#[test]
fn a_rebuilt_pyramid_that_is_killed_is_finished_by_the_same_command() {
    // The old levels, the finest alone, or the new ones.
    kill(&["--overwrite", "--method", "max", "--levels", "3"], &[&["--levels", "4"]], &[4, 1, 3]);
}

#[test]
fn an_image_made_from_an_array_and_killed_is_finished_by_the_same_command() {
    let folder = folder();
    let source = folder.path().join("plain.zarr");
    array(&source);
    let files = tree(&source);
    let scene = folder.path().join("scene");
    let target = scene.join("image.zarr");
    let victim = Victim {
        arguments: &[
            "pyramid",
            source.to_str().unwrap(),
            "-o",
            target.to_str().unwrap(),
            "--axes",
            "zyx",
        ],
        scene: &scene,
        prepare: &|| {
            let _ = fs::remove_dir_all(&scene);
            fs::create_dir_all(&scene).unwrap();
        },
        check: &|context| {
            assert!(tree(&source) == files, "{context}: the source has changed");
            if target.join("zarr.json").exists() {
                assert!([1, 3].contains(&levels(&target)), "{context}");
                verify(&target);
            }
            true
        },
        is_done: &|| false,
        may_exist: false,
        finished: &|_| verify(&target),
    };
    victim.kill(24, 10);
}

#[test]
fn an_update_that_is_killed_is_finished_by_the_same_command() {
    let folder = folder();
    let origin = image(folder.path());
    run(&["pyramid", origin.to_str().unwrap()]);
    let before = tree(&origin);
    // What a rebuild makes of the changed image.
    let change = folder.path().join("change.raw");
    fs::write(&change, noise(40 * 40 * 40, 9)).unwrap();
    let change = change.to_str().unwrap();
    let changed = |image: &Path| {
        run(&["write", image.to_str().unwrap(), "--region", "20:60,20:60,20:60", change]);
    };
    changed(&origin);
    run(&["pyramid", origin.to_str().unwrap(), "--overwrite"]);
    let scene = folder.path().join("scene");
    let target = scene.join("image.zarr");
    let victim = Victim {
        arguments: &["pyramid", target.to_str().unwrap(), "--update"],
        scene: &scene,
        prepare: &|| {
            let _ = fs::remove_dir_all(&scene);
            // Level by level, so that each is newer than the one before.
            for part in ["0", "1", "2", "zarr.json"] {
                let files = before.iter().filter(|(name, _)| name.starts_with(part));
                restore(&files.map(|(a, b)| (a.clone(), b.clone())).collect(), &target);
            }
            changed(&target);
        },
        check: &|context| {
            verify(&target);
            assert_eq!(levels(&target), 3, "{context}");
            true
        },
        is_done: &|| false,
        may_exist: false,
        finished: &|_| {
            for level in ["0", "1", "2"] {
                let (one, other) = (origin.join(level), target.join(level));
                run(&["compare", one.to_str().unwrap(), other.to_str().unwrap()]);
            }
        },
    };
    victim.kill(24, 10);
}
