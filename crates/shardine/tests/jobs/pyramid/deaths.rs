//! Pyramids that die at each of their steps on the disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use shardine::jobs::{OmeForm, PyramidOptions, pyramid_to};

use super::*;
use crate::common::deaths::Deaths;
use crate::common::trees::{folder, tree};

fn at(root: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(root)))
}

/// Lets a pyramid die everywhere. `named` are the numbers of levels that the image names on the way
/// from the old ones to the new ones, all of which must have been seen.
fn die(before: &[PyramidOptions], options: &PyramidOptions, named: &[usize]) {
    let template = folder();
    let place = at(template.path());
    let finest = small(&place.join("i").unwrap());
    for options in before {
        run(&place.join("i").unwrap(), options).unwrap();
    }
    let finest = Elements::of(&finest);
    let seen = Mutex::new(BTreeSet::new());
    let steps = Deaths {
        old: &tree(template.path()),
        stride: 1,
        run: &|root| run(&root.join("i")?, options).map(drop),
        check: &|root, step| {
            let place = at(root).join("i").unwrap();
            let array = ArrayNode::open(&engine(), &place.join("0").unwrap()).unwrap();
            assert!(Elements::of(&array) == finest, "dead at step {step}");
            seen.lock().unwrap().insert(check_named(&place));
        },
    }
    .everywhere();
    assert!(steps > 50, "{steps}");
    assert_eq!(seen.into_inner().unwrap(), named.iter().copied().collect());
}

#[test]
fn a_pyramid_that_dies_at_any_step_is_finished_by_the_same_call() {
    // One task, and many with a second pass.
    die(&[], &PyramidOptions::new(), &[1, 4]);
    die(&[], &PyramidOptions::new().task_size(1), &[1, 4]);
}

#[test]
fn a_rebuild_that_dies_at_any_step_is_finished_by_the_same_call() {
    let fewer = PyramidOptions::new().method(DownsampleMethod::Max).levels(3).overwrite(true);
    die(&[PyramidOptions::new()], &fewer, &[1, 3, 4]);
    let more = PyramidOptions::new().method(DownsampleMethod::Min).levels(4).overwrite(true);
    die(&[PyramidOptions::new().levels(2)], &more, &[1, 2, 4]);
}

#[test]
fn an_image_from_an_array_that_dies_at_any_step_is_finished_by_the_same_call() {
    let template = folder();
    let place = at(template.path()).join("a").unwrap();
    let array =
        ArrayNode::create(&engine(), &place, metadata(&sharded(&[20, 20], &[8, 8], &[4, 4])));
    write(&array.unwrap(), "0:11,:", noise(11 * 20 * 2, 3));
    let source = tree(&template.path().join("a"));
    let form = OmeForm::new().axes(["y", "x"]);
    let seen = Mutex::new(BTreeSet::new());
    Deaths {
        old: &tree(template.path()),
        stride: 1,
        run: &|root| {
            let (from, to) = (root.join("a")?, root.join("i")?);
            let options = PyramidOptions::new();
            pyramid_to(&engine(), &from, &to, &form, &options, &mut |_| ()).map(drop)
        },
        check: &|root, step| {
            assert!(tree(&root.join("a")) == source, "dead at step {step}");
            let is_image = root.join("i/zarr.json").exists();
            let place = at(root).join("i").unwrap();
            seen.lock().unwrap().insert(if is_image { check_named(&place) } else { 0 });
        },
    }
    .everywhere();
    assert_eq!(seen.into_inner().unwrap(), BTreeSet::from([0, 1, 4]));
}
