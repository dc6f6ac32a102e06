//! Others at work while levels are made or renewed: a job in place on the finest level, and
//! writers. What was made is right, or nothing is named.

use std::path::Path;

use shardine::Packing;
use shardine::jobs::{JobError, PyramidError, PyramidOptions, RepackOptions, repack};

use super::*;
use crate::common::deaths::{AtStep, Meanwhile, dies};
use crate::common::trees::{Tree, folder, restore, tree};

fn at(root: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(root)))
}

/// An image in a folder, as files, and the number of steps that a job on it has.
fn scene(make: &dyn Fn(&Location), options: &PyramidOptions) -> (Tree, usize) {
    let template = folder();
    make(&at(template.path()));
    let files = tree(template.path());
    let (watched, count) = dies(template.path(), usize::MAX);
    run(&watched, options).unwrap();
    (files, count.steps())
}

/// Runs a job on an image, with something else beside it from a step on. Returns both results.
fn beside<T: Send + 'static>(
    root: &Path,
    options: &PyramidOptions,
    step: usize,
    work: impl Fn() -> T + Clone + Send + Sync + 'static,
) -> (Result<PyramidSummary, Error>, Option<T>) {
    let meanwhile = Arc::new(Meanwhile::default());
    let running = Arc::clone(&meanwhile);
    let observer = AtStep::new(step, move || running.begin(work.clone()));
    let place = Location::root(Arc::new(FileStore::observed(root, observer)));
    let done = run(&place, options);
    (done, meanwhile.end())
}

/// The levels below the finest that an image names.
fn levels(place: &Location) -> Vec<Elements> {
    named(place).0.split_off(1)
}

/// The levels that an image with this finest level has.
fn expected(finest: &Elements, count: usize) -> Vec<Elements> {
    let mut levels = vec![finest.clone()];
    for _ in 0..count {
        let next = levels.last().unwrap().reduced(DownsampleMethod::Mean, &[2, 2]);
        levels.push(next);
    }
    levels.split_off(1)
}

fn finest(root: &Path) -> ArrayNode {
    ArrayNode::open(&engine(), &at(root).join("0").unwrap()).unwrap()
}

#[test]
fn a_writer_beside_a_pyramid_is_noticed_or_comes_before_or_after_it() {
    let update = PyramidOptions::new().update(true);
    for options in [PyramidOptions::new(), PyramidOptions::new().task_size(1)] {
        let (files, steps) = scene(&|place| drop(small(place)), &options);
        let (mut noticed, mut after) = (0, 0);
        for step in 0..steps {
            let folder = folder();
            let root = folder.path().join("i");
            restore(&files, &root);
            let old = Elements::of(&finest(&root));
            let writer = root.clone();
            let (done, wrote) = beside(&root, &options, step, move || {
                write(&finest(&writer), "2:13,3:17", noise(11 * 14 * 2, 9));
            });
            let new = Elements::of(&finest(&root));
            match done {
                Ok(_) => {
                    let found = levels(&at(&root));
                    let is_old = found == expected(&old, 3);
                    after += usize::from(is_old && wrote.is_some());
                    assert!(is_old || found == expected(&new, 3), "a mixture at step {step}");
                    // What came later is seen by an update.
                    run(&at(&root), &update).unwrap();
                }
                Err(Error::Pyramid(PyramidError::Changed { .. })) => {
                    noticed += 1;
                    assert!(levels(&at(&root)).is_empty(), "{step}");
                    run(&at(&root), &options).unwrap();
                }
                Err(error) => panic!("at step {step}: {error}"),
            }
            assert!(levels(&at(&root)) == expected(&new, 3), "at step {step}");
            check_named(&at(&root));
            assert!(leftovers(folder.path()).is_empty(), "{:?}", leftovers(folder.path()));
        }
        println!("{steps} steps: noticed at {noticed}, later at {after}");
        assert!(noticed > 0 && after > 0, "{noticed} {after}");
    }
}

#[test]
fn a_writer_beside_an_update_is_included_or_seen_by_the_next_one() {
    let update = PyramidOptions::new().update(true);
    let make = |place: &Location| {
        let array = small(place);
        run(place, &PyramidOptions::new()).unwrap();
        write(&array, "5:12,0:4", noise(7 * 4 * 2, 5));
    };
    let (_, steps) = scene(&make, &update);
    assert!(steps > 10, "{steps}");
    for step in 0..steps {
        let folder = folder();
        let root = folder.path().join("i");
        make(&at(&root));
        let writer = root.clone();
        let (done, _) = beside(&root, &update, step, move || {
            write(&finest(&writer), "2:13,3:17", noise(11 * 14 * 2, 9));
        });
        done.unwrap_or_else(|error| panic!("at step {step}: {error}"));
        run(&at(&root), &update).unwrap();
        check_named(&at(&root));
        assert!(leftovers(folder.path()).is_empty(), "{step}");
    }
}

#[test]
fn a_job_in_place_on_the_finest_level_never_makes_a_wrong_level() {
    let reshard = RepackOptions::new().packing(Packing::ChunksPerShard(vec![3]));
    let options = PyramidOptions::new().task_size(1);
    let (files, steps) = scene(&|place| drop(small(place)), &options);
    let (mut both, mut refused) = (0, 0);
    for step in 0..steps {
        let folder = folder();
        let root = folder.path().join("i");
        restore(&files, &root);
        let (other, how) = (root.join("0"), reshard.clone());
        let (done, resharded) = beside(&root, &options, step, move || {
            repack(&engine(), &at(&other), None, &how, &mut |_| ()).map(drop)
        });
        match done {
            Ok(_) => {
                assert_eq!(check_named(&at(&root)), 4, "{step}");
                both += usize::from(resharded.is_some_and(|done| done.is_ok()));
            }
            Err(
                Error::Pyramid(PyramidError::Changed { .. })
                | Error::Replaced { .. }
                | Error::Job(JobError::SourceChanged { .. } | JobError::Busy { .. }),
            ) => {
                refused += 1;
                assert_eq!(check_named(&at(&root)), 1, "{step}");
                // The levels follow the shards of the finest, so that this may be another job now.
                run(&at(&root), &options.clone().restart(true)).unwrap();
            }
            Err(error) => panic!("at step {step}: {error}"),
        }
        repack(&engine(), &at(&root.join("0")), None, &reshard, &mut |_| ()).unwrap();
        assert_eq!(finest(&root).shard_shape(), Some(&[12, 12][..]));
        assert_eq!(check_named(&at(&root)), 4, "{step}");
        assert!(leftovers(folder.path()).is_empty(), "{step}: {:?}", leftovers(folder.path()));
    }
    println!("{steps} steps: both done at {both}, refused at {refused}");
    assert!(both > 0 && refused > 0, "{both} {refused}");
}

#[test]
fn a_pyramid_of_a_level_whose_resharding_was_killed_is_right() {
    let reshard = RepackOptions::new().packing(Packing::ChunksPerShard(vec![3]));
    let template = folder();
    small(&at(template.path()));
    let files = tree(template.path());
    let (watched, count) = dies(&template.path().join("0"), usize::MAX);
    repack(&engine(), &watched, None, &reshard, &mut |_| ()).unwrap();
    for step in 0..count.steps() {
        let folder = folder();
        let root = folder.path().join("i");
        restore(&files, &root);
        let (dying, _) = dies(&root.join("0"), step);
        let _ = repack(&engine(), &dying, None, &reshard, &mut |_| ());
        run(&at(&root), &PyramidOptions::new()).unwrap();
        assert_eq!(check_named(&at(&root)), 4, "{step}");
        repack(&engine(), &at(&root.join("0")), None, &reshard, &mut |_| ()).unwrap();
        assert_eq!(check_named(&at(&root)), 4, "{step}");
        assert!(leftovers(folder.path()).is_empty(), "{step}");
    }
}
