//! Damaged bytes are errors that name the object, the shard, the chunk and the bytes; never a
//! panic.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::shard::ShardError;
use shardine::store::{Condition, FileStore, Key, MemoryStore, StoreExt};
use shardine::{Array, ArrayNode, EngineError, Error, Region};

/// An array of one shard of 2 x 2 chunks whose index has no checksum.
fn unchecked() -> Value {
    let codecs = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [4, 4], "codecs": [bytes()], "index_codecs": [bytes()],
    }}]);
    document(&[8, 8], &[8, 8], "uint8".into(), 0.into(), codecs)
}

fn with_shard(document: &Value, shard: &[u8]) -> (ArrayNode, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(folder.path()));
    let array = create_in(store.clone(), document);
    store.put(&Key::new("c/0/0").unwrap(), shard, Condition::None).unwrap();
    (array, folder)
}

/// Four chunks of 16 bytes and an index with these entries.
fn shard(entries: [(u64, u64); 4]) -> Vec<u8> {
    let mut shard: Vec<u8> = (0..64).collect();
    shard.extend(entries.iter().flat_map(|(o, n)| [o.to_le_bytes(), n.to_le_bytes()]).flatten());
    shard
}

fn read_error(array: &Array, region: &str) -> Error {
    array.read_elements(region).unwrap_err()
}

#[test]
fn entries_that_point_nowhere_cost_their_chunk_and_no_other() {
    let hostile = [(u64::MAX - 1, 10), (u64::MAX, 100), (0, 1 << 62), (120, 16), (u64::MAX, 0)];
    for bad in hostile {
        let (array, _folder) = with_shard(&unchecked(), &shard([(0, 16), bad, (32, 16), (48, 16)]));
        assert_eq!(read(&array, "4:6,0:2"), [32, 33, 36, 37]);
        for region in ["0,4", "", "0:1,:"] {
            match read_error(&array, region) {
                Error::Engine(EngineError::Shard { object, shard, source }) => {
                    assert_eq!((object.as_str(), shard), ("c/0/0", vec![0, 0]));
                    let (offset, len) = bad;
                    let expected = ShardError::OutOfBounds { entry: 1, offset, len, actual: 128 };
                    assert_eq!(*source, expected);
                }
                other => panic!("{other}"),
            }
        }
        // An update must not lose the chunk silently either.
        let patch = shardine::Elements::Fixed(vec![9; 4]);
        let region: Region = "6:8,6:8".parse().unwrap();
        let result = array.write_elements(&region, patch.as_ref(), &shardine::WriteOptions::new());
        assert!(
            matches!(
                result,
                Err(Error::Engine(EngineError::Encode { .. })
                    | Error::Engine(EngineError::Shard { .. }))
            ),
            "{result:?}"
        );
    }
}

#[test]
fn an_entry_of_the_wrong_length_names_the_chunk() {
    let (array, _folder) =
        with_shard(&unchecked(), &shard([(0, 16), (16, 15), (32, 16), (48, 16)]));
    match read_error(&array, "0,7") {
        Error::Engine(EngineError::Decode { chunk, range, .. }) => {
            assert_eq!((chunk, range), (vec![0, 1], 16..31))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_part_of_a_plain_chunk_of_the_wrong_length_is_not_taken_for_the_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(folder.path()));
    let array = create_in(store.clone(), &unchecked());
    // As many bytes as are selected, but not the right ones.
    let bytes = shard([(0, 16), (16, 4), (32, 16), (48, 16)]);
    store.put(&Key::new("c/0/0").unwrap(), &bytes, Condition::None).unwrap();
    for _ in 0..2 {
        let error = read_error(&array, "2,4:");
        let Error::Engine(EngineError::Decode { chunk, range, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!((chunk, range), (vec![0, 1], 16..20));
    }
}

#[test]
fn entries_whose_lengths_add_up_to_more_than_a_number_holds_are_errors() {
    let codecs = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [512, 512], "codecs": [bytes(), zstd()], "index_codecs": [bytes()],
        "index_location": "start",
    }}]);
    // In memory a sparse file may be this long, where most disks have a limit.
    let memory = ["/dev/shm", "/run/shm"].into_iter().find_map(|at| tempfile::tempdir_in(at).ok());
    let folder = memory.unwrap_or_else(|| tempfile::tempdir().unwrap());
    let document = document(&[1024, 1024], &[1024, 1024], "uint8".into(), 0.into(), codecs);
    let array = create_in(Arc::new(FileStore::new(folder.path())), &document);
    let entries: [[u64; 2]; 4] = [64, 64, 65, 66].map(|offset| [offset, i64::MAX as u64 - 100]);
    let bytes: Vec<u8> = entries.as_flattened().iter().flat_map(|n| n.to_le_bytes()).collect();
    std::fs::create_dir_all(folder.path().join("c/0")).unwrap();
    std::fs::write(folder.path().join("c/0/0"), bytes).unwrap();
    let file = std::fs::File::options().write(true).open(folder.path().join("c/0/0")).unwrap();
    file.set_len(i64::MAX as u64).expect("a file system that has such files, as tmpfs does");
    for region in ["", "0:1,0:1", ":5,:5"] {
        let error = read_error(&array, region).to_string();
        assert!(error.contains("c/0/0"), "{error}");
    }
}

#[test]
fn a_truncated_shard_says_so() {
    for len in [0, 1, 63] {
        let (array, _folder) = with_shard(&unchecked(), &vec![0; len]);
        for region in ["", "0,0"] {
            let error = read_error(&array, region).to_string();
            assert!(error.contains(&format!("holds {len} bytes")), "{error}");
        }
    }
}

#[test]
fn a_flipped_bit_in_a_checked_index_is_found() {
    let array = create(&sharded(&[64, 64], &[64, 64], &[16, 16]));
    write(&array, "", noise(64 * 64 * 2, 1));
    let store = &array.location().store;
    let key = Key::new("c/0/0").unwrap();
    let good = store.get(&key).unwrap().unwrap().to_vec();
    let mut bad = good.clone();
    let at = good.len() - 100;
    bad[at] ^= 4;
    store.put(&key, &bad, Condition::None).unwrap();
    let error = read_error(&reopen(&array), "0,0");
    let Error::Engine(EngineError::Shard { source, .. }) = &error else { panic!("{error}") };
    assert!(matches!(**source, ShardError::Index { .. }), "{error}");
    assert!(error.to_string().contains("checksum"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn an_update_that_meets_a_damaged_chunk_names_it() {
    for scale in [1u64, 16] {
        let (shape, chunk) = (64 * scale, 16 * scale);
        let array = create(&sharded(&[shape, shape], &[shape, shape], &[chunk, chunk]));
        write(&array, "", noise((shape * shape * 2) as usize, 1));
        let range = array.shard_entries(&[0, 0]).unwrap().unwrap().entries[6].clone().unwrap();
        let key = Key::new("c/0/0").unwrap();
        let store = &array.location().store;
        let mut bytes = store.get(&key).unwrap().unwrap().to_vec();
        bytes[range.start as usize..range.end as usize].fill(7);
        store.put(&key, &bytes, Condition::None).unwrap();
        let patch = shardine::Elements::Fixed(vec![1, 1]);
        let region: Region = format!("{},{}", chunk, 2 * chunk).parse().unwrap();
        let error = array.write_elements(&region, patch.as_ref(), &Default::default()).unwrap_err();
        let Error::Engine(EngineError::Encode { chunk, .. }) = &error else { panic!("{error}") };
        assert_eq!(chunk, &[1, 2]);
    }
}

#[test]
fn overlapping_entries_and_gaps_are_read_as_the_index_says() {
    // Two entries that share their bytes, and chunks out of order: all of that is legal.
    let (array, _folder) =
        with_shard(&unchecked(), &shard([(48, 16), (0, 16), (48, 16), (u64::MAX, u64::MAX)]));
    assert_eq!(read(&array, "0,0:2"), [48, 49]);
    assert_eq!(read(&array, "4,0:2"), [48, 49]);
    assert_eq!(read(&array, "0,4:6"), [0, 1]);
    assert_eq!(read(&array, "4:8,4:8"), [0; 16]);
}

#[test]
fn a_million_chunks_in_a_shard_are_indexed() {
    let codecs = json!([sharding(&[1, 1], json!([bytes()]))]);
    let array = create(&document(&[1000, 1000], &[1000, 1000], "uint8".into(), 0.into(), codecs));
    let data = noise(1_000_000, 1);
    write(&array, "", data.clone());
    let cold = reopen(&array);
    assert_eq!(read(&cold, "999,990:1000"), data[999_990..]);
    assert!(read(&cold, "500:502,:") == data[500_000..502_000]);
    write(&cold, "7,7", vec![0]);
    assert_eq!(read(&cold, "7,6:9"), [data[7006], 0, data[7008]]);
}

#[test]
fn illegal_sharding_is_refused_with_the_reason() {
    let refused = |codecs: Value| {
        let document = document(&[8, 8], &[8, 8], "uint8".into(), 0.into(), codecs);
        let store: Arc<MemoryStore> = Arc::new(MemoryStore::new());
        let location = shardine::Location::root(store);
        ArrayNode::create(&engine(), &location, metadata(&document)).unwrap_err().to_string()
    };
    let error = refused(json!([sharding(&[8, 3], json!([bytes()]))]));
    assert!(error.contains("chunk_shape[1]") && error.contains("do not divide"), "{error}");
    let mut variable = sharding(&[4, 4], json!([bytes()]));
    variable["configuration"]["index_codecs"] = json!([bytes(), zstd()]);
    let error = refused(json!([variable]));
    assert!(error.contains("index_codecs"), "{error}");
    let error = refused(json!([sharding(&[4], json!([bytes()]))]));
    assert!(error.contains("axes"), "{error}");
    let error = refused(json!([sharding(&[4, 4], json!([zstd()]))]));
    assert!(error.contains("array -> bytes"), "{error}");
    let mut deep = json!([bytes()]);
    for _ in 0..20 {
        deep = json!([sharding(&[8, 8], deep)]);
    }
    let error = refused(deep);
    assert!(error.contains("deep"), "{error}");
    // A codec that is skipped still has a position in the list.
    let hint = json!({"name": "example.org/hint", "must_understand": false});
    let error = refused(json!([hint, zstd(), sharding(&[4, 4], json!([bytes()]))]));
    assert!(error.contains("codecs[1]") && error.contains("zstd"), "{error}");
    let twice = sharding(&[4, 4], json!([bytes()]));
    let error = refused(json!([twice, twice]));
    assert!(error.contains("once"), "{error}");
    let error = refused(json!([bytes(), {"name": "no-such-codec"}]));
    assert!(error.contains("no-such-codec"), "{error}");
}

#[test]
fn a_codec_that_need_not_be_understood_is_passed_over() {
    let extra = json!({"name": "example.org/hint", "must_understand": false});
    let array = create(&document(&[8], &[8], "uint8".into(), 0.into(), json!([bytes(), extra])));
    write(&array, "", vec![5; 8]);
    assert_eq!(read(&array, ""), [5; 8]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damage_anywhere_is_an_error_or_another_value_and_never_a_panic(
        position in 0.0f64..1.0, bit in 0u32..8, cut in any::<bool>(), nested in any::<bool>(),
        files in any::<bool>(),
    ) {
        let inner = if nested {
            json!([sharding(&[4, 4], json!([bytes(), zstd()]))])
        } else {
            json!([bytes(), zstd()])
        };
        let codecs = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [8, 8], "codecs": inner, "index_codecs": [bytes()],
        }}]);
        let document = document(&[16, 16], &[16, 16], "uint16".into(), 0.into(), codecs);
        let folder = tempfile::tempdir().unwrap();
        let array = if files {
            create_in(Arc::new(FileStore::new(folder.path())), &document)
        } else {
            create(&document)
        };
        write(&array, "", noise(16 * 16 * 2, 1));
        let key = Key::new("c/0/0").unwrap();
        let store = &array.location().store;
        let mut bytes = store.get(&key).unwrap().unwrap().to_vec();
        let at = (bytes.len() as f64 * position) as usize;
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        store.put(&key, &bytes, Condition::None).unwrap();
        for region in ["", "3:9,3:9", "15,15"] {
            let _ = array.read_elements(region);
        }
        let patch = shardine::Elements::Fixed(vec![1; 8]);
        let _ = array.write_elements("7:9,7:9", patch.as_ref(), &Default::default());
    }
}
