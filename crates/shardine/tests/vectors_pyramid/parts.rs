//! Processes that make levels together.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use shardine::jobs::{JobError, Part, PartOutcome, pyramid_vectors_to};
use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};

use super::common::deaths::Deaths;
use super::common::trees::{Tree, assert_same, folder, leftovers, restore, tree};
use super::*;

fn at(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
}

pub fn of(index: u32, count: u32) -> PyramidVectorsOptions {
    two().part(Part::Of { index, count })
}

/// A store of paths with the attribute of vertices `row`, or of points, as files.
pub fn store(kind: GeometryKind, shard: &[u64]) -> Tree {
    let mut text = "x,y,object_id,row\n".to_owned();
    for row in 0..400 {
        let (x, y) = ((row * 37 + row / 7) % 160, (row * 11) % 90);
        text += &format!("{x}.5,{y}.25,{},{row}\n", row / 8);
    }
    if kind == GeometryKind::Points {
        text = text
            .lines()
            .map(|line| line.split(',').take(2).collect::<Vec<_>>().join(",") + "\n")
            .collect();
    }
    let mut rows = FileFormat::Csv.open(Cursor::new(text), &ReadOptions::new(kind)).unwrap();
    let options = WriteVectorsOptions::new(&[10.0, 10.0]);
    let options = if shard.is_empty() { options } else { options.shard(shard) };
    let made = folder();
    write_vectors(&engine(), &mut *rows, &[], &at(made.path()), &options).unwrap();
    tree(made.path())
}

/// What one process makes of a store.
pub fn whole(old: &Tree) -> Tree {
    let made = folder();
    restore(old, made.path());
    make(&at(made.path())).unwrap();
    tree(made.path())
}

fn stores() -> Vec<Tree> {
    vec![
        store(GeometryKind::Points, &[4]),
        store(GeometryKind::Points, &[]),
        store(GeometryKind::Polylines, &[2, 4]),
    ]
}

#[test]
fn parts_in_any_order_and_any_number_of_times_make_the_same_bytes_as_one_process() {
    for old in stores() {
        let expected = whole(&old);
        for order in [&[1, 2, 3][..], &[3, 1, 3, 1, 2], &[2, 2, 3, 1]] {
            let place = folder();
            restore(&old, place.path());
            let mut seen: Vec<u32> = Vec::new();
            for index in order {
                seen.push(*index);
                let report = pyramid_vectors(&engine(), &at(place.path()), &of(*index, 3)).unwrap();
                let missing: Vec<u32> = (1..=3).filter(|part| !seen.contains(part)).collect();
                match missing.is_empty() {
                    true => assert_eq!(report.outcome, PartOutcome::Complete),
                    false => {
                        assert_eq!(report.outcome, PartOutcome::Waiting { missing });
                        let store = VectorStore::open_in(&engine(), at(place.path())).unwrap();
                        assert_eq!(store.levels(), [0], "some parts are not a level");
                    }
                }
            }
            assert_same(&tree(place.path()), &expected, &format!("{order:?}"));
            let again = pyramid_vectors(&engine(), &at(place.path()), &of(1, 3)).unwrap();
            assert_eq!((again.outcome, again.unchanged), (PartOutcome::AlreadyThere, true));
        }
    }
}

#[test]
fn each_part_writes_its_share() {
    let old = store(GeometryKind::Points, &[]);
    let place = folder();
    restore(&old, place.path());
    let written: Vec<u64> = (1..=3)
        .map(|index| {
            let report = pyramid_vectors(&engine(), &at(place.path()), &of(index, 3)).unwrap();
            report.written.objects_written
        })
        .collect();
    let one = folder();
    restore(&old, one.path());
    let alone = make(&at(one.path())).unwrap().written.objects_written;
    assert_eq!(written.iter().sum::<u64>(), alone, "{written:?}");
    assert!(written[..2].iter().all(|part| *part > alone / 10 && *part < alone / 2), "{written:?}");
}

#[test]
fn finish_makes_the_rest_and_refuses_while_parts_are_missing() {
    let old = store(GeometryKind::Polylines, &[4]);
    let place = folder();
    restore(&old, place.path());
    let finish = two().part(Part::Finish);
    let run =
        |options: &PyramidVectorsOptions| pyramid_vectors(&engine(), &at(place.path()), options);
    assert!(matches!(run(&finish), Err(Error::Job(JobError::NothingBegun { .. }))));
    run(&of(2, 2)).unwrap();
    match run(&finish) {
        Err(Error::Job(JobError::PartsMissing { missing, .. })) => assert_eq!(missing, [1]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(run(&of(1, 3)), Err(Error::Job(JobError::OtherParts { .. }))));
    assert!(matches!(run(&two()), Err(Error::Job(JobError::OtherParts { .. }))));
    run(&of(1, 2)).unwrap();
    assert_same(&tree(place.path()), &whole(&old), "finished by the last part");
    assert!(run(&finish).unwrap().unchanged);
}

#[test]
fn what_processes_cannot_share_is_refused_and_one_process_may_start_over() {
    let old = store(GeometryKind::Points, &[4]);
    let place = folder();
    restore(&old, place.path());
    for options in [of(1, 2).overwrite(true), of(1, 2).restart(true)] {
        let refused = pyramid_vectors(&engine(), &at(place.path()), &options);
        assert!(matches!(refused, Err(Error::Job(JobError::NotInParts { .. }))), "{refused:?}");
    }
    pyramid_vectors(&engine(), &at(place.path()), &of(1, 2)).unwrap();
    pyramid_vectors(&engine(), &at(place.path()), &two().restart(true)).unwrap();
    assert_same(&tree(place.path()), &whole(&old), "started over");
}

#[test]
fn parts_of_a_store_that_was_changed_are_refused() {
    let place = folder();
    restore(&store(GeometryKind::Points, &[]), place.path());
    pyramid_vectors(&engine(), &at(place.path()), &of(1, 2)).unwrap();
    let chunk = place.path().join("0/vertices/c/0/0");
    let bytes = fs::read(&chunk).unwrap();
    fs::write(&chunk, [&bytes[..], &[0]].concat()).unwrap();
    let refused = pyramid_vectors(&engine(), &at(place.path()), &of(2, 2));
    assert!(matches!(refused, Err(Error::Job(JobError::SourceChanged { .. }))), "{refused:?}");
    assert!(!place.path().join("1/zarr.json").exists());
}

#[test]
fn a_part_that_dies_at_any_step_is_finished_by_the_same_call() {
    let old = store(GeometryKind::Polylines, &[4]);
    let expected = whole(&old);
    for last in [false, true] {
        let steps = Deaths {
            old: &old,
            stride: 11,
            run: &|root| {
                if last {
                    pyramid_vectors(&engine(), root, &of(1, 2))?;
                }
                pyramid_vectors(&engine(), root, &of(2, 2)).map(drop)?;
                if !last {
                    pyramid_vectors(&engine(), root, &of(1, 2))?;
                }
                Ok(())
            },
            check: &|root, step| {
                let store = VectorStore::open_in(&engine(), at(root)).unwrap();
                let found = rows_of(&store, 0);
                assert_eq!(found, 400, "dead at step {step}");
                if root.join("2/zarr.json").exists() && leftovers(root).is_empty() {
                    assert_same(&tree(root), &expected, &format!("dead at step {step}"));
                }
            },
        }
        .everywhere();
        assert!(steps > 50, "{steps}");
    }
}

fn rows_of(store: &VectorStore, level: u64) -> usize {
    let mut rows = store.query(&VectorQuery::new().level(level)).unwrap();
    let mut count = 0;
    while let Some(batch) = rows.next_batch().unwrap() {
        count += batch.vertices.num_rows();
    }
    count
}

/// Makes a process wait for another one before it leaves the report of its part, and once more
/// before it writes the first document: then both have found that all parts are done. Each waits
/// for some seconds at most, as it may hold a lock that the other one needs.
#[derive(Debug)]
struct Meets {
    arrived: Arc<[AtomicUsize; 2]>,
    met: AtomicUsize,
}

impl DiskObserver for Meets {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        let step = format!("{step:?}");
        for (met, name) in [(0, "-of-2.json"), (1, "zarr.json")] {
            let next = |now| (now == met && step.contains(name)).then_some(met + 1);
            if self.met.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok() {
                let (arrived, start) = (&self.arrived[met], Instant::now());
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 2 && start.elapsed().as_secs() < 3 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Verdict::Go
    }
}

#[test]
fn two_that_believe_they_are_last_make_the_same_store() {
    for old in stores() {
        let expected = whole(&old);
        let place = folder();
        restore(&old, place.path());
        pyramid_vectors(&engine(), &at(place.path()), &of(1, 2)).unwrap();
        let arrived = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let meets = Meets { arrived: Arc::clone(&arrived), met: AtomicUsize::new(0) };
                let store = FileStore::observed(place.path(), Arc::new(meets));
                let place = Location::root(Arc::new(store));
                thread::spawn(move || pyramid_vectors(&engine(), &place, &of(2, 2)).unwrap())
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().outcome, PartOutcome::Complete);
        }
        // Both have come to the documents.
        assert_eq!(arrived[1].load(Ordering::SeqCst), 2);
        assert_same(&tree(place.path()), &expected, "two were last");
        assert!(leftovers(place.path()).is_empty());
    }
}

#[test]
fn parts_make_a_new_store_together() {
    for old in stores() {
        let (source, target) = (folder(), folder());
        restore(&old, source.path());
        let expected = whole(&old);
        let target = target.path().join("new");
        for index in [3, 1, 3, 2] {
            let to = at(&target);
            pyramid_vectors_to(&engine(), &at(source.path()), &to, &of(index, 3)).unwrap();
            assert_eq!(target.join("zarr.json").exists(), index == 2);
        }
        super::to::assert_same_store(&target, &expected);
        assert_same(&tree(source.path()), &old, "the source stays");
    }
}
