//! Jobs in place that died are seen from the data set they worked on, and `repair` ends them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::findings::*;
use common::*;
use serde_json::json;
use shardine::jobs::{
    JobContext, RepackOptions, RepackVolumeOptions, RepairOptions, repack, repack_volume, repair,
    unfinished_job,
};
use shardine::shard::uint64::Sharding;
use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};
use shardine::{ArrayNode, Error, Location, Packing};

const COMMAND: &str = "shardine reshard v --chunks-per-shard 2";

/// Dies at a step: from there on nothing changes on the disk any more.
#[derive(Debug)]
struct Dies {
    at: usize,
    steps: AtomicUsize,
    exchanges: bool,
}

impl DiskObserver for Dies {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        match self.steps.fetch_add(1, Ordering::SeqCst) >= self.at {
            true => Verdict::Fail(io::Error::from_raw_os_error(5)),
            false if !self.exchanges && matches!(step, DiskStep::Exchange { .. }) => {
                Verdict::Fail(io::ErrorKind::Unsupported.into())
            }
            false => Verdict::Go,
        }
    }
}

/// A place whose process dies at a step.
fn dying(path: &Path, at: usize, exchanges: bool) -> Location {
    let dies = Arc::new(Dies { at, steps: AtomicUsize::new(0), exchanges });
    Location::root(Arc::new(FileStore::observed(path, dies)))
}

fn context() -> JobContext {
    JobContext::new(&engine()).command(COMMAND)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Repairs, and tells what was done.
fn repaired(location: &Location, dry_run: bool) -> Vec<String> {
    let aside = tempfile::tempdir().unwrap();
    let aside = Location::root(Arc::new(FileStore::new(aside.path().join("aside"))));
    let options = RepairOptions::new(aside).dry_run(dry_run);
    let mut told = Vec::new();
    repair(&engine(), location, &options, &mut |done| told.push(done.message.clone())).unwrap();
    told
}

/// Looks at a data set after its job died, and lets `repair` end that; tells whether it was
/// finished, undone or neither.
fn end(folder: &Path, location: &Location) -> Option<bool> {
    let path = folder.join("v");
    let left = names(folder) != ["v"];
    if path.exists() {
        let job = unfinished_job(location).unwrap();
        assert_eq!(job.is_some(), left);
        let (summary, findings) = check_at(location, true);
        assert!(summary.is_ok(), "{findings:?}");
        let found: Vec<_> = findings.iter().filter(|f| f.kind.name() == "unfinished-job").collect();
        assert_eq!(found.len(), usize::from(left), "{findings:?}");
        if let Some(job) = job {
            assert!(!job.in_use && job.folder.ends_with(".shardine-v.job"), "{job:?}");
            // Before it has said what it is, nothing names the command.
            if let Some(command) = job.command {
                assert_eq!(command, COMMAND);
                assert!(found[0].message.contains(COMMAND), "{findings:?}");
            }
            // Nothing is done in a dry run.
            assert!(!repaired(location, true).is_empty());
            assert_ne!(names(folder), ["v"]);
        }
    }
    let told = repaired(location, false);
    assert_eq!(names(folder), ["v"]);
    assert_eq!(unfinished_job(location).unwrap(), None);
    assert_eq!(check_at(location, true).1, []);
    told.iter().find_map(|message| match message.as_str() {
        "an interrupted job was finished" => Some(true),
        text if text.starts_with("an interrupted job was undone") => Some(false),
        _ => None,
    })
}

#[test]
fn an_array_by_itself_shows_a_job_that_died_and_repair_ends_it() {
    for exchanges in [true, false] {
        let (mut finished, mut undone) = (0, 0);
        for step in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("v");
            let array = in_files(&path);
            let before = read(&array, "");
            let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2]));
            let dying = dying(&path, step, exchanges);
            let done = repack(context(), &dying, None, &options, &mut |_| {}).is_ok();
            let location = array.location();
            match end(folder.path(), location) {
                Some(true) => finished += 1,
                Some(false) => undone += 1,
                None => {}
            }
            let now = ArrayNode::open(&engine(), location).unwrap();
            assert_eq!(read(&now, ""), before, "{step}");
            if done {
                break;
            }
        }
        assert!(finished > 0 && undone > 0, "{finished} {undone}");
    }
}

#[test]
fn a_volume_shows_a_job_that_died_and_repair_ends_it() {
    use crate::common::volumes::{fill, read_all, scale, sharding, volume_at};
    let (mut finished, mut undone) = (0, 0);
    for step in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        let location = Location::root(Arc::new(FileStore::new(&path)));
        volume_at(&location, &[scale("8", [33, 16, 16], Some(&sharding(0, 1, 1, "gzip", "raw")))]);
        fill(&location, 0);
        let before = read_all(&location, 0);
        let new = Sharding::from_json(&sharding(0, 1, 5, "gzip", "raw")).unwrap();
        let options = RepackVolumeOptions::new(Some(new));
        let dying = dying(&path, step, true);
        let done = repack_volume(context(), &dying, None, &options, &mut |_| {}).is_ok();
        match end(folder.path(), &location) {
            Some(true) => finished += 1,
            Some(false) => undone += 1,
            None => {}
        }
        assert_eq!(read_all(&location, 0), before, "{step}");
        if done {
            break;
        }
    }
    assert!(finished > 0 && undone > 0, "{finished} {undone}");
}

#[test]
fn jobs_of_arrays_below_a_group_are_ended_too() {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("g");
    fs::create_dir(&group).unwrap();
    let document = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    fs::write(group.join("zarr.json"), document.to_string()).unwrap();
    let array = in_files(&group.join("v"));
    let before = read(&array, "");
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2]));
    let job = group.join(".shardine-v.job");
    for step in 0.. {
        let dying = dying(&group.join("v"), step, true);
        assert!(repack(context(), &dying, None, &options, &mut |_| {}).is_err());
        if job.join("job.json").exists() {
            break;
        }
    }
    let location = Location::root(Arc::new(FileStore::new(&group)));
    let (_, findings) = check_at(&location, false);
    assert_eq!(kinds(&findings), ["unfinished-job"]);
    assert!(findings[0].message.contains(COMMAND), "{findings:?}");
    assert_eq!(repaired(&location, false).len(), 1);
    assert!(!job.exists());
    assert_eq!(check_at(&location, false).1, []);
    assert_eq!(read(&reopen(&array), ""), before);
}

#[test]
fn another_job_is_refused_by_the_command_that_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v");
    let array = in_files(&path);
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2]));
    for step in 0.. {
        let dying = dying(&path, step, true);
        assert!(repack(context(), &dying, None, &options, &mut |_| {}).is_err());
        if unfinished_job(array.location()).unwrap().is_some_and(|job| job.command.is_some()) {
            break;
        }
    }
    let other = RepackOptions::new().packing(Packing::Unsharded);
    let refused = repack(&engine(), array.location(), None, &other, &mut |_| {});
    let Err(Error::Repack(error)) = refused else { panic!("{refused:?}") };
    let told = error.to_string();
    assert!(told.contains(&format!("`{COMMAND}`")) && !told.contains('{'), "{told}");
}

#[test]
fn nothing_is_unfinished_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = Location::root(Arc::new(FileStore::new(folder.path().join("nothing"))));
    assert_eq!(unfinished_job(&nothing).unwrap(), None);
    assert_eq!(unfinished_job(&Location::memory()).unwrap(), None);
    assert_eq!(unfinished_job(&Location::root(Arc::new(FileStore::new("/")))).unwrap(), None);
}
