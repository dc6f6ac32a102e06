//! Precomputed volumes from store to store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::data_set::{at, dump, memory};
use common::engine;
use common::volumes::*;
use common::wrapped_store::{Tricks, WrappedStore};
use serde_json::{Value, json};
use shardine::jobs::{
    COPY_MARKER, CopyCheck, CopyError, CopyOptions, LOSS_RECORD, RepackVolumeOptions, copy,
    repack_volume,
};
use shardine::precomputed::{KeyValueStore, KeyValues, PayloadKind};
use shardine::shard::uint64::Sharding;
use shardine::store::*;
use shardine::{Error, Location};

fn options() -> CopyOptions {
    CopyOptions::new().requests(4).memory(64 << 10)
}

fn unlisted(inner: &Arc<dyn Store>) -> Location {
    let tricks = Tricks { no_list: true, ..Tricks::default() };
    Location::root(Arc::new(WrappedStore::new(Arc::clone(inner), tricks)))
}

fn refused(source: &Location, target: &Location) -> CopyError {
    match copy(source, target, &options()).unwrap_err() {
        Error::Copy(error) => error,
        error => panic!("{error}"),
    }
}

/// A folder of values by key.
fn values(at: &Location, name: &str, kind: &str) {
    let sharding = sharding(0, 1, 2, "gzip", "raw");
    let place = at.join(name).unwrap();
    let info = json!({ "@type": kind, "sharding": sharding });
    place
        .store
        .put(&place.key("info").unwrap(), info.to_string().as_bytes(), Condition::None)
        .unwrap();
    let sharding = Sharding::from_json(&sharding).unwrap();
    let store = KeyValueStore::with_sharding(&engine(), &place, sharding, PayloadKind::Plain);
    let changes = KeyValues::new().put(7, b"seven".to_vec()).put(9, b"nine".to_vec());
    store.update(&changes).unwrap();
}

/// Three scales: shards that are boxes, shards by hash, and chunks, some of which are compressed;
/// meshes, skeletons, properties, a shard in the older form, and a record of losses.
fn rich(store: &Arc<dyn Store>) {
    let boxes = sharding(0, 1, 4, "gzip", "raw");
    let mut hashed = sharding(0, 1, 2, "raw", "gzip");
    hashed["hash"] = "murmurhash3_x86_128".into();
    let place = volume_at(
        &at(store),
        &[
            scale("8", [70, 33, 20], Some(&boxes)),
            scale("16", [35, 17, 16], Some(&hashed)),
            scale("32", [35, 17, 16], None),
        ],
    );
    write(&place, 0, "0:40,:,:");
    fill(&place, 1);
    write(&place, 2, "0:32,:,:");
    for (name, ending) in [("0-16_0-16_0-16", ".gz"), ("16-32_0-16_0-16", ".br")] {
        let chunk = get(&place, &format!("32/{name}"));
        remove(&place, &format!("32/{name}"));
        put(&place, &format!("32/{name}{ending}"), &gzip(&chunk));
    }
    let shard = get(&place, "16/1.shard");
    remove(&place, "16/1.shard");
    put(&place, "16/1.index", &shard[..32]);
    put(&place, "16/1.data", &shard[32..]);
    put(&place, &format!("32/{LOSS_RECORD}"), b"{}");
    put(&place, "provenance", b"{}");
    values(&place, "mesh", "neuroglancer_multilod_draco");
    values(&place, "below/skeletons", "neuroglancer_skeletons");
    put(&place, "properties/info", br#"{"@type": "neuroglancer_segment_properties"}"#);
    edit_info(&place, |info| {
        info["mesh"] = "mesh".into();
        info["skeletons"] = "./below/skeletons/".into();
        info["segment_properties"] = "properties".into();
        // Another copy of the chunks in another shape.
        info["scales"][2]["chunk_sizes"] = json!([[16, 16, 16], [32, 32, 32]]);
    });
    put(&place, "32/0-32_0-17_0-16", b"another shape");
}

#[test]
fn a_volume_with_all_that_belongs_to_it_comes_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let files: Arc<dyn Store> = Arc::new(FileStore::new(folder.path().join("v")));
    let from = memory();
    rich(&from);
    put(&at(&from), "32/notes.txt", b"whatever else lies there");
    let expected = dump(&*from);
    for check in [CopyCheck::None, CopyCheck::Size, CopyCheck::Content] {
        let to = memory();
        let report = copy(&at(&from), &at(&to), &options().check(check)).unwrap();
        assert_eq!((dump(&*to), report.objects_copied), (expected.clone(), expected.len() as u64));
    }
    copy(&at(&from), &at(&files), &options()).unwrap();
    let back = memory();
    copy(&at(&files), &at(&back), &options()).unwrap();
    assert_eq!(dump(&*back), expected);
    assert!(matches!(copy(&at(&from), &at(&back), &options()), Err(Error::Exists { .. })));
}

#[test]
fn a_volume_that_cannot_be_listed_is_copied_by_its_info() {
    let from = memory();
    rich(&from);
    let expected = dump(&*from);
    for check in [CopyCheck::Size, CopyCheck::Content] {
        let to = memory();
        let report = copy(&unlisted(&from), &at(&to), &options().check(check)).unwrap();
        assert_eq!(dump(&*to), expected);
        assert_eq!(report.objects_copied, expected.len() as u64);
        // Again, as if interrupted at its very end: four documents are copied again, and nothing
        // else.
        let marker = json!({"shardine_copy": 1, "source": "memory", "clearing": false});
        put(&at(&to), COPY_MARKER, marker.to_string().as_bytes());
        let report = copy(&unlisted(&from), &at(&to), &options().check(check)).unwrap();
        assert_eq!((report.resumed, report.objects_copied), (true, 4));
        assert_eq!(dump(&*to), expected);
    }
    // A folder of meshes by itself.
    let to = memory();
    copy(&unlisted(&from).join("mesh").unwrap(), &at(&to), &options()).unwrap();
    let meshes = expected.iter().filter_map(|(key, data)| Some((key.strip_prefix("mesh/")?, data)));
    let meshes: BTreeMap<String, Vec<u8>> =
        meshes.map(|(key, data)| (key.to_owned(), data.clone())).collect();
    assert_eq!(dump(&*to), meshes);
}

#[test]
fn what_is_not_there_under_its_plain_name_is_asked_for_under_others_once() {
    let from = memory();
    let place = volume_at(&at(&from), &[scale("8", [48, 16, 16], None)]);
    write(&place, 0, "0:32,:,:");
    let chunk = get(&place, "8/16-32_0-16_0-16");
    remove(&place, "8/16-32_0-16_0-16");
    put(&place, "8/16-32_0-16_0-16.gz", &gzip(&chunk));
    let counting = CountingStore::new(unlisted(&from).store);
    let to = memory();
    copy(&Location::root(Arc::new(counting.clone())), &at(&to), &options()).unwrap();
    assert_eq!(dump(&*to), dump(&*from));
    let calls = counting.calls();
    let opened = |name: &str| {
        let opens = calls
            .iter()
            .filter(|call| matches!(call, Call::Open { key, .. } if key.as_str() == name));
        opens.count()
    };
    assert_eq!(opened("8/0-16_0-16_0-16"), 1);
    assert_eq!(opened("8/0-16_0-16_0-16.gz"), 0);
    assert_eq!((opened("8/16-32_0-16_0-16"), opened("8/16-32_0-16_0-16.gz")), (1, 1));
    assert_eq!(opened("8/16-32_0-16_0-16.zstd"), 0);
    for ending in ["", ".gz", ".zstd", ".br", ".bz2", ".xz"] {
        assert_eq!(opened(&format!("8/32-48_0-16_0-16{ending}")), 1, "{ending}");
    }
}

#[test]
fn an_info_that_tells_of_no_folders_or_cannot_be_understood_is_copied_as_it_is() {
    let large = format!(r#"{{"inline": "{}"}}"#, "x".repeat(5 << 20));
    let odd = r#"{"@type": "neuroglancer_multilod_draco", "mesh": "a\\b", "segment_properties": "..\\c"}"#;
    for info in ["", "no JSON", "[1]", &large, odd] {
        let (from, to) = (memory(), memory());
        rich(&from);
        from.put(&key("properties/info"), info.as_bytes(), Condition::None).unwrap();
        copy(&at(&from), &at(&to), &options()).unwrap();
        assert!(dump(&*to) == dump(&*from), "{}", info.len());
    }
}

#[test]
fn a_shard_that_is_compressed_as_a_file_stays_damage_in_a_copy() {
    let (from, to) = (memory(), memory());
    let place =
        volume_at(&at(&from), &[scale("8", [32, 16, 16], Some(&sharding(0, 0, 1, "raw", "raw")))]);
    fill(&place, 0);
    let shard = get(&place, "8/0.shard");
    remove(&place, "8/0.shard");
    put(&place, "8/0.shard.gz", &gzip(&shard));
    copy(&unlisted(&from), &at(&to), &options()).unwrap();
    assert!(dump(&*to) == dump(&*from));
}

#[test]
fn more_shards_than_can_be_asked_for_are_refused() {
    let from = memory();
    let mut info =
        json!({ "@type": "neuroglancer_skeletons", "sharding": sharding(0, 1, 2, "gzip", "raw") });
    info["sharding"]["shard_bits"] = 40.into();
    from.put(&key("info"), info.to_string().as_bytes(), Condition::None).unwrap();
    let error = refused(&unlisted(&from), &at(&memory()));
    assert!(matches!(error, CopyError::Unlisted { .. }), "{error}");
}

#[test]
fn what_a_copy_would_leave_out_is_refused() {
    let from = memory();
    let place = volume_at(&at(&from).join("v").unwrap(), &[scale("8", [20, 20, 20], None)]);
    fill(&place, 0);
    put(&place, "other/0-16_0-16_0-16", b"of another folder");
    let edit = |edit: &dyn Fn(&mut Value)| {
        let mut info: Value = serde_json::from_slice(&get(&place, "v/info")).unwrap();
        edit(&mut info);
        put(&place, "v/info", info.to_string().as_bytes());
    };
    let far = unlisted(&from);
    let left_out = |source: &Location, name: &str| {
        let to = memory();
        let error = refused(source, &at(&to));
        assert!(matches!(&error, CopyError::Outside { folder, .. } if folder == name), "{error}");
        assert!(error.hint().is_some());
        assert!(!dump(&*to).contains_key("info"));
    };
    for outside in ["../other", "../../other", "../v2"] {
        edit(&|info| info["scales"][0]["key"] = outside.into());
        left_out(&place, outside);
        left_out(&far.join("v").unwrap(), outside);
    }
    // Relative to the folder above, it is inside.
    edit(&|info| info["scales"][0]["key"] = "../other".into());
    copy(&at(&from), &at(&memory()), &options()).unwrap();
    edit(&|info| info["scales"][0]["key"] = "8".into());
    for member in ["mesh", "skeletons", "segment_properties"] {
        edit(&|info| info[member] = "../elsewhere".into());
        left_out(&place, "../elsewhere");
        left_out(&far.join("v").unwrap(), "../elsewhere");
        edit(&|info| drop(info.as_object_mut().unwrap().remove(member)));
    }
    copy(&place, &at(&memory()), &options()).unwrap();
    copy(&far.join("v").unwrap(), &at(&memory()), &options()).unwrap();
    // Names of single meshes can only be listed.
    edit(&|info| info["mesh"] = "mesh".into());
    copy(&place, &at(&memory()), &options()).unwrap();
    for info in [None, Some(json!({"@type": "neuroglancer_legacy_mesh"}))] {
        if let Some(info) = info {
            put(&place, "v/mesh/info", info.to_string().as_bytes());
        }
        let to = memory();
        let error = refused(&far.join("v").unwrap(), &at(&to));
        assert!(matches!(error, CopyError::Unlisted { .. }), "{error}");
        assert!(dump(&*to).is_empty());
    }
    // What cannot be read is not taken for missing.
    let faults = FaultStore::new(Arc::clone(&from));
    faults.fail(Operation::Read, 0);
    let store: Arc<dyn Store> = Arc::new(faults);
    let error = copy(&at(&store).join("v").unwrap(), &at(&memory()), &options()).unwrap_err();
    assert!(matches!(error, Error::Store(_)), "{error}");
}

/// What an interrupted copy may leave: whole objects, and an `info` only where everything that it
/// describes exists.
fn check_left(left: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    for (key, data) in left.iter().filter(|(key, _)| *key != COPY_MARKER) {
        assert_eq!(Some(data), expected.get(key), "{key}");
        let Some(folder) = key.strip_suffix("info") else { continue };
        let below = expected.keys().filter(|key| key.starts_with(folder));
        let missing: Vec<_> = below.filter(|key| !left.contains_key(*key)).collect();
        assert!(missing.is_empty(), "{key} is there, but not {missing:?}");
    }
}

#[test]
fn a_copy_of_a_volume_that_breaks_off_anywhere_is_resumed() {
    let from = memory();
    rich(&from);
    let expected = dump(&*from);
    for listed in [true, false] {
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
            for at_source in [true, false] {
                for after in (0..).step_by(3) {
                    let source = FaultStore::new(Arc::clone(&from));
                    let to = memory();
                    let target = FaultStore::new(Arc::clone(&to));
                    let faults = if at_source { &source } else { &target };
                    faults.fail(operation, after);
                    let source_store: Arc<dyn Store> = Arc::new(source.clone());
                    let place = if listed { at(&source_store) } else { unlisted(&source_store) };
                    let target_store: Arc<dyn Store> = Arc::new(target.clone());
                    let result = copy(&place, &at(&target_store), &options());
                    if source.waiting() + target.waiting() > 0 {
                        result.unwrap();
                        assert_eq!(dump(&*to), expected);
                        break;
                    }
                    let what = format!("{operation:?} {after} {at_source} {listed}");
                    assert!(result.is_err(), "{what}");
                    let left = dump(&*to);
                    check_left(&left, &expected);
                    let again = if listed { at(&from) } else { unlisted(&from) };
                    match copy(&again, &at(&to), &options()) {
                        Ok(report) => assert_eq!(report.resumed, left.contains_key(COPY_MARKER)),
                        // Everything was done except reporting that the marker is gone.
                        Err(error) => {
                            assert!(matches!(error, Error::Exists { .. }), "{what}: {error}")
                        }
                    }
                    assert_eq!(dump(&*to), expected, "{what}");
                }
            }
        }
    }
}

fn local(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
}

#[test]
fn a_link_among_shards_is_copied_as_its_file_and_one_to_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (folder.path().join("v"), folder.path().join("elsewhere"));
    let sharding = sharding(0, 1, 2, "raw", "raw");
    let place = volume_at(&local(&path), &[scale("8", [40, 20, 20], Some(&sharding))]);
    fill(&place, 0);
    let shard = fs::read_dir(path.join("8")).unwrap().next().unwrap().unwrap().path();
    fs::rename(&shard, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &shard).unwrap();
    let target = folder.path().join("copied");
    copy(&place, &local(&target), &options()).unwrap();
    let copied = target.join("8").join(shard.file_name().unwrap());
    assert!(fs::symlink_metadata(&copied).unwrap().is_file());
    assert_eq!(read_all(&local(&target), 0), read_all(&place, 0));
    fs::remove_file(&shard).unwrap();
    std::os::unix::fs::symlink(folder.path(), &shard).unwrap();
    let target = folder.path().join("refused");
    let error = copy(&place, &local(&target), &options()).unwrap_err();
    assert!(matches!(error, Error::LeftOut { .. }), "{error}");
    assert!(!target.exists());
}

#[test]
fn a_copy_beside_a_reshard_in_place_is_of_one_volume_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = local(&folder.path().join("v"));
    let first = sharding(0, 1, 3, "raw", "raw");
    volume_at(&place, &[scale("8", [70, 40, 40], Some(&first)), scale("16", [35, 20, 20], None)]);
    fill(&place, 0);
    fill(&place, 1);
    let expected = [read_all(&place, 0), read_all(&place, 1)];
    let done = AtomicBool::new(false);
    let mut copied = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..12 {
                let bits = sharding(round % 2, 1 + round % 3, 3 - round % 3, "gzip", "raw");
                let bits = Sharding::from_json(&bits).unwrap();
                for (level, always) in [(0, true), (1, false)] {
                    let wanted = (always || round % 2 == 0).then(|| bits.clone());
                    let mut options = RepackVolumeOptions::new(wanted);
                    options.level = Some(level);
                    repack_volume(&engine(), &place, None, &options, &mut |_| {}).unwrap();
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut turn = 0;
        while !done.load(Ordering::SeqCst) {
            turn += 1;
            let target = local(&folder.path().join(format!("copy-{turn}")));
            match copy(&place, &target, &options()) {
                Ok(_) => {
                    copied += 1;
                    assert_eq!([read_all(&target, 0), read_all(&target, 1)], expected);
                    assert_eq!(kinds(&target, true), [""; 0]);
                }
                Err(Error::Copy(CopyError::SourceChanged { .. })) => {
                    let left = dump(&*target.store);
                    assert!(left.keys().all(|key| key == COPY_MARKER), "{left:?}");
                }
                // The folder was exchanged while it was inspected.
                Err(error) => assert!(matches!(error, Error::Store(_)), "{error}"),
            }
        }
    });
    assert!(copied > 0);
}
