//! A hierarchy to copy, and everything in a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::store::{Condition, Key, MemoryStore, Store, StoreExt};
use shardine::{ArrayNode, Location};

use super::{bytes, document, engine, metadata, noise, sharded, write};

pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub fn put(store: &dyn Store, name: &str, data: &[u8]) {
    store.put(&key(name), data, Condition::None).unwrap();
}

/// Every object of a store with its bytes.
pub fn dump(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![None];
    while let Some(folder) = waiting.pop() {
        let listing = store.list(folder.as_ref()).unwrap();
        for (key, len) in listing.objects {
            let data = store.get(&key).unwrap().unwrap().to_vec();
            assert_eq!(data.len() as u64, len);
            found.insert(key.to_string(), data);
        }
        waiting.extend(listing.folders.into_iter().map(Some));
    }
    found
}

pub fn group(consolidated: &[(&str, &Value)]) -> Value {
    let mut group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    if !consolidated.is_empty() {
        let nodes: serde_json::Map<String, Value> =
            consolidated.iter().map(|(name, node)| ((*name).to_owned(), (*node).clone())).collect();
        group["consolidated_metadata"] =
            json!({"kind": "inline", "must_understand": false, "metadata": nodes});
    }
    group
}

/// The documents of the arrays `g/sharded` and `plain`.
pub fn arrays() -> [Value; 2] {
    let plain = document(&[7], &[2], "uint8".into(), 0.into(), json!([bytes()]));
    [sharded(&[64, 48], &[32, 16], &[8, 8]), plain]
}

/// Nested groups, a sharded and an unsharded array with holes, and nothing else. The root's
/// metadata names all nodes.
pub fn zarr_only(store: &Arc<dyn Store>) {
    let [sharded, plain] = arrays();
    let inner = group(&[]);
    let nodes = [("g", &inner), ("g/sharded", &sharded), ("plain", &plain)];
    put(store, "zarr.json", group(&nodes).to_string().as_bytes());
    put(store, "g/zarr.json", inner.to_string().as_bytes());
    let root = Location::root(Arc::clone(store));
    for (name, document, region, len) in
        [("g/sharded", &sharded, "0:40,:", 40 * 48 * 2), ("plain", &plain, "2:7", 5)]
    {
        let at = root.join(name).unwrap();
        let array = ArrayNode::create(&engine(), &at, metadata(document)).unwrap();
        write(&array, region, noise(len, 1));
    }
}

/// The same with objects written by other tools, an empty one, and large ones.
pub fn hierarchy(store: &Arc<dyn Store>) {
    zarr_only(store);
    put(store, "notes.txt", b"not Zarr at all");
    put(store, "g/empty", b"");
    put(store, "old/.zgroup", b"{\"zarr_format\": 2}");
    put(store, "old/.zattrs", b"{}");
    put(store, "old/.zmetadata", b"{\"metadata\": {}}");
    put(store, "old/a/.zarray", b"{\"zarr_format\": 2, \"shape\": [1]}");
    put(store, "old/a/0", b"0123456789");
    put(store, "pre/info", b"{\"@type\": \"neuroglancer_multiscale_volume\"}");
    put(store, "pre/1_1_1/0-64_0-64_0-64", &noise(3_000, 2));
    put(store, "large/one", &noise(200_001, 3));
    put(store, "large/two", &noise(65_536, 4));
    for i in 0..40 {
        put(store, &format!("many/{}/{i}", i % 3), &noise(i * 37, i as u64));
    }
}

pub fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

pub fn at(store: &Arc<dyn Store>) -> Location {
    Location::root(Arc::clone(store))
}
