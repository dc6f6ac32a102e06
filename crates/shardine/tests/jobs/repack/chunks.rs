//! The encoded chunks of an array, extracted without the library: from the metadata as JSON and the
//! bytes of objects.

use std::collections::BTreeMap;

use serde_json::Value;
use shardine::Array;
use shardine::store::StoreExt;

/// Each innermost chunk that lies in the array, by the first of its elements.
pub type Chunks = BTreeMap<Vec<u64>, Vec<u8>>;

/// The chunks of an array as they are stored.
pub fn encoded(array: &Array) -> Chunks {
    let document = document(array);
    let shape = numbers(&document["chunk_grid"]["configuration"]["chunk_shape"]);
    let codecs = document["codecs"].as_array().unwrap();
    let mut found = Chunks::new();
    for object in array.objects().unwrap() {
        let bytes = array.location().store.get(&object.key).unwrap().unwrap();
        let first: Vec<u64> = object.cell.iter().zip(&shape).map(|(c, s)| c * s).collect();
        for (origin, chunk) in inner(codecs, &shape, &bytes) {
            let origin: Vec<u64> = origin.iter().zip(&first).map(|(o, f)| o + f).collect();
            if origin.iter().zip(array.shape()).all(|(o, s)| o < s) {
                found.insert(origin, chunk);
            }
        }
    }
    found
}

/// The array's own `zarr.json`.
pub fn document(array: &Array) -> Value {
    let key = array.location().key("zarr.json").unwrap();
    serde_json::from_slice(&array.location().store.get(&key).unwrap().unwrap()).unwrap()
}

pub fn name(codec: &Value) -> &str {
    codec.as_str().or(codec["name"].as_str()).unwrap()
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

/// The chunks in an object, or the object itself if its codecs have no shards.
fn inner(codecs: &[Value], shape: &[u64], bytes: &[u8]) -> Vec<(Vec<u64>, Vec<u8>)> {
    let Some(at) = codecs.iter().position(|codec| name(codec) == "sharding_indexed") else {
        return vec![(vec![0; shape.len()], bytes.to_vec())];
    };
    let mut bytes = bytes;
    for codec in &codecs[at + 1..] {
        assert_eq!(name(codec), "crc32c");
        bytes = &bytes[..bytes.len() - 4];
    }
    let orders: Vec<Vec<u64>> = codecs[..at]
        .iter()
        .filter(|codec| name(codec) == "transpose")
        .map(|codec| numbers(&codec["configuration"]["order"]))
        .collect();
    let mut shape = shape.to_vec();
    for order in &orders {
        shape = order.iter().map(|&k| shape[k as usize]).collect();
    }
    let configuration = &codecs[at]["configuration"];
    let mut found = Vec::new();
    let chunk = numbers(&configuration["chunk_shape"]);
    let grid: Vec<u64> = shape.iter().zip(&chunk).map(|(s, c)| s / c).collect();
    for (i, range) in index(configuration, grid.iter().product(), bytes).into_iter().enumerate() {
        let Some(range) = range else { continue };
        let mut rest = i as u64;
        let mut first = vec![0; grid.len()];
        for axis in (0..grid.len()).rev() {
            first[axis] = rest % grid[axis] * chunk[axis];
            rest /= grid[axis];
        }
        let codecs = configuration["codecs"].as_array().unwrap();
        for (origin, bytes) in inner(codecs, &chunk, &bytes[range]) {
            let mut origin: Vec<u64> = origin.iter().zip(&first).map(|(o, f)| o + f).collect();
            for order in orders.iter().rev() {
                let mut turned = vec![0; origin.len()];
                order.iter().zip(&origin).for_each(|(&k, &o)| turned[k as usize] = o);
                origin = turned;
            }
            found.push((origin, bytes));
        }
    }
    found
}

/// Where the index says that chunks are.
fn index(configuration: &Value, count: u64, shard: &[u8]) -> Vec<Option<std::ops::Range<usize>>> {
    let codecs = configuration["index_codecs"].as_array().unwrap();
    let checked = codecs.iter().any(|codec| name(codec) == "crc32c");
    let big = codecs.iter().any(|codec| codec["configuration"]["endian"] == "big");
    let len = count as usize * 16 + if checked { 4 } else { 0 };
    let bytes = match configuration["index_location"].as_str() {
        Some("start") => &shard[..len],
        _ => &shard[shard.len() - len..],
    };
    let number = |bytes: &[u8]| {
        let bytes = bytes.try_into().unwrap();
        if big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    };
    bytes[..count as usize * 16]
        .chunks(16)
        .map(|entry| match (number(&entry[..8]), number(&entry[8..])) {
            (u64::MAX, u64::MAX) => None,
            (start, len) => Some(start as usize..(start + len) as usize),
        })
        .collect()
}
