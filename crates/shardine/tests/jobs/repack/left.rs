//! What a job leaves behind: a kill, a fault or someone else may come at any moment, and the same
//! call finishes it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use shardine::jobs::{CopyOptions, RepackCheck, RepackError, RepackOptions};
use shardine::store::{DiskLook, DiskObserver, DiskStep, FileStore, StoreError, Verdict};
use shardine::{ArrayNode, Elements, Error, Location, Packing, Region, WriteOptions};

use crate::common::*;
use crate::repack::scene::*;

/// An array of 4 x 4 chunks in shards of two by two, full of noise.
fn array(path: &Path) -> Elements {
    let array = create_at(&at(path), &sharded(&[8, 8], &[4, 4], &[2, 2]));
    let elements = Elements::Fixed(noise(128, 5));
    array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).unwrap();
    elements
}

fn unsharded() -> RepackOptions {
    RepackOptions::new().packing(Packing::Unsharded)
}

fn observed(path: &Path, observer: impl DiskObserver + 'static) -> Location {
    Location::root(Arc::new(FileStore::observed(path, Arc::new(observer))))
}

/// Calls a function before each step, and one before each look, and fails what they fail.
pub struct When<S, L>(pub S, pub L);

impl<S, L> std::fmt::Debug for When<S, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("When")
    }
}

impl<S, L> DiskObserver for When<S, L>
where
    S: Fn(DiskStep<'_>) -> io::Result<()> + Send + Sync,
    L: Fn(DiskLook<'_>) -> io::Result<()> + Send + Sync,
{
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        match (self.0)(step) {
            Ok(()) => Verdict::Go,
            Err(error) => Verdict::Fail(error),
        }
    }

    fn before_look(&self, look: DiskLook<'_>) -> io::Result<()> {
        (self.1)(look)
    }
}

fn io_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}

#[test]
fn chunks_that_cannot_be_looked_at_are_not_taken_for_something_else() {
    for options in [unsharded(), RepackOptions::new().packing(Packing::Shard(vec![8, 8]))] {
        let folder = folder();
        let path = folder.path().join("a");
        let elements = array(&path);
        // When everything is built, the new array is listed for what an earlier run may have
        // carried over.
        let built = AtomicUsize::new(0);
        let fails = move |look: DiskLook<'_>| match look {
            DiskLook::List { path } if path.ends_with(".shardine-a.job/new") => {
                built.store(1, Ordering::SeqCst);
                Ok(())
            }
            DiskLook::Examine { path } if path.ends_with(".shardine-a.job/new/c") => {
                if built.load(Ordering::SeqCst) == 1 { Err(io_error()) } else { Ok(()) }
            }
            _ => Ok(()),
        };
        let location = observed(&path, When(|_: DiskStep<'_>| Ok(()), fails));
        assert!(repack(&location, None, &options).is_err());
        assert_eq!(self::elements(&at(&path)), elements);
        repack(&at(&path), None, &options).unwrap();
        assert_eq!(self::elements(&at(&path)), elements);
        assert_eq!(names(folder.path()), ["a"]);
    }
}

#[test]
fn an_array_that_lost_chunks_does_not_replace_the_old_one() {
    let ways = [
        unsharded(),
        RepackOptions::new().packing(Packing::Shard(vec![8, 4])),
        RepackOptions::new().packing(Packing::Unsharded).chunk(&[4, 4]),
    ];
    for options in ways {
        let folder = folder();
        let path = folder.path().join("a");
        let elements = array(&path);
        // Everything is built, compared and counted when something removes an object.
        let step = |step: DiskStep<'_>| {
            if let DiskStep::Exchange { other, .. } = step {
                let lost = [other.join("c/0/0")];
                lost.iter().filter(|path| path.is_file()).for_each(|p| fs::remove_file(p).unwrap());
            }
            Ok(())
        };
        let location = observed(&path, When(step, |_: DiskLook<'_>| Ok(())));
        let lost = refused(&location, None, &options);
        let RepackError::Lost { before, after, kept, .. } = lost else { panic!("{lost}") };
        assert!(after < before);
        assert_eq!(Path::new(&kept), folder.path().join("a.before"));
        assert_eq!(self::elements(&at(Path::new(&kept))), elements);
        assert_eq!(names(folder.path()), ["a", "a.before"]);
    }
}

#[test]
fn names_in_consolidated_metadata_that_are_no_keys_do_not_stop_a_job() {
    let folder = folder();
    let path = folder.path().join("g");
    let elements = array(&path.join("a"));
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let node = read(&path.join("a/zarr.json"));
    let group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": {
        "kind": "inline", "must_understand": false,
        "metadata": {"": node, "a": node, "/x": node, "../x": node, "b//c": node}}});
    fs::write(path.join("zarr.json"), group.to_string()).unwrap();
    repack(&at(&path), None, &unsharded()).unwrap();
    assert_eq!(self::elements(&at(&path).join("a").unwrap()), elements);
    assert_eq!(names(&path), ["a", "zarr.json"]);
    let group = read(&path.join("zarr.json"));
    let nodes = &group["consolidated_metadata"]["metadata"];
    assert_eq!(nodes["a"], read(&path.join("a/zarr.json")));
    assert_eq!(nodes["../x"], node);
}

#[test]
fn relative_links_in_an_array_do_not_stop_a_job() {
    let folder = folder();
    let path = folder.path().join("a");
    let elements = array(&path);
    fs::write(folder.path().join("readme"), "about").unwrap();
    fs::create_dir_all(folder.path().join("more/deep")).unwrap();
    fs::write(folder.path().join("more/deep/file"), "deep").unwrap();
    fs::create_dir(path.join("notes")).unwrap();
    symlink("../readme", path.join("readme")).unwrap();
    symlink("../../more", path.join("notes/more")).unwrap();
    symlink("../readme", path.join("notes/here")).unwrap();
    for options in [unsharded(), RepackOptions::new().packing(Packing::Shard(vec![4, 8]))] {
        repack(&at(&path), None, &options).unwrap();
        assert_eq!(self::elements(&at(&path)), elements);
        assert_eq!(fs::read_link(path.join("readme")).unwrap(), Path::new("../readme"));
        assert_eq!(fs::read(path.join("notes/more/deep/file")).unwrap(), b"deep");
        assert_eq!(fs::read(path.join("notes/here")).unwrap(), b"about");
        assert_eq!(names(folder.path()), ["a", "more", "readme"]);
    }
}

/// A disk that cannot exchange folders, and dies before the second rename.
fn dies_between_renames(path: &Path) -> Location {
    let renames = AtomicUsize::new(0);
    let step = move |step: DiskStep<'_>| match step {
        DiskStep::Exchange { .. } => Err(io::ErrorKind::Unsupported.into()),
        DiskStep::Rename { from, .. } if from.is_dir() => {
            match renames.fetch_add(1, Ordering::SeqCst) {
                0 => Ok(()),
                _ => Err(io_error()),
            }
        }
        _ => Ok(()),
    };
    observed(path, When(step, |_: DiskLook<'_>| Ok(())))
}

#[test]
fn an_array_that_lost_its_name_to_another_is_kept() {
    let folder = folder();
    let path = folder.path().join("a");
    let elements = array(&path);
    assert!(repack(&dies_between_renames(&path), None, &unsharded()).is_err());
    assert!(!path.exists());
    // Someone takes the name.
    create_at(&at(&path), &sharded(&[4], &[4], &[2]));
    let refusal = refused(&at(&path), None, &unsharded());
    assert!(matches!(refusal, RepackError::Marker { .. }), "{refusal}");
    let restarted = refused(&at(&path), None, &unsharded().restart(true));
    let RepackError::Displaced { kept, .. } = restarted else { panic!("{restarted}") };
    assert_eq!(self::elements(&at(Path::new(&kept))), elements);
    assert_eq!(names(folder.path()), ["a", "a.before"]);
    repack(&at(&path), None, &unsharded()).unwrap();
    assert_eq!(ArrayNode::open(&engine(), &at(&path)).unwrap().shape(), [4]);
    assert_eq!(self::elements(&at(Path::new(&kept))), elements);
}

#[test]
fn nothing_is_copied_to_a_name_that_an_array_has_lost() {
    let folder = folder();
    let (path, other) = (folder.path().join("a"), folder.path().join("other"));
    let elements = array(&path);
    create_at(&at(&other), &sharded(&[4], &[4], &[2]));
    assert!(repack(&dies_between_renames(&path), None, &unsharded()).is_err());
    let copied = shardine::jobs::copy(&at(&other), &at(&path), &CopyOptions::new());
    assert!(matches!(copied, Err(Error::Exists { .. })), "{copied:?}");
    assert_eq!(self::elements(&at(&path)), elements);
    repack(&at(&path), None, &unsharded()).unwrap();
    assert_eq!(names(folder.path()), ["a", "other"]);
}

#[test]
fn a_job_that_was_killed_after_the_exchange_ends_though_the_array_was_changed_since() {
    let folder = folder();
    let path = folder.path().join("a");
    let elements = array(&path);
    let exchanged = AtomicUsize::new(0);
    let step = move |step: DiskStep<'_>| match step {
        DiskStep::Exchange { .. } => {
            exchanged.store(1, Ordering::SeqCst);
            Ok(())
        }
        DiskStep::Remove { .. } if exchanged.load(Ordering::SeqCst) == 1 => Err(io_error()),
        _ => Ok(()),
    };
    let location = observed(&path, When(step, |_: DiskLook<'_>| Ok(())));
    assert!(repack(&location, None, &unsharded()).is_err());
    let document = path.join("zarr.json");
    let mut text: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    text["attributes"] = json!({"later": 1});
    fs::write(&document, text.to_string()).unwrap();
    repack(&at(&path), None, &unsharded()).unwrap();
    assert_eq!(self::elements(&at(&path)), elements);
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn a_job_to_another_place_that_died_at_any_step_is_finished_by_the_same_call() {
    type Run = fn(&Location, &Location) -> Result<(), Error>;
    let runs: [Run; 2] = [
        |from, to| repack(from, Some(to), &unsharded()).map(drop),
        |from, to| shardine::jobs::copy(from, to, &CopyOptions::new().threads(1)).map(drop),
    ];
    for run in runs {
        for die_at in 0.. {
            let folder = folder();
            let (from, to) = (folder.path().join("a"), folder.path().join("b"));
            let elements = array(&from);
            let steps = AtomicUsize::new(0);
            let step = move |_: DiskStep<'_>| match steps.fetch_add(1, Ordering::SeqCst) >= die_at {
                true => Err(io_error()),
                false => Ok(()),
            };
            let dying = observed(&to, When(step, |_: DiskLook<'_>| Ok(())));
            let done = run(&at(&from), &dying).is_ok();
            if done {
                assert_eq!(self::elements(&at(&to)), elements);
                break;
            }
            run(&at(&from), &at(&to)).unwrap_or_else(|error| panic!("step {die_at}: {error}"));
            assert_eq!(self::elements(&at(&to)), elements, "step {die_at}");
        }
    }
}

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_below(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn who_may_read_an_array_stays_the_same() {
    let ways = [
        unsharded(),
        RepackOptions::new().packing(Packing::Shard(vec![8, 4])),
        RepackOptions::new().chunk(&[1, 4]).check(RepackCheck::Elements),
    ];
    for (file, inside) in [(0o600, 0o700), (0o640, 0o2750), (0o664, 0o775)] {
        let folder = folder();
        let path = folder.path().join("a");
        let elements = array(&path);
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        for path in all_below(&path) {
            mode(&path, if path.is_dir() { inside } else { file });
        }
        mode(&path, inside);
        mode(&path.join("zarr.json"), 0o666);
        for options in &ways {
            repack(&at(&path), None, options).unwrap();
            assert_eq!(self::elements(&at(&path)), elements);
            for found in all_below(&path).into_iter().chain([path.clone()]) {
                let expected = match found.is_dir() {
                    true => inside,
                    false if found.ends_with("zarr.json") => 0o666,
                    false => file,
                };
                let is = fs::metadata(&found).unwrap().permissions().mode() & 0o7777;
                assert_eq!(is, expected, "{}: {is:o}", found.display());
            }
        }
    }
}

/// Like a folder in a lower layer of an overlay file system.
#[test]
fn a_folder_that_cannot_be_renamed_is_told_before_anything_is_built() {
    let folder = folder();
    let path = folder.path().join("a");
    let elements = array(&path);
    let before = tree(folder.path());
    let look = |look: DiskLook<'_>| match look {
        // EXDEV.
        DiskLook::Move { .. } => Err(io::Error::from_raw_os_error(18)),
        _ => Ok(()),
    };
    let location = observed(&path, When(|_: DiskStep<'_>| Ok(()), look));
    let refused = repack(&location, None, &unsharded());
    let Err(Error::Store(StoreError::Unsupported { operation, .. })) = refused else {
        panic!("{refused:?}");
    };
    assert!(operation.contains("overlay"), "{operation}");
    assert_eq!(tree(folder.path()), before);
    assert_eq!(self::elements(&at(&path)), elements);
}

#[test]
fn a_link_to_nowhere_is_told_before_a_job_begins() {
    let folder = folder();
    let path = folder.path().join("a");
    array(&path);
    symlink("/nowhere/at/all", path.join("away")).unwrap();
    assert!(repack(&at(&path), None, &unsharded()).is_err());
    assert_eq!(names(folder.path()), ["a"]);
}
