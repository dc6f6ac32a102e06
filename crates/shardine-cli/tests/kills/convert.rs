//! A plate that is being converted, and killed at random moments: the source stays what it is, and
//! at the target there is nothing, something unfinished, or all of it.

use std::cell::Cell;
use std::fs;

use crate::plate::{is_large, plate};
use crate::program::{Victim, run, verify};
use crate::trees::{Tree, assert_same, folder, restore, tree};

/// Kills a conversion over its whole duration, and finishes it each time.
fn kill(options: &str) {
    let folder = folder();
    let (source, target) = (folder.path().join("old.zarr"), folder.path().join("new.zarr"));
    let made: Tree = plate().0.iter().map(|(name, bytes)| (name.into(), bytes.clone())).collect();
    restore(&made, &source);
    let mut arguments = vec!["convert", source.to_str().unwrap(), target.to_str().unwrap()];
    arguments.extend(options.split(' '));
    run(&arguments);
    let complete = tree(&target);
    let (unfinished, finished) = (Cell::new(0), Cell::new(0));
    // Someone who looks for a hierarchy finds all of it, or none.
    let is_complete = || target.join("zarr.json").exists();
    let moments = if is_large() { 50 } else { 12 };
    let victim = Victim {
        arguments: &arguments,
        scene: folder.path(),
        prepare: &|| {
            let _ = fs::remove_dir_all(&target);
        },
        check: &|context| {
            assert_same(&tree(&source), &made, context);
            if is_complete() {
                finished.set(finished.get() + 1);
                verify(&target);
                for (name, bytes) in &complete {
                    assert!(fs::read(target.join(name)).unwrap() == *bytes, "{context}: {name:?}");
                }
            } else if target.exists() {
                unfinished.set(unfinished.get() + 1);
            }
            true
        },
        is_done: &|| false,
        // What was complete without a marker is refused, as any other target that exists.
        may_exist: true,
        finished: &|context| assert_same(&tree(&source), &made, context),
    };
    victim.kill(moments, moments / 3);
    let (unfinished, finished) = (unfinished.get(), finished.get());
    println!("{options}: {unfinished} unfinished, {finished} complete");
    assert!(unfinished > 0, "{options}: no kill left anything");
}

#[test]
fn a_plate_is_converted_as_a_whole_whenever_that_is_killed() {
    kill("--to ome-zarr");
}

#[test]
fn a_plate_gets_its_levels_as_a_whole_whenever_that_is_killed() {
    // All levels but the finest are made.
    kill("--to ome-zarr --levels 4");
}
