//! Writes of many regions in one call: the same result as one after another, but each shard changes
//! in one step.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::store::{Call, CountingStore, FileStore, MemoryStore, Store};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{
    ArrayNode, Elements, ElementsRef, Engine, EngineOptions, Location, Region, Strategy as Change,
    VariableElements, WriteOptions,
};

const SHAPE: [u64; 2] = [40, 36];

fn sharding(chunk: [u64; 2], inner: Value, location: &str) -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk, "codecs": inner, "index_location": location,
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]}})
}

/// Plain, sharded, compressed, in nested shards, transposed, encoded as a whole, and after a
/// `delta`.
fn codecs() -> Vec<Value> {
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let inner = sharding([4, 4], json!(["bytes", zstd]), "end");
    vec![
        json!(["bytes"]),
        json!([sharding([4, 4], json!(["bytes"]), "end")]),
        json!([sharding([4, 4], json!(["bytes", zstd]), "start")]),
        json!([sharding([8, 8], json!([inner]), "start")]),
        json!([{"name": "transpose", "configuration": {"order": [1, 0]}},
               sharding([4, 8], json!(["bytes", zstd]), "end")]),
        json!([sharding([4, 4], json!(["bytes"]), "end"), zstd]),
        json!([{"name": "numcodecs.delta", "configuration": {"dtype": "|u1"}},
               sharding([4, 4], json!(["bytes"]), "end")]),
    ]
}

fn create(store: Arc<dyn Store>, codecs: Value, data_type: &str, fill: Value) -> ArrayNode {
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": SHAPE, "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 16]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": fill, "codecs": codecs,
    });
    let NodeMetadata::Array(metadata) =
        NodeMetadata::parse(document.to_string().as_bytes()).unwrap()
    else {
        panic!("it is an array")
    };
    let engine = Engine::new(&EngineOptions::new().threads(2)).unwrap();
    ArrayNode::create(&engine, &Location::root(store), metadata).unwrap()
}

type Part = ([u64; 2], [u64; 2], u8);

fn part() -> impl Strategy<Value = Part> {
    let axis = |len: u64| (0..len).prop_flat_map(move |start| (Just(start), 1..=len - start));
    (axis(SHAPE[0]), axis(SHAPE[1]), 0..4u8)
        .prop_map(|((a, n), (b, m), value)| ([a, b], [n, m], value))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn many_at_once_are_as_good_as_one_after_the_other(
        batches in prop::collection::vec(prop::collection::vec(part(), 0..5), 1..4),
        codecs in prop::sample::select(codecs()),
        strategy in prop::sample::select(vec![Change::Auto, Change::InPlace, Change::Append]),
        on_disk: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = match on_disk {
            true => Arc::new(FileStore::new(folder.path())),
            false => Arc::new(MemoryStore::new()),
        };
        let opaque = codecs.as_array().unwrap().len() > 1 && codecs[0]["name"] != "transpose";
        let strategy = if on_disk && !opaque { strategy } else { Change::Auto };
        let array = create(store, codecs, "uint8", 0.into());
        let mut model = vec![0; (SHAPE[0] * SHAPE[1]) as usize];
        for batch in batches {
            let regions: Vec<Region> =
                batch.iter().map(|(start, shape, _)| Region::of_box(start, shape)).collect();
            let data: Vec<Vec<u8>> = batch
                .iter()
                .map(|(_, shape, value)| {
                    (0..shape[0] * shape[1]).map(|i| value * (i % 3) as u8).collect()
                })
                .collect();
            let elements = data.iter().map(|data| ElementsRef::Fixed(data));
            let parts: Vec<_> = regions.iter().zip(elements).collect();
            array.write_many_elements(&parts, &WriteOptions::new().strategy(strategy)).unwrap();
            for ((start, shape, _), data) in batch.iter().zip(&data) {
                for (i, &byte) in data.iter().enumerate() {
                    let i = i as u64;
                    let at = (start[0] + i / shape[1]) * SHAPE[1] + start[1] + i % shape[1];
                    model[at as usize] = byte;
                }
            }
            prop_assert_eq!(array.read_elements(Region::all()).unwrap(), Elements::Fixed(model.clone()));
        }
    }
}

#[test]
fn each_object_is_published_once_however_many_regions_touch_it() {
    for codecs in codecs() {
        let store = Arc::new(CountingStore::new(MemoryStore::new()));
        let array = create(store.clone(), codecs, "uint8", 0.into());
        let regions: Vec<Region> = (0..12).map(|i| Region::of_box(&[i, 2 * i], &[20, 3])).collect();
        let data = [1; 60];
        let parts: Vec<_> = regions.iter().map(|r| (r, ElementsRef::Fixed(&data))).collect();
        store.reset();
        let report = array.write_many_elements(&parts, &WriteOptions::new()).unwrap();
        let published = store.calls().into_iter().filter_map(|call| match call {
            Call::Publish { keys } => Some(keys),
            _ => None,
        });
        let mut keys: Vec<_> = published.flatten().collect();
        assert_eq!(keys.len() as u64, report.objects_written);
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len() as u64, report.objects_written);
    }
}

#[test]
fn strings_in_many_regions_are_each_in_their_place() {
    let codecs = json!([sharding([4, 4], json!(["vlen-utf8"]), "end")]);
    let array = create(Arc::new(MemoryStore::new()), codecs, "string", "none".into());
    let (first, second) = (Region::of_box(&[0, 0], &[5, 1]), Region::of_box(&[2, 0], &[2, 2]));
    let a: VariableElements = ["a", "b", "c", "d", "e"].iter().collect();
    let b: VariableElements = ["w", "x", "y", "z"].iter().collect();
    let parts = [(&first, ElementsRef::Variable(&a)), (&second, ElementsRef::Variable(&b))];
    array.write_many_elements(&parts, &WriteOptions::new()).unwrap();
    let found = array.read_elements(Region::of_box(&[0, 0], &[5, 2])).unwrap();
    let expected: VariableElements =
        ["a", "none", "b", "none", "w", "x", "y", "z", "e", "none"].iter().collect();
    assert_eq!(found, Elements::Variable(expected));
}

#[test]
fn a_region_that_is_wrong_is_told_before_anything_is_written() {
    let array = create(Arc::new(MemoryStore::new()), codecs().remove(1), "uint8", 0.into());
    let (good, bad) = (Region::of_box(&[0, 0], &[1, 1]), Region::of_box(&[0, 0], &[2, 2]));
    let parts = [(&good, ElementsRef::Fixed(&[1])), (&bad, ElementsRef::Fixed(&[1]))];
    assert!(array.write_many_elements(&parts, &WriteOptions::new()).is_err());
    assert!(array.objects().unwrap().is_empty());
    assert_eq!(array.write_many_elements(&[], &WriteOptions::new()).unwrap().objects_written, 0);
}
