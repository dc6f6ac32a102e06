//! Precomputed volumes, and damage done to them.

use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{Finding, VerifyOptions, VerifySummary};
use shardine::precomputed::{Volume, VolumeInfo};
use shardine::store::{Condition, Key, MemoryStore, StoreExt};
use shardine::{Elements, Location, WriteOptions};

use super::wrapped_store::{Tricks, WrappedStore};
use super::{engine, noise};

pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub fn get(at: &Location, object: &str) -> Vec<u8> {
    at.store.get(&key(object)).unwrap().unwrap().to_vec()
}

pub fn put(at: &Location, object: &str, bytes: &[u8]) {
    at.store.put(&key(object), bytes, Condition::None).unwrap();
}

pub fn remove(at: &Location, object: &str) {
    at.store.delete(&key(object), &Condition::None).unwrap();
}

pub fn exists(at: &Location, object: &str) -> bool {
    at.store.get(&key(object)).unwrap().is_some()
}

pub fn sharding(preshift: u32, minishard: u32, shard: u32, index: &str, data: &str) -> Value {
    json!({
        "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": preshift,
        "minishard_bits": minishard, "shard_bits": shard, "minishard_index_encoding": index,
        "data_encoding": data,
    })
}

/// Many of them, hashed and not.
pub fn shardings() -> Vec<Value> {
    let mut all = Vec::new();
    for (preshift, minishard, shard) in
        [(0, 0, 0), (0, 2, 2), (3, 1, 1), (0, 0, 6), (1, 6, 3), (64, 1, 1), (0, 3, 60)]
    {
        for (index, data) in [("raw", "raw"), ("gzip", "gzip"), ("raw", "gzip"), ("gzip", "raw")] {
            for hash in ["identity", "murmurhash3_x86_128"] {
                let mut sharding = sharding(preshift, minishard, shard, index, data);
                sharding["hash"] = hash.into();
                all.push(sharding);
            }
        }
    }
    all
}

/// A scale of uint8 chunks of 16 x 16 x 16 whose key is its resolution.
pub fn scale(resolution: &str, size: [u64; 3], sharding: Option<&Value>) -> Value {
    let nanometres: u64 = resolution.parse().unwrap();
    let mut scale = json!({
        "key": resolution, "size": size, "resolution": [nanometres, nanometres, nanometres],
        "voxel_offset": [0, 0, 0], "chunk_sizes": [[16, 16, 16]], "encoding": "raw",
    });
    if let Some(sharding) = sharding {
        scale["sharding"] = sharding.clone();
    }
    scale
}

pub fn volume_at(at: &Location, scales: &[Value]) -> Location {
    let info = json!({
        "@type": "neuroglancer_multiscale_volume", "type": "image", "data_type": "uint8",
        "num_channels": 1, "scales": scales,
    });
    let info = VolumeInfo::parse(info.to_string().as_bytes()).unwrap();
    Volume::create(&engine(), at, info).unwrap();
    at.clone()
}

/// A store in memory that is read as files are.
pub fn near() -> Location {
    let tricks = Tricks { near: true, ..Tricks::default() };
    Location::root(Arc::new(WrappedStore::new(MemoryStore::new(), tricks)))
}

pub fn volume(scales: &[Value]) -> Location {
    volume_at(&near(), scales)
}

pub fn write(at: &Location, level: usize, region: &str) {
    let array = Volume::open(&engine(), at).unwrap().array(level).unwrap();
    let region: shardine::Region = region.parse().unwrap();
    let shape = region.resolve(array.shape()).unwrap().shape().iter().product::<u64>();
    let elements = Elements::Fixed(noise(shape as usize, level as u64 + 1));
    array.write_elements(&region, elements.as_ref(), &WriteOptions::new()).unwrap();
}

pub fn fill(at: &Location, level: usize) {
    write(at, level, "");
}

pub fn read_all(at: &Location, level: usize) -> Elements {
    let array = Volume::open(&engine(), at).unwrap().array(level).unwrap();
    array.read_elements(shardine::Region::all()).unwrap()
}

pub fn edit_info(at: &Location, edit: impl FnOnce(&mut Value)) {
    let mut info: Value = serde_json::from_slice(&get(at, "info")).unwrap();
    edit(&mut info);
    put(at, "info", info.to_string().as_bytes());
}

pub fn check(at: &Location, decode: bool) -> (VerifySummary, Vec<Finding>) {
    super::findings::check_at(at, decode)
}

pub fn kinds(at: &Location, decode: bool) -> Vec<&'static str> {
    let options = VerifyOptions::new().decode(decode);
    let mut kinds = Vec::new();
    shardine::jobs::verify(&engine(), at, &options, &mut |finding| kinds.push(finding.kind.name()))
        .unwrap();
    kinds
}

pub fn only(findings: &[Finding]) -> &Finding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    &findings[0]
}

/// Key, start and length.
pub type Entry = (u64, u64, u64);

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The entries of a raw index.
fn entries(index: &[u8], table: usize) -> Vec<Entry> {
    let count = index.len() / 24;
    let (mut key, mut place) = (0u64, table as u64);
    let mut entries = Vec::new();
    for i in 0..count {
        key = key.wrapping_add(word(index, i * 8));
        let start = place.wrapping_add(word(index, (count + i) * 8));
        let len = word(index, (2 * count + i) * 8);
        entries.push((key, start, len));
        place = start.wrapping_add(len);
    }
    entries
}

/// A raw index.
fn index(entries: &[Entry], table: usize) -> Vec<u8> {
    let mut words = Vec::new();
    let mut before = 0u64;
    for (key, ..) in entries {
        words.push(key.wrapping_sub(before));
        before = *key;
    }
    let mut place = table as u64;
    for (_, start, len) in entries {
        words.push(start.wrapping_sub(place));
        place = start.wrapping_add(*len);
    }
    words.extend(entries.iter().map(|(_, _, len)| *len));
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The table's bytes, and where the index of a minishard lies.
fn place(shard: &[u8], bits: u64, minishard: usize) -> (usize, std::ops::Range<usize>) {
    let (table, pair) = (16usize << bits, minishard * 16);
    (table, table + word(shard, pair) as usize..table + word(shard, pair + 8) as usize)
}

/// Changes entries of the first minishard of a shard in place; its index is raw.
pub fn with_index(at: &Location, object: &str, edit: impl FnOnce(&mut [Entry])) {
    let bits = sharding_of(at, object)["minishard_bits"].as_u64().unwrap();
    let mut shard = get(at, object);
    let (table, range) = place(&shard, bits, 0);
    let mut entries = entries(&shard[range.clone()], table);
    edit(&mut entries);
    shard[range].copy_from_slice(&index(&entries, table));
    put(at, object, &shard);
}

/// A value with its minishard and key.
pub type Value64 = (usize, u64, Vec<u8>);

/// Rewrites a shard with other values, and without what lies between them.
pub fn with_values(at: &Location, object: &str, edit: impl FnOnce(&mut Vec<Value64>)) {
    let sharding = sharding_of(at, object);
    let bits = sharding["minishard_bits"].as_u64().unwrap();
    let compressed = sharding["minishard_index_encoding"] == "gzip";
    let shard = get(at, object);
    let mut values = Vec::new();
    for minishard in 0..1usize << bits {
        let (table, range) = place(&shard, bits, minishard);
        let bytes = &shard[range];
        let bytes = if compressed && !bytes.is_empty() { gunzip(bytes) } else { bytes.to_vec() };
        for (key, start, len) in entries(&bytes, table) {
            values.push((minishard, key, shard[start as usize..(start + len) as usize].to_vec()));
        }
    }
    edit(&mut values);
    put(at, object, &built(bits, compressed, &values));
}

/// A shard of these values.
pub fn built(bits: u64, compressed: bool, values: &[Value64]) -> Vec<u8> {
    let table = 16usize << bits;
    let mut shard = vec![0; table];
    let mut minishards = vec![Vec::new(); 1 << bits];
    for (minishard, key, value) in values {
        minishards[*minishard].push((*key, shard.len() as u64, value.len() as u64));
        shard.extend(value);
    }
    for (i, entries) in minishards.iter().enumerate().filter(|(_, entries)| !entries.is_empty()) {
        let bytes = index(entries, table);
        let bytes = if compressed { gzip(&bytes) } else { bytes };
        let start = (shard.len() - table) as u64;
        shard[i * 16..i * 16 + 8].copy_from_slice(&start.to_le_bytes());
        shard[i * 16 + 8..i * 16 + 16].copy_from_slice(&(start + bytes.len() as u64).to_le_bytes());
        shard.extend(bytes);
    }
    shard
}

/// Replaces the bytes of a key in a shard.
pub fn with_value(at: &Location, object: &str, key: u64, value: &[u8]) {
    with_values(at, object, |values| {
        values.iter_mut().find(|(_, k, _)| *k == key).unwrap().2 = value.to_vec();
    });
}

fn sharding_of(at: &Location, object: &str) -> Value {
    let info: Value = serde_json::from_slice(&get(at, "info")).unwrap();
    if let Some(sharding) = info.get("sharding") {
        return sharding.clone();
    }
    let folder = object.rsplit_once('/').unwrap().0;
    let scales = info["scales"].as_array().unwrap();
    scales.iter().find(|scale| scale["key"] == folder).unwrap()["sharding"].clone()
}

/// gzip in stored blocks, made by hand.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(stored(bytes));
    out.extend(crc32(bytes).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

/// zlib in stored blocks, made by hand.
pub fn zlib(bytes: &[u8]) -> Vec<u8> {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65521;
        (a, (b + a) % 65521)
    });
    let mut out = vec![0x78, 0x9c];
    out.extend(stored(bytes));
    out.extend((b << 16 | a).to_be_bytes());
    out
}

fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let last = bytes.len().saturating_sub(1) / 65535;
    for i in 0..=last {
        let block = &bytes[i * 65535..bytes.len().min((i + 1) * 65535)];
        out.push(u8::from(i == last));
        out.extend((block.len() as u16).to_le_bytes());
        out.extend((!(block.len() as u16)).to_le_bytes());
        out.extend(block);
    }
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    let byte = |crc: u32, &b: &u8| (0..8).fold(crc ^ u32::from(b), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

fn codec(name: &str) -> Arc<dyn shardine_codec::BytesToBytes> {
    use shardine_codec::{Codec, CodecSpec, from_spec};
    let mut configuration = serde_json::Map::from_iter([("level".to_owned(), 6.into())]);
    if name == "zstd" {
        configuration.insert("checksum".to_owned(), false.into());
    }
    let spec = CodecSpec { name: name.into(), configuration, must_understand: true };
    let Ok(Codec::BytesToBytes(codec)) = from_spec(&spec) else { panic!("no {name}") };
    codec
}

/// Bytes as a codec stores them.
pub fn encoded(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    codec(name).encode(&mut shardine_codec::Context::default(), bytes, &mut out).unwrap();
    out
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    codec("gzip")
        .decode(&mut shardine_codec::Context::default(), bytes, 1 << 20, &mut out)
        .unwrap();
    out
}
