//! Migrations that die at each of their steps on the disk: a reader who opens the outermost node
//! finds the old hierarchy or the new one, and the same call finishes it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use shardine::jobs::{
    JobError, MigrateOptions, MigrateSummary, RepairKind, RepairOptions, VerifyOptions, migrate,
    repair, unfinished_job, verify,
};
use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};
use shardine::zarr::change_attributes;
use shardine::{Error, Location};
use tempfile::TempDir;

use crate::common::deaths::Deaths;
use crate::common::engine;
use crate::common::ome::Files;
use crate::common::trees::{folder, has_links, tree};
use crate::migrate::fill;

fn at(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
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
                let name = format!("{node}/{name}");
                seen.insert(name, serde_json::from_slice(&bytes).unwrap());
            }
        }
    }
    seen
}

fn run(location: &Location, options: &MigrateOptions) -> Result<MigrateSummary, Error> {
    migrate(&engine(), location, options, &mut |_| {})
}

fn in_0_6() -> MigrateOptions {
    MigrateOptions::new().ome_version("0.6".parse::<shardine::ome::OmeVersion>().unwrap())
}

/// Lets a migration die at each step, or at each of so many; returns how many steps it has.
fn dies_everywhere(
    files: &Files,
    before: &[MigrateOptions],
    options: &MigrateOptions,
    stride: usize,
) -> usize {
    let template = folder();
    let root = template.path().join("h.zarr");
    fill(files, &FileStore::new(&root));
    before.iter().for_each(|options| drop(run(&at(&root), options).unwrap()));
    let nodes = files.nodes();
    let (old_tree, old, was_ok) = (tree(&root), seen(&root, &nodes), is_ok(&root));
    run(&at(&root), options).unwrap();
    let new = seen(&root, &nodes);
    assert_ne!(old, new);
    let (deaths, news) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let steps = Deaths {
        old: &old_tree,
        stride,
        run: &|root| run(root, options).map(drop),
        check: &|root, step| {
            let now = seen(root, &nodes);
            assert!(now == old || now == new, "neither old nor new after {step} steps");
            assert!(is_ok(root) || now == old && !was_ok, "damaged after {step} steps");
            deaths.fetch_add(1, Ordering::SeqCst);
            news.fetch_add(usize::from(now == new), Ordering::SeqCst);
        },
    }
    .everywhere();
    let (deaths, news) = (deaths.into_inner(), news.into_inner());
    println!("{news} times the new one");
    assert!(news < deaths && (stride > 1 || news > 0));
    steps
}

/// Whether nothing is damaged, and every array can be read.
fn is_ok(root: &Path) -> bool {
    let options = VerifyOptions::new().decode(true);
    verify(&engine(), &at(root), &options, &mut |_| {}).unwrap().is_ok()
}

fn hierarchy() -> Files {
    let mut files = Files::default();
    files.plate("", &["A"], &["1", "2"], 1, 1);
    // Of the second well there are no labels.
    files.0.retain(|(name, _)| !name.starts_with("A/2/0/labels"));
    files.consolidated("");
    files
}

#[test]
fn a_migration_from_0_4_that_dies_at_any_step_leaves_the_old_or_the_new_one() {
    let kept = MigrateOptions::new().remove_v2(false);
    for (options, stride) in [(MigrateOptions::new(), 1), (in_0_6(), 5), (kept, 5)] {
        let steps = dies_everywhere(&hierarchy(), &[], &options, stride);
        assert!(steps > 50, "{steps}");
    }
}

#[test]
fn a_migration_from_0_5_that_dies_at_any_step_leaves_the_old_or_the_new_one() {
    let steps = dies_everywhere(&hierarchy(), &[MigrateOptions::new()], &in_0_6(), 1);
    assert!(steps > 50, "{steps}");
    // Also beside documents of version 2, and from a form that no version has.
    let kept = MigrateOptions::new().remove_v2(false);
    dies_everywhere(&hierarchy(), &[kept], &in_0_6().remove_v2(false), 7);
    let left = MigrateOptions::new().leave_ome(true).remove_v2(true);
    dies_everywhere(&hierarchy(), &[left], &MigrateOptions::new(), 7);
}

/// Does something before the rename to a name of this end, when that comes for this time.
struct Beside<F> {
    end: &'static str,
    time: usize,
    seen: AtomicUsize,
    work: F,
}

impl<F> std::fmt::Debug for Beside<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.end)
    }
}

impl<F: Fn() -> Verdict + Send + Sync> DiskObserver for Beside<F> {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        match step {
            DiskStep::Rename { to, .. }
                if to.ends_with(self.end)
                    && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.time =>
            {
                (self.work)()
            }
            _ => Verdict::Go,
        }
    }
}

/// A plate of 0.5 in a folder.
fn of_0_5() -> (TempDir, PathBuf) {
    let folder = folder();
    let root = folder.path().join("h.zarr");
    fill(&hierarchy(), &FileStore::new(&root));
    run(&at(&root), &MigrateOptions::new()).unwrap();
    (folder, root)
}

#[test]
fn a_change_by_someone_else_is_not_lost() {
    // Before the document is a link, when it is one, and in the moment of the switch.
    for (end, time) in [("current", 1), ("A/2/zarr.json", 1), ("current", 2)] {
        let (_folder, root) = of_0_5();
        let group = at(&root).join("A/1/0").unwrap();
        let work = move || {
            change_attributes(&group, &|attributes| {
                attributes.insert("mine".to_owned(), json!("late"));
            })
            .unwrap();
            Verdict::Go
        };
        let beside = Beside { end, time, seen: AtomicUsize::new(0), work };
        let watched = Location::root(Arc::new(FileStore::observed(&root, Arc::new(beside))));
        run(&watched, &in_0_6()).unwrap();
        let text = fs::read(root.join("A/1/0/zarr.json")).unwrap();
        let document: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(document["attributes"]["mine"], "late", "{end}");
        assert_eq!(document["attributes"]["ome"]["version"], "0.6", "{end}");
        let text = fs::read(root.join("zarr.json")).unwrap();
        let copies: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(copies["consolidated_metadata"]["metadata"]["A/1/0"], document, "{end}");
        assert!(!tree(&root).keys().any(|name| name.to_string_lossy().contains(".shardine")));
    }
}

#[test]
fn two_migrations_do_not_meet() {
    let (_folder, root) = of_0_5();
    let other = at(&root);
    let work = move || {
        let refused = run(&other, &in_0_6()).unwrap_err();
        assert!(matches!(refused, Error::Job(JobError::Switching { .. })), "{refused}");
        Verdict::Go
    };
    let beside = Beside { end: "current", time: 1, seen: AtomicUsize::new(0), work };
    let watched = Location::root(Arc::new(FileStore::observed(&root, Arc::new(beside))));
    run(&watched, &in_0_6()).unwrap();
}

#[test]
fn an_interrupted_change_of_documents_is_told_of_and_ended_by_repair() {
    for (step, version) in [("A/2/zarr.json", "0.5"), ("A/1/zarr.json", "0.6")] {
        let (folder, root) = of_0_5();
        // Dies while it makes links, or while it replaces them by files.
        let dying = Arc::new(AtomicUsize::new(0));
        #[derive(Debug)]
        struct Dying(&'static str, usize, Arc<AtomicUsize>);
        impl DiskObserver for Dying {
            fn before(&self, step: DiskStep<'_>) -> Verdict {
                if let DiskStep::Rename { to, .. } = step
                    && to.ends_with(self.0)
                {
                    self.2.fetch_add(1, Ordering::SeqCst);
                }
                match self.2.load(Ordering::SeqCst) >= self.1 {
                    true => Verdict::Fail(io::Error::other("died")),
                    false => Verdict::Go,
                }
            }
        }
        let times = if version == "0.5" { 1 } else { 2 };
        let observer = Arc::new(Dying(step, times, dying));
        let watched = Location::root(Arc::new(FileStore::observed(&root, observer)));
        run(&watched, &in_0_6()).unwrap_err();
        let place = at(&root);
        let job = unfinished_job(&place).unwrap().unwrap();
        assert!(job.folder.ends_with("h.zarr/.shardine-zarr.json.job") && !job.in_use);
        let mut told = Vec::new();
        verify(&engine(), &place, &VerifyOptions::new(), &mut |found| told.push(found)).unwrap();
        assert!(told.iter().any(|found| found.message.contains("changing the documents")));
        // A copy is whole, and has no links.
        let copy = folder.path().join("copy.zarr");
        shardine::jobs::copy(&place, &at(&copy), &shardine::jobs::CopyOptions::new()).unwrap();
        assert!(!has_links(&tree(&copy)));
        let options = RepairOptions::new(at(&folder.path().join("aside")));
        let mut kinds = Vec::new();
        repair(&engine(), &place, &options, &mut |done| kinds.push(done.kind)).unwrap();
        assert!(kinds.contains(&RepairKind::Recovered), "{kinds:?}");
        assert_eq!(unfinished_job(&place).unwrap(), None);
        for node in hierarchy().nodes() {
            let text = fs::read(root.join(&node).join("zarr.json")).unwrap();
            let document: Value = serde_json::from_slice(&text).unwrap();
            let found = &document["attributes"]["ome"]["version"];
            assert!(found.is_null() || found == version, "{node}: {found}");
        }
        assert!(!has_links(&tree(&root)));
    }
}
