//! A read costs the requests that it must, and no more.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::Arc;

use common::*;
use serde_json::json;
use shardine::precomputed::{Volume, VolumeInfo};
use shardine::store::{Call, CountingStore, FileStore, MemoryStore, Store};
use shardine::{Array, ArrayNode, Location};

/// A shard of 8 x 8 x 8 chunks of 64 KiB that do not compress, at the origin of a larger array.
fn volume() -> (Arc<CountingStore<MemoryStore>>, ArrayNode) {
    volume_in(MemoryStore::new())
}

fn volume_in<S: Store + 'static>(store: S) -> (Arc<CountingStore<S>>, ArrayNode) {
    let store = Arc::new(CountingStore::new(store));
    let codecs = json!([sharding(&[32, 32, 32], json!([bytes(), zstd()]))]);
    let document = document(&[256, 256, 300], &[256, 256, 256], "uint16".into(), 0.into(), codecs);
    let array = create_in(store.clone(), &document);
    write(&array, ":,:,:256", noise(256 * 256 * 256 * 2, 1));
    store.reset();
    let array = reopen(&array);
    store.reset();
    (store, array)
}

#[test]
fn a_chunk_of_a_cold_shard_costs_two_reads_and_of_a_warm_one_one() {
    let (store, array) = volume();
    read(&array, "0:32,0:32,0:32");
    assert_eq!((store.counts().opens, store.counts().reads), (1, 2));
    store.reset();
    read(&array, "64:96,32:64,0:32");
    assert_eq!((store.counts().opens, store.counts().reads), (1, 1));
    assert!(store.counts().bytes_read < 70_000);
    store.reset();
    read(&array, "100,100,100");
    assert_eq!((store.counts().opens, store.counts().reads), (1, 1));
}

#[test]
fn a_block_of_chunks_costs_at_most_three_reads() {
    let (store, array) = volume();
    for corner in [0, 128] {
        let range = format!("{corner}:{}", corner + 128);
        read(&reopen(&array), &format!("{range},{range},{range}"));
        let reads = store.calls().iter().filter(|c| is_chunk_read(c)).count();
        assert!(reads <= 3, "{reads} reads");
        // 64 chunks of 64 KiB, the index, and next to nothing else.
        assert!(store.counts().bytes_read < 4_400_000);
        store.reset();
    }
}

fn is_chunk_read(call: &Call) -> bool {
    matches!(call, Call::Read { key, .. } if !["zarr.json", "info"].contains(&key.as_str()))
}

/// Reopens an array.
type Open = Box<dyn Fn() -> Array>;

/// The same elements in the same chunks, as a sharded array and as a sharded volume with one index
/// in each shard.
fn array_and_volume<S: Store + 'static>(
    make: impl Fn() -> S,
) -> [(Arc<CountingStore<S>>, Open); 2] {
    let data = noise(128 * 128 * 128, 1);
    let codecs = json!([sharding(&[32, 32, 32, 1], json!([bytes()]))]);
    let document =
        document(&[128, 128, 128, 1], &[64, 64, 128, 1], "uint8".into(), 0.into(), codecs);
    let array_store = Arc::new(CountingStore::new(make()));
    let array = create_in(array_store.clone(), &document);
    write(&array, "", data.clone());
    let volume_store = Arc::new(CountingStore::new(make()));
    let location = Location::root(volume_store.clone());
    let info = json!({
        "@type": "neuroglancer_multiscale_volume", "type": "image", "data_type": "uint8",
        "num_channels": 1,
        "scales": [{
            "key": "s0", "size": [128, 128, 128], "resolution": [1, 1, 1],
            "chunk_sizes": [[32, 32, 32]], "encoding": "raw",
            "sharding": {
                "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity",
                "preshift_bits": 4, "minishard_bits": 0, "shard_bits": 2
            }
        }]
    });
    let info = VolumeInfo::parse(info.to_string().as_bytes()).unwrap();
    let volume = Volume::create(&engine(), &location, info).unwrap();
    write(&volume.array(0).unwrap(), "", data);
    let open_volume = move || Volume::open(&engine(), &location).unwrap().array(0).unwrap();
    [
        (array_store, Box::new(move || reopen(&array).into_array())),
        (volume_store, Box::new(open_volume)),
    ]
}

#[test]
fn chunks_of_a_sharded_volume_cost_the_reads_of_a_sharded_array_and_its_indexes() {
    for region in [":,:,40", ":,7,:", "0:32,0:32,0:32", "", "30:70,:,:"] {
        let [array, volume] = array_and_volume(MemoryStore::new).map(|(store, open)| {
            let array = open();
            store.reset();
            let elements = read(&array, region);
            let reads = store.calls().iter().filter(|call| is_chunk_read(call)).count();
            (elements, reads)
        });
        assert!(array.0 == volume.0, "{region}");
        // A table and one index for each of four shards, where an array has one index.
        assert!(volume.1 <= array.1 + 8, "{region}: {} reads, {} of an array", volume.1, array.1);
    }
}

#[test]
fn neighbours_in_a_warm_shard_of_a_volume_are_read_together() {
    let [_, (store, open)] = array_and_volume(MemoryStore::new);
    let array = open();
    read(&array, "0:32,0:32,0:32");
    store.reset();
    read(&array, "0:64,0:64,0:64");
    // Opening costs nothing in a store other than files.
    assert_eq!(store.counts().reads, 1);
}

#[test]
fn a_shard_of_a_volume_that_was_replaced_is_read_anew() {
    let [_, (_, open)] = array_and_volume(MemoryStore::new);
    let (reader, writer) = (open(), open());
    read(&reader, "0:32,0:32,0:32");
    // Another length, so that the chunks after it move.
    for (region, value) in [("0:32,0:32,0:32", 7), ("0:64,0:64,0:64", 9), ("0:32,:,:", 0)] {
        let elements = read(&writer, region).len();
        write(&writer, region, vec![value; elements]);
        assert!(read(&reader, region) == vec![value; elements], "{region}");
        assert!(read(&reader, "") == read(&open(), ""), "{region}");
    }
}

#[test]
fn a_whole_shard_costs_one_read() {
    let codecs = json!([sharding(&[32, 32, 32], json!([bytes(), zstd()]))]);
    let document = document(&[256, 256, 250], &[256, 256, 256], "uint8".into(), 0.into(), codecs);
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let array = create_in(store.clone(), &document);
    write(&array, "", noise(256 * 256 * 250, 1));
    let cold = reopen(&array);
    store.reset();
    read(&cold, "");
    assert_eq!((store.counts().opens, store.counts().reads), (1, 1));
}

#[test]
fn a_shard_past_the_budget_is_read_in_pieces() {
    // 64 MiB of noise, with a budget that allows 8 MiB in flight.
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let document = document(
        &[512, 256, 256],
        &[512, 256, 256],
        "uint16".into(),
        0.into(),
        json!([sharding(&[32, 32, 32], json!([bytes()]))]),
    );
    let array = create_in(store.clone(), &document);
    let data = noise(512 * 256 * 256 * 2, 1);
    write(&array, "", data.clone());
    let options = shardine::EngineOptions::new().threads(2).memory(16 << 20);
    let engine = shardine::Engine::new(&options).unwrap();
    let array = ArrayNode::open(&engine, array.location()).unwrap();
    store.reset();
    assert!(read(&array, "") == data);
    let largest = store.calls().into_iter().filter_map(|call| match call {
        Call::Read { bytes, .. } => Some(bytes),
        _ => None,
    });
    assert!(largest.max().unwrap() <= 2 << 20);
}

#[test]
fn an_absent_shard_costs_no_read() {
    let (store, array) = volume();
    read(&array, ":,:,256:");
    assert_eq!(store.counts().reads, 0);
}

#[test]
fn absent_chunks_of_a_shard_cost_its_index_alone() {
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let array = create_in(store.clone(), &sharded(&[512, 512], &[512, 512], &[32, 32]));
    write(&array, "0:100,0:512", noise(100 * 512 * 2, 1));
    let cold = reopen(&array);
    store.reset();
    assert_eq!(read(&cold, "300:400,0:512"), vec![0; 100 * 512 * 2]);
    assert_eq!((store.counts().opens, store.counts().reads), (1, 1));
    // 16 x 16 entries and a checksum.
    assert_eq!(store.counts().bytes_read, 16 * 16 * 16 + 4);
}

#[test]
fn a_chunk_inside_a_nested_shard_costs_one_read_for_each_index() {
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let inner = sharding(&[16, 16], json!([bytes()]));
    let codecs = json!([sharding(&[128, 128], json!([inner]))]);
    let document = document(&[512, 512], &[512, 512], "uint32".into(), 0.into(), codecs);
    let array = create_in(store.clone(), &document);
    write(&array, "", noise(512 * 512 * 4, 1));
    let cold = reopen(&array);
    store.reset();
    read(&cold, "130:140,130:140");
    assert_eq!((store.counts().opens, store.counts().reads), (1, 3));
    assert!(store.counts().bytes_read < 16 * 16 + 4 + 64 * 16 + 4 + 1_100);
    store.reset();
    read(&cold, "150,150");
    assert_eq!((store.counts().opens, store.counts().reads), (1, 1));
}

#[test]
fn a_shard_replaced_by_somebody_else_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(CountingStore::new(FileStore::new(folder.path())));
    let array = create_in(store.clone(), &sharded(&[256, 256], &[256, 256], &[64, 64]));
    write(&array, "", noise(256 * 256 * 2, 1));
    let reader = reopen(&array);
    read(&reader, "0:64,0:64");
    let other = noise(256 * 256 * 2, 2);
    write(&array, "", other.clone());
    store.reset();
    assert_eq!(read(&reader, "0,0:256"), other[..512]);
    assert!(store.counts().reads >= 2, "the index has to be read again");
}

#[test]
fn an_update_of_one_chunk_neither_reads_nor_encodes_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (store, array) = volume_in(FileStore::new(folder.path()));
    let patch = noise(32 * 32 * 32 * 2, 5);
    let region = "32:64,32:64,32:64";
    let elements = shardine::Elements::Fixed(patch.clone());
    let report =
        array.write_elements(region, elements.as_ref(), &shardine::WriteOptions::new()).unwrap();
    assert_eq!((report.chunks_encoded, report.chunks_kept), (1, 511));
    // The chunk is covered completely, so only the index of the old shard was read; the rest was
    // moved in the kernel.
    assert_eq!(store.counts().bytes_read, 512 * 16 + 4);
    assert_eq!(read(&array, "32:64,32:64,32:64"), patch);
}

#[test]
fn a_write_tells_what_became_of_the_chunks_of_small_and_large_shards_alike() {
    for scale in [1u64, 16] {
        let (shape, chunk) = (64 * scale, 16 * scale);
        let array = create(&sharded(&[shape, shape], &[shape, shape], &[chunk, chunk]));
        let options = shardine::WriteOptions::new();
        let half = shape * shape;
        let all =
            shardine::Elements::Fixed([noise(half as usize, 1), vec![0; half as usize]].concat());
        let report = array.write_elements("", all.as_ref(), &options).unwrap();
        assert_eq!((report.chunks_encoded, report.chunks_kept, report.chunks_empty), (8, 0, 8));
        let one = shardine::Elements::Fixed(vec![1, 1]);
        let report = array.write_elements("0,0", one.as_ref(), &options).unwrap();
        assert_eq!((report.chunks_encoded, report.chunks_kept, report.chunks_empty), (1, 7, 0));
    }
}

/// An array of one uncompressed chunk.
fn plain(shape: &[u64], endian: &str) -> (Arc<CountingStore<MemoryStore>>, ArrayNode) {
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let bytes = json!([{"name": "bytes", "configuration": {"endian": endian}}]);
    let document = document(shape, shape, "uint16".into(), 0.into(), bytes);
    (store.clone(), create_in(store, &document))
}

#[test]
fn of_an_uncompressed_chunk_only_what_is_wanted_is_read() {
    for endian in ["little", "big"] {
        let (store, array) = plain(&[64, 100, 50], endian);
        let data = noise(64 * 100 * 50 * 2, 1);
        write(&array, "", data.clone());
        store.reset();
        assert_eq!(read(&array, "7"), data[7 * 10_000..8 * 10_000]);
        assert_eq!((store.counts().reads, store.counts().bytes_read), (1, 10_000));
        store.reset();
        // The hole between the two rows costs more than a request.
        let expected: Vec<u8> = [3, 5].map(|z| &data[(z * 100 + 9) * 100 + 4..][..6]).concat();
        assert_eq!(read(&array, "3:6:2,9,2:5"), expected);
        assert_eq!((store.counts().reads, store.counts().bytes_read), (2, 12));
    }
}

#[test]
fn an_uncompressed_chunk_past_the_budget_is_read_in_pieces() {
    let (store, array) = plain(&[512, 256, 64], "little");
    let data = noise(512 * 256 * 64 * 2, 1);
    write(&array, "", data.clone());
    let options = shardine::EngineOptions::new().threads(2).memory(4 << 20);
    let engine = shardine::Engine::new(&options).unwrap();
    let array = ArrayNode::open(&engine, array.location()).unwrap();
    store.reset();
    assert!(read(&array, "") == data);
    assert!(store.counts().reads >= 32);
    assert_eq!(store.counts().bytes_read, data.len() as u64);
}
