//! The arrays that the benchmarks in `benches` work on.

pub mod callgrind;

use std::sync::Arc;

use shardine::store::MemoryStore;
use shardine::zarr::metadata::NodeMetadata;
use shardine::{Array, ElementsRef, Engine, EngineOptions, Location, Region, WriteOptions};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Edge of the one shard; its inner chunks have an edge of 32.
pub const SHARD: u64 = 128;

/// An array of one shard in memory, and a buffer for what is read from it.
pub struct Subject {
    pub array: Array,
    pub buffer: Vec<u8>,
}

/// Elements that compress as an image does: smooth, with four bits of noise.
pub fn elements() -> Vec<u8> {
    let mut noise = 7u64;
    let mut out = Vec::new();
    for i in 0..SHARD * SHARD * SHARD {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (z, y, x) = (i / (SHARD * SHARD), i / SHARD % SHARD, i % SHARD);
        let value = 20 * z + 30 * y + 10 * x + (noise >> 60);
        out.extend_from_slice(&(value as u16).to_le_bytes());
    }
    out
}

/// An empty array, with the codecs of its chunks after `bytes` as JSON.
pub fn empty(codecs: &str) -> Result<Array> {
    let document = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{SHARD}, {SHARD}, {SHARD}], "data_type": "uint16",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{SHARD}, {SHARD}, {SHARD}]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0,
        "codecs": [{{"name": "sharding_indexed", "configuration": {{
            "chunk_shape": [32, 32, 32],
            "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}{codecs}],
            "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}, {{"name": "crc32c"}}]}}}}]}}"#
    );
    let NodeMetadata::Array(metadata) = NodeMetadata::parse(document.as_bytes())? else {
        return Err("the metadata is not an array's".into());
    };
    // One thread: the count must not depend on who finds which piece of work first.
    let engine = Engine::new(&EngineOptions::new().threads(1))?;
    let location = Location::root(Arc::new(MemoryStore::new()));
    Ok(Array::create(&engine, &location, metadata, false)?)
}

/// The same with its elements written, every path walked once, and a buffer of `len` bytes.
pub fn filled(codecs: &str, len: usize) -> Result<Subject> {
    let array = empty(codecs)?;
    let elements = elements();
    array.write(&Region::all(), ElementsRef::Fixed(&elements), &WriteOptions::new())?;
    let mut whole = vec![0; elements.len()];
    array.read_into(&Region::all(), &mut whole)?;
    array.read(&Region::of_box(&[32; 3], &[32; 3]))?;
    assert!(whole == elements, "what was written is not what is read");
    whole.truncate(len);
    Ok(Subject { array, buffer: whole })
}
