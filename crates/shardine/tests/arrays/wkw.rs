//! webknossos-wrap data sets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::data_set::{at, memory, put};
use common::engine;
use common::odd_store::OddStore;
use common::wkw::*;
use serde_json::json;
use shardine::jobs::{
    Finding, FindingKind, RepairKind, RepairOptions, VerifyOptions, VerifySummary, repair, verify,
};
use shardine::store::*;
use shardine::{
    Array, DataSet, Elements, Error, KeyRole, Location, PartContent, SetKind, WriteOptions, open_in,
};

/// Damage to a file.
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
    // Blocks beyond the end of the array are stored, but are not chunks of it.
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
    // A layer in another format is reported, but is not damage.
    assert!(found.iter().any(|(kind, _)| *kind == FindingKind::NotChecked), "{found:?}");
    assert_eq!((summary.arrays, summary.is_ok()), (2, true));
}

#[test]
fn repair_leaves_a_damaged_file_and_says_that_the_format_is_only_read() {
    let store = memory();
    put_set(&*store);
    let cube = "ds/color/1/z0/y0/x1.wkw";
    let repaired = |path: &str, dry_run: bool| {
        let mut told = Vec::new();
        let aside = RepairOptions::new(at(&memory())).decode(true).dry_run(dry_run);
        let location = at(&store).join(path).unwrap();
        let summary = repair(&engine(), &location, &aside, &mut |repair| {
            told.push((repair.kind, repair.object))
        });
        (told, summary.unwrap())
    };
    for damage in [None, Some(60), Some(90)] {
        let whole = LZ4.cube([1, 0, 0]);
        put(&*store, cube, damage.map_or(&whole[..], |len| &whole[..len]));
        let before = common::data_set::dump(&*store);
        for (path, dry_run) in
            [("ds", false), ("ds/color", true), ("ds/color/1", false), ("ds/color/1", true)]
        {
            let (told, summary) = repaired(path, dry_run);
            assert_eq!(summary.only_read, Some("webknossos-wrap"));
            assert_eq!((summary.is_ok(), summary.mended), (damage.is_none(), 0));
            let left = (RepairKind::Left, Some(Key::new(cube).unwrap()));
            assert_eq!(told, damage.map(|_| left).into_iter().collect::<Vec<_>>());
        }
        assert!(common::data_set::dump(&*store) == before);
    }
    let mut hints = Vec::new();
    let location = at(&store).join("ds").unwrap();
    let tell = &mut |finding: Finding| hints.extend(finding.hint());
    verify(&engine(), &location, &VerifyOptions::new(), tell).unwrap();
    assert_eq!(hints.iter().filter(|hint| hint.contains("restore the object")).count(), 1);
    assert!(!hints.iter().any(|hint| hint.contains("repair")), "{hints:?}");
}
