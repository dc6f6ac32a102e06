//! An entry that reaches into the index of its shard is an error wherever it is used: the index
//! holds no elements.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use crate::common;

use std::sync::Arc;

use common::*;
use serde_json::{Value, json};
use shardine::jobs::{CompactOptions, RepackOptions, compact, repack};
use shardine::precomputed::{KeyValueStore, KeyValues};
use shardine::shard::ShardError;
use shardine::store::FileStore;
use shardine::{
    ArrayNode, Elements, EngineError, Error, Location, Packing, Region, Strategy, WriteOptions,
};
use tempfile::TempDir;

/// An array of one shard of 2 x 2 plain chunks of 16 bytes, and its index.
const INDEX: usize = 4 * 16 + 4;

fn plain(location: &str) -> Value {
    let codecs = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [4, 4], "codecs": [bytes()], "index_codecs": [bytes(), "crc32c"],
        "index_location": location,
    }}]);
    document(&[8, 8], &[8, 8], "uint8".into(), 0.into(), codecs)
}

/// The array with the entry of the second chunk pointing to this byte.
fn with_entry(location: &str, offset: u64) -> (ArrayNode, TempDir) {
    let folder = TempDir::new().unwrap();
    let array = create_in(Arc::new(FileStore::new(folder.path())), &plain(location));
    write(&array, "", (1..65).collect());
    let path = folder.path().join("c/0/0");
    let mut shard = std::fs::read(&path).unwrap();
    assert_eq!(shard.len(), 64 + INDEX);
    let start = if location == "start" { 0 } else { 64 };
    let index = &mut shard[start..start + INDEX];
    index[16..24].copy_from_slice(&offset.to_le_bytes());
    let checksum = crc32c::crc32c(&index[..INDEX - 4]);
    index[INDEX - 4..].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&path, shard).unwrap();
    (reopen(&array), folder)
}

/// Positions of 16 bytes of which some, or all, belong to the index.
fn cases() -> impl Iterator<Item = (&'static str, u64)> {
    let (start, end) = ([0, 40, 67], [49, 64, 100]);
    start.map(|at| ("start", at)).into_iter().chain(end.map(|at| ("end", at)))
}

fn is_in_index(error: &Error) -> bool {
    matches!(error, Error::Engine(EngineError::Shard { source, .. }) if matches!(**source, ShardError::InIndex { entry: 1, .. }))
}

#[test]
fn a_read_of_such_a_chunk_is_an_error_and_the_others_are_read() {
    for (location, offset) in cases() {
        let (array, _folder) = with_entry(location, offset);
        // The first read has no cached plan; later ones take the fast path for one chunk.
        for region in ["0:4,4:8", "0:4,4:8", "1,5", "", "0:1,:", "0:4,4:8"] {
            let error = array.read_elements(region).unwrap_err();
            assert!(is_in_index(&error), "{location} {offset}: {error}");
        }
        assert_eq!(read(&array, "4,0:2"), [33, 34]);
        assert!(array.shard_entries(&[0, 0]).is_err());
    }
}

#[test]
fn nothing_that_keeps_the_entry_moves_the_bytes_of_the_index() {
    for (location, offset) in cases() {
        for strategy in [Strategy::Rewrite, Strategy::InPlace, Strategy::Append, Strategy::Auto] {
            let (array, folder) = with_entry(location, offset);
            let before = std::fs::read(folder.path().join("c/0/0")).unwrap();
            let options = WriteOptions::new().strategy(strategy);
            let patch = Elements::Fixed(vec![9; 4]);
            for region in ["6:8,6:8", "0:2,5:7"] {
                let region: Region = region.parse().unwrap();
                let error = array.write_elements(&region, patch.as_ref(), &options).unwrap_err();
                assert!(
                    matches!(
                        error,
                        Error::Engine(EngineError::Shard { .. })
                            | Error::Engine(EngineError::Encode { .. })
                    ),
                    "{error}"
                );
            }
            assert_eq!(std::fs::read(folder.path().join("c/0/0")).unwrap(), before);
        }
        let (array, folder) = with_entry(location, offset);
        let options = CompactOptions::new();
        let compacted = compact(&engine(), array.location(), &options, &mut |_| {}).unwrap();
        assert_eq!((compacted.compacted, compacted.failed), (0, 1));
        let target = TempDir::new().unwrap();
        let to = Location::parse(target.path().join("new").to_str().unwrap()).unwrap();
        let options = RepackOptions::new().packing(Packing::Unsharded);
        let from = Location::parse(folder.path().to_str().unwrap()).unwrap();
        let error = repack(&engine(), &from, Some(&to), &options, &mut |_| {}).unwrap_err();
        assert!(is_in_index(&error), "{error}");
    }
}

#[test]
fn writing_the_whole_chunk_again_mends_it() {
    for (location, offset) in cases() {
        for strategy in [Strategy::Rewrite, Strategy::InPlace, Strategy::Append, Strategy::Auto] {
            let (array, _folder) = with_entry(location, offset);
            let options = WriteOptions::new().strategy(strategy);
            let patch = Elements::Fixed(vec![9; 16]);
            array.write_elements("0:4,4:8", patch.as_ref(), &options).unwrap();
            let array = reopen(&array);
            assert_eq!(read(&array, "0:4,4:8"), [9; 16]);
            assert_eq!(read(&array, "4:6,0:2"), [33, 34, 41, 42]);
        }
    }
}

#[test]
fn a_value_by_key_that_reaches_into_the_table_or_an_index_is_an_error() {
    use common::volumes::*;
    let folder = |minishards| {
        let at = near();
        let sharding = sharding(0, minishards, 0, "raw", "raw");
        let info = json!({"@type": "neuroglancer_skeletons", "sharding": sharding});
        put(&at, "info", info.to_string().as_bytes());
        let store = KeyValueStore::open(&engine(), &at).unwrap();
        let values = (0..8).fold(KeyValues::new(), |v, key| v.put(key, vec![key as u8 + 1; 40]));
        store.update(&values).unwrap();
        at
    };
    for minishards in [0, 1] {
        let len = get(&folder(minishards), "0.shard").len() as u64;
        let table = 16 << minishards;
        // The table, its end, the first index, and the last, which is that of another minishard if
        // there are two.
        for start in [0, table - 1, table + 8 * 40 - 39, len - 40] {
            let at = folder(minishards);
            with_index(&at, "0.shard", |entries| entries[1].1 = start);
            let key = if minishards == 0 { 1 } else { 2 };
            let store = KeyValueStore::open(&engine(), &at).unwrap();
            for _ in 0..2 {
                let error = store.get(key).unwrap_err().to_string();
                assert!(error.contains("0.shard") && error.contains("index"), "{start}: {error}");
            }
            assert_eq!(store.get(0).unwrap().unwrap(), [1; 40]);
            // It must be replaced, not carried along.
            let before = get(&at, "0.shard");
            assert!(store.update(&KeyValues::new().put(0, vec![5; 3])).is_err());
            assert_eq!(get(&at, "0.shard"), before);
            store.update(&KeyValues::new().put(key, vec![5; 3])).unwrap();
            assert_eq!(store.get(key).unwrap().unwrap(), [5; 3]);
        }
    }
}

#[test]
fn a_chunk_of_a_volume_that_reaches_into_the_index_is_an_error() {
    use common::volumes::*;
    for start in [3, 16 + 8 * 4096 - 4095] {
        let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "raw", "raw")))]);
        fill(&at, 0);
        with_index(&at, "1/0.shard", |entries| entries[7].1 = start);
        let array = shardine::precomputed::Volume::open(&engine(), &at).unwrap().array(0).unwrap();
        for region in ["16:32,16:32,16:32,:", "", "20,20,20,0"] {
            assert!(array.read_elements(region).is_err(), "{start} {region}");
        }
        let one = Elements::Fixed(vec![1]);
        // Neither beside it nor in a part of it.
        for region in ["1:2,1:2,1:2,:", "20:21,20:21,20:21,:"] {
            let written = array.write_elements(region, one.as_ref(), &WriteOptions::new());
            assert!(written.is_err(), "{start} {region}");
        }
        let chunk = Elements::Fixed(vec![3; 4096]);
        let region = "16:32,16:32,16:32,:";
        array.write_elements(region, chunk.as_ref(), &WriteOptions::new()).unwrap();
        assert_eq!(array.read_elements(region).unwrap(), chunk);
    }
}
