//! What is measured of an array before shapes are recommended.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::Arc;

use common::*;
use serde_json::json;
use shardine::plan::sample;
use shardine::store::{CountingStore, FileStore, MemoryStore, StoreExt};

#[test]
fn chunks_of_a_sharded_array_are_measured_by_its_indexes() {
    let array = create(&sharded(&[64, 64], &[32, 32], &[8, 8]));
    assert_eq!(sample(&array).unwrap(), None);
    write(&array, ":32,:32", noise(2048, 1));
    let found = sample(&array).unwrap().unwrap();
    // One of four shards is there, with its sixteen chunks.
    assert_eq!((found.count, found.looked, found.objects), (16, 64, 1));
    assert_eq!((found.share(), &found.shape[..]), (0.25, &[8, 8][..]));
    let shard = array.shard_entries(&[0, 0]).unwrap().unwrap();
    let mut sizes: Vec<u64> = shard.entries.iter().flatten().map(|r| r.end - r.start).collect();
    sizes.sort();
    assert_eq!((found.median, found.max), (sizes[7], sizes[15]));
    assert_eq!(found.mean, sizes.iter().sum::<u64>() / 16);
    assert!((found.ratio.unwrap() - 2048.0 / sizes.iter().sum::<u64>() as f64).abs() < 1e-9);
    assert_eq!(found.bytes_of(&[16, 16]), 4 * found.mean);
}

#[test]
fn objects_of_an_array_without_shards_are_measured_by_their_length() {
    let plain = document(&[10, 10], &[5, 5], "uint8".into(), 0.into(), json!(["bytes"]));
    let array = create(&plain);
    write(&array, ":5", noise(50, 2));
    let found = sample(&array).unwrap().unwrap();
    assert_eq!((found.count, found.looked, found.mean, found.max), (2, 4, 25, 25));
    assert_eq!(found.ratio, Some(1.0));
}

#[test]
fn a_few_objects_among_a_great_many_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let wide = document(&[4000, 4000], &[4, 4], "uint8".into(), 0.into(), json!(["bytes"]));
    for store in [
        Arc::new(FileStore::new(folder.path().join("a"))) as Arc<dyn shardine::store::Store>,
        Arc::new(MemoryStore::new()),
    ] {
        let array = create_in(store, &wide);
        write(&array, "100:120,3000:3020", noise(400, 3));
        let found = sample(&array).unwrap().unwrap();
        assert_eq!((found.count, found.mean), (25, 16));
        assert!(found.share() <= 0.25, "{found:?}");
    }
}

#[test]
fn requests_are_few_however_many_objects_there_are() {
    let counting = Arc::new(CountingStore::new(MemoryStore::new()));
    let wide = sharded(&[2048, 2048], &[16, 16], &[8, 8]);
    let array = create_in(counting.clone(), &wide);
    write(&array, "", noise(2048 * 2048 * 2, 4));
    let array = reopen(&array);
    let before = counting.counts();
    let found = sample(&array).unwrap().unwrap();
    let after = counting.counts();
    assert_eq!((found.objects, found.count), (32, 128));
    assert_eq!((after.reads - before.reads, after.lists - before.lists), (32, 0));
    assert_eq!(sample(&array).unwrap().unwrap(), found);
}

#[test]
fn a_damaged_shard_is_not_measured() {
    let array = create(&sharded(&[64], &[32], &[8]));
    write(&array, "", noise(128, 5));
    let key = array.objects().unwrap()[0].key.clone();
    let location = array.location();
    location.store.put(&key, b"no shard", shardine::store::Condition::None).unwrap();
    let found = sample(&array).unwrap().unwrap();
    assert_eq!((found.objects, found.count), (1, 4));
}

#[test]
fn elements_of_variable_length_have_sizes_but_no_ratio() {
    let strings = document(&[4], &[2], "string".into(), "".into(), json!(["vlen-utf8"]));
    let array = create(&strings);
    let mut elements = shardine::VariableElements::default();
    for word in ["a", "bc", "def", "g"] {
        elements.push(word.as_bytes());
    }
    let elements = shardine::Elements::Variable(elements);
    array.write_elements("", elements.as_ref(), &Default::default()).unwrap();
    let found = sample(&array).unwrap().unwrap();
    assert_eq!((found.count, found.ratio), (2, None));
}
