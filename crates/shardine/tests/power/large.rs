//! Shards that are large enough for `auto` to update them in place, and updates that are not held
//! in memory.

use std::sync::Arc;

use shardine::store::FileStore;
use shardine::{Array, ElementsRef, Region, Strategy, WriteOptions};

use crate::disk::{Disk, Kept, Random, Recorder, Step, image, put};
use crate::scene::{ReadOnly, create, engine, folder, open, read};

/// One shard of chunks in a row.
fn document(chunk: usize, chunks: usize, location: &str) -> String {
    let shard = chunk * chunks;
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{shard}], "data_type": "uint8",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{shard}]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0,
        "codecs": [{{"name": "sharding_indexed", "configuration": {{
            "chunk_shape": [{chunk}], "codecs": ["bytes"], "index_location": "{location}",
            "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}, "crc32c"]}}}}]}}"#
    )
}

fn write(array: &Array, start: usize, data: &[u8], strategy: Strategy) {
    let region = Region::of_box(&[start as u64], &[data.len() as u64]);
    let options = WriteOptions::new().strategy(strategy).max_gap(1.0);
    array.write_elements(&region, ElementsRef::Fixed(data), &options).unwrap();
}

/// Updates `touched` of the chunks and fails at every step.
fn fail(chunk: usize, chunks: usize, touched: usize, location: &str, strategy: Strategy) {
    let engine = engine();
    let (recorded, replayed) = (folder(), folder());
    let array = create(&engine, recorded.path(), &document(chunk, chunks, location));
    let old: Vec<u8> = (0..chunk * chunks).map(|i| (i / 251 + i) as u8 | 1).collect();
    write(&array, 0, &old, Strategy::Rewrite);
    drop(array);
    let base = image(recorded.path());
    let recorder = Recorder::new(recorded.path(), None);
    let array = open(&engine, FileStore::observed(recorded.path(), Arc::clone(&recorder) as _));
    let mut new = old.clone();
    new[chunk..chunk * (1 + touched)].iter_mut().for_each(|byte| *byte ^= 0x80);
    write(&array, chunk, &new[chunk..chunk * (1 + touched)], strategy);
    let log = recorder.take();
    let in_place = |step: &&Step| matches!(step, Step::Write(path, ..) if path.ends_with("c/0"));
    assert!(log.iter().filter(in_place).count() >= 2, "it was not changed in place: {log:?}");

    let mut disk = Disk::new(&base);
    for at in 0..=log.len() {
        for kept in [Kept::All, Kept::Some(at as u64, 4096)] {
            let case = format!("{location} {strategy}: after {at} steps with {kept:?} kept");
            std::fs::remove_dir_all(replayed.path()).unwrap();
            std::fs::create_dir(replayed.path()).unwrap();
            put(&disk.fail(kept), replayed.path());
            let stores = [
                FileStore::observed(replayed.path(), Arc::new(ReadOnly)),
                FileStore::new(replayed.path()),
            ];
            for store in stores {
                let found = read(&open(&engine, store)).unwrap_or_else(|e| panic!("{case}: {e}"));
                assert!(found == new || (found == old && at < log.len()), "{case}");
            }
        }
        if let Some(step) = log.get(at) {
            disk.apply(step);
        }
    }
    // All of it again, in place, on the present state.
    let array = open(&engine, FileStore::new(replayed.path()));
    let mut random = Random(1);
    let data: Vec<u8> = (0..chunk).map(|_| random.next(256) as u8).collect();
    write(&array, 0, &data, Strategy::InPlace);
    new[..chunk].copy_from_slice(&data);
    assert!(read(&array).unwrap() == new);
}

#[test]
fn auto_changes_a_large_shard_in_place_and_survives_any_failure() {
    fail(256 << 10, 16, 2, "start", Strategy::Auto);
}

#[test]
fn updates_that_are_not_held_in_memory_survive_any_failure() {
    for location in ["start", "end"] {
        fail(3 << 20, 4, 3, location, Strategy::InPlace);
    }
}
