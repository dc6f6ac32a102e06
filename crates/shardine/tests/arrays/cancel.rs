//! Reads and writes that are stopped.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardine::jobs::CancelToken;
use shardine::{Array, Error, ErrorKind, GeneratorSource, WriteOptions};

/// The files below a folder.
fn files(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path.file_name().unwrap().to_str().unwrap().to_owned()),
        }
    }
    found.sort();
    found
}

#[test]
fn a_cancelled_read_says_so_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let array = Array::builder([64, 64], "uint8").chunks([8, 8]).shards([32, 32]).create(&path);
    let array = array.unwrap();
    array.write(.., &[7u8; 64 * 64]).unwrap();

    let token = CancelToken::new();
    let read = || token.watch(|| array.read::<u8>(..));
    assert_eq!(read().unwrap(), [7; 64 * 64]);
    token.cancel();
    let error = read().unwrap_err();
    assert!(matches!(error, Error::Cancelled) && error.kind() == ErrorKind::Cancelled, "{error}");
    // Others do not watch it.
    assert_eq!(array.read::<u8>(..).unwrap(), [7; 64 * 64]);
}

#[test]
fn a_cancelled_write_leaves_shards_old_or_new_and_nothing_else() {
    let (shards, chunks) = (4, 64);
    for stop_at in [0, 1, 70, 130] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zarr");
        // Shards that are streamed, so that a write is stopped in the middle of one.
        let array = Array::builder([4, 1024, 1024, 8], "uint8")
            .chunks([1, 128, 128, 8])
            .shards([1, 1024, 1024, 8])
            .create(&path)
            .unwrap();
        let token = CancelToken::new();
        let made = AtomicU64::new(0);
        let source = GeneratorSource::new(1, |_, _, out| {
            if made.fetch_add(1, Ordering::Relaxed) == stop_at {
                token.cancel();
            }
            std::thread::sleep(Duration::from_micros(200));
            out.fill(1);
            Ok(())
        });
        let written = token.watch(|| array.write_from(.., &source, &WriteOptions::new()));
        assert!(matches!(written, Err(Error::Cancelled)), "{written:?}");
        assert!(made.load(Ordering::Relaxed) < shards * chunks);
        let left = files(&path);
        let objects = left.iter().filter(|name| *name != "zarr.json");
        assert!(objects.clone().all(|name| name == "0") && objects.count() < 4, "{left:?}");
        for shard in array.read::<u8>(..).unwrap().chunks(1024 * 1024 * 8) {
            assert!(shard.iter().all(|&element| element == shard[0]));
        }
    }
}
