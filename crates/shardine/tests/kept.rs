//! Files that are kept open between reads: cheap, and never out of date.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use serde_json::json;
use shardine::store::{Condition, CountingStore, FileStore, Key, Store, StoreExt};
use shardine::{Array, ArrayNode, Engine, EngineOptions, Location};

const BYTES: usize = 64 * 64 * 2;

/// An array of one shard of 64 chunks, filled with this byte.
fn filled(folder: &Path, byte: u8) {
    let array = create_in(Arc::new(FileStore::new(folder)), &document_of(json!([bytes()])));
    write(&array, "", vec![byte; BYTES]);
}

fn document_of(inner: serde_json::Value) -> serde_json::Value {
    let codecs = json!([sharding(&[8, 8], inner)]);
    document(&[64, 64], &[64, 64], "uint16".into(), 0.into(), codecs)
}

fn open(folder: &Path) -> ArrayNode {
    let engine = Engine::new(&EngineOptions::new().threads(2)).unwrap();
    ArrayNode::open(&engine, &Location::root(Arc::new(FileStore::new(folder)))).unwrap()
}

/// Whether files in a folder are kept open, which depends on its file system.
fn keeps(folder: &Path) -> bool {
    let store = FileStore::new(folder);
    let key = Key::new("probe").unwrap();
    store.put(&key, b"probe", Condition::None).unwrap();
    let keeps = store.open(&key, None).unwrap().can_be_kept();
    store.delete(&key, &Condition::None).unwrap();
    if !keeps {
        println!("{}: files are not kept open on this file system", folder.display());
    }
    keeps
}

/// What a read of one chunk, of some and of all must see, small reads first.
fn assert_all_are(array: &Array, byte: u8) {
    for region in ["8:16,8:16", "9:12,9:12", "7:9,7:9", ""] {
        let read = read(array, region);
        assert!(read.iter().all(|&b| b == byte), "{region} is {}, not {byte}", read[0]);
    }
}

#[test]
fn a_chunk_of_an_open_shard_costs_one_read_and_one_check() {
    for codec in [json!([bytes()]), json!([bytes(), zstd()])] {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(CountingStore::new(FileStore::new(folder.path())));
        let array = create_in(store.clone(), &document_of(codec));
        write(&array, "", noise(BYTES, 3));
        let expected = read(&array, "");
        store.reset();
        for row in 0..8 {
            let bytes = read(&array, &format!("{}:{},0:8", row * 8, row * 8 + 8));
            assert_eq!(bytes[..16], expected[row * 8 * 128..][..16]);
        }
        let counts = store.counts();
        let opens = if keeps(folder.path()) { 0 } else { 8 };
        assert_eq!((counts.opens, counts.reads, counts.checks), (opens, 8, 8));
    }
}

#[test]
fn a_file_that_is_replaced_by_a_rename_is_seen_at_once() {
    let folders = [1, 2].map(|byte| {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path(), byte);
        folder
    });
    let array = open(folders[0].path());
    assert_all_are(&array, 1);
    let shard = |folder: &tempfile::TempDir| folder.path().join("c/0/0");
    for byte in [2, 1, 2] {
        // As long as the old one, and with the same timestamps as far as a slow clock can tell.
        let source = if byte == 2 { &folders[1] } else { &folders[0] };
        let new = folders[0].path().join("new");
        if byte == 2 {
            std::fs::copy(shard(source), &new).unwrap();
        } else {
            filled(&folders[0].path().join("again"), 1);
            std::fs::rename(folders[0].path().join("again/c/0/0"), &new).unwrap();
            std::fs::remove_dir_all(folders[0].path().join("again")).unwrap();
        }
        std::fs::rename(&new, shard(&folders[0])).unwrap();
        assert_all_are(&array, byte);
    }
}

#[test]
fn a_file_that_is_removed_or_moved_away_is_seen_at_once() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 1);
    let array = open(folder.path());
    assert_all_are(&array, 1);
    let (shard, aside) = (folder.path().join("c/0/0"), folder.path().join("aside"));
    std::fs::rename(&shard, &aside).unwrap();
    assert_all_are(&array, 0);
    std::fs::rename(&aside, &shard).unwrap();
    assert_all_are(&array, 1);
    std::fs::remove_file(&shard).unwrap();
    assert_all_are(&array, 0);
}

#[test]
fn a_file_that_is_overwritten_in_place_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 1);
    let array = open(folder.path());
    assert_all_are(&array, 1);
    let other = tempfile::tempdir().unwrap();
    filled(other.path(), 2);
    // File timestamps may tick slowly.
    std::thread::sleep(Duration::from_millis(20));
    let bytes = std::fs::read(other.path().join("c/0/0")).unwrap();
    std::fs::write(folder.path().join("c/0/0"), bytes).unwrap();
    assert_all_are(&array, 2);
}

#[test]
fn a_folder_that_is_exchanged_is_seen_soon() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    filled(&here, 1);
    filled(&there, 2);
    let array = open(&here);
    assert_all_are(&array, 1);
    std::fs::rename(&here, folder.path().join("old")).unwrap();
    std::fs::rename(&there, &here).unwrap();
    std::thread::sleep(Duration::from_millis(150));
    assert_all_are(&array, 2);
}

#[test]
fn a_write_of_the_same_engine_is_read_without_a_read_in_vain() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(CountingStore::new(FileStore::new(folder.path())));
    let array = create_in(store.clone(), &document_of(json!([bytes()])));
    for byte in 1..5 {
        write(&array, "", vec![byte; BYTES]);
        store.reset();
        assert_eq!(read(&array, "8:16,8:16"), [byte; 128]);
        assert_eq!((store.counts().opens, store.counts().reads), (1, 1));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn files_are_closed_with_their_array_and_not_too_many_are_open() {
    let open_files = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let paths = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        paths.collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().unwrap();
    let document = sharded(&[400, 16], &[2, 16], &[2, 8]);
    let array = create_in(Arc::new(FileStore::new(folder.path())), &document);
    write(&array, "", vec![1; 400 * 16 * 2]);
    (0..200).for_each(|i| assert_eq!(read(&array, &format!("{},3", 2 * i)), [1, 1]));
    let open = || open_files().iter().filter(|path| path.starts_with(folder.path())).count();
    let expected = if keeps(folder.path()) { 1..=64 } else { 0..=0 };
    assert!(expected.contains(&open()), "{} files are open", open());
    drop(array);
    assert_eq!(open(), 0);
}

/// A shard of two shards of two chunks each; the index of the second one does not fit into it if
/// `cut`.
fn nested(byte: u8, cut: bool) -> Vec<u8> {
    let index = |entries: [[u64; 2]; 2]| {
        let numbers = entries.as_flattened().iter();
        numbers.flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>()
    };
    let mut shard = Vec::new();
    for _ in 0..2 {
        shard.extend([byte; 8]);
        shard.extend(index([[0, 4], [4, 4]]));
    }
    shard.extend(index([[0, 40], [40, if cut { 20 } else { 40 }]]));
    shard
}

#[test]
fn damage_in_a_file_that_was_replaced_is_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let sharding = |chunk: u64, codecs: serde_json::Value| {
        json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": [chunk], "codecs": codecs, "index_codecs": [bytes()],
        }})
    };
    let codecs = json!([sharding(8, json!([sharding(4, json!([bytes()]))]))]);
    let document = document(&[16], &[16], "uint8".into(), 0.into(), codecs);
    let array = create_in(Arc::new(FileStore::new(folder.path())), &document);
    let (shard, new) = (folder.path().join("c/0"), folder.path().join("new"));
    std::fs::create_dir(folder.path().join("c")).unwrap();
    std::fs::write(&shard, nested(1, true)).unwrap();
    // Opens the file, and reads nothing of the damaged part.
    assert_eq!(read(&array, "0:8"), [1; 8]);
    let error = array.read_elements("8:12").unwrap_err();
    assert!(
        matches!(error, shardine::Error::Engine(shardine::EngineError::Shard { .. })),
        "{error}"
    );
    assert_eq!(read(&array, "0:8"), [1; 8]);
    std::fs::write(&new, nested(2, false)).unwrap();
    std::fs::rename(&new, &shard).unwrap();
    assert_eq!(read(&array, "8:12"), [2; 4]);
}
