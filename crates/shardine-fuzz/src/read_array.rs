//! A whole array in memory, with hostile metadata and hostile objects: a result or an error.
//!
//! Input: the choice of document, the region's text, a zero byte, one object's bytes. A choice past
//! the list means that a document comes first, up to a zero byte of its own.

use std::sync::{Arc, OnceLock};

use shardine::store::{Condition, Key, MemoryStore, StoreExt};
use shardine::zarr::metadata::{ArrayMetadata, NodeMetadata};
use shardine::{
    Array, ArrayNode, ElementSize, Elements, ElementsRef, Engine, EngineOptions, Location, Region,
    VariableElements, WriteOptions,
};

use crate::{joined, memory, split};

/// Small arrays: plain, sharded with the index at either end, nested shards, variable length.
pub const DOCUMENTS: &[&str] = &[
    r#"{"zarr_format":3,"node_type":"array","shape":[10,7],"data_type":"uint16","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4,4]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":7,"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}],"attributes":{"a":"b"},"dimension_names":["y",null]}"#,
    r#"{"zarr_format":3,"node_type":"array","shape":[12,9],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8,8]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[4,2],"codecs":[{"name":"bytes"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}]}"#,
    r#"{"zarr_format":3,"node_type":"array","shape":[12,9],"data_type":"float32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8,8]}},"chunk_key_encoding":{"name":"v2","configuration":{"separator":"."}},"fill_value":"NaN","codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"sharding_indexed","configuration":{"chunk_shape":[4,4],"codecs":[{"name":"bytes","configuration":{"endian":"big"}},{"name":"gzip","configuration":{"level":1}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"big"}}],"index_location":"start"}}]}"#,
    r#"{"zarr_format":3,"node_type":"array","shape":[20],"data_type":"int32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[16]}},"chunk_key_encoding":{"name":"default"},"fill_value":-1,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[8],"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2],"codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}]}"#,
    r#"{"zarr_format":3,"node_type":"array","shape":[6],"data_type":"string","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},"chunk_key_encoding":{"name":"default"},"fill_value":"none","codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2],"codecs":[{"name":"vlen-utf8"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}]}"#,
    r#"{"zarr_format":3,"node_type":"array","shape":[9,5],"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8,4]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2,4],"codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}],"index_location":"start"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}]}"#,
    r#"{"zarr_format":3,"node_type":"array","shape":[],"data_type":"bool","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[]}},"chunk_key_encoding":{"name":"default"},"fill_value":true,"codecs":[{"name":"bytes"},{"name":"crc32c"}]}"#,
];

/// Regions that the seeds read: all, a part of one chunk, a part of many, with steps.
const REGIONS: &[&str] = &["...", "1:3", "2:11", "::3"];

/// The most bytes of a region that is read here, and of a chunk that is written.
const MAX_BYTES: u64 = 1 << 20;

pub fn run(input: &[u8]) {
    let Some((&choice, rest)) = input.split_first() else { return };
    let (document, rest) = match DOCUMENTS.get(usize::from(choice)) {
        Some(text) => (text.as_bytes(), rest),
        None => split(rest),
    };
    let (region, object) = split(rest);
    let Some(region) = std::str::from_utf8(region).ok().and_then(|text| text.parse().ok()) else {
        return;
    };
    // A chunk of 64 MiB is accepted whatever its object is; some codecs pack 32 KiB into a byte,
    // and a shard behind them has no expected size.
    memory::bounded((256 << 20) + (128 << 10) * object.len(), || check(document, &region, object));
}

pub fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| match Engine::new(&EngineOptions::new().threads(1).memory(8 << 20)) {
        Ok(engine) => engine,
        Err(error) => panic!("{error}"),
    })
}

fn check(document: &[u8], region: &Region, object: &[u8]) {
    let store = MemoryStore::new();
    put(&store, "zarr.json", document);
    if let Ok(NodeMetadata::Array(metadata)) = NodeMetadata::parse(document) {
        for key in keys(&metadata) {
            put(&store, &key, object);
        }
    }
    let location = Location::root(Arc::new(store));
    let Ok(array) = ArrayNode::open(engine(), &location) else { return };
    let Ok(selection) = region.resolve(array.shape()) else { return };
    let size = match array.data_type().size() {
        ElementSize::Fixed(size) => size as u64,
        ElementSize::Variable => 16,
    };
    let small = |shape: &[u64]| {
        shape.iter().try_fold(size, |n, &d| n.checked_mul(d)).is_some_and(|n| n <= MAX_BYTES)
    };
    if !small(&selection.shape()) {
        return;
    }
    let count: u64 = selection.shape().iter().product();
    let answer = array.read_elements(region);
    match &answer {
        Ok(Elements::Fixed(bytes)) => assert_eq!(bytes.len() as u64, count * size),
        Ok(Elements::Variable(elements)) => assert_eq!(elements.len() as u64, count),
        Err(_) => {}
    }
    // A second read finds the index in the cache, and must agree.
    match (&answer, &array.read_elements(region)) {
        (Ok(first), Ok(second)) => assert!(first == second, "two reads differ"),
        (Err(_), Err(_)) => {}
        (first, second) => panic!("first {first:?}, then {second:?}"),
    }
    let _ = array.objects();
    let _ = array.shard_entries(&vec![0; array.shape().len()]);
    // Writing part of a chunk requires all of it in memory.
    if small(array.metadata().chunk_shape())
        && let Ok(elements) = answer
    {
        rewrite(&array, region, elements.as_ref());
    }
}

/// What was read can be written back, and reads the same.
fn rewrite(array: &Array, region: &Region, elements: ElementsRef<'_>) {
    // A shard whose other chunks are damaged may refuse.
    let Ok(_) = array.write_elements(region, elements, &WriteOptions::new()) else { return };
    match array.read_elements(region) {
        Ok(again) => assert!(again.as_ref() == elements, "writing what was read changed it"),
        Err(error) => panic!("what was written does not read: {error}"),
    }
}

fn put(store: &MemoryStore, key: &str, data: &[u8]) {
    if let Ok(key) = Key::new(key) {
        let _ = store.put(&key, data, Condition::None);
    }
}

/// The keys of a few objects at the beginning of an array.
pub fn keys(metadata: &ArrayMetadata) -> Vec<String> {
    let rank = metadata.shape().len();
    let mut cells = vec![vec![0; rank]];
    for axis in 0..rank.min(2) {
        let mut cell = vec![0; rank];
        cell[axis] = 1;
        cells.push(cell);
    }
    cells.iter().map(|cell| metadata.key_encoding().key(cell)).collect()
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (i, document) in DOCUMENTS.iter().enumerate() {
        let Some(object) = written(document) else { continue };
        for region in REGIONS {
            let rest = joined(&[region.as_bytes(), &object]);
            seeds.push([&[i as u8][..], &rest].concat());
        }
        let rest = joined(&[document.as_bytes(), b"...", &object]);
        seeds.push([&[0xff][..], &rest].concat());
    }
    seeds
}

/// The first object of an array that has been fully written.
pub fn written(document: &str) -> Option<Vec<u8>> {
    let Ok(NodeMetadata::Array(metadata)) = NodeMetadata::parse(document.as_bytes()) else {
        return None;
    };
    let store = Arc::new(MemoryStore::new());
    let first = Key::new(keys(&metadata).first()?).ok()?;
    let array = ArrayNode::create(engine(), &Location::root(store.clone()), metadata).ok()?;
    let count: u64 = array.shape().iter().product();
    let elements = match array.data_type().size() {
        ElementSize::Fixed(size) => {
            Elements::Fixed((0..count as usize * size).map(|k| (k % 2) as u8).collect())
        }
        ElementSize::Variable => Elements::Variable(
            (0..count).map(|k| format!("element {k}")).collect::<VariableElements>(),
        ),
    };
    array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).ok()?;
    Some(store.get(&first).ok()??.to_vec())
}
