//! Levels that exist are rebuilt beside the old ones, and exchanged when all are complete.

use std::sync::atomic::{AtomicU64, Ordering};

use shardine::jobs::{CancelToken, JobContext, PyramidOptions};

use super::*;
use crate::common::data_set::dump;

#[test]
fn levels_that_exist_are_replaced_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = on_files(&folder, "image");
    usual(&place);
    run(&place, &PyramidOptions::new()).unwrap();
    for (method, levels) in
        [(DownsampleMethod::Max, 5), (DownsampleMethod::Min, 3), (DownsampleMethod::Mean, 4)]
    {
        let options = PyramidOptions::new().method(method).levels(levels).overwrite(true);
        let summary = run(&place, &options).unwrap();
        assert_eq!(summary.levels.len(), levels - 1);
        check(&place, &summary);
        assert!(leftovers(folder.path()).is_empty());
        for level in levels..6 {
            assert!(!folder.path().join(format!("image/{level}")).exists(), "{level}");
        }
    }
}

#[test]
fn a_rebuild_that_is_stopped_leaves_the_old_levels_and_is_resumed() {
    let mut stopped = 0;
    for limit in (0..220).step_by(20) {
        let folder = tempfile::tempdir().unwrap();
        let (store, place) = on_files(&folder, "image");
        usual(&place);
        let old = run(&place, &PyramidOptions::new()).unwrap();
        let before = dump(&*store);
        let options = PyramidOptions::new().method(DownsampleMethod::Max).levels(4).overwrite(true);
        let (token, count) = (CancelToken::new(), AtomicU64::new(0));
        let stop = token.clone();
        let context = JobContext::new(&engine()).cancel(&token).progress(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) >= limit {
                stop.cancel();
            }
        });
        if matches!(pyramid(&context, &place, &options, &mut |_| ()), Err(Error::Cancelled)) {
            stopped += 1;
            let mut now = dump(&*store);
            now.retain(|key, _| !key.contains(".shardine"));
            assert!(now == before);
            // The old levels are as they were.
            let image = run(&place, &PyramidOptions::new());
            assert!(image.is_err(), "another job is refused");
            assert_eq!(old.levels.len(), 4);
        }
        let summary = run(&place, &options).unwrap();
        check(&place, &summary);
        assert!(leftovers(folder.path()).is_empty());
        assert!(!folder.path().join("image/4").exists());
    }
    assert!(stopped > 2);
}

/// Copies a folder, as a machine that stopped at this moment would have left it.
fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), &target).unwrap()),
        }
    }
}

#[test]
fn an_exchange_that_is_cut_short_between_any_two_renames_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = on_files(&folder, "image");
    let image = folder.path().join("image");
    let put_back = |saved: &std::path::Path| {
        let _ = std::fs::remove_dir_all(&image);
        copy_tree(saved, &image);
    };
    usual(&place);
    run(&place, &PyramidOptions::new()).unwrap();
    let (old, built, done) =
        (folder.path().join("old"), folder.path().join("built"), folder.path().join("done"));
    copy_tree(&image, &old);
    let options = PyramidOptions::new().method(DownsampleMethod::Max).levels(4).overwrite(true);
    let stopping_after = |limit: u64| {
        let (token, count) = (CancelToken::new(), Arc::new(AtomicU64::new(0)));
        let (stop, counted) = (token.clone(), Arc::clone(&count));
        let context = JobContext::new(&engine()).cancel(&token).progress(move |_| {
            if counted.fetch_add(1, Ordering::Relaxed) + 1 >= limit {
                stop.cancel();
            }
        });
        (pyramid(&context, &place, &options, &mut |_| ()), count.load(Ordering::Relaxed))
    };
    let (all, count) = stopping_after(u64::MAX);
    check(&place, &all.unwrap());
    copy_tree(&image, &done);
    // A job that has built some of it, and exchanged nothing.
    put_back(&old);
    let (stopped, _) = stopping_after(count / 2);
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    copy_tree(&image, &built);
    for steps in 0..8 {
        put_back(&built);
        for level in ["1", "2", "3"] {
            let new = image.join(format!(".shardine-{level}.job/new"));
            std::fs::remove_dir_all(&new).unwrap();
            copy_tree(&done.join(level), &new);
        }
        if steps > 0 {
            // Only the finest level is named while folders are renamed.
            let mut root: Value =
                serde_json::from_slice(&std::fs::read(image.join("zarr.json")).unwrap()).unwrap();
            let levels = &mut root["attributes"]["ome"]["multiscales"][0]["datasets"];
            levels.as_array_mut().unwrap().truncate(1);
            std::fs::write(image.join("zarr.json"), root.to_string()).unwrap();
        }
        for step in 0..steps - i32::from(steps > 0) {
            let level = (step / 2 + 1).to_string();
            let work = image.join(format!(".shardine-{level}.job"));
            match step % 2 {
                0 => std::fs::rename(image.join(&level), work.join("old")).unwrap(),
                _ => std::fs::rename(work.join("new"), image.join(&level)).unwrap(),
            }
        }
        let summary = run(&place, &options).unwrap();
        check(&place, &summary);
        assert!(leftovers(&image).is_empty(), "{steps}");
        assert!(!image.join("4").exists(), "{steps}");
    }
}
