//! A plate that is being migrated, and killed at random moments: it is whole in the old version or
//! the new one at each of them, and the same command finishes it.
//!
//! A small plate, unless SHARDINE_PLATE is set: then one of 96 wells with four fields of three
//! levels, with labels.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

#[path = "../../shardine/tests/common/ome.rs"]
#[allow(dead_code, reason = "shared with the tests of the library")]
mod ome;

#[path = "kills/mod.rs"]
mod kills;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use kills::{Moments, folder, plate, run, shardine, tree};
use serde_json::Value;

/// Moments at which each migration is stopped, over its whole duration.
const MOMENTS: u64 = 50;

/// Puts the documents of a hierarchy back to what they were, and removes everything that is not
/// part of it. No chunk is touched, nor has been.
fn restore(files: &BTreeMap<PathBuf, Vec<u8>>, to: &Path) {
    let is_document = |name: &Path| {
        let name = name.file_name().unwrap().to_string_lossy();
        name.starts_with(".z") || name == "zarr.json"
    };
    let mut waiting = vec![to.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).into_iter().flatten() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name());
            if name.to_string_lossy().starts_with(".shardine") {
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            } else if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
            } else if is_document(&path) {
                fs::remove_file(path).unwrap();
            }
        }
    }
    for (name, bytes) in files {
        let path = to.join(name);
        if is_document(name) || !path.exists() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
}

/// The documents that someone finds who opens the outermost node and goes on in its version.
fn seen(root: &Path, nodes: &[String]) -> BTreeMap<String, Value> {
    let names: &[&str] = match root.join("zarr.json").exists() {
        true => &["zarr.json"],
        false => &[".zgroup", ".zarray", ".zattrs", ".zmetadata"],
    };
    let mut seen = BTreeMap::new();
    for node in nodes {
        for name in names {
            if let Ok(bytes) = fs::read(root.join(node).join(name)) {
                seen.insert(format!("{node}/{name}"), serde_json::from_slice(&bytes).unwrap());
            }
        }
    }
    seen
}

/// Kills a migration over its whole duration, and finishes it each time.
fn kill(words: &str, before: &[&str], seed: u64) {
    let folder = folder();
    let scene = folder.path().join("plate.zarr");
    let files = plate();
    let nodes = files.nodes();
    let made: BTreeMap<PathBuf, Vec<u8>> =
        files.0.iter().map(|(name, bytes)| (name.into(), bytes.clone())).collect();
    restore(&made, &scene);
    let url = scene.to_str().unwrap();
    let with_url = |words: &str| -> Vec<String> {
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.insert(1, url.to_owned());
        words
    };
    for words in before {
        run(&with_url(words).iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (old_tree, old) = (tree(&scene), seen(&scene, &nodes));
    let arguments = with_url(words);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let start = Instant::now();
    run(&arguments);
    let duration = start.elapsed();
    let (new_tree, new) = (tree(&scene), seen(&scene, &nodes));
    assert_ne!(old, new);
    let (mut killed, mut news) = (0, 0);
    for (moment, part) in Moments::new(MOMENTS, seed) {
        restore(&old_tree, &scene);
        let wait = duration.mul_f64(part);
        let mut child = shardine(&arguments).spawn().unwrap();
        thread::sleep(wait);
        let context = format!("{words}, stopped after {wait:?} of {duration:?}");
        kills::stop(&mut child, moment);
        killed += u64::from(!child.wait().unwrap().success());
        let now = seen(&scene, &nodes);
        assert!(now == old || now == new, "{context}: a mixture");
        news += u64::from(now == new);
        let verified = shardine(&["verify", url, "--decode", "--json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
        assert_eq!(report["ok"], true, "{context}: {report}");
        let again = shardine(&arguments).output().unwrap();
        let told = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.success(), "{context}: {told}");
        assert!(tree(&scene) == new_tree, "{context}: other bytes");
    }
    println!("{words}: {killed} of {MOMENTS} killed within {duration:?}, {news} times the new one");
    assert!(killed >= MOMENTS / 3, "{words}: {killed} of {MOMENTS} were killed before their end");
}

#[test]
fn a_plate_of_0_4_is_the_old_or_the_new_one_whenever_its_migration_is_killed() {
    kill("migrate", &[], 1);
}

#[test]
fn a_plate_of_0_5_is_the_old_or_the_new_one_whenever_its_migration_is_killed() {
    kill("migrate --ome-version 0.6", &["migrate"], 2);
}
