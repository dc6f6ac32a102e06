//! Volumes and folders of meshes in real folders, repacked: nothing in them is lost, whatever is
//! killed when.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use shardine::jobs::{
    RepackError, RepackOutcome, RepackVolumeOptions, RepackedScale, recover, repack_keys,
    repack_volume,
};
use shardine::precomputed::{KeyValueStore, KeyValues};
use shardine::shard::uint64::Sharding;
use shardine::store::{DiskObserver, DiskStep, FileStore, StoreError, Verdict};
use shardine::{Error, Location};
use tempfile::TempDir;

use common::engine;
use common::volumes::{edit_info, fill, read_all, scale, sharding, volume_at};

const SIZE: [u64; 3] = [40, 33, 17];

fn bits(shard: u32) -> Value {
    sharding(0, 1, shard, "gzip", "raw")
}

fn packing(json: &Value) -> Sharding {
    Sharding::from_json(json).unwrap()
}

/// All scales with this sharding.
fn to(json: Option<&Value>) -> RepackVolumeOptions {
    let sharding = json.map(packing);
    RepackVolumeOptions::new(sharding)
}

fn at(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
}

fn repack(
    source: &Location,
    target: Option<&Location>,
    options: &RepackVolumeOptions,
) -> Result<Vec<RepackedScale>, Error> {
    let mut told = Vec::new();
    repack_volume(&engine(), source, target, options, &mut |scale| told.push(scale))?;
    Ok(told)
}

/// All files below a folder, with their contents.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn visit(root: &Path, folder: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(root, &path, into);
            } else {
                into.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    visit(folder, folder, &mut found);
    found
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A folder with a volume `v` of these scales, full of noise.
fn volume(scales: &[Value]) -> (TempDir, PathBuf, Location) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("v");
    let location = at(&path);
    volume_at(&location, scales);
    (0..scales.len()).for_each(|level| fill(&location, level));
    (folder, path, location)
}

fn damaged(result: Result<Vec<RepackedScale>, Error>) -> (String, String) {
    match result {
        Err(Error::Store(StoreError::Damaged { key, reason })) => (key.to_string(), reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_chunk_is_carried_over() {
    let forms = [None, Some(bits(1)), Some(bits(5))];
    for from in &forms {
        for into in forms.iter().filter(|into| *into != from) {
            let scales = [scale("8", SIZE, from.as_ref()), scale("16", [9, 9, 9], None)];
            let (folder, path, location) = volume(&scales);
            let before = [read_all(&location, 0), read_all(&location, 1)];
            let others = ["notes.txt", "8/notes", "8/deep/0.shard", "mesh/info", "mesh/0.shard"];
            others.iter().for_each(|name| put(&path.join(name), name.as_bytes()));
            let mut options = to(into.as_ref());
            options.level = Some(0);
            let target = at(&folder.path().join("copy"));
            repack(&location, Some(&target), &options).unwrap();
            repack(&location, None, &options).unwrap();
            for (location, path) in [(&location, &path), (&target, &folder.path().join("copy"))] {
                assert_eq!([read_all(location, 0), read_all(location, 1)], before);
                for name in others {
                    assert_eq!(fs::read(path.join(name)).unwrap(), name.as_bytes(), "{name}");
                }
            }
            assert_eq!(tree(&path), tree(&folder.path().join("copy")));
            assert_eq!(names(folder.path()), ["copy", "v"]);
        }
    }
}

#[test]
fn scales_in_the_folder_of_another_stay_whole() {
    for only in [None, Some(0), Some(1)] {
        let (folder, path, location) =
            volume(&[scale("8", SIZE, Some(&bits(1))), scale("16", [20, 20, 20], Some(&bits(5)))]);
        fs::rename(path.join("16"), path.join("8/16")).unwrap();
        edit_info(&location, |info| info["scales"][1]["key"] = "8/16".into());
        let before = [read_all(&location, 0), read_all(&location, 1)];
        let mut options = to(None);
        options.level = only;
        let target = at(&folder.path().join("copy"));
        repack(&location, Some(&target), &options).unwrap();
        repack(&location, None, &options).unwrap();
        for location in [&location, &target] {
            assert_eq!([read_all(location, 0), read_all(location, 1)], before, "{only:?}");
        }
        let shards = |folder: &str| names(&path.join(folder)).iter().any(|n| n.ends_with(".shard"));
        assert_eq!(shards("8"), only == Some(1));
        assert_eq!(shards("8/16"), only == Some(0));
    }
}

#[test]
fn scales_that_share_a_folder_are_refused() {
    let (_folder, path, location) =
        volume(&[scale("8", SIZE, Some(&bits(1))), scale("16", SIZE, Some(&bits(5)))]);
    edit_info(&location, |info| info["scales"][1]["key"] = "./8/".into());
    let before = tree(&path);
    let refused = repack(&location, None, &to(None));
    assert!(matches!(refused, Err(Error::Repack(RepackError::Layout { .. }))), "{refused:?}");
    assert_eq!(tree(&path), before);
}

#[test]
fn what_looks_like_values_and_is_none_is_refused() {
    let cases = [
        (Some(bits(5)), "00.shard.gz"),
        (Some(bits(5)), "1F.shard"),
        (Some(bits(5)), "1.shard"),
        (Some(bits(5)), "1e.data"),
        (Some(bits(5)), "0-16_0-16_0-16"),
        (None, "0-8_0-16_0-16"),
        (None, "48-48_0-16_0-16"),
        (None, "00.shard"),
    ];
    for (form, name) in cases {
        let (folder, path, location) = volume(&[scale("8", [48, 16, 16], form.as_ref())]);
        // The only copy of its values.
        if name.ends_with(".gz") {
            names(&path.join("8"))
                .iter()
                .for_each(|name| fs::remove_file(path.join("8").join(name)).unwrap());
        }
        put(&path.join("8").join(name), b"precious");
        let before = tree(&path);
        let into = form.is_none().then(|| bits(5));
        let (key, reason) = damaged(repack(&location, None, &to(into.as_ref())));
        assert!(key.ends_with(name) && reason.contains("shardine verify"), "{key}: {reason}");
        let target = at(&folder.path().join("copy"));
        assert!(repack(&location, Some(&target), &to(into.as_ref())).is_err());
        assert_eq!(tree(&path), before, "{name}");
    }
}

#[test]
fn a_key_outside_the_grid_is_not_made_chunk_0() {
    let (_folder, path, location) = volume(&[scale("8", [40, 40, 40], Some(&bits(0)))]);
    let values = KeyValueStore::open_in(&engine(), &location, "8").unwrap();
    // A grid of 3 x 3 x 3 has codes up to 63, of which not all are cells.
    values.update(&KeyValues::new().put(63, vec![7; 4096])).unwrap();
    let before = tree(&path);
    let (key, reason) = damaged(repack(&location, None, &to(None)));
    assert!(key.ends_with("0.shard") && reason.contains("key 63 "), "{key}: {reason}");
    assert_eq!(tree(&path), before);
}

/// Dies at a step: from there on nothing changes on the disk.
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

#[test]
fn a_job_that_died_at_any_step_is_gone_on_with() {
    for exchanges in [true, false] {
        let mut nameless = 0;
        for step in 0.. {
            let (folder, path, location) = volume(&[
                scale("8", [33, 16, 16], Some(&bits(1))),
                scale("16", [17, 8, 8], Some(&bits(1))),
            ]);
            put(&path.join("8/notes"), b"notes");
            put(&path.join("mesh/0.shard"), b"mesh");
            let before = [read_all(&location, 0), read_all(&location, 1)];
            let dies = Arc::new(Dies { at: step, steps: AtomicUsize::new(0), exchanges });
            let dying = Location::root(Arc::new(FileStore::observed(&path, dies)));
            let done = repack(&dying, None, &to(Some(&bits(5)))).is_ok();
            if path.exists() {
                assert_eq!([read_all(&location, 0), read_all(&location, 1)], before, "{step}");
            } else {
                nameless += 1;
                if step % 2 == 0 {
                    recover(&location).unwrap();
                    assert_eq!([read_all(&location, 0), read_all(&location, 1)], before);
                }
            }
            repack(&location, None, &to(Some(&bits(5)))).unwrap();
            assert_eq!([read_all(&location, 0), read_all(&location, 1)], before, "{step}");
            assert_eq!(fs::read(path.join("8/notes")).unwrap(), b"notes");
            assert_eq!(fs::read(path.join("mesh/0.shard")).unwrap(), b"mesh");
            assert!(path.join("8/00.shard").exists() && !path.join("8/0.shard").exists());
            assert_eq!(names(folder.path()), ["v"], "{step}");
            if done {
                break;
            }
        }
        assert_eq!(nameless > 0, !exchanges);
    }
}

#[test]
fn a_volume_that_lost_its_name_to_another_is_kept() {
    let (folder, path, location) = volume(&[scale("8", [33, 16, 16], Some(&bits(1)))]);
    let before = read_all(&location, 0);
    for step in 0.. {
        let dies = Arc::new(Dies { at: step, steps: AtomicUsize::new(0), exchanges: false });
        let dying = Location::root(Arc::new(FileStore::observed(&path, dies)));
        repack(&dying, None, &to(Some(&bits(5)))).unwrap_err();
        if !path.exists() {
            break;
        }
        let mut options = to(Some(&bits(1)));
        options.restart = true;
        repack(&location, None, &options).unwrap();
    }
    // Someone takes the name.
    volume_at(&location, &[scale("8", [16, 16, 16], None)]);
    repack(&location, None, &to(Some(&bits(5)))).unwrap_err();
    let mut options = to(Some(&bits(5)));
    options.restart = true;
    match repack(&location, None, &options) {
        Err(Error::Repack(RepackError::Displaced { kept, .. })) => {
            assert_eq!(read_all(&at(Path::new(&kept)), 0), before);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(names(folder.path()), ["v", "v.before"]);
    repack(&location, None, &to(Some(&bits(5)))).unwrap();
}

#[test]
fn who_may_read_a_volume_stays_the_same() {
    let (_folder, path, location) = volume(&[scale("8", [33, 16, 16], Some(&bits(1)))]);
    let set = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    set(&path.join("info"), 0o644);
    tree(&path).keys().filter(|name| name.extension().is_some()).for_each(|name| {
        set(&path.join(name), 0o600);
    });
    repack(&location, None, &to(Some(&bits(5)))).unwrap();
    for name in tree(&path).keys() {
        let mode = fs::metadata(path.join(name)).unwrap().permissions();
        let mode = std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777;
        let expected = if name == Path::new("info") { 0o644 } else { 0o600 };
        assert_eq!(mode, expected, "{}", name.display());
    }
}

#[test]
fn an_ended_job_does_not_stand_for_another_one() {
    for step in 0.. {
        let (folder, path, location) = volume(&[scale("8", [33, 16, 16], Some(&bits(1)))]);
        let before = read_all(&location, 0);
        let dies = Arc::new(Dies { at: step, steps: AtomicUsize::new(0), exchanges: true });
        let dying = Location::root(Arc::new(FileStore::observed(&path, dies)));
        let done = repack(&dying, None, &to(Some(&bits(5)))).is_ok();
        match repack(&location, None, &to(None)) {
            Ok(scales) => {
                assert_eq!(scales[0].sharding, None);
                assert_eq!(scales[0].outcome, RepackOutcome::Done);
                assert!(names(&path.join("8")).iter().all(|name| !name.ends_with(".shard")));
            }
            Err(Error::Repack(RepackError::OtherJob { .. })) => {
                let mut options = to(None);
                options.restart = true;
                repack(&location, None, &options).unwrap();
            }
            Err(error) => panic!("{step}: {error}"),
        }
        assert_eq!(read_all(&location, 0), before, "{step}");
        assert_eq!(names(folder.path()), ["v"], "{step}");
        if done {
            break;
        }
    }
}

/// A manifest of one level with one fragment of this many bytes.
fn manifest(fragment: u32) -> Vec<u8> {
    let words = [&[0u32; 6][..], &[1], &[0; 4], &[1], &[0; 3], &[fragment]].concat();
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn meshes_keep_their_fragments_with_more_and_with_fewer_bits() {
    for (from, into) in [(1, 9), (9, 1), (1, 2), (3, 0)] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("mesh");
        let info = json!({"@type": "neuroglancer_multilod_draco", "sharding": bits(from)});
        put(&path.join("info"), info.to_string().as_bytes());
        put(&path.join("notes.txt"), b"notes");
        put(&path.join("old/0.shard"), b"old");
        let location = at(&path);
        let meshes = |location: &Location| {
            let store = KeyValueStore::open(&engine(), location).unwrap();
            let get = |key| (store.get(key).unwrap(), store.get_fragments(key).unwrap());
            (0..40u64).map(|key| get(key * 37)).collect::<Vec<_>>()
        };
        let values = (0..40u64).fold(KeyValues::new(), |values, key| {
            let len = key as u32 * 3 + 1;
            values.put_mesh(key * 37, manifest(len), vec![key as u8; len as usize])
        });
        KeyValueStore::open(&engine(), &location).unwrap().update(&values).unwrap();
        let before = meshes(&location);
        let copy = folder.path().join("copy");
        for target in [Some(at(&copy)), None] {
            let sharding = packing(&bits(into));
            let options = to(None);
            let target = target.as_ref();
            repack_keys(&engine(), &location, target, &sharding, &options, &mut |_| {}).unwrap();
        }
        assert_eq!(meshes(&location), before);
        assert_eq!(tree(&path), tree(&copy));
        assert_eq!(fs::read(path.join("old/0.shard")).unwrap(), b"old");
        assert_eq!(fs::read(path.join("notes.txt")).unwrap(), b"notes");
        let stem = packing(&bits(into)).shard_stem(0).len();
        let is_new = |name: &String| name.strip_suffix(".shard").is_none_or(|s| s.len() == stem);
        assert!(names(&path).iter().all(is_new), "{:?}", names(&path));
    }
}

/// Dies when everything but the `info` exists.
#[derive(Debug)]
struct DiesBeforeInfo;

impl DiskObserver for DiesBeforeInfo {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        match step {
            DiskStep::Rename { to, .. } | DiskStep::Link { to, .. } if to.ends_with("info") => {
                Verdict::Fail(io::Error::from_raw_os_error(5))
            }
            _ => Verdict::Go,
        }
    }
}

#[test]
fn a_copy_is_of_one_source() {
    let (folder, path, location) = volume(&[scale("8", SIZE, Some(&bits(1)))]);
    put(&path.join("notes"), b"notes");
    let copy = folder.path().join("copy");
    let target = at(&copy);
    let into = to(Some(&bits(5)));
    let die = |location: &Location| {
        let store = FileStore::observed(&copy, Arc::new(DiesBeforeInfo));
        repack(location, Some(&Location::root(Arc::new(store))), &into).unwrap_err();
    };
    die(&location);
    assert!(names(&copy.join("8")).iter().any(|name| name.ends_with(".shard")));

    // Another source, or another request, is refused; with `restart` nothing of the first one
    // stays.
    let (_other_folder, _, other) = volume(&[scale("8", SIZE, Some(&bits(1)))]);
    let values = KeyValueStore::open_in(&engine(), &other, "8").unwrap();
    values.update(&KeyValues::new().remove(0).remove(1).put(2, vec![9; 4096])).unwrap();
    assert!(matches!(repack(&other, Some(&target), &into), Err(Error::Copy(_))));
    assert!(matches!(repack(&location, Some(&target), &to(None)), Err(Error::Copy(_))));
    let mut restart = to(Some(&bits(5)));
    restart.restart = true;
    repack(&other, Some(&target), &restart).unwrap();
    assert_eq!(read_all(&target, 0), read_all(&other, 0));
    assert!(!copy.join("notes").exists());
    fs::remove_dir_all(&copy).unwrap();

    // The same source resumes; one that has changed meanwhile is copied again.
    die(&location);
    let scales = repack(&location, Some(&target), &into).unwrap();
    assert!(scales[0].outcome == RepackOutcome::Resumed && scales[0].objects_kept > 0);
    assert_eq!(read_all(&target, 0), read_all(&location, 0));
    fs::remove_dir_all(&copy).unwrap();
    die(&location);
    let values = KeyValueStore::open_in(&engine(), &location, "8").unwrap();
    values.update(&KeyValues::new().remove(0).put(1, vec![3; 4096])).unwrap();
    repack(&location, Some(&target), &into).unwrap();
    assert_eq!(read_all(&target, 0), read_all(&location, 0));
    assert_eq!(names(&copy), ["8", "info", "notes"]);
}

#[test]
fn a_copy_lies_apart_and_is_whole() {
    let (folder, path, location) = volume(&[scale("8", SIZE, Some(&bits(1)))]);
    let before = tree(&path);
    let inside = repack(&location, Some(&at(&path.join("new"))), &to(None));
    assert!(matches!(inside, Err(Error::Copy(_))), "{inside:?}");
    assert_eq!(tree(&path), before);

    fs::rename(path.join("8"), folder.path().join("8")).unwrap();
    edit_info(&location, |info| info["scales"][0]["key"] = "../8".into());
    let above = at(folder.path()).join("v").unwrap();
    let mut none = to(None);
    none.level = Some(0);
    let outside = repack(&above, Some(&at(&folder.path().join("copy"))), &none);
    assert!(matches!(outside, Err(Error::Repack(RepackError::Layout { .. }))), "{outside:?}");
    // A copy that changes nothing would lack them too.
    let same = to(Some(&bits(1)));
    assert!(repack(&above, Some(&at(&folder.path().join("copy"))), &same).is_err());
    assert!(!folder.path().join("copy").exists());
}
