//! Jobs on remote stores: few requests, many of them in parallel, and none that cannot be answered.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::findings::*;
use common::odd_store::OddStore;
use common::*;
use serde_json::{Value, json};
use shardine::jobs::{
    CompactOptions, Finding, RepairOptions, VerifyOptions, VerifySummary, compact, repair, verify,
};
use shardine::store::{Condition, CountingStore, Counts, Key, Store, StoreExt};
use shardine::{ArrayNode, Engine, EngineError, EngineOptions, Error, Group, Location, Node};

/// A store that responds slowly, and counts.
struct Far {
    odd: Arc<OddStore>,
    store: Arc<CountingStore<Arc<OddStore>>>,
    engine: Arc<Engine>,
}

impl Far {
    fn new() -> Self {
        let odd = OddStore::new();
        Self { store: Arc::new(CountingStore::new(Arc::clone(&odd))), odd, engine: engine() }
    }

    fn put(&self, object: &str, bytes: &[u8]) {
        self.odd.put(&key(object), bytes, Condition::None).unwrap();
    }

    fn location(&self) -> Location {
        Location::root(Arc::clone(&self.store) as Arc<dyn Store>)
    }

    fn array(&self) -> ArrayNode {
        ArrayNode::open(&self.engine, &self.location()).unwrap()
    }

    /// What a job costs, and the most requests that it had in flight.
    fn cost<T>(&self, job: impl FnOnce() -> T) -> (T, Counts, usize) {
        self.store.reset();
        self.odd.peak.store(0, Ordering::SeqCst);
        let outcome = job();
        (outcome, self.store.counts(), self.odd.peak.load(Ordering::SeqCst))
    }

    fn verify(&self, decode: bool) -> (VerifySummary, Vec<Finding>) {
        let mut findings = Vec::new();
        let options = VerifyOptions::new().decode(decode);
        let tell = &mut |finding| findings.push(finding);
        let summary = verify(&self.engine, &self.location(), &options, tell).unwrap();
        (summary, findings)
    }
}

const SHARDS: u64 = 64;
const CHUNKS: u64 = 16_384;

/// The contents of each shard: chunks of a byte each, and a gap after the first ones.
fn tiny_shard(chunks: u64, gap: u64) -> Vec<u8> {
    let mut bytes = noise((chunks + gap) as usize, 7);
    let mut index = Vec::new();
    for chunk in 0..chunks {
        let offset = if chunk < chunks / 2 { chunk } else { chunk + gap };
        index.extend([offset, 1].map(u64::to_le_bytes).as_flattened());
    }
    index.extend(crc32c(&index).to_le_bytes());
    bytes.extend(index);
    bytes
}

fn tiny_document(shards: u64, chunks: u64) -> Value {
    let codecs = json!([sharding(&[1], json!([bytes()]))]);
    document(&[shards * chunks], &[chunks], "uint8".into(), 0.into(), codecs)
}

/// A million chunks in 64 shards.
fn million() -> Far {
    let far = Far::new();
    far.put("zarr.json", tiny_document(SHARDS, CHUNKS).to_string().as_bytes());
    let shard = tiny_shard(CHUNKS, 0);
    (0..SHARDS).for_each(|i| far.put(&format!("c/{i}"), &shard));
    far.odd.latency.store(5, Ordering::SeqCst);
    far
}

/// Bytes of an index of this many chunks.
fn index_bytes(chunks: u64) -> u64 {
    chunks * 16 + 4
}

#[test]
fn a_million_chunks_are_verified_by_a_request_for_each_shard() {
    let far = million();
    let ((summary, findings), counts, peak) = far.cost(|| far.verify(false));
    assert_eq!(findings, []);
    assert_eq!((summary.objects, summary.chunks), (SHARDS, SHARDS * CHUNKS));
    assert!(!summary.unlisted);
    // The document and the indexes; the root and the folder `c`.
    assert_eq!((counts.reads, counts.lists), (1 + SHARDS, 2));
    assert!(counts.bytes_read < SHARDS * index_bytes(CHUNKS) + 1000);
    assert!((12..=16).contains(&peak), "{peak} at once");
}

#[test]
fn the_indexes_of_a_million_chunks_are_read_by_a_request_for_each_shard() {
    let far = million();
    let (chunks, counts, peak) = far.cost(|| {
        let (array, mut chunks) = (far.array(), 0);
        let objects = array.possible_objects().unwrap();
        let mut cells = Vec::new();
        array.each_shard(&objects, &mut |object, entries| {
            cells.push(object.cell[0]);
            chunks += entries.unwrap().unwrap().entries.iter().flatten().count() as u64;
            ControlFlow::Continue(())
        });
        assert_eq!(cells, (0..SHARDS).collect::<Vec<_>>());
        chunks
    });
    assert_eq!(chunks, SHARDS * CHUNKS);
    assert_eq!((counts.reads, counts.lists), (1 + SHARDS, 2));
    assert!(counts.bytes_read < SHARDS * index_bytes(CHUNKS) + 1000);
    assert!((12..=16).contains(&peak), "{peak} at once");
    let (objects, counts, _) = far.cost(|| far.array().objects().unwrap());
    assert_eq!((objects.len() as u64, counts.reads, counts.lists), (SHARDS, 1, 2));
}

#[test]
fn dry_runs_cost_what_looking_costs() {
    let far = million();
    far.put("c/9", &tiny_shard(CHUNKS, 100));
    let options = CompactOptions::new().dry_run(true);
    let mut told = Vec::new();
    let (summary, counts, peak) = far.cost(|| {
        compact(&far.engine, &far.location(), &options, &mut |shard| told.push(shard.unwrap()))
            .unwrap()
    });
    assert_eq!((summary.shards, summary.compacted, summary.failed), (SHARDS, 1, 0));
    assert_eq!((told[0].shard.clone(), told[0].before - told[0].after), (vec![9], 100));
    assert_eq!((counts.reads, counts.lists), (1 + SHARDS, 2));
    assert!((12..=16).contains(&peak), "{peak} at once");

    let aside = Location::root(Arc::new(shardine::store::MemoryStore::new()));
    let options = RepairOptions::new(aside).dry_run(true);
    let (summary, counts, peak) =
        far.cost(|| repair(&far.engine, &far.location(), &options, &mut |_| {}).unwrap());
    assert_eq!((summary.mended, summary.left), (0, 0));
    // The document once more, to distinguish an array from a volume.
    assert_eq!((counts.reads, counts.lists), (2 + SHARDS, 2));
    assert!((12..=16).contains(&peak), "{peak} at once");
}

#[test]
fn no_more_indexes_are_on_their_way_than_the_memory_allows() {
    let mut far = million();
    far.engine = Engine::new(&EngineOptions::new().threads(2).memory(8 << 20)).unwrap();
    let ((summary, _), _, peak) = far.cost(|| far.verify(false));
    assert_eq!(summary.chunks, SHARDS * CHUNKS);
    // Four times an index each, of 4 MiB.
    assert!((2..=4).contains(&peak), "{peak} at once");
}

#[test]
fn chunks_are_decoded_from_large_reads() {
    let far = Far::new();
    let array = create_in(far.odd.clone(), &sharded(&[2048, 2048], &[1024, 1024], &[32, 32]));
    write(&array, "", noise(2048 * 2048 * 2, 1));
    far.odd.latency.store(2, Ordering::SeqCst);
    let ((summary, findings), counts, peak) = far.cost(|| far.verify(true));
    assert_eq!(findings, []);
    assert_eq!((summary.chunks_decoded, summary.objects), (4096, 4));
    // Shards of 2 MiB: the index, and pieces of about a MiB.
    assert!(counts.reads <= 1 + 4 * 4, "{counts:?}");
    assert!(peak > 4, "{peak} at once");
    // A damaged chunk is still reported individually.
    let mut bytes = far.odd.get(&key("c/0/1")).unwrap().unwrap().to_vec();
    let entry = array.shard_entries(&[0, 1]).unwrap().unwrap().entries[40].clone().unwrap();
    bytes[entry.start as usize..entry.end as usize].fill(0);
    far.put("c/0/1", &bytes);
    let (_, findings) = far.verify(true);
    assert_eq!(kinds(&findings), ["chunk"]);
    assert_eq!(findings[0].chunk, Some(vec![1, 32 + 8]));
}

#[test]
fn small_shards_are_decoded_from_one_read_each() {
    let far = Far::new();
    far.put("zarr.json", tiny_document(20, 64).to_string().as_bytes());
    (0..20).for_each(|i| far.put(&format!("c/{i}"), &tiny_shard(64, 0)));
    let ((summary, findings), counts, _) = far.cost(|| far.verify(true));
    assert_eq!((findings, summary.chunks_decoded), (vec![], 20 * 64));
    assert_eq!(counts.reads, 1 + 20);
}

#[test]
fn indexes_of_shards_in_shards_are_read_together() {
    let inner = sharding(&[4, 4], json!([bytes()]));
    let codecs = json!([sharding(&[16, 16], json!([inner]))]);
    let document = document(&[256, 256], &[256, 256], "uint8".into(), 0.into(), codecs);
    let far = Far::new();
    let array = create_in(far.odd.clone(), &document);
    write(&array, "", noise(256 * 256, 1));
    far.odd.latency.store(2, Ordering::SeqCst);
    for decode in [false, true] {
        let ((summary, findings), _, peak) = far.cost(|| far.verify(decode));
        assert_eq!((findings, summary.chunks), (vec![], 4096));
        assert!(decode || peak > 8, "{peak} at once");
    }
}

#[test]
fn what_is_replaced_after_it_was_listed_is_no_damage() {
    for decode in [false, true] {
        for (old, new) in [((64, 0), (64, 30)), ((64, 30), (64, 0))] {
            let far = Far::new();
            far.put("zarr.json", tiny_document(3, 64).to_string().as_bytes());
            (0..3).for_each(|i| far.put(&format!("c/{i}"), &tiny_shard(old.0, old.1)));
            let replace = || {
                let new = tiny_shard(new.0, new.1);
                *far.odd.replaced.lock().unwrap() = vec![(key("c/1"), new)];
            };
            replace();
            let (summary, findings) = far.verify(decode);
            assert!(findings.iter().all(|f| f.kind.name() == "gap"), "{findings:?}");
            assert_eq!((summary.objects, summary.chunks), (3, 192));
            assert!(far.odd.replaced.lock().unwrap().is_empty());
            far.put("c/1", &tiny_shard(old.0, old.1));
            let array = far.array();
            replace();
            let objects = array.possible_objects().unwrap();
            array.each_shard(&objects, &mut |object, entries| {
                let gap = if object.cell == [1] { new.1 } else { old.1 };
                assert_eq!(entries.unwrap().unwrap().gap_bytes, gap);
                ControlFlow::Continue(())
            });
        }
    }
}

#[test]
fn an_array_in_a_store_that_cannot_list_is_looked_at_by_its_grid() {
    let far = Far::new();
    far.put("zarr.json", tiny_document(40, 64).to_string().as_bytes());
    for i in (0..40).filter(|i| i % 4 != 0) {
        far.put(&format!("c/{i}"), &tiny_shard(64, 0));
    }
    far.put("c/7", &tiny_shard(64, 0)[..100]);
    far.put("c/8", b"");
    let mut garbled = tiny_shard(64, 0);
    *garbled.last_mut().unwrap() ^= 1;
    far.put("c/9", &garbled);
    far.odd.unlistable.store(true, Ordering::SeqCst);
    for decode in [false, true] {
        let ((summary, findings), counts, _) = far.cost(|| far.verify(decode));
        assert_eq!(kinds(&findings), ["truncated", "empty-object", "index"]);
        assert_eq!(findings[2].shard, Some(vec![9]));
        assert!(summary.unlisted);
        assert_eq!((summary.objects, summary.chunks), (31, 28 * 64));
        // The truncated one and the one without an index are read whole too.
        let decoding = if decode { 30 } else { 0 };
        // Each damaged one is opened again, to confirm the damage. And the record of losses is
        // read.
        assert_eq!(counts.reads, 1 + 40 + 3 + decoding + 1);
    }
    let array = far.array();
    assert_eq!(array.objects().unwrap().len(), 31);
    let (_, counts, _) = far.cost(|| {
        let objects = array.possible_objects().unwrap();
        let (mut sound, mut absent) = (0, 0);
        array.each_shard(&objects, &mut |object, entries| {
            assert_eq!(object.listed, None);
            match entries {
                Ok(Some(_)) => sound += 1,
                Ok(None) => absent += 1,
                Err(error) => {
                    assert!(matches!(error, Error::Engine(EngineError::Shard { .. })), "{error}")
                }
            }
            ControlFlow::Continue(())
        });
        assert_eq!((sound, absent), (28, 9));
    });
    // An invalid index is read again, in case it was being changed.
    assert_eq!(counts.reads, 40 + 1);
    // Damage can be repaired there too.
    let aside = Location::root(Arc::new(shardine::store::MemoryStore::new()));
    let summary = repair(&far.engine, &far.location(), &RepairOptions::new(aside), &mut |_| {});
    assert_eq!(summary.unwrap().lost, 3 * 64);
    let (summary, findings) = far.verify(true);
    assert_eq!((summary.lost_chunks, kinds(&findings)), (3 * 64, vec!["lost-chunk"; 3]));
}

#[test]
fn plain_chunks_in_a_store_that_cannot_list_are_asked_for() {
    let far = Far::new();
    let document = document(&[8], &[2], "uint8".into(), 0.into(), json!([bytes()]));
    far.put("zarr.json", document.to_string().as_bytes());
    far.put("c/1", &[1, 2]);
    far.put("c/2", &[1, 2, 3]);
    far.odd.unlistable.store(true, Ordering::SeqCst);
    let (summary, findings) = far.verify(false);
    assert_eq!((kinds(&findings), summary.objects), (vec!["chunk-size"], 2));
    let lengths: Vec<u64> = far.array().objects().unwrap().iter().map(|o| o.len).collect();
    assert_eq!(lengths, [2, 3]);
}

#[test]
fn a_grid_that_is_too_large_to_ask_for_is_told() {
    let far = Far::new();
    far.put("zarr.json", tiny_document(10_001, 4).to_string().as_bytes());
    far.odd.unlistable.store(true, Ordering::SeqCst);
    let error = far.array().objects().unwrap_err();
    assert!(matches!(error, Error::UnlistedObjects { objects: 10_001, .. }), "{error}");
    assert!(error.hint().is_some());
}

/// A group of two arrays and a group with another, with or without consolidated metadata.
fn hierarchy(consolidated: bool) -> Far {
    let far = Far::new();
    let group = || json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    let mut root = group();
    if consolidated {
        let array = tiny_document(2, 8);
        let nodes = json!({"b": array, "a": array, "inner": group(), "inner/c": array});
        root["consolidated_metadata"] =
            json!({"kind": "inline", "must_understand": false, "metadata": nodes});
    }
    far.put("zarr.json", root.to_string().as_bytes());
    far.put("inner/zarr.json", group().to_string().as_bytes());
    for array in ["a", "b", "inner/c"] {
        far.put(&format!("{array}/zarr.json"), tiny_document(2, 8).to_string().as_bytes());
        far.put(&format!("{array}/c/1"), &tiny_shard(8, 0));
    }
    far
}

fn names(group: &Group) -> Vec<String> {
    group.children().unwrap().into_iter().map(|child| child.name).collect()
}

#[test]
fn nodes_in_a_store_that_cannot_list_are_those_of_consolidated_metadata() {
    let far = hierarchy(true);
    let (listed, findings) = far.verify(true);
    assert_eq!(findings, []);
    far.odd.unlistable.store(true, Ordering::SeqCst);
    let (summary, findings) = far.verify(true);
    assert_eq!(findings, []);
    assert_eq!((summary.arrays, summary.groups, summary.objects), (3, 2, 3));
    assert!(summary.unlisted && !listed.unlisted);
    let Node::Group(root) = Node::open(&far.engine, &far.location()).unwrap() else { panic!() };
    assert_eq!(names(&root), ["a", "b", "inner"]);
    let child = root.children().unwrap().remove(2);
    assert!(!child.listed);
    let Ok(Node::Group(inner)) = child.node else { panic!() };
    assert_eq!(names(&inner), ["c"]);
    // A node that is named but missing.
    far.odd.delete(&key("a/zarr.json"), &Condition::None).unwrap();
    assert_eq!(kinds(&far.verify(false).1), ["consolidated-metadata"]);
}

#[test]
fn without_either_it_is_said_what_to_do() {
    let far = hierarchy(false);
    far.odd.unlistable.store(true, Ordering::SeqCst);
    let error =
        verify(&far.engine, &far.location(), &VerifyOptions::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::UnlistedGroup { .. }), "{error}");
    assert!(error.hint().unwrap().contains("consolidate"));
    let Node::Group(root) = Node::open(&far.engine, &far.location()).unwrap() else { panic!() };
    assert!(matches!(root.children(), Err(Error::UnlistedGroup { .. })));
    let array = far.location().at(Some(Key::new("a").unwrap()));
    assert!(check_at(&array, true).0.is_ok());
}

#[test]
fn folders_and_documents_of_a_far_store_are_read_side_by_side() {
    let far = Far::new();
    let codecs = json!([sharding(&[1, 1], json!([bytes()]))]);
    let document = document(&[64, 2], &[1, 2], "uint8".into(), 0.into(), codecs);
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    far.put("zarr.json", group.to_string().as_bytes());
    for array in 0..32 {
        far.put(&format!("{array}/zarr.json"), document.to_string().as_bytes());
    }
    for i in 0..32 {
        far.put(&format!("0/c/{i}/0"), &tiny_shard(2, 0));
    }
    far.odd.latency.store(2, Ordering::SeqCst);
    let (objects, counts, peak) = far.cost(|| {
        let location = far.location().at(Some(Key::new("0").unwrap()));
        ArrayNode::open(&far.engine, &location).unwrap().objects().unwrap()
    });
    assert_eq!((objects.len(), counts.lists), (32, 34));
    assert!(peak > 8, "{peak} listings at once");
    let (children, counts, peak) = far.cost(|| {
        let Node::Group(root) = Node::open(&far.engine, &far.location()).unwrap() else { panic!() };
        names(&root).len()
    });
    assert_eq!((children, counts.reads, counts.lists), (32, 33, 1));
    assert!(peak > 8, "{peak} documents at once");
}
