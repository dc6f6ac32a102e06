//! Arrays with a model of their contents.
#![allow(dead_code, reason = "each test crate uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may panic")]

pub mod data_set;
pub mod findings;
pub mod odd_store;
pub mod ome;
pub mod ome5;
pub mod volumes;
pub mod wkw;
pub mod wrapped_store;

use std::sync::Arc;

use serde_json::{Value, json};
use shardine::store::{MemoryStore, Store};
use shardine::zarr::metadata::{ArrayMetadata, NodeMetadata};
use shardine::{Array, ArrayNode, Elements, Engine, EngineOptions, Location, Region, WriteOptions};

pub fn metadata(document: &Value) -> ArrayMetadata {
    match NodeMetadata::parse(document.to_string().as_bytes()).unwrap() {
        NodeMetadata::Array(metadata) => metadata,
        NodeMetadata::Group(_) => panic!("not an array"),
    }
}

pub fn document(
    shape: &[u64],
    chunk: &[u64],
    data_type: Value,
    fill: Value,
    codecs: Value,
) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": fill, "codecs": codecs,
    })
}

pub fn bytes() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}

pub fn zstd() -> Value {
    json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}})
}

pub fn sharding(chunk: &[u64], codecs: Value) -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk, "codecs": codecs, "index_codecs": [bytes(), "crc32c"],
    }})
}

/// A uint16 array of zstd chunks in shards.
pub fn sharded(shape: &[u64], shard: &[u64], chunk: &[u64]) -> Value {
    let codecs = json!([sharding(chunk, json!([bytes(), zstd()]))]);
    document(shape, shard, "uint16".into(), 0.into(), codecs)
}

pub fn engine() -> Arc<Engine> {
    Engine::new(&EngineOptions::new().threads(2)).unwrap()
}

pub fn create_in(store: Arc<dyn Store>, document: &Value) -> ArrayNode {
    ArrayNode::create(&engine(), &Location::root(store), metadata(document)).unwrap()
}

pub fn create(document: &Value) -> ArrayNode {
    create_in(Arc::new(MemoryStore::new()), document)
}

/// Reopens the array, with nothing cached.
pub fn reopen(array: &Array) -> ArrayNode {
    ArrayNode::open(&engine(), array.location()).unwrap()
}

pub fn write(array: &Array, region: &str, elements: Vec<u8>) {
    let region: Region = region.parse().unwrap();
    array
        .write_elements(&region, Elements::Fixed(elements).as_ref(), &WriteOptions::new())
        .unwrap();
}

pub fn read(array: &Array, region: &str) -> Vec<u8> {
    array.read_elements(region).unwrap().into_fixed().unwrap()
}

/// Bytes that do not repeat soon and are never zero.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8 | 1
        })
        .collect()
}
