//! Data sets of webknossos-wrap.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::data_set::{at, memory, put};
use common::engine;
use common::odd_store::OddStore;
use serde_json::json;
use shardine::jobs::{FindingKind, VerifyOptions, VerifySummary, verify};
use shardine::store::*;
use shardine::{
    Array, DataSet, Elements, Error, KeyRole, Location, PartContent, SetKind, WriteOptions, open_in,
};
use shardine_codec::{Codec, CodecSpec, Context, from_spec};

/// Files of 2 blocks of 4 voxels along each edge.
const EDGE: u64 = 8;
const LOG2: u8 = 0x12;

const TYPES: [(&str, u8); 10] = [
    ("uint8", 1),
    ("uint16", 2),
    ("uint32", 4),
    ("uint64", 8),
    ("float32", 4),
    ("float64", 8),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
];

/// What a data set is made of.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// 1 raw, 2 LZ4, 3 LZ4HC.
    blocks: u8,
    /// From 1.
    voxel: u8,
    channels: u8,
}

impl Form {
    fn size(self) -> u8 {
        TYPES[usize::from(self.voxel) - 1].1
    }

    fn header(self, offset: u64) -> Vec<u8> {
        let size = self.size() * self.channels;
        let mut header = vec![b'W', b'K', b'W', 1, LOG2, self.blocks, self.voxel, size];
        header.extend_from_slice(&offset.to_le_bytes());
        header
    }

    /// The bytes of a channel of a voxel.
    fn value(self, [x, y, z]: [u64; 3], channel: u64) -> Vec<u8> {
        let mixed = (x * 7 + y * 31 + z * 101 + channel * 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Runs of equal bytes, so that there is something to compress.
        (mixed >> 60).to_le_bytes()[..self.size().into()].to_vec()
    }

    /// The file at a place.
    fn cube(self, place: [u64; 3]) -> Vec<u8> {
        let mut blocks = Vec::new();
        for number in 0..8u64 {
            let mut block = Vec::new();
            for voxel in 0..64u64 {
                let inside = [voxel % 4, voxel / 4 % 4, voxel / 16];
                let at =
                    std::array::from_fn(|k| place[k] * EDGE + (number >> k & 1) * 4 + inside[k]);
                for channel in 0..u64::from(self.channels) {
                    block.extend(self.value(at, channel));
                }
            }
            blocks.push(if self.blocks == 1 { block } else { lz4(&block) });
        }
        let offset = if self.blocks == 1 { 16 } else { 16 + 8 * 8 };
        let mut file = self.header(offset);
        if self.blocks > 1 {
            let mut end = offset;
            for block in &blocks {
                end += block.len() as u64;
                file.extend_from_slice(&end.to_le_bytes());
            }
        }
        file.extend(blocks.concat());
        file
    }

    /// What a box of the data set has, in C order.
    fn expected(self, start: [u64; 3], end: [u64; 3], stored: &[[u64; 3]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for x in start[0]..end[0] {
            for y in start[1]..end[1] {
                for z in start[2]..end[2] {
                    let there = stored.contains(&[x, y, z].map(|at| at / EDGE));
                    for channel in 0..u64::from(self.channels) {
                        match there {
                            true => bytes.extend(self.value([x, y, z], channel)),
                            false => bytes.extend(vec![0; self.size().into()]),
                        }
                    }
                }
            }
        }
        bytes
    }
}

fn lz4(block: &[u8]) -> Vec<u8> {
    let name = "wkw.lz4_block".to_owned();
    let spec = CodecSpec { name, configuration: Default::default(), must_understand: true };
    let Codec::BytesToBytes(codec) = from_spec(&spec).unwrap() else { panic!() };
    let mut out = Vec::new();
    codec.encode(&mut Context::default(), block, &mut out).unwrap();
    out
}

const STORED: [[u64; 3]; 3] = [[0, 0, 0], [1, 0, 0], [0, 1, 1]];

/// Some files of an array, and its header.
fn put_array(store: &dyn Store, folder: &str, form: Form) {
    put(store, &format!("{folder}/header.wkw"), &form.header(0));
    for [x, y, z] in STORED {
        put(store, &format!("{folder}/z{z}/y{y}/x{x}.wkw"), &form.cube([x, y, z]));
    }
}

const LZ4: Form = Form { blocks: 2, voxel: 2, channels: 1 };

/// A data set with two magnifications of one layer.
fn put_set(store: &dyn Store) {
    let properties = json!({
        "id": { "name": "ds", "team": "" },
        "dataLayers": [{
            "name": "color", "category": "color", "dataFormat": "wkw", "elementClass": "uint16",
            "boundingBox": { "topLeft": [1, 2, 3], "width": 12, "height": 11, "depth": 6 },
            "wkwResolutions": [{ "resolution": [2, 2, 1] }, { "resolution": 1 }],
        }, {
            "name": "labels", "dataFormat": "zarr3",
            "boundingBox": { "topLeft": [0, 0, 0], "width": 1, "height": 1, "depth": 1 },
        }],
        "scale": { "factor": [11.5, 11.5, 25], "unit": "nanometer" },
    });
    put(store, "ds/datasource-properties.json", properties.to_string().as_bytes());
    put_array(store, "ds/color/1", LZ4);
    put_array(store, "ds/color/2-2-1", LZ4);
}

/// What happens to a file.
type Damage = fn(&mut Vec<u8>);

fn set_at(store: &Arc<dyn Store>, path: &str) -> Box<dyn DataSet> {
    open_in(&engine(), at(store).join(path).unwrap()).unwrap()
}

fn read(array: &Array, region: &str) -> Vec<u8> {
    match array.read_elements(region).unwrap() {
        Elements::Fixed(bytes) => bytes,
        Elements::Variable(_) => panic!("fixed"),
    }
}

#[test]
fn all_types_channels_and_kinds_of_blocks_are_read() {
    for blocks in 1..=3 {
        for voxel in 1..=10 {
            for channels in 1..=3 {
                let form = Form { blocks, voxel, channels };
                let store = memory();
                put_array(&*store, "a", form);
                let set = set_at(&store, "a");
                assert_eq!((set.format(), set.kind()), ("wkw", SetKind::Array));
                let array = set.array(0).unwrap();
                assert_eq!(array.shape(), [16, 16, 16, channels.into()], "{form:?}");
                assert_eq!(array.data_type().name(), TYPES[usize::from(voxel) - 1].0);
                assert_eq!(array.chunk_shape(), [4, 4, 4, channels.into()]);
                assert_eq!(array.shard_shape(), Some(&[8, 8, 8, channels.into()][..]));
                let expected = form.expected([0; 3], [16; 3], &STORED);
                assert_eq!(read(&array, ":"), expected, "{form:?}");
                let expected = form.expected([3, 2, 1], [11, 9, 15], &STORED);
                assert_eq!(read(&array, "3:11,2:9,1:15"), expected, "{form:?}");
            }
        }
    }
}

#[test]
fn the_bounding_box_ends_an_array_however_it_is_named() {
    let store = memory();
    put_set(&*store);
    let root = set_at(&store, "ds");
    assert_eq!(root.kind(), SetKind::Group);
    let parts = root.parts().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["color", "labels"]);
    let Ok(PartContent::Set(layer)) = &parts[0].content else { panic!("{parts:?}") };
    assert!(matches!(parts[1].content, Err(Error::WkwProperties { .. })));
    for layer in [&**layer, &*set_at(&store, "ds/color")] {
        assert_eq!(layer.kind(), SetKind::Levels);
        let levels = layer.parts().unwrap();
        let names: Vec<&str> = levels.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["1", "2-2-1"]);
        assert_eq!(layer.array(0).unwrap().shape(), [13, 13, 9, 1]);
        assert_eq!(layer.array(1).unwrap().shape(), [7, 7, 9, 1]);
        assert!(matches!(layer.array(2), Err(Error::NoLevel { levels: 2, .. })));
    }
    let fine = set_at(&store, "ds/color/1");
    let array = fine.array(0).unwrap();
    assert_eq!(array.shape(), [13, 13, 9, 1]);
    assert_eq!(read(&array, ":"), LZ4.expected([0; 3], [13, 13, 9], &STORED));
    let coarse = set_at(&store, "ds/color/2-2-1");
    assert_eq!(coarse.array(0).unwrap().shape(), [7, 7, 9, 1]);
    let facts = coarse.facts();
    let fact = |name: &str| facts.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    assert_eq!(fact("voxel size"), json!([23.0, 23.0, 25.0]));
    assert_eq!(fact("bounds"), json!({ "top_left": [1, 2, 3], "size": [12, 11, 6] }));
    let mut seen = Vec::new();
    let result = root.each_array(&mut |array| {
        seen.push(array.map(|array| array.shape().to_vec()).ok());
        Ok(())
    });
    result.unwrap();
    assert_eq!(seen, [Some(vec![13, 13, 9, 1]), Some(vec![7, 7, 9, 1]), None]);
}

#[test]
fn of_a_file_only_the_table_and_the_wanted_blocks_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(folder.path()));
    put_array(&*store, "a", LZ4);
    let counting = CountingStore::new(store as Arc<dyn Store>);
    let counted: Arc<dyn Store> = Arc::new(counting.clone());
    let array = set_at(&counted, "a").array(0).unwrap();
    counting.reset();
    assert_eq!(read(&array, "9,2,3"), LZ4.expected([9, 2, 3], [10, 3, 4], &STORED));
    let counts = counting.counts();
    assert_eq!((counts.opens, counts.reads), (1, 2));
    assert!(counts.bytes_read < 80 + 64 * 2 + 16, "{counts:?}");
    counting.reset();
    assert_eq!(read(&array, "13,6,7"), LZ4.expected([13, 6, 7], [14, 7, 8], &STORED));
    assert_eq!((counting.counts().opens, counting.counts().reads), (0, 1));
}

#[test]
fn a_remote_file_is_read_by_one_request_for_its_table_and_one_for_a_block() {
    let store = OddStore::new();
    put_set(&*store);
    store.unlistable.store(true, Ordering::SeqCst);
    let counting = CountingStore::new(Arc::clone(&store) as Arc<dyn Store>);
    let counted: Arc<dyn Store> = Arc::new(counting.clone());
    let array = set_at(&counted, "ds/color").array(0).unwrap();
    counting.reset();
    assert_eq!(read(&array, "9,2,3"), LZ4.expected([9, 2, 3], [10, 3, 4], &STORED));
    assert_eq!(counting.counts().reads, 2);
    counting.reset();
    assert_eq!(read(&array, "9,5,3"), LZ4.expected([9, 5, 3], [10, 6, 4], &STORED));
    assert_eq!(counting.counts().reads, 1);
    // A file that is replaced is noticed.
    let other = Form { blocks: 3, ..LZ4 };
    let mut changed = other.cube([5, 5, 5]);
    changed[5] = 3;
    put(&*store, "ds/color/1/z0/y0/x1.wkw", &changed);
    assert_eq!(read(&array, "9,5,3"), LZ4.expected([41, 45, 43], [42, 46, 44], &[[5, 5, 5]]));
}

#[test]
fn without_a_document_and_a_listing_the_extent_is_not_guessed() {
    let store = OddStore::new();
    put_array(&*store, "a", LZ4);
    store.unlistable.store(true, Ordering::SeqCst);
    let dynamic: Arc<dyn Store> = store;
    let found = open_in(&engine(), at(&dynamic).join("a").unwrap());
    assert!(matches!(found, Err(Error::NoExtent { .. })), "{found:?}");
}

#[test]
fn nothing_is_written() {
    let store = memory();
    put_array(&*store, "a", LZ4);
    let before = common::data_set::dump(&*store);
    let array = set_at(&store, "a").array(0).unwrap();
    let elements = Elements::Fixed(vec![1; 2]);
    let refused = array.write_elements("0,0,0", elements.as_ref(), &WriteOptions::new());
    assert!(matches!(refused, Err(Error::OnlyRead { .. })), "{refused:?}");
    assert_eq!(common::data_set::dump(&*store), before);
}

#[test]
fn a_damaged_file_is_named_and_costs_only_its_own_blocks() {
    let damages: [(&str, Damage); 5] = [
        ("WKW", |file| file[0] = b'X'),
        ("voxel type", |file| file[6] = 8),
        ("need 80", |file| file.truncate(79)),
        ("compression", |file| file[5] = 1),
        ("block 1", |file| file[24..32].fill(0)),
    ];
    for (reason, damage) in damages {
        let store = memory();
        put_array(&*store, "a", LZ4);
        let mut file = LZ4.cube([1, 0, 0]);
        damage(&mut file);
        put(&*store, "a/z0/y0/x1.wkw", &file);
        let array = set_at(&store, "a").array(0).unwrap();
        let error = array.read_elements("12,0,0").unwrap_err().to_string();
        assert!(error.contains("a/z0/y0/x1.wkw") && error.contains(reason), "{error}");
        assert_eq!(read(&array, ":8,:8,:8"), LZ4.expected([0; 3], [8; 3], &STORED));
    }
}

#[test]
fn objects_entries_and_roles_are_told() {
    let store = memory();
    put_set(&*store);
    put(&*store, "ds/color/1/z0/y0/notes.txt", b"x");
    let set = set_at(&store, "ds/color/1");
    let array = set.array(0).unwrap();
    let objects = array.objects().unwrap();
    let cells: Vec<&[u64]> = objects.iter().map(|object| &object.cell[..]).collect();
    assert_eq!(cells, [[0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]]);
    let entries = array.shard_entries(&[1, 0, 0, 0]).unwrap().unwrap();
    assert_eq!(
        (entries.grid, entries.index_range, entries.gap_bytes),
        (vec![2, 2, 2, 1], 0..80, 0)
    );
    assert_eq!(entries.entries.iter().flatten().count(), 8);
    // Blocks beyond the end of the array are stored, but are no chunks of it.
    let cut = array.shard_entries(&[0, 1, 1, 0]).unwrap().unwrap();
    assert_eq!((cut.entries.len(), cut.entries.iter().flatten().count()), (8, 4));
    assert_eq!(array.shard_entries(&[1, 1, 1, 0]).unwrap(), None);
    let role = |name: &str| set.role(&Key::new(name).unwrap()).unwrap();
    assert_eq!(role("ds/color/1/header.wkw"), KeyRole::Document);
    assert_eq!(role("ds/color/1/z0/y0/x0.wkw"), KeyRole::Chunks(String::new()));
    assert_eq!(role("ds/color/1/z0/y0/notes.txt"), KeyRole::Other);
    let layer = set_at(&store, "ds/color");
    let role = |name: &str| layer.role(&Key::new(name).unwrap()).unwrap();
    assert_eq!(role("ds/color/2-2-1/z0/y0/x0.wkw"), KeyRole::Chunks("2-2-1".to_owned()));
    assert_eq!(role("ds/color/3/z0/y0/x0.wkw"), KeyRole::Other);
}

#[test]
fn what_cannot_be_read_is_never_nothing() {
    let store = memory();
    put_set(&*store);
    for path in ["ds", "ds/color", "ds/color/1"] {
        for operation in [Operation::Open, Operation::Read] {
            for after in 0.. {
                let faults = FaultStore::new(Arc::clone(&store));
                faults.fail(operation, after);
                let faulty: Arc<dyn Store> = Arc::new(faults.clone());
                let location: Location = at(&faulty).join(path).unwrap();
                let found = open_in(&engine(), &location);
                if faults.waiting() > 0 {
                    break;
                }
                assert!(matches!(found, Err(Error::Store(_))), "{path} {operation:?} {after}");
            }
        }
    }
}

/// What `verify` finds: kinds with the names of objects, and its summary.
fn verified(store: &Arc<dyn Store>, path: &str) -> (Vec<(FindingKind, String)>, VerifySummary) {
    let (mut found, options) = (Vec::new(), VerifyOptions::new().decode(true));
    let location = at(store).join(path).unwrap();
    let summary = verify(&engine(), &location, &options, &mut |finding| {
        found.push((finding.kind, finding.object.map(|key| key.to_string()).unwrap_or_default()));
    });
    (found, summary.unwrap())
}

#[test]
fn verify_decodes_every_block_and_finds_what_is_damaged() {
    let store = memory();
    put_array(&*store, "a", LZ4);
    let (found, summary) = verified(&store, "a");
    assert_eq!((found, summary.objects, summary.chunks_decoded), (vec![], 3, 24));
    let cube = "a/z0/y0/x1.wkw";
    let damages: [(FindingKind, Damage); 5] = [
        (FindingKind::Index, |file| file[6] = 8),
        (FindingKind::Index, |file| file.truncate(60)),
        (FindingKind::Index, |file| file[24..32].fill(0)),
        // A match that begins before the block.
        (FindingKind::Chunk, |file| file[80..84].fill(0)),
        (FindingKind::Gap, |file| file.extend([0; 7])),
    ];
    for (kind, damage) in damages {
        let mut file = LZ4.cube([1, 0, 0]);
        damage(&mut file);
        put(&*store, cube, &file);
        let (found, summary) = verified(&store, "a");
        assert_eq!(found, [(kind, cube.to_owned())]);
        assert_eq!(summary.is_ok(), kind == FindingKind::Gap);
    }
    put(&*store, cube, &LZ4.cube([1, 0, 0]));
    put_set(&*store);
    put(&*store, "ds/color/1/z9/y0/x0.wkw", &LZ4.cube([0, 0, 9]));
    let (found, summary) = verified(&store, "ds");
    let outside = (FindingKind::ObjectOutsideArray, "ds/color/1/z9/y0/x0.wkw".to_owned());
    assert!(found.contains(&outside), "{found:?}");
    // A layer in another format is told of, and is no damage.
    assert!(found.iter().any(|(kind, _)| *kind == FindingKind::NotChecked), "{found:?}");
    assert_eq!((summary.arrays, summary.is_ok()), (2, true));
}
