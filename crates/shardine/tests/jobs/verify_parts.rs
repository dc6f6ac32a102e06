//! `verify` in parts that several processes share, and jobs that are cancelled on the way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::volumes::{fill, scale, volume, with_index, with_value};
use common::{bytes, document, engine, metadata, noise, volumes, write};
use serde_json::json;
use shardine::jobs::{
    CancelToken, Finding, JobContext, JobError, Part, RepairOptions, VerifyOptions, VerifySummary,
    repair, verify,
};
use shardine::store::{Condition, FaultStore, MemoryStore, Operation, Store, StoreExt};
use shardine::zarr::metadata::GroupMetadata;
use shardine::{ArrayNode, Error, Group, Location};

/// The report on a data set, or on a part of it, in a fixed order.
fn told(at: &Location, decode: bool, part: Option<Part>) -> (VerifySummary, Vec<String>) {
    let mut found = Vec::new();
    let options = VerifyOptions::new().decode(decode).part(part);
    let tell = &mut |finding: Finding| found.push(format!("{finding:?}"));
    let summary = verify(&engine(), at, &options, tell).unwrap();
    found.sort();
    (summary, found)
}

fn parts(count: u32) -> impl Iterator<Item = Option<Part>> {
    (1..=count).map(move |index| Some(Part::Of { index, count }))
}

/// Asserts that all parts together find what one run finds, each thing once; returns how many parts
/// other than the first have found something.
fn assert_parts_make_a_whole(at: &Location) -> usize {
    let mut finders = 0;
    for decode in [false, true] {
        let (whole, expected) = told(at, decode, None);
        for count in [1, 2, 3, 7] {
            let all: Vec<_> = parts(count).map(|part| told(at, decode, part)).collect();
            finders += all.iter().skip(1).filter(|(_, found)| !found.is_empty()).count();
            let mut found: Vec<String> = all.iter().flat_map(|(_, f)| f.clone()).collect();
            found.sort();
            assert_eq!(found, expected, "in {count} parts");
            let sum = |of: fn(&VerifySummary) -> u64| all.iter().map(|(s, _)| of(s)).sum::<u64>();
            assert_eq!(sum(|s| s.objects), whole.objects);
            assert_eq!(sum(|s| s.bytes), whole.bytes);
            assert_eq!(sum(|s| s.chunks), whole.chunks);
            assert_eq!(sum(|s| s.chunks_decoded), whole.chunks_decoded);
            assert_eq!(sum(|s| s.gap_bytes), whole.gap_bytes);
            assert_eq!(sum(|s| s.damage), whole.damage);
            assert_eq!(sum(|s| s.notices), whole.notices);
            assert_eq!(sum(|s| s.lost_chunks), whole.lost_chunks);
        }
    }
    finders
}

/// A fast and poor random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

fn damage(at: &Location, object: &str, random: &mut Random) {
    let mut stored = volumes::get(at, object);
    let len = stored.len() as u64;
    if len == 0 {
        return;
    }
    match random.below(5) {
        0 => stored.clear(),
        1 => stored.truncate(random.below(len) as usize),
        2 => stored.extend([7; 40]),
        _ => stored[random.below(len) as usize] ^= 1 << random.below(8),
    }
    volumes::put(at, object, &stored);
}

/// 4 x 4 shards of 2 x 2 chunks with checksums.
fn array(at: &Location) -> ArrayNode {
    let codecs = json!([common::sharding(&[4, 4], json!([bytes(), "crc32c"]))]);
    let document = document(&[32, 32], &[8, 8], "uint16".into(), 0.into(), codecs);
    let array = ArrayNode::create(&engine(), at, metadata(&document)).unwrap();
    write(&array, "", noise(2048, 3));
    array
}

#[test]
fn the_parts_of_a_hierarchy_find_what_one_run_finds_and_each_thing_once() {
    let mut finders = 0;
    for seed in 0..12 {
        let mut random = Random(seed);
        let root = Location::root(Arc::new(MemoryStore::new()));
        Group::create(&engine(), &root, GroupMetadata::new(Default::default())).unwrap();
        for name in ["a", "b"] {
            array(&root.join(name).unwrap());
            for _ in 0..random.below(6) {
                let (row, column) = (random.below(4), random.below(4));
                damage(&root, &format!("{name}/c/{row}/{column}"), &mut random);
            }
        }
        volumes::put(&root, "a/notes", b"x");
        volumes::put(&root, "a/c/9/9", b"x");
        volumes::put(&root, "lost/c/0", b"x");
        volumes::put(&root, "broken/zarr.json", b"{");
        // What `repair` could not save is recorded, and found by one part.
        if seed % 3 == 0 {
            let at = root.join("b").unwrap();
            let options = RepairOptions::new(Location::root(Arc::new(MemoryStore::new())));
            repair(&engine(), &at, &options.decode(true), &mut |_| {}).unwrap();
        }
        finders += assert_parts_make_a_whole(&root);
    }
    assert!(finders > 50, "{finders}");
}

#[test]
fn the_parts_of_a_volume_find_what_one_run_finds_and_each_thing_once() {
    let (mut finders, mut kinds) = (0, BTreeSet::new());
    for seed in 0..12 {
        let mut random = Random(seed);
        let sharding = volumes::sharding(0, 1, 3, "raw", "raw");
        let [size, half] = [[64, 64, 64], [32, 32, 32]];
        let at = volume(&[scale("1", size, Some(&sharding)), scale("2", half, None)]);
        fill(&at, 0);
        fill(&at, 1);
        match seed % 6 {
            0 => with_index(&at, "1/0.shard", |entries| entries[0].0 = 3),
            1 => with_value(&at, "1/1.shard", 2, &volumes::gzip(&[7; 4096])),
            2 => volumes::edit_info(&at, |info| {
                info["scales"][0]["sharding"]["data_encoding"] = "gzip".into();
            }),
            3 => volumes::remove(&at, "1/7.shard"),
            4 => volumes::put(&at, "1/00.shard", b"x"),
            _ => volumes::put(&at, "1/3.shard.gz", b"x"),
        }
        let shard = |random: &mut Random| format!("1/{}.shard", random.below(7));
        // What cannot be read is not compared with others.
        let most = if seed == 3 { 1 } else { 4 };
        for _ in 0..random.below(most) {
            damage(&at, &shard(&mut random), &mut random);
        }
        volumes::put(&at, "1/notes", b"x");
        let boxes = at.store.list(Some(&volumes::key("2"))).unwrap().objects;
        for _ in 0..3 {
            let (key, _) = &boxes[random.below(boxes.len() as u64) as usize];
            damage(&at, key.as_str(), &mut random);
        }
        finders += assert_parts_make_a_whole(&at);
        kinds.extend(volumes::kinds(&at, true));
    }
    assert!(finders > 50, "{finders}");
    // Findings that need all shards are among those compared.
    for kind in ["data-encoding", "sparse-shard", "misplaced-key", "stray-object", "chunk-size"] {
        assert!(kinds.contains(kind), "{kind} is not in {kinds:?}");
    }
}

#[test]
fn an_object_belongs_to_the_same_part_wherever_the_data_set_is() {
    let place = |path: Option<&str>| {
        let root = Location::root(Arc::new(MemoryStore::new()));
        path.map_or(root.clone(), |path| root.join(path).unwrap())
    };
    let objects = |at: &Location| {
        array(at);
        for row in 0..4 {
            let key = at.key(&format!("c/{row}/{row}")).unwrap();
            at.store.put(&key, b"", Condition::None).unwrap();
        }
        let skip = at.path.as_ref().map_or(0, |path| path.as_str().len() + 1);
        let of_part = |part| {
            let mut found = Vec::new();
            let options = VerifyOptions::new().part(part);
            let tell = &mut |finding: Finding| {
                found.push(finding.object.unwrap().as_str()[skip..].to_owned());
            };
            verify(&engine(), at, &options, tell).unwrap();
            found
        };
        parts(3).map(of_part).collect::<Vec<_>>()
    };
    let here = objects(&place(None));
    assert_eq!(here.concat().len(), 4);
    assert_eq!(objects(&place(Some("deep/er"))), here);
}

#[test]
fn a_part_that_could_not_list_a_folder_is_not_ok() {
    let memory = MemoryStore::new();
    let source = Location::root(Arc::new(MemoryStore::new()));
    array(&source);
    let mut objects = vec!["zarr.json".to_owned()];
    objects.extend((0..16).map(|i| format!("c/{}/{}", i / 4, i % 4)));
    for object in &objects {
        let key = volumes::key(object);
        memory.put(&key, &volumes::get(&source, object), Condition::None).unwrap();
    }
    let faulty = Arc::new(FaultStore::new(memory));
    let at = Location::root(faulty.clone());
    for (part, findings, unread) in [(1, 1, 0), (2, 0, 1)] {
        faulty.fail(Operation::List, 3);
        let (summary, found) = told(&at, false, Some(Part::Of { index: part, count: 2 }));
        assert_eq!(faulty.waiting(), 0);
        assert_eq!((found.len(), summary.unread_folders), (findings, unread));
        assert!(!summary.is_ok());
    }
}

#[test]
fn there_is_nothing_to_finish_after_the_parts() {
    let at = Location::root(Arc::new(MemoryStore::new()));
    array(&at);
    let options = VerifyOptions::new().part(Some(Part::Finish));
    let refused = verify(&engine(), &at, &options, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::Job(JobError::NothingToFinish { .. })), "{refused}");
}

/// A context that is cancelled by the first object, and counts how many were looked at.
fn stopped() -> (JobContext, Arc<AtomicUsize>) {
    let (token, seen) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
    let (cancel, count) = (token.clone(), Arc::clone(&seen));
    let context = JobContext::new(&engine()).cancel(&token).progress(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        cancel.cancel();
    });
    (context, seen)
}

#[test]
fn a_check_that_is_stopped_ends_before_its_next_object() {
    let sharding = volumes::sharding(0, 0, 5, "raw", "raw");
    let sharded = volume(&[scale("1", [64, 64, 32], Some(&sharding))]);
    let boxes = volume(&[scale("1", [64, 64, 32], None)]);
    fill(&sharded, 0);
    fill(&boxes, 0);
    let group = volumes::near();
    Group::create(&engine(), &group, GroupMetadata::new(Default::default())).unwrap();
    for name in ["a", "b"] {
        array(&group.join(name).unwrap());
    }
    let options = VerifyOptions::new().decode(true);
    for at in [&sharded, &boxes, &group] {
        let mut all = 0;
        verify(&engine(), at, &options, &mut |_| all += 1).unwrap();
        assert_eq!(all, 0);
        let (context, seen) = stopped();
        let result = verify(&context, at, &options, &mut |_| {});
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        // Each worker may have started one.
        assert!((1..=2).contains(&seen.load(Ordering::SeqCst)), "{seen:?}");
    }
}

#[test]
fn a_repair_that_is_stopped_ends_before_its_next_object_and_can_be_run_again() {
    let sharding = volumes::sharding(0, 0, 5, "raw", "raw");
    let sharded = volume(&[scale("1", [64, 64, 32], Some(&sharding))]);
    let boxes = volume(&[scale("1", [64, 64, 32], None)]);
    let plain = Location::root(Arc::new(MemoryStore::new()));
    fill(&sharded, 0);
    fill(&boxes, 0);
    array(&plain);
    let damaged: [(&Location, [&str; 3]); 3] = [
        (&sharded, ["1/00.shard", "1/01.shard", "1/02.shard"]),
        (&boxes, ["1/0-16_0-16_0-16", "1/16-32_0-16_0-16", "1/32-48_0-16_0-16"]),
        (&plain, ["c/0/0", "c/1/1", "c/2/2"]),
    ];
    for (at, objects) in damaged {
        let there = || objects.iter().filter(|object| volumes::exists(at, object)).count();
        objects.iter().for_each(|object| volumes::put(at, object, b""));
        let aside = Location::root(Arc::new(MemoryStore::new()));
        let options = RepairOptions::new(aside);
        let token = CancelToken::new();
        let context = JobContext::new(&engine()).cancel(&token);
        let result = repair(&context, at, &options, &mut |_| token.cancel());
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        assert_eq!(there(), 2, "{objects:?}");
        // A job that is cancelled before it begins does nothing.
        let result = repair(&context, at, &options, &mut |_| panic!("it is stopped"));
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        assert_eq!(there(), 2, "{objects:?}");
        let summary = repair(&engine(), at, &options.accept_loss(true), &mut |_| {}).unwrap();
        assert!(summary.is_ok(), "{summary:?}");
        assert_eq!(there(), 0, "{objects:?}");
    }
}
