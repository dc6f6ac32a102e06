//! Concurrent writers and readers lose nothing and see nothing torn.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::odd_store::OddStore;
use common::*;
use shardine::store::{
    DiskLook, DiskObserver, DiskStep, FaultStore, FileStore, MemoryStore, Operation, Store, Verdict,
};
use shardine::{ArrayNode, Elements, Error, Location, WriteOptions};

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
                let region = "3:60,5:61";
                let patch = Elements::Fixed(vec![0xAB; 57 * 56 * 2]);
                let result = array.write_elements(region, patch.as_ref(), &WriteOptions::new());
                let fired = store.waiting() == 0;
                store.clear();
                assert!(fired || after > 0, "an update has no {operation:?}");
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

#[test]
fn an_update_that_has_to_start_again_keeps_all_chunks() {
    // The first is encoded in memory, the second streamed.
    for shape in [[64u64, 64], [1024, 1024]] {
        for after in 0..6 {
            let store = OddStore::new();
            let array = create_in(store.clone(), &sharded(&shape, &shape, &[16, 16]));
            let mut model = noise((shape[0] * shape[1] * 2) as usize, 1);
            write(&array, "", model.clone());
            store.change_after.store(after, Ordering::SeqCst);
            write(&array, "3:9,5", vec![9; 12]);
            store.change_after.store(-1, Ordering::SeqCst);
            for row in 3..9 {
                model[(row * shape[1] as usize + 5) * 2..][..2].copy_from_slice(&[9, 9]);
            }
            assert!(read(&reopen(&array), "") == model, "{shape:?} {after}");
        }
    }
}

#[test]
fn a_cached_inner_index_of_an_older_version_is_not_used() {
    let store = OddStore::new();
    let inner = sharding(&[2], serde_json::json!([bytes()]));
    let codecs = serde_json::json!([sharding(&[8], serde_json::json!([inner]))]);
    let document = document(&[32], &[32], "uint8".into(), 0.into(), codecs);
    let array = create_in(store, &document);
    write(&array, "", (1..33).collect());
    let reader = reopen(&array);
    for start in (0..32).step_by(2) {
        read(&reader, &format!("{start}"));
    }
    write(&array, "0:7", vec![0; 7]);
    // Reading one chunk updates the outer index to the new version; the inner ones are still old.
    read(&reader, "31");
    for start in 0..32u8 {
        let expected = if start < 7 { 0 } else { start + 1 };
        assert_eq!(read(&reader, &format!("{start}")), [expected]);
    }
}

#[test]
fn bytes_that_were_being_overwritten_are_read_again_and_not_called_damage() {
    for after in 0..3 {
        let store = OddStore::new();
        let array = create_in(store.clone(), &sharded(&[64, 64], &[64, 64], &[16, 16]));
        let data = noise(64 * 64 * 2, 1);
        write(&array, "", data.clone());
        let reader = reopen(&array);
        store.garble_after.store(after, Ordering::SeqCst);
        assert_eq!(read(&reader, "17"), data[17 * 128..18 * 128]);
    }
}

#[test]
fn a_source_may_read_another_array_with_the_same_engine() {
    // A chunk of the source is larger than what the batches in flight leave of the budget.
    let from = create(&sharded(&[512, 512, 64], &[256, 256, 64], &[64, 64, 64]));
    let data = noise(512 * 512 * 64 * 2, 1);
    write(&from, "", data.clone());
    let options = shardine::EngineOptions::new().threads(2).memory(4 << 20);
    let engine = shardine::Engine::new(&options).unwrap();
    let from = shardine::ArrayNode::open(&engine, from.location()).unwrap();
    let to = sharded(&[512, 512, 64], &[512, 512, 64], &[64, 64, 16]);
    let place = shardine::Location::root(Arc::new(MemoryStore::new()));
    let to = shardine::ArrayNode::create(&engine, &place, metadata(&to)).unwrap();
    let source = shardine::GeneratorSource::new(2, |start, shape, out| {
        Ok(from.read_bytes_into(shardine::Region::of_box(start, shape), out)?)
    });
    to.write_from(shardine::Region::all(), &source, &WriteOptions::new()).unwrap();
    assert!(read(&to, "") == data);
}

#[test]
fn a_source_may_use_the_threads_that_it_is_called_on() {
    let options = shardine::EngineOptions::new().threads(4);
    let engine = shardine::Engine::new(&options).unwrap();
    for _ in 0..5 {
        let place = shardine::Location::root(Arc::new(MemoryStore::new()));
        let document = sharded(&[512, 512, 16], &[512, 512, 16], &[64, 64, 16]);
        let to = shardine::ArrayNode::create(&engine, &place, metadata(&document)).unwrap();
        let source = shardine::GeneratorSource::new(2, |_, _, out| {
            // While it waits for its halves, a worker does other work.
            rayon::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
                }
            });
            out.fill(7);
            Ok(())
        });
        to.write_from(shardine::Region::all(), &source, &WriteOptions::new()).unwrap();
        assert!(read(&to, "").iter().all(|&byte| byte == 7));
    }
}

#[test]
fn after_a_panic_in_a_source_nothing_more_is_encoded() {
    let engine = shardine::Engine::new(&shardine::EngineOptions::new().threads(2)).unwrap();
    let place = shardine::Location::root(Arc::new(MemoryStore::new()));
    let document = sharded(&[512, 512, 64], &[512, 512, 64], &[64, 64, 16]);
    let to = shardine::ArrayNode::create(&engine, &place, metadata(&document)).unwrap();
    let asked = AtomicUsize::new(0);
    let source = shardine::GeneratorSource::new(2, |_, _, out| {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        assert!(number != 3, "of no use");
        out.fill(7);
        Ok(())
    });
    let write = || to.write_from(shardine::Region::all(), &source, &WriteOptions::new());
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
    assert!(result.is_err());
    // Only what the other worker was doing, out of 256.
    assert!(asked.load(Ordering::SeqCst) < 32, "{asked:?}");
    let source = shardine::GeneratorSource::new(2, |_, _, out| {
        out.fill(9);
        Ok(())
    });
    to.write_from(shardine::Region::all(), &source, &WriteOptions::new()).unwrap();
    assert!(read(&to, "").iter().all(|&byte| byte == 9));
}

/// Completes the switch of an index once a reader has read it and looks for a journal.
#[derive(Debug)]
struct EndsSwitch {
    shard: PathBuf,
    index: Vec<u8>,
    at: u64,
    was_read: AtomicBool,
    /// How often it has.
    ended: AtomicUsize,
}

impl DiskObserver for EndsSwitch {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        Verdict::Go
    }

    fn before_look(&self, look: DiskLook<'_>) -> std::io::Result<()> {
        match look {
            DiskLook::Read { path, .. } if path == self.shard => {
                self.was_read.store(true, Ordering::Relaxed);
            }
            DiskLook::Examine { path } | DiskLook::Open { path }
                if path.to_string_lossy().contains(".shardine-")
                    && self.was_read.swap(false, Ordering::Relaxed) =>
            {
                self.ended.fetch_add(1, Ordering::Relaxed);
                put_at(&self.shard, &self.index, self.at);
            }
            _ => {}
        }
        Ok(())
    }
}

fn put_at(path: &Path, bytes: &[u8], at: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// Fails without the second look only where file timestamps tick slowly. Since Linux 6.13 most file
/// systems give a change that follows a `stat` a timestamp of its own.
#[test]
fn a_switch_of_an_index_within_one_tick_of_the_clock_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let document = sharded(&[64, 64], &[64, 64], &[8, 8]);
    let array = create_in(Arc::new(FileStore::new(folder.path())), &document);
    write(&array, "", noise(64 * 64 * 2, 3));
    let shard = folder.path().join("c/0/0");
    let stored = std::fs::read(&shard).unwrap();
    let at = stored.len() as u64 - (64 * 16 + 4);
    let index = stored[at as usize..].to_vec();
    let (was_read, ended) = (AtomicBool::default(), AtomicUsize::default());
    let switch = EndsSwitch { shard: shard.clone(), index: index.clone(), at, was_read, ended };
    let switch = Arc::new(switch);
    let store: Arc<dyn Store> = Arc::new(FileStore::observed(folder.path(), switch.clone()));
    for _ in 0..100 {
        // As found by a reader whose read comes between the new length and the new index.
        put_at(&shard, &vec![0; index.len()], at);
        let reader = ArrayNode::open(&engine(), &Location::root(Arc::clone(&store))).unwrap();
        assert_eq!(read(&reader, ""), noise(64 * 64 * 2, 3));
    }
    assert!(switch.ended.load(Ordering::Relaxed) >= 100, "{switch:?}");
}

/// Leaves a shard with its index at the end as a writer does that is killed in a change in place, each
/// time a reader is about to open it.
#[derive(Debug)]
struct BeginsSwitch {
    shard: PathBuf,
    journal: PathBuf,
    intent: Vec<u8>,
    sound: Vec<u8>,
    /// How many more times.
    left: AtomicUsize,
}

impl BeginsSwitch {
    fn new(shard: &Path, index: usize) -> Self {
        let sound = std::fs::read(shard).unwrap();
        let name = shard.file_name().unwrap().to_str().unwrap();
        let journal = shard.with_file_name(format!(".shardine-{name}.journal"));
        let intent = intent(&sound, index);
        Self { shard: shard.to_owned(), journal, intent, sound, left: AtomicUsize::new(0) }
    }
}

/// A journal whose switch was not begun: a shard with an index of so many bytes at its end.
fn intent(shard: &[u8], index: usize) -> Vec<u8> {
    let start = shard.len() - index;
    let digest = shard[start..].iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let numbers = [shard.len() as u64, start as u64, index as u64, digest];
    let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut bytes = b"SHRDJNL1".to_vec();
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(&payload);
    bytes.extend(crc32c::crc32c(&payload).to_le_bytes());
    bytes
}

impl DiskObserver for BeginsSwitch {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        Verdict::Go
    }

    fn before_look(&self, look: DiskLook<'_>) -> std::io::Result<()> {
        let DiskLook::Open { path } = look else { return Ok(()) };
        // Recovery opens the shard too, for its lock; by then there is a journal.
        if path == self.shard
            && !self.journal.exists()
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok()
        {
            std::fs::write(&self.journal, &self.intent)?;
            put_at(&self.shard, &[0; 2000], self.sound.len() as u64);
        }
        Ok(())
    }
}

#[test]
fn a_shard_that_is_being_changed_each_time_it_is_read_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let document = sharded(&[64, 64], &[64, 64], &[8, 8]);
    let array = create_in(Arc::new(FileStore::new(folder.path())), &document);
    write(&array, "", noise(64 * 64 * 2, 3));
    let switch = Arc::new(BeginsSwitch::new(&folder.path().join("c/0/0"), 64 * 16 + 4));
    let store: Arc<dyn Store> = Arc::new(FileStore::observed(folder.path(), switch.clone()));
    let look = |times: usize| {
        switch.left.store(times, Ordering::Relaxed);
        let reader = ArrayNode::open(&engine(), &Location::root(Arc::clone(&store))).unwrap();
        let found = reader.read_elements(shardine::Region::all());
        let tried = times - switch.left.swap(0, Ordering::Relaxed);
        let listed = reader.shard_entries(&[0, 0]);
        (found, listed, tried)
    };
    let (found, _, tried) = look(20);
    assert_eq!(found.unwrap(), Elements::Fixed(noise(64 * 64 * 2, 3)));
    assert_eq!(tried, 20);
    // However often: that is not what damage is called.
    let (found, listed, tried) = look(1000);
    assert!(
        matches!(found, Err(Error::Engine(shardine::EngineError::Unstable { .. }))),
        "{found:?}"
    );
    assert!((50..200).contains(&tried), "{tried}");
    assert!(listed.is_ok(), "{listed:?}");
}

#[test]
fn damage_under_an_interrupted_change_is_still_damage() {
    let folder = tempfile::tempdir().unwrap();
    let document = sharded(&[64, 64], &[64, 64], &[8, 8]);
    let array = create_in(Arc::new(FileStore::new(folder.path())), &document);
    write(&array, "", noise(64 * 64 * 2, 3));
    let shard = folder.path().join("c/0/0");
    let switch = Arc::new(BeginsSwitch::new(&shard, 64 * 16 + 4));
    switch.left.store(1, Ordering::Relaxed);
    // A chunk, not the index.
    put_at(&shard, &[0xff; 40], 0);
    let store: Arc<dyn Store> = Arc::new(FileStore::observed(folder.path(), switch));
    let reader = ArrayNode::open(&engine(), &Location::root(store)).unwrap();
    let found = reader.read_elements(shardine::Region::all());
    let damage = matches!(found, Err(Error::Engine(shardine::EngineError::Decode { .. })));
    assert!(damage, "{found:?}");
}
