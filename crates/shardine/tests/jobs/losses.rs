//! What `repair` cannot save is counted, recorded beside the data and reported by `verify`, until
//! it is rewritten or accepted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use crate::common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::*;
use serde_json::json;
use shardine::jobs::{
    CopyOptions, Finding, LOSS_RECORD, RepackOptions, Repair, RepairOptions, RepairSummary,
    Severity, VerifyOptions, VerifySummary, copy, repack, repair, verify,
};
use shardine::store::{FileStore, MemoryStore};
use shardine::zarr::CreateOptions;
use shardine::{ArrayNode, Elements, Error, Location, Packing, Strategy, WriteOptions};
use tempfile::TempDir;

const INDEX: usize = 4 * 16 + 4;

/// An array of 2 x 2 shards of 2 x 2 chunks of 8 x 8 bytes, in the folder `a`.
fn array(folder: &Path) -> ArrayNode {
    let codecs = json!([sharding(&[8, 8], json!([bytes(), "crc32c"]))]);
    let document = document(&[32, 32], &[16, 16], "uint8".into(), 0.into(), codecs);
    let array = create_in(Arc::new(FileStore::new(folder.join("a"))), &document);
    write(&array, "", noise(32 * 32, 3));
    array
}

fn at(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
}

fn mend(
    at: &Location,
    options: impl FnOnce(RepairOptions) -> RepairOptions,
) -> (RepairSummary, Vec<Repair>) {
    let aside = Location::root(Arc::new(MemoryStore::new()));
    let mut told = Vec::new();
    let options = options(RepairOptions::new(aside));
    let summary = repair(&engine(), at, &options, &mut |repair| told.push(repair)).unwrap();
    (summary, told)
}

fn look(at: &Location) -> (VerifySummary, Vec<Finding>) {
    let mut found = Vec::new();
    let summary = verify(&engine(), at, &VerifyOptions::new(), &mut |f| found.push(f)).unwrap();
    (summary, found)
}

fn names(found: &[Finding]) -> Vec<&'static str> {
    found.iter().map(|finding| finding.kind.name()).collect()
}

/// Removes the index of a shard.
fn without_index(path: &Path) {
    let mut shard = fs::read(path).unwrap();
    let at = shard.len() - INDEX + 3;
    shard[at] ^= 1;
    fs::write(path, shard).unwrap();
}

#[test]
fn a_shard_without_an_index_is_lost_until_it_is_written_again() {
    let folder = TempDir::new().unwrap();
    let array = array(folder.path());
    let place = at(&folder.path().join("a"));
    without_index(&folder.path().join("a/c/0/1"));
    let (foreseen, _) = mend(&place, |options| options.dry_run(true));
    assert_eq!((foreseen.lost, foreseen.mended, foreseen.is_ok()), (4, 0, false));
    assert!(!folder.path().join("a").join(LOSS_RECORD).exists());
    let (summary, told) = mend(&place, |options| options);
    assert_eq!((summary.lost, summary.mended, summary.left), (4, 0, 0));
    assert!(!summary.is_ok());
    assert_eq!((told.len(), told[0].lost), (1, 4));
    let (found, findings) = look(&place);
    assert_eq!((found.is_ok(), found.lost_chunks), (false, 4));
    assert_eq!(names(&findings), ["lost-chunk"]);
    assert_eq!(findings[0].shard, Some(vec![0, 1]));
    // It stays lost, however often it is repaired.
    let (again, told) = mend(&place, |options| options);
    assert_eq!((again.lost, told.len(), again.is_ok()), (4, 0, false));

    write(&array, "0:8,16:32", noise(128, 9));
    assert_eq!(look(&place).0.lost_chunks, 2);
    write(&array, "8:16,16:32", noise(128, 9));
    let (found, findings) = look(&place);
    assert!(found.is_ok());
    assert_eq!(names(&findings), ["settled-loss"]);
    let (summary, told) = mend(&place, |options| options);
    assert!(summary.is_ok());
    assert_eq!(told[0].kind.name(), "leftover-removed");
    assert_eq!(look(&place).1, []);
    assert!(!folder.path().join("a").join(LOSS_RECORD).exists());
}

#[test]
fn one_lost_chunk_is_named_and_its_neighbours_are_not() {
    let folder = TempDir::new().unwrap();
    let array = array(folder.path());
    let place = at(&folder.path().join("a"));
    let entry = array.shard_entries(&[1, 1]).unwrap().unwrap().entries[2].clone().unwrap();
    let path = folder.path().join("a/c/1/1");
    let mut shard = fs::read(&path).unwrap();
    shard[entry.start as usize] ^= 1;
    fs::write(&path, shard).unwrap();
    let (summary, told) = mend(&place, |options| options.decode(true));
    assert_eq!((summary.lost, told[0].lost, told[0].chunk.clone()), (1, 1, Some(vec![3, 2])));
    let (found, findings) = look(&place);
    assert_eq!(found.lost_chunks, 1);
    let lost: Vec<_> = findings.iter().filter(|f| f.severity == Severity::Damage).collect();
    assert_eq!((lost.len(), lost[0].kind.name()), (1, "lost-chunk"));
    assert_eq!(lost[0].chunk, Some(vec![3, 2]));
    // Writing a neighbour makes no difference, whatever moves.
    write(&array, "16:24,16:24", noise(64, 1));
    assert_eq!(look(&place).0.lost_chunks, 1);
    write(&array, "24:32,16:24", noise(64, 1));
    assert!(look(&place).0.is_ok());
}

#[test]
fn a_loss_that_is_accepted_is_not_told_any_more() {
    let folder = TempDir::new().unwrap();
    array(folder.path());
    let place = at(&folder.path().join("a"));
    without_index(&folder.path().join("a/c/0/0"));
    mend(&place, |options| options);
    without_index(&folder.path().join("a/c/1/0"));
    let (foreseen, _) = mend(&place, |options| options.accept_loss(true).dry_run(true));
    assert_eq!((foreseen.accepted, look(&place).0.is_ok()), (8, false));
    let (summary, told) = mend(&place, |options| options.accept_loss(true));
    assert_eq!((summary.lost, summary.accepted, summary.is_ok()), (0, 8, true));
    assert_eq!(told.last().unwrap().kind.name(), "loss-accepted");
    assert!(told.last().unwrap().set_aside.is_some());
    assert_eq!(look(&place).1, []);
    assert!(mend(&place, |options| options).0.is_ok());
}

#[test]
fn chunks_that_an_older_index_leads_to_are_told_to_be_possibly_old() {
    let folder = TempDir::new().unwrap();
    let array = array(folder.path());
    let place = at(&folder.path().join("a"));
    let options = WriteOptions::new().strategy(Strategy::Append).max_gap(1.0);
    let new = Elements::Fixed(noise(64, 77));
    array.write_elements("0:8,0:8", new.as_ref(), &options).unwrap();
    // The newest index is torn, and the one before it points to the old version of the chunk that
    // was replaced.
    let path = folder.path().join("a/c/0/0");
    let shard = fs::read(&path).unwrap();
    fs::write(&path, &shard[..shard.len() - 9]).unwrap();
    let (summary, told) = mend(&place, |options| options);
    assert_eq!((summary.unproved, summary.lost, summary.mended), (4, 0, 0));
    assert!(!summary.is_ok());
    assert_eq!(told[0].kind.name(), "index-restored");
    assert!(told[0].message.contains("may be old"), "{}", told[0].message);
    let (found, findings) = look(&place);
    assert_eq!((found.is_ok(), found.unproved_chunks), (false, 4));
    assert_eq!(names(&findings), ["unproved-chunk"]);
    // They are still known after a rewrite has moved them; what is written is no longer old.
    let array = reopen(&array);
    let rewrite = WriteOptions::new().strategy(Strategy::Rewrite);
    array.write_elements("0:8,0:8", new.as_ref(), &rewrite).unwrap();
    assert_eq!(look(&place).0.unproved_chunks, 3);
    let (summary, _) = mend(&place, |options| options.accept_loss(true));
    assert_eq!((summary.accepted, summary.is_ok()), (3, true));
    assert!(look(&place).0.is_ok());
}

#[test]
fn a_copy_tells_of_the_loss_too_and_other_forms_are_refused() {
    let folder = TempDir::new().unwrap();
    array(folder.path());
    let place = at(&folder.path().join("a"));
    without_index(&folder.path().join("a/c/0/0"));
    mend(&place, |options| options);
    let copied = at(&folder.path().join("b"));
    copy(&place, &copied, &CopyOptions::new()).unwrap();
    assert_eq!(look(&copied).0.lost_chunks, 4);
    let options = RepackOptions::new().packing(Packing::Unsharded);
    let target = at(&folder.path().join("c"));
    for target in [None, Some(&target)] {
        let error = repack(&engine(), &place, target, &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::LostChunks { lost: 4, unproved: 0, .. }), "{error}");
    }
    mend(&place, |options| options.accept_loss(true));
    repack(&engine(), &place, Some(&target), &options, &mut |_| {}).unwrap();
    // The record of an array that is overwritten says nothing about the new one.
    let metadata = ArrayNode::open(&engine(), &copied).unwrap().metadata().clone();
    let overwrite = CreateOptions::new().overwrite(true);
    ArrayNode::create_with(&engine(), &copied, metadata, &overwrite).unwrap();
    assert!(look(&copied).0.is_ok());
}

#[test]
fn a_record_that_makes_no_sense_is_damage_and_can_be_given_up() {
    let folder = TempDir::new().unwrap();
    array(folder.path());
    let place = at(&folder.path().join("a"));
    let record = folder.path().join("a").join(LOSS_RECORD);
    let far = json!({"shardine_losses": 1, "grid": [[16, 16], [8, 8]], "objects": {
        "c/0/0": {"entries": [[4_000_000_000u32, 7], []]}, "c/9/9": {"whole": true}, "x": {}}});
    let other = json!({"shardine_losses": 1, "grid": [[4, 4], [2, 2]], "objects": {}});
    for (text, ok) in [
        ("{".to_owned(), false),
        (json!({"shardine_losses": 2, "objects": {}}).to_string(), false),
        (other.to_string(), false),
        (far.to_string(), false),
    ] {
        fs::write(&record, text).unwrap();
        assert_eq!(look(&place).0.is_ok(), ok);
        let (summary, _) = mend(&place, |options| options);
        assert!(!summary.is_ok());
        assert!(mend(&place, |options| options.accept_loss(true)).0.is_ok());
        assert!(look(&place).0.is_ok());
    }
}

mod volumes {
    use std::sync::Arc;

    use serde_json::json;
    use shardine::jobs::{RepackVolumeOptions, Severity, repack_volume};
    use shardine::precomputed::{KeyValueStore, KeyValues};
    use shardine::store::MemoryStore;
    use shardine::{Error, Location};

    use super::common::engine;
    use super::common::volumes::*;
    use super::{look, mend, names};

    fn scale_of(sharding: Option<&serde_json::Value>) -> Location {
        let at = volume(&[scale("1", [32, 32, 32], sharding)]);
        fill(&at, 0);
        at
    }

    /// Repairs, and finds this many chunks lost, until the volume has been rewritten.
    fn lost(at: &Location, count: u64) {
        let (summary, told) = mend(at, |options| options.decode(true));
        assert_eq!((summary.lost, summary.mended, summary.is_ok()), (count, 0, false), "{told:?}");
        let (found, findings) = look(at);
        assert_eq!((found.lost_chunks, found.is_ok()), (count, false));
        let damage = findings.iter().filter(|f| f.severity == Severity::Damage);
        assert!(damage.clone().all(|f| f.kind.name() == "lost-chunk"), "{findings:?}");
        assert_eq!(mend(at, |options| options.decode(true)).0.lost, count);
        let options = RepackVolumeOptions::new(None);
        let target = Location::root(Arc::new(MemoryStore::new()));
        let error = repack_volume(&engine(), at, Some(&target), &options, &mut |_| {});
        assert!(matches!(error, Err(Error::LostChunks { .. })), "{error:?}");
        fill(at, 0);
        assert!(look(at).0.is_ok());
        assert!(mend(at, |options| options).0.is_ok());
        assert_eq!(look(at).1, []);
    }

    #[test]
    fn lost_chunks_of_a_volume_are_told_until_they_are_written_again() {
        // One value, one minishard, one shard, and a chunk that is an object.
        let at = scale_of(Some(&sharding(0, 0, 0, "raw", "raw")));
        with_index(&at, "1/0.shard", |entries| entries[7].1 = 1 << 40);
        lost(&at, 1);
        let at = scale_of(Some(&sharding(0, 1, 0, "raw", "raw")));
        let mut shard = get(&at, "1/0.shard");
        shard[15] = 0x7f;
        put(&at, "1/0.shard", &shard);
        lost(&at, 4);
        let at = scale_of(Some(&sharding(0, 1, 1, "raw", "raw")));
        put(&at, "1/1.shard", &[1; 20]);
        lost(&at, 4);
        let at = scale_of(None);
        put(&at, "1/0-16_0-16_0-16", &[5; 99]);
        lost(&at, 1);
    }

    #[test]
    fn values_whose_keys_nobody_knows_are_lost_until_that_is_accepted() {
        let at = near();
        let info =
            json!({"@type": "neuroglancer_skeletons", "sharding": sharding(0, 0, 0, "raw", "raw")});
        put(&at, "info", info.to_string().as_bytes());
        let store = KeyValueStore::open(&engine(), &at).unwrap();
        store.update(&KeyValues::new().put(1, vec![1; 9]).put(2, vec![2; 9])).unwrap();
        put(&at, "0.shard", &[1; 3]);
        let (summary, _) = mend(&at, |options| options);
        assert_eq!((summary.lost, summary.is_ok()), (1, false));
        store.update(&KeyValues::new().put(1, vec![1; 9])).unwrap();
        let (_, findings) = look(&at);
        assert!(findings[0].message.contains("its keys are unknown"), "{findings:?}");
        assert!(mend(&at, |options| options.accept_loss(true)).0.is_ok());
        assert_eq!(look(&at).1, []);
    }

    /// A shard of one minishard whose index is all zeros, for this many keys.
    fn zeros(keys: usize) -> Location {
        let at = near();
        let info =
            json!({"@type": "neuroglancer_skeletons", "sharding": sharding(0, 0, 0, "raw", "raw")});
        put(&at, "info", info.to_string().as_bytes());
        let mut shard = [0u64, keys as u64 * 24].map(u64::to_le_bytes).concat();
        shard.resize(16 + keys * 24, 0);
        put(&at, "0.shard", &shard);
        at
    }

    #[test]
    fn an_index_of_zeros_has_a_bounded_number_of_findings() {
        let keys = 300_000;
        let at = zeros(keys);
        let (summary, findings) = look(&at);
        assert!(!summary.is_ok());
        assert!(findings.len() <= 10_000, "{}", findings.len());
        assert_eq!(
            summary.untold.total() + findings.len() as u64,
            summary.damage + summary.notices
        );
        assert!(summary.damage >= keys as u64 - 1, "{}", summary.damage);
        let (summary, told) = mend(&at, |options| options);
        assert!(told.len() <= 10_000, "{}", told.len());
        assert_eq!(
            summary.untold + told.len() as u64,
            summary.mended + summary.lost + summary.left
        );
    }

    #[test]
    fn more_keys_than_are_looked_at_one_by_one_are_damage_if_some_are_bad() {
        let at = zeros(2_200_000);
        let (summary, findings) = look(&at);
        assert_eq!((summary.is_ok(), names(&findings)), (false, vec!["index"]));
        // And they are left alone.
        let before = get(&at, "0.shard");
        let (summary, _) = mend(&at, |options| options);
        assert_eq!((summary.left, summary.lost), (1, 0));
        assert!(get(&at, "0.shard") == before);
    }

    #[test]
    fn what_is_set_aside_is_not_more_than_there_was() {
        // Each of many values claims all of the shard.
        let at = zeros(1);
        let values: Vec<Value64> = (0..3000).map(|key| (0, key, vec![7; 20])).collect();
        put(&at, "0.shard", &built(0, false, &values));
        let len = get(&at, "0.shard").len() as u64;
        with_index(&at, "0.shard", |entries| {
            entries.iter_mut().for_each(|entry| (entry.1, entry.2) = (8, len - 8));
        });
        let (summary, _) = mend(&at, |options| options);
        assert_eq!(summary.lost, 3000);
        assert!(summary.bytes_set_aside <= 3 * len, "{} of {len}", summary.bytes_set_aside);
    }
}

#[test]
fn findings_of_an_array_are_bounded_and_counted() {
    let codecs = json!([sharding(&[1, 1], json!([bytes()]))]);
    let document = document(&[256, 256], &[256, 256], "uint8".into(), 0.into(), codecs);
    let array = create(&document);
    let entries: Vec<u8> =
        (0..65536u64).flat_map(|i| [(1 << 40) + i, 1]).flat_map(u64::to_le_bytes).collect();
    let sum = crc32c::crc32c(&entries).to_le_bytes();
    let place = array.location();
    use shardine::store::{Condition, Key, StoreExt};
    let shard = [&entries[..], &sum].concat();
    place.store.put(&Key::new("c/0/0").unwrap(), &shard, Condition::None).unwrap();
    let (summary, findings) = look(place);
    assert_eq!(summary.damage, 65536);
    assert!(findings.len() <= 10_000);
    assert_eq!(summary.untold.total(), 65536 - findings.len() as u64);
    let mut few = Vec::new();
    let options = VerifyOptions::new().max_findings(7);
    let summary = verify(&engine(), place, &options, &mut |f| few.push(f)).unwrap();
    assert_eq!((few.len(), summary.damage, summary.untold.total()), (7, 65536, 65529));
    let (summary, told) = mend(place, |options| options);
    assert_eq!((summary.lost, told.len(), summary.untold), (65536, 10_000, 55536));
    assert_eq!(look(place).0.lost_chunks, 65536);
}
