//! Conversions to OME-Zarr of hierarchies that are being written to, and with links in them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use shardine::jobs::{ConvertOptions, LevelCount, OmeForm, RepackError};
use shardine::ome::OmeRelease;
use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};
use shardine::{ArrayNode, Error, Location};

use crate::common::data_set::dump;
use crate::common::*;
use crate::convert::ome_scene::*;
use crate::convert::scene::*;

fn on_files(folder: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(folder)))
}

fn make(place: &Location) {
    Scene::new(OmeRelease::V0_4, "zyx", &[9, 10, 11], &[4, 4, 4]).make(place);
}

fn convert(source: &Location, target: &Location) -> Result<Told, Error> {
    let form = OmeForm::new().levels(LevelCount::Number(3));
    to_ome(source, target, &form, &ConvertOptions::new())
}

/// Lets someone write to the source before a step of the target's disk.
struct Writes {
    source: Location,
    at: usize,
    steps: AtomicUsize,
}

impl std::fmt::Debug for Writes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a write before step {}", self.at)
    }
}

impl DiskObserver for Writes {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        if self.steps.fetch_add(1, Ordering::SeqCst) == self.at {
            let level = self.source.join("0").unwrap();
            fill(&ArrayNode::open(&engine(), &level).unwrap(), "4:8,4:8,4:8", 91);
        }
        Verdict::Go
    }
}

#[test]
fn a_writer_on_the_source_is_told_of_or_all_of_its_write_is_seen() {
    let (mut refused, mut seen) = (0, 0);
    for at in (0..).step_by(3) {
        let folder = tempfile::tempdir().unwrap();
        let source = on_files(&folder.path().join("source"));
        make(&source);
        let before = level(&source, 0);
        let writes = Writes { source: source.clone(), at, steps: AtomicUsize::new(0) };
        let writes = Arc::new(writes);
        let target = folder.path().join("target");
        let watched = Location::root(Arc::new(FileStore::observed(&target, writes.clone())));
        let result = convert(&source, &watched);
        if writes.steps.load(Ordering::SeqCst) <= at {
            result.unwrap();
            break;
        }
        let now = level(&source, 0);
        assert_ne!(before, now);
        let target = on_files(&target);
        match result {
            Ok(_) => {
                seen += 1;
                // It came after the level was read, or before.
                let found = level(&target, 0);
                assert!(found == before || found == now, "a mixture, before step {at}");
            }
            Err(error) => {
                refused += 1;
                assert!(matches!(error, Error::Repack(RepackError::Changed { .. })), "{error}");
                convert(&source, &target).unwrap();
                assert!(level(&target, 0) == now, "before step {at}");
            }
        }
        let clean = memory();
        to_ome(&target, &clean, &OmeForm::new(), &ConvertOptions::new()).unwrap();
        check_ome(&target, OmeRelease::V0_5);
    }
    assert!(refused > 0 && seen > 0, "{refused} {seen}");
}

#[test]
fn links_to_files_are_followed_and_links_to_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("source");
    let (source, clean) = (on_files(&root), memory());
    make(&source);
    put(&source, "notes.json", &json!("kept"));
    convert(&source, &clean).unwrap();
    // A chunk, a document and another file are elsewhere.
    for (n, name) in ["0/1/1/1", "0/.zarray", "notes.json"].iter().enumerate() {
        let away = folder.path().join(n.to_string());
        fs::rename(root.join(name), &away).unwrap();
        symlink(&away, root.join(name)).unwrap();
    }
    let target = folder.path().join("target");
    convert(&source, &on_files(&target)).unwrap();
    assert_eq!(dump(&FileStore::new(&target)), dump(&*clean.store));
    for name in ["0/c/0/0/0", "0/zarr.json", "notes.json"] {
        assert!(fs::symlink_metadata(target.join(name)).unwrap().is_file(), "{name}");
    }
    // A level that is elsewhere, a broken link, and a link into the target.
    let (away, other) = (folder.path().join("away"), folder.path().join("other"));
    fs::rename(root.join("1"), &away).unwrap();
    fs::create_dir(&other).unwrap();
    for linked in [&away, &folder.path().join("nowhere"), &other] {
        symlink(linked, root.join("1")).unwrap();
        let refused = convert(&source, &on_files(&other)).unwrap_err();
        let names_it = refused.to_string().contains("\"1\"");
        assert!(names_it || matches!(refused, Error::Copy(_)), "{refused}");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0, "{refused}");
        fs::remove_file(root.join("1")).unwrap();
    }
}
