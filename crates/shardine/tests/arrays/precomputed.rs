//! Precomputed volumes: any region of any volume is read as it was written, and the stored form is
//! what the format says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::jobs::{RepackVolumeOptions, repack_volume};
use shardine::precomputed::{KeyValueStore, KeyValues, PayloadKind};
use shardine::precomputed::{Volume, VolumeInfo};
use shardine::store::{Key, MemoryStore, Store, StoreExt};
use shardine::{Elements, Engine, EngineOptions, Location, Region, WriteOptions};

#[derive(Debug, Clone)]
struct Case {
    size: [u64; 3],
    chunk: [u64; 3],
    offset: [i64; 3],
    channels: u64,
    sharding: Option<Value>,
    writes: Vec<([u64; 3], [u64; 3], u8)>,
}

fn shardings() -> impl Strategy<Value = Option<Value>> {
    let encoding = prop_oneof![Just("raw"), Just("gzip")];
    let hash = prop_oneof![Just("identity"), Just("murmurhash3_x86_128")];
    let bits = (prop_oneof![0u32..8, Just(64)], 0u32..5, 0u32..6);
    let sharded = (hash, bits, encoding.clone(), encoding).prop_map(
        |(hash, (preshift, minishard, shard), data, index)| {
            Some(json!({
                "@type": "neuroglancer_uint64_sharded_v1", "hash": hash, "preshift_bits": preshift,
                "minishard_bits": minishard, "shard_bits": shard, "data_encoding": data,
                "minishard_index_encoding": index,
            }))
        },
    );
    prop_oneof![4 => sharded, 1 => Just(None)]
}

fn cases() -> impl Strategy<Value = Case> {
    let axis = |most: u64| (1u64..most, 1u64..9);
    (axis(24), axis(20), axis(16), prop::array::uniform3(-30i64..30), 1u64..4, shardings())
        .prop_flat_map(|(x, y, z, offset, channels, sharding)| {
            let (size, chunk) = ([x.0, y.0, z.0], [x.1, y.1, z.1]);
            let along = |n: u64| (0..n).prop_flat_map(move |start| (Just(start), 1..=n - start));
            let write = (along(size[0]), along(size[1]), along(size[2]), 0u8..3);
            let write =
                write.prop_map(|(x, y, z, value)| ([x.0, y.0, z.0], [x.1, y.1, z.1], value));
            let writes = prop::collection::vec(write, 1..6);
            (Just((size, chunk, offset, channels, sharding)), writes)
        })
        .prop_map(|((size, chunk, offset, channels, sharding), writes)| Case {
            size,
            chunk,
            offset,
            channels,
            sharding,
            writes,
        })
}

fn info(case: &Case) -> VolumeInfo {
    let mut scale = json!({
        "key": "s0", "size": case.size, "resolution": [8, 8, 40], "voxel_offset": case.offset,
        "chunk_sizes": [case.chunk], "encoding": "raw", "unknown": {"kept": 1},
    });
    if let Some(sharding) = &case.sharding {
        scale["sharding"] = sharding.clone();
    }
    let document = json!({
        "type": "image", "data_type": "uint16", "num_channels": case.channels, "scales": [scale],
    });
    VolumeInfo::parse(document.to_string().as_bytes()).unwrap()
}

/// The elements of a whole volume, in C order.
struct Model {
    shape: [usize; 4],
    elements: Vec<u16>,
}

impl Model {
    fn new(case: &Case) -> Self {
        let [x, y, z] = case.size.map(|n| n as usize);
        let shape = [x, y, z, case.channels as usize];
        Self { shape, elements: vec![0; shape.iter().product()] }
    }

    fn at(&self, i: [usize; 4]) -> usize {
        i.iter().zip(&self.shape).fold(0, |at, (&i, &n)| at * n + i)
    }

    /// Each element of a box, in C order.
    fn each(start: [u64; 3], shape: [u64; 3], channels: usize, mut visit: impl FnMut([usize; 4])) {
        let end = |axis: usize| (start[axis] + shape[axis]) as usize;
        for x in start[0] as usize..end(0) {
            for y in start[1] as usize..end(1) {
                for z in start[2] as usize..end(2) {
                    (0..channels).for_each(|c| visit([x, y, z, c]));
                }
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.elements.iter().flat_map(|n| n.to_le_bytes()).collect()
    }
}

fn region(start: [u64; 3], shape: [u64; 3]) -> Region {
    let item = |axis: usize| format!("{}:{}", start[axis], start[axis] + shape[axis]);
    [item(0), item(1), item(2)].join(",").parse().unwrap()
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

/// The chunks of a shard, read strictly by the specification.
fn naive_shard(bytes: &[u8], sharding: &Value) -> Vec<(u64, Vec<u8>)> {
    let word =
        |bytes: &[u8], i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
    let minishards = 1usize << sharding["minishard_bits"].as_u64().unwrap();
    let base = minishards * 16;
    let mut chunks = Vec::new();
    for minishard in 0..minishards {
        let (start, end) = (word(bytes, 2 * minishard), word(bytes, 2 * minishard + 1));
        if start == end {
            continue;
        }
        let mut index = bytes[base + start as usize..base + end as usize].to_vec();
        if sharding["minishard_index_encoding"] == "gzip" {
            index = gunzip(&index);
        }
        let n = index.len() / 24;
        let (mut key, mut at) = (0u64, base as u64);
        for i in 0..n {
            key = key.wrapping_add(word(&index, i));
            at = at.wrapping_add(word(&index, n + i));
            let len = word(&index, 2 * n + i);
            let mut value = bytes[at as usize..(at + len) as usize].to_vec();
            if sharding["data_encoding"] == "gzip" {
                value = gunzip(&value);
            }
            chunks.push((key, value));
            at += len;
        }
    }
    chunks
}

fn naive_morton(cell: [u64; 3], grid: [u64; 3]) -> u64 {
    let (mut code, mut j) = (0, 0);
    for i in 0..64u32 {
        for axis in 0..3 {
            if 1u128 << i < u128::from(grid[axis]) {
                code |= ((cell[axis] >> i) & 1) << j;
                j += 1;
            }
        }
    }
    code
}

/// Everything that is stored of a scale, strictly by the specification: raw chunks by their cells.
fn naive_chunks(store: &dyn Store, case: &Case) -> BTreeMap<[u64; 3], Vec<u8>> {
    let folder = Key::new("s0").unwrap();
    let grid: [u64; 3] = std::array::from_fn(|axis| case.size[axis].div_ceil(case.chunk[axis]));
    let listing = store.list(Some(&folder)).unwrap();
    let mut cells = BTreeMap::new();
    for x in 0..grid[0] {
        for y in 0..grid[1] {
            for z in 0..grid[2] {
                cells.insert(naive_morton([x, y, z], grid), [x, y, z]);
            }
        }
    }
    let mut found = BTreeMap::new();
    for (key, _) in listing.objects {
        let bytes = store.get(&key).unwrap().unwrap();
        match &case.sharding {
            Some(sharding) => {
                for (number, chunk) in naive_shard(&bytes, sharding) {
                    assert!(found.insert(cells[&number], chunk).is_none());
                }
            }
            None => {
                let name = key.as_str().strip_prefix("s0/").unwrap();
                let cell = cells.values().find(|cell| {
                    let part = |axis: usize| {
                        let start = cell[axis] * case.chunk[axis];
                        let end = (start + case.chunk[axis]).min(case.size[axis]);
                        let at = |n: u64| n as i64 + case.offset[axis];
                        format!("{}-{}", at(start), at(end))
                    };
                    format!("{}_{}_{}", part(0), part(1), part(2)) == name
                });
                found.insert(*cell.unwrap(), bytes.to_vec());
            }
        }
    }
    found
}

fn engine() -> Arc<Engine> {
    Engine::new(&EngineOptions::new().threads(2)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_stored_as_the_format_says_and_read_back(case in cases()) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let location = Location::root(Arc::clone(&store));
        let volume = Volume::create(&engine(), &location, info(&case)).unwrap();
        let array = volume.array(0).unwrap();
        let mut model = Model::new(&case);
        for (number, &(start, shape, kind)) in case.writes.iter().enumerate() {
            let mut patch = Vec::new();
            Model::each(start, shape, case.channels as usize, |i| {
                // All zero, all the same, or all different.
                let value = match kind {
                    0 => 0,
                    1 => 7,
                    _ => (number * 1000 + patch.len()) as u16,
                };
                patch.push(value);
                let at = model.at(i);
                model.elements[at] = value;
            });
            let bytes: Vec<u8> = patch.iter().flat_map(|n| n.to_le_bytes()).collect();
            let elements = Elements::Fixed(bytes);
            array.write_elements(region(start, shape), elements.as_ref(), &WriteOptions::new()).unwrap();
        }
        let read = |array: &shardine::Array| match array.read_elements(Region::all()).unwrap() {
            Elements::Fixed(bytes) => bytes,
            Elements::Variable(_) => unreachable!(),
        };
        prop_assert_eq!(read(&array), model.bytes());
        // A handle that knows nothing of what was written.
        let again = Volume::open(&engine(), &location).unwrap();
        prop_assert_eq!(again.info(), volume.info());
        prop_assert_eq!(read(&again.array(0).unwrap()), model.bytes());
        let (start, shape, _) = case.writes[0];
        let mut part = Vec::new();
        Model::each(start, shape, case.channels as usize, |i| {
            part.extend(model.elements[model.at(i)].to_le_bytes());
        });
        let read_part = array.read_elements(region(start, shape)).unwrap();
        prop_assert_eq!(read_part, Elements::Fixed(part));

        let chunks = naive_chunks(&*store, &case);
        let mut stored = Model::new(&case);
        for (cell, bytes) in &chunks {
            let start: [u64; 3] = std::array::from_fn(|axis| cell[axis] * case.chunk[axis]);
            let shape: [u64; 3] =
                std::array::from_fn(|axis| case.chunk[axis].min(case.size[axis] - start[axis]));
            prop_assert_eq!(bytes.len() as u64, shape.iter().product::<u64>() * case.channels * 2);
            let mut words = bytes.chunks(2);
            for c in 0..case.channels as usize {
                for z in 0..shape[2] {
                    for y in 0..shape[1] {
                        for x in 0..shape[0] {
                            let i = [start[0] + x, start[1] + y, start[2] + z].map(|n| n as usize);
                            let at = stored.at([i[0], i[1], i[2], c]);
                            stored.elements[at] =
                                u16::from_le_bytes(words.next().unwrap().try_into().unwrap());
                        }
                    }
                }
            }
        }
        prop_assert_eq!(stored.bytes(), model.bytes());
    }

    #[test]
    fn packed_anew_a_volume_is_the_same(case in cases(), sharding in shardings()) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let location = Location::root(Arc::clone(&store));
        let volume = Volume::create(&engine(), &location, info(&case)).unwrap();
        let array = volume.array(0).unwrap();
        for &(start, shape, kind) in &case.writes {
            let bytes = shape.iter().product::<u64>() * case.channels * 2;
            let elements = Elements::Fixed((0..bytes).map(|i| (i as u8).wrapping_mul(kind)).collect());
            array.write_elements(region(start, shape), elements.as_ref(), &WriteOptions::new()).unwrap();
        }
        let before = naive_chunks(&*store, &case);
        let other: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let target = Location::root(Arc::clone(&other));
        let wanted = sharding
            .as_ref()
            .map(|json| shardine::shard::uint64::Sharding::from_json(json).unwrap());
        let options = RepackVolumeOptions::new(wanted.clone());
        repack_volume(&engine(), &location, Some(&target), &options, &mut |_| {}).unwrap();
        let after = Case { sharding, ..case };
        prop_assert_eq!(naive_chunks(&*other, &after), before);
        let unknown = Volume::open(&engine(), &target).unwrap();
        prop_assert_eq!(&unknown.info().document()["scales"][0]["unknown"], &json!({"kept": 1}));
    }
}

#[test]
fn writers_of_one_shard_do_not_lose_each_others_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::parse(&folder.path().join("v").display().to_string()).unwrap();
    let case = Case {
        size: [64, 8, 8],
        chunk: [8, 8, 8],
        offset: [0; 3],
        channels: 1,
        sharding: Some(json!({
            "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": 0,
            "minishard_bits": 1, "shard_bits": 0, "data_encoding": "gzip",
        })),
        writes: Vec::new(),
    };
    Volume::create(&engine(), &location, info(&case)).unwrap();
    std::thread::scope(|scope| {
        for i in 0..8u64 {
            let location = &location;
            scope.spawn(move || {
                let array = Volume::open(&engine(), location).unwrap().array(0).unwrap();
                for round in 0..5 {
                    let elements = Elements::Fixed(vec![(i * 5 + round + 1) as u8; 1024]);
                    let region = region([i * 8, 0, 0], [8, 8, 8]);
                    array.write_elements(&region, elements.as_ref(), &WriteOptions::new()).unwrap();
                }
            });
        }
    });
    let array = Volume::open(&engine(), &location).unwrap().array(0).unwrap();
    for i in 0..8u64 {
        let expected = Elements::Fixed(vec![(i * 5 + 5) as u8; 1024]);
        assert_eq!(array.read_elements(region([i * 8, 0, 0], [8, 8, 8])).unwrap(), expected);
    }
}

#[test]
fn two_scales_that_would_overwrite_each_other_are_not_created() {
    let scale = json!({"key": "s", "size": [8, 8, 8], "resolution": [1, 1, 1],
        "voxel_offset": [0, 0, 0], "chunk_sizes": [[8, 8, 8]], "encoding": "raw"});
    let document = json!({"type": "image", "data_type": "uint8", "num_channels": 1,
        "scales": [scale, scale]});
    let info = VolumeInfo::parse(document.to_string().as_bytes()).unwrap();
    let refused = Volume::create(&engine(), &Location::memory(), info).unwrap_err().to_string();
    assert!(refused.contains("is that of scales[0]"), "{refused}");
}

fn kv(store: &Arc<dyn Store>, kind: PayloadKind) -> KeyValueStore {
    let sharding = json!({
        "@type": "neuroglancer_uint64_sharded_v1", "hash": "murmurhash3_x86_128",
        "preshift_bits": 1, "minishard_bits": 2, "shard_bits": 1, "data_encoding": "gzip",
        "minishard_index_encoding": "gzip",
    });
    let sharding = shardine::shard::uint64::Sharding::from_json(&sharding).unwrap();
    let location = Location::root(Arc::clone(store));
    KeyValueStore::with_sharding(&engine(), &location, sharding, kind)
}

#[test]
fn keys_are_put_listed_and_removed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let values = kv(&store, PayloadKind::Plain);
    let mut expected = BTreeMap::new();
    for round in 0..6u64 {
        let mut changes = KeyValues::new();
        for i in 0..40u64 {
            let key = (i * 7919 + round * 31).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 97;
            if (i + round) % 3 == 0 {
                changes = changes.remove(key);
                expected.remove(&key);
            } else {
                let value = vec![i as u8; (i * round) as usize];
                changes = changes.put(key, value.clone());
                expected.insert(key, value);
            }
        }
        values.update(&changes).unwrap();
        let mut listed = Vec::new();
        kv(&store, PayloadKind::Plain).list(|key| listed.push(key.key)).unwrap();
        listed.sort_unstable();
        assert_eq!(listed, expected.keys().copied().collect::<Vec<_>>());
        for key in 0..97 {
            assert_eq!(values.get(key).unwrap().as_ref(), expected.get(&key), "{key}");
        }
    }
    let all = expected.keys().fold(KeyValues::new(), |changes, key| changes.remove(*key));
    values.update(&all).unwrap();
    assert!(store.list(None).unwrap().objects.is_empty());
}

/// A manifest of one level with fragments of these sizes.
fn manifest(sizes: &[u32]) -> Vec<u8> {
    let mut words = vec![0u32; 6];
    words.push(1);
    words.extend([0; 4]);
    words.push(sizes.len() as u32);
    words.extend(std::iter::repeat_n(0, 3 * sizes.len()));
    words.extend(sizes);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn fragments_of_meshes_stay_with_their_manifests() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let meshes = kv(&store, PayloadKind::MultiresolutionMesh);
    let fragments = |key: u64| (0..key * 3 + 5).map(|i| (i + key) as u8).collect::<Vec<u8>>();
    let mesh = |key: u64| manifest(&[5, key as u32 * 3]);
    let add = |changes: KeyValues, key| changes.put_mesh(key, mesh(key), fragments(key));
    meshes.update(&(0..20).fold(KeyValues::new(), add)).unwrap();
    let refused = meshes.update(&KeyValues::new().put(3, mesh(3))).unwrap_err();
    assert!(refused.to_string().contains("fragments"), "{refused}");
    // Also where it is not known that they are meshes.
    for kind in [PayloadKind::MultiresolutionMesh, PayloadKind::Unknown] {
        let changes = add(KeyValues::new().remove(4), 25);
        kv(&store, kind).update(&changes).unwrap();
        for key in (0..20).chain([25]).filter(|&key| key != 4) {
            let meshes = kv(&store, PayloadKind::MultiresolutionMesh);
            assert_eq!(meshes.get(key).unwrap(), Some(mesh(key)), "{key}");
            assert_eq!(meshes.get_fragments(key).unwrap(), Some(fragments(key)), "{key}");
        }
    }
    assert_eq!(meshes.get_fragments(4).unwrap(), None);
}

#[test]
fn a_shard_in_its_older_form_is_read_and_becomes_a_new_one() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let values = kv(&store, PayloadKind::Plain);
    let put = (0..30u64).fold(KeyValues::new(), |all, key| all.put(key, vec![key as u8; 9]));
    values.update(&put).unwrap();
    for name in ["0", "1"] {
        let key = Key::new(&format!("{name}.shard")).unwrap();
        let bytes = store.get(&key).unwrap().unwrap();
        let (index, data) = bytes.split_at(4 * 16);
        for (ending, part) in [("index", index), ("data", data)] {
            let key = Key::new(&format!("{name}.{ending}")).unwrap();
            store.put(&key, part, shardine::store::Condition::None).unwrap();
        }
        store.delete(&key, &shardine::store::Condition::None).unwrap();
    }
    let values = kv(&store, PayloadKind::Plain);
    for key in 0..30 {
        assert_eq!(values.get(key).unwrap(), Some(vec![key as u8; 9]));
    }
    values.update(&KeyValues::new().put(100, vec![1]).put(101, vec![2])).unwrap();
    let values = kv(&store, PayloadKind::Plain);
    for key in 0..30 {
        assert_eq!(values.get(key).unwrap(), Some(vec![key as u8; 9]));
    }
    assert_eq!(values.get(101).unwrap(), Some(vec![2]));
}
