//! Writers and readers at the same time lose nothing and see nothing torn.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use shardine::store::{FaultStore, FileStore, MemoryStore, Operation, Store};
use shardine::{Elements, Error, WriteOptions};

fn stores() -> Vec<(Arc<dyn Store>, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let files: Arc<dyn Store> = Arc::new(FileStore::new(folder.path()));
    vec![(Arc::new(MemoryStore::new()), None), (files, Some(folder))]
}

#[test]
fn writers_of_different_chunks_of_one_shard_lose_nothing() {
    for (store, _folder) in stores() {
        let array = create_in(store, &sharded(&[64, 64], &[64, 64], &[8, 8]));
        std::thread::scope(|scope| {
            for worker in 0..4u8 {
                let array = reopen(&array);
                scope.spawn(move || {
                    for row in (worker as usize..64).step_by(4) {
                        // Rows of other writers lie in the same chunks.
                        write(&array, &format!("{row}"), vec![worker + 1; 128]);
                    }
                });
            }
        });
        let all = read(&reopen(&array), "");
        for (row, bytes) in all.chunks(128).enumerate() {
            assert_eq!(bytes, [row as u8 % 4 + 1; 128], "row {row}");
        }
    }
}

#[test]
fn a_reader_sees_a_shard_before_or_after_a_write_and_never_between() {
    for (store, _folder) in stores() {
        let array = create_in(store, &sharded(&[64, 64], &[64, 64], &[8, 8]));
        write(&array, "", vec![1; 64 * 64 * 2]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (reader, stop) = (reopen(&array), &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        for region in ["", "0:30,0:64", "3,5:60"] {
                            let bytes = read(&reader, region);
                            assert!(bytes.iter().all(|&b| b == bytes[0]), "torn");
                        }
                    }
                });
            }
            for i in 0..150u8 {
                write(&array, "", vec![i % 3 + 1; 64 * 64 * 2]);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_failure_at_any_step_of_an_update_leaves_the_old_shard() {
    for shape in [[64u64, 64], [1024, 1024]] {
        let store = Arc::new(FaultStore::new(MemoryStore::new()));
        let array = create_in(store.clone(), &sharded(&shape, &shape, &[16, 16]));
        let len = (shape[0] * shape[1] * 2) as usize;
        let old = noise(len, 1);
        write(&array, "", old.clone());
        for operation in [Operation::Append, Operation::Read, Operation::Publish] {
            for after in 0..3 {
                store.fail(operation, after);
                let region = "3:60,5:61".parse().unwrap();
                let patch = Elements::Fixed(vec![0xAB; 57 * 56 * 2]);
                let result = array.write(&region, patch.as_ref(), &WriteOptions::new());
                let fired = store.waiting() == 0;
                store.clear();
                if fired {
                    assert!(matches!(result, Err(Error::Store(_))), "{operation:?} {after}");
                    assert!(read(&reopen(&array), "") == old, "{operation:?} {after}");
                    assert_eq!(array.objects().unwrap().len(), 1);
                } else {
                    result.unwrap();
                    write(&array, "", old.clone());
                }
            }
        }
    }
}

#[test]
fn many_threads_read_one_array_with_one_engine() {
    let array = create(&sharded(&[256, 256], &[128, 128], &[32, 32]));
    let data = noise(256 * 256 * 2, 1);
    write(&array, "", data.clone());
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (array, data) = (&array, &data);
            scope.spawn(move || {
                for i in 0..40 {
                    let row = (worker * 31 + i * 7) % 200;
                    let bytes = read(array, &format!("{row}:{}", row + 50));
                    assert!(bytes == data[row * 512..(row + 50) * 512]);
                }
            });
        }
    });
}
