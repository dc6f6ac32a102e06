//! A plate that is being converted, and killed at random moments: the source stays what it is, and at
//! the target there is nothing, something unfinished, or all of it. The same command finishes it.
//!
//! A small plate at some moments, unless SHARDINE_PLATE is set: then one of 96 wells with four fields
//! of three levels, with labels, at fifty.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

#[path = "../../shardine/tests/common/ome.rs"]
#[allow(dead_code, reason = "shared with the tests of the library")]
mod ome;

#[path = "kills/mod.rs"]
mod kills;

use std::fs;
use std::thread;
use std::time::Instant;

use kills::{Moments, folder, is_large, plate, run, shardine, tree};
use serde_json::Value;

/// Kills a conversion over its whole duration, and finishes it each time.
fn kill(options: &str, moments: u64, seed: u64) {
    let folder = folder();
    let (source, target) = (folder.path().join("old.zarr"), folder.path().join("new.zarr"));
    for (name, bytes) in &plate().0 {
        let path = source.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let before = tree(&source);
    let mut arguments = vec!["convert", source.to_str().unwrap(), target.to_str().unwrap()];
    arguments.extend(options.split(' '));
    let start = Instant::now();
    run(&arguments);
    let duration = start.elapsed();
    let complete = tree(&target);
    assert!(!complete.keys().any(|name| name.to_string_lossy().contains(".shardine-")));
    let (mut killed, mut unfinished, mut finished) = (0, 0, 0);
    for (moment, part) in Moments::new(moments, seed) {
        fs::remove_dir_all(&target).unwrap();
        let wait = duration.mul_f64(part);
        let context = format!("{options}, stopped after {wait:?} of {duration:?}");
        let mut child = shardine(&arguments).spawn().unwrap();
        thread::sleep(wait);
        kills::stop(&mut child, moment);
        killed += u64::from(!child.wait().unwrap().success());
        // Whoever looks for a hierarchy finds all of it, or none.
        let is_complete = target.join("zarr.json").exists();
        if is_complete {
            finished += 1;
            let url = target.to_str().unwrap();
            let verified = shardine(&["verify", url, "--decode", "--json"]).output().unwrap();
            let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
            assert_eq!(report["ok"], true, "{context}: {report}");
            for (name, bytes) in &complete {
                assert!(fs::read(target.join(name)).unwrap() == *bytes, "{context}: {name:?}");
            }
        } else if target.exists() {
            unfinished += 1;
        }
        let again = shardine(&arguments).output().unwrap();
        let told = String::from_utf8_lossy(&again.stderr);
        // What was complete without a marker is refused, as any other target that exists.
        let exists = is_complete && told.contains("already exists");
        assert!(again.status.success() || exists, "{context}: {told}");
        assert!(tree(&target) == complete, "{context}: other files, or other bytes");
        assert!(tree(&source) == before, "{context}: the source has changed");
    }
    println!(
        "{options}: {killed} of {moments} killed within {duration:?}, {unfinished} unfinished, \
         {finished} complete"
    );
    assert!(killed >= moments / 3, "{options}: {killed} of {moments} were killed before their end");
    assert!(unfinished > 0, "{options}: no kill left anything");
}

#[test]
fn a_plate_is_converted_as_a_whole_whenever_that_is_killed() {
    kill("--to ome-zarr", if is_large() { 50 } else { 12 }, 3);
}

#[test]
fn a_plate_gets_its_levels_as_a_whole_whenever_that_is_killed() {
    // All levels but the finest are made.
    kill("--to ome-zarr --levels 4", if is_large() { 50 } else { 12 }, 4);
}
