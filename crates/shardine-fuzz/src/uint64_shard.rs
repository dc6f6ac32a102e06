//! A precomputed volume, or a folder of meshes, with a hostile shard: listed, read, verified and
//! repaired. Whatever is reported sound can be read, and whatever was repaired is sound.
//!
//! Input: the choice of document, then the bytes of a shard. A choice past the list means that a
//! document comes first, up to a zero byte.

use std::sync::Arc;

use serde_json::Value;
use shardine::jobs::{FindingKind, RepairOptions, VerifyOptions, VerifySummary, repair, verify};
use shardine::precomputed::Volume;
use shardine::precomputed::{KeyValueStore, KeyValues};
use shardine::store::{Condition, Key, MemoryStore, StoreExt};
use shardine::{Elements, Engine, Error, Location, Region, WriteOptions};

use crate::read_array::engine;
use crate::{memory, split};

/// Raw and compressed, with one minishard and with several, hashed and not; then meshes and
/// skeletons.
const DOCUMENTS: &[&str] = &[
    r#"{"data_type":"uint8","num_channels":1,"type":"image","scales":[{"key":"1","size":[9,8,5],"resolution":[1,1,1],"chunk_sizes":[[4,4,4]],"encoding":"raw","sharding":{"@type":"neuroglancer_uint64_sharded_v1","hash":"identity","preshift_bits":0,"minishard_bits":0,"shard_bits":0}}]}"#,
    r#"{"data_type":"uint16","num_channels":2,"type":"image","scales":[{"key":"1","size":[9,8,5],"resolution":[1,1,1],"chunk_sizes":[[4,4,4]],"encoding":"raw","sharding":{"@type":"neuroglancer_uint64_sharded_v1","hash":"identity","preshift_bits":1,"minishard_bits":2,"shard_bits":1,"minishard_index_encoding":"gzip","data_encoding":"gzip"}}]}"#,
    r#"{"data_type":"uint8","num_channels":1,"type":"image","scales":[{"key":"1","size":[16,8,8],"resolution":[1,1,1],"chunk_sizes":[[4,4,4]],"encoding":"raw","sharding":{"@type":"neuroglancer_uint64_sharded_v1","hash":"murmurhash3_x86_128","preshift_bits":0,"minishard_bits":1,"shard_bits":1,"data_encoding":"gzip"}},{"key":"2","size":[8,4,4],"resolution":[2,2,2],"chunk_sizes":[[4,4,4]],"encoding":"raw"}]}"#,
    r#"{"@type":"neuroglancer_multilod_draco","sharding":{"@type":"neuroglancer_uint64_sharded_v1","hash":"identity","preshift_bits":0,"minishard_bits":1,"shard_bits":1,"data_encoding":"raw"}}"#,
    r#"{"@type":"neuroglancer_skeletons","sharding":{"@type":"neuroglancer_uint64_sharded_v1","hash":"murmurhash3_x86_128","preshift_bits":0,"minishard_bits":1,"shard_bits":1,"minishard_index_encoding":"gzip","data_encoding":"gzip"}}"#,
];

/// The most chunks and voxels of a volume that is checked here.
const MAX_CELLS: u64 = 1 << 12;
const MAX_VOXELS: u64 = 1 << 18;

pub fn run(input: &[u8]) {
    let Some((&choice, rest)) = input.split_first() else { return };
    let (document, shard) = match DOCUMENTS.get(usize::from(choice)) {
        Some(text) => (text.as_bytes(), rest),
        None => split(rest),
    };
    memory::bounded((256 << 20) + (256 << 10) * input.len(), || check(document, shard));
}

/// What `verify` reports, and whether there was anything it could not check.
fn verified(engine: &Arc<Engine>, location: &Location) -> Option<(VerifySummary, bool)> {
    let mut unchecked = false;
    let options = VerifyOptions::new().decode(true);
    let summary = verify(engine, location, &options, &mut |finding| {
        unchecked |= finding.kind == FindingKind::NotChecked;
    });
    summary.ok().map(|summary| (summary, unchecked))
}

/// What readers see: all voxels of a volume, all values of other data.
fn read(engine: &Arc<Engine>, location: &Location) -> Result<Vec<Elements>, Error> {
    if let Ok(volume) = Volume::open(engine, location) {
        let levels = 0..volume.info().scales().len();
        return levels.map(|level| volume.array(level)?.read_elements(Region::all())).collect();
    }
    let store = KeyValueStore::open(engine, location)?;
    let mut keys = Vec::new();
    store.list(|listed| keys.push(listed.key))?;
    let values = keys.into_iter().filter_map(|key| store.get(key).transpose());
    values.map(|value| value.map(Elements::Fixed)).collect()
}

/// Whether a document describes something small, or nothing.
fn is_small(document: &[u8]) -> bool {
    let Ok(info) = shardine::precomputed::VolumeInfo::parse(document) else { return true };
    let product = |numbers: [u64; 3]| numbers.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
    info.channels() <= 4
        && info.scales().len() <= 4
        && info.scales().iter().all(|scale| {
            let voxels = product(scale.size).is_some_and(|voxels| voxels <= MAX_VOXELS);
            voxels && product(scale.grid()).is_some_and(|cells| cells <= MAX_CELLS)
        })
}

fn put(store: &MemoryStore, key: &str, data: &[u8]) {
    if let Ok(key) = Key::new(key) {
        let _ = store.put(&key, data, Condition::None);
    }
}

fn check(document: &[u8], shard: &[u8]) {
    if !is_small(document) {
        return;
    }
    let (store, aside) = (MemoryStore::new(), MemoryStore::new());
    put(&store, "info", document);
    for name in ["0.shard", "1/0.shard", "1/1.shard"] {
        put(&store, name, shard);
    }
    let engine = engine();
    let location = Location::root(Arc::new(store));
    let Some((before, unchecked)) = verified(engine, &location) else { return };
    let answer = read(engine, &location);
    if before.is_ok() && !unchecked {
        assert!(answer.is_ok(), "no damage, and yet: {answer:?}");
    }
    let options =
        RepairOptions::new(Location::root(Arc::new(aside))).decode(true).accept_loss(true);
    let left = match repair(engine, &location, &options, &mut |_| {}) {
        Ok(summary) => summary.left,
        Err(error) => panic!("repair: {error}"),
    };
    let Some((after, unchecked)) = verified(engine, &location) else {
        panic!("nothing to check after a repair");
    };
    assert!(after.is_ok() || left > 0, "{after:?} after a repair that left nothing");
    if before.is_ok()
        && let Ok(answer) = &answer
    {
        assert!(read(engine, &location).is_ok_and(|again| again == *answer), "repair changed it");
    }
    if after.is_ok() && !unchecked {
        let mended = read(engine, &location);
        assert!(mended.is_ok(), "mended, and yet: {mended:?}");
    }
}

/// The shard with number 0 that is written for a document.
fn written(document: &str) -> Option<Vec<u8>> {
    let (store, engine) = (MemoryStore::new(), engine());
    put(&store, "info", document.as_bytes());
    let location = Location::root(Arc::new(store.clone()));
    let is_volume = serde_json::from_str::<Value>(document).ok()?.get("scales").is_some();
    let name = if is_volume {
        let array = Volume::open(engine, &location).ok()?.array(0).ok()?;
        let size = array.data_type().size();
        let bytes = match size {
            shardine::ElementSize::Fixed(bytes) => bytes as u64,
            shardine::ElementSize::Variable => return None,
        };
        let len = array.shape().iter().product::<u64>() * bytes;
        let elements = Elements::Fixed((0..len).map(|i| (i % 251) as u8 | 1).collect());
        array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).ok()?;
        "1/0.shard"
    } else {
        let words = [&[0u32; 6][..], &[1], &[0; 4], &[1], &[0, 0, 0, 5]].concat();
        let manifest: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let values = (0..12).fold(KeyValues::new(), |values, key| {
            values.put_mesh(key, manifest.clone(), vec![key as u8; 5])
        });
        KeyValueStore::open(engine, &location).ok()?.update(&values).ok()?;
        "0.shard"
    };
    let key = Key::new(name).ok()?;
    Some(store.get(&key).ok()??.to_vec())
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (choice, document) in DOCUMENTS.iter().enumerate() {
        let Some(shard) = written(document) else { continue };
        seeds.push([&[choice as u8][..], &shard].concat());
        seeds.push([&[u8::MAX][..], document.as_bytes(), &[0], &shard].concat());
    }
    seeds
}
