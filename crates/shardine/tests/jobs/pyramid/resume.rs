//! Runs that are stopped, and runs that share the work.

use std::sync::atomic::{AtomicU64, Ordering};

use shardine::jobs::{
    CancelToken, JobContext, JobError, Part, PartOutcome, PyramidOptions, PyramidPlan, PyramidTask,
};
use shardine::store::{FaultStore, MemoryStore, Operation};

use super::*;
use crate::common::data_set::{dump, memory};

fn options() -> PyramidOptions {
    PyramidOptions::new().task_size(1)
}

/// The bytes of a finished image.
fn finished() -> std::collections::BTreeMap<String, Vec<u8>> {
    let place = Location::root(memory());
    usual(&place);
    let summary = run(&place, &options()).unwrap();
    check(&place, &summary);
    assert!(summary.passes > 1, "so that tasks and stages are tested: {}", summary.passes);
    dump(&*place.store)
}

#[test]
fn a_job_that_is_stopped_anywhere_is_resumed_to_the_same_bytes() {
    let whole = finished();
    let (mut stopped, mut kept) = (0, 0);
    for limit in (0..200).step_by(7) {
        let folder = tempfile::tempdir().unwrap();
        let (_, place) = on_files(&folder, "image");
        usual(&place);
        let (token, count) = (CancelToken::new(), AtomicU64::new(0));
        let stop = token.clone();
        let context = JobContext::new(&engine()).cancel(&token).progress(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) >= limit {
                stop.cancel();
            }
        });
        match pyramid(&context, &place, &options(), &mut |_| ()) {
            Err(Error::Cancelled) => stopped += 1,
            done => drop(done.unwrap()),
        }
        let other = options().method(DownsampleMethod::Max);
        if run(&place, &other).is_ok() {
            panic!("another job is refused");
        }
        let written = dump(&*place.store).len() as u64;
        let summary = run(&place, &options()).unwrap();
        let made: u64 = summary.levels.iter().map(|level| level.counts.objects).sum();
        kept += u64::from(summary.resumed && made < 40 && written > 30);
        let all = dump(&*place.store);
        let all: Vec<_> = all.iter().map(|(k, v)| (k.trim_start_matches("image/"), v)).collect();
        let expected: Vec<_> = whole.iter().map(|(k, v)| (k.as_str(), v)).collect();
        assert!(all == expected, "{limit}");
        assert!(leftovers(folder.path()).is_empty());
    }
    assert!(stopped > 5 && kept > 0, "{stopped} {kept}");
}

#[test]
fn a_fault_at_any_call_leaves_an_image_that_the_same_call_finishes() {
    let whole = finished();
    for operation in [
        Operation::Open,
        Operation::Read,
        Operation::Create,
        Operation::Append,
        Operation::Finish,
        Operation::Publish,
        Operation::PublishAnswer,
        Operation::List,
    ] {
        let mut failed = 0;
        for call in (1..).step_by(3) {
            let store = FaultStore::new(MemoryStore::new());
            let place = Location::root(Arc::new(store.clone()));
            usual(&place);
            store.fail(operation, call);
            let first = run(&place, &options());
            if store.waiting() > 0 {
                first.unwrap();
                break;
            }
            store.clear();
            // The image is as before, or has all its levels.
            let root: Value = serde_json::from_slice(&dump(&store)["zarr.json"]).unwrap();
            let levels = &root["attributes"]["ome"]["multiscales"][0]["datasets"];
            let levels = levels.as_array().unwrap().len();
            assert!(levels == 1 || levels == 5, "{operation:?} {call}");
            failed += usize::from(first.is_err());
            run(&place, &options()).unwrap_or_else(|error| panic!("{operation:?} {call}: {error}"));
            assert!(dump(&store) == whole, "{operation:?} {call}");
        }
        assert!(failed > 0, "{operation:?}");
    }
}

#[test]
fn parts_in_any_order_make_the_same_bytes() {
    let whole = finished();
    for (count, order) in
        [(1, vec![1]), (3, vec![2, 3, 1]), (3, vec![1, 1, 3, 2]), (40, (1..=40).collect())]
    {
        for files in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let place = match files {
                true => on_files(&folder, "").1,
                false => Location::root(memory()),
            };
            usual(&place);
            let of = |index| options().part(Some(Part::Of { index, count }));
            let missing = run(&place, &options().part(Some(Part::Finish))).unwrap_err();
            assert!(matches!(missing, Error::Job(JobError::NothingBegun { .. })), "{missing}");
            for (i, index) in order.iter().enumerate() {
                let summary = run(&place, &of(*index)).unwrap();
                match i + 1 == order.len() {
                    true => assert_eq!(summary.outcome, PartOutcome::Complete),
                    false => {
                        assert!(matches!(summary.outcome, PartOutcome::Waiting { .. }));
                        let refused = run(&place, &options()).unwrap_err();
                        assert!(matches!(refused, Error::Job(JobError::OtherParts { .. })));
                    }
                }
            }
            assert!(dump(&*place.store) == whole, "{count} {order:?}");
            // Parts that come late find everything done.
            for part in [Part::Of { index: 1, count }, Part::Finish] {
                let late = run(&place, &options().part(Some(part))).unwrap();
                assert_eq!(late.outcome, PartOutcome::AlreadyThere);
            }
            assert!(dump(&*place.store) == whole);
        }
    }
}

#[test]
fn parts_refuse_a_finest_level_that_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = on_files(&folder, "image");
    let array = usual(&place);
    let of = |index| options().part(Some(Part::Of { index, count: 2 }));
    run(&place, &of(1)).unwrap();
    write(&array, "0:1,0:1,0:1", vec![1, 2]);
    let refused = run(&place, &of(2)).unwrap_err();
    assert!(matches!(refused, Error::Job(JobError::SourceChanged { .. })), "{refused}");
    // One process that starts over may finish it.
    let summary = run(&place, &options().restart(true)).unwrap();
    check(&place, &summary);
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn tasks_can_leave_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("image");
    let place = Location::parse(url.to_str().unwrap()).unwrap();
    usual(&place);
    let plan = PyramidPlan::begin(&engine(), &place, &options()).unwrap();
    let tasks = plan.tasks(&engine()).unwrap();
    assert!(tasks.len() >= 8, "{}", tasks.len());
    let text = serde_json::to_string(&(&plan, &tasks)).unwrap();
    let (plan, tasks): (PyramidPlan, Vec<PyramidTask>) = serde_json::from_str(&text).unwrap();
    let few: Vec<_> = tasks[1..].iter().map(|task| plan.run(&engine(), task).unwrap()).collect();
    let missing = plan.finish(&engine(), &few).unwrap_err();
    assert!(matches!(missing, Error::Job(JobError::TasksMissing { missing: 1, .. })), "{missing}");
    let reports: Vec<_> =
        tasks.iter().rev().map(|task| plan.run(&engine(), task).unwrap()).collect();
    plan.finish(&engine(), &reports).unwrap();
    let place = Location::root(Arc::new(FileStore::new(&url)));
    assert!(dump(&*place.store) == finished());
    let late = plan.run(&engine(), &tasks[0]).unwrap_err();
    assert!(matches!(late, Error::Job(JobError::NothingBegun { .. })), "{late}");
}

#[test]
fn a_run_after_a_change_of_the_finest_level_starts_over() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = on_files(&folder, "image");
    let array = usual(&place);
    let token = CancelToken::new();
    let (stop, count) = (token.clone(), AtomicU64::new(0));
    let context = JobContext::new(&engine()).cancel(&token).progress(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= 100 {
            stop.cancel();
        }
    });
    let stopped = pyramid(&context, &place, &options(), &mut |_| ());
    assert!(matches!(stopped, Err(Error::Cancelled)));
    write(&array, "0:20,0:20,0:20", noise(20 * 20 * 20 * 2, 77));
    let summary = run(&place, &options()).unwrap();
    assert!(summary.resumed);
    check(&place, &summary);
}
