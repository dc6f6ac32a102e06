//! Repairs and compactions: what can be repaired is, what cannot is kept, and nothing else changes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use shardine::jobs::{
    CancelToken, CompactOptions, FindingKind, JobContext, Repair, RepairKind, RepairOptions,
    Severity, VerifyOptions, compact, repair, verify,
};
use shardine::store::{FaultStore, FileStore, MemoryStore, Operation};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{
    ArrayNode, Elements, ElementsRef, Engine, Error, Location, Region, Strategy, WriteOptions,
};
use tempfile::TempDir;

/// An array of 32 x 32 bytes in one shard of 4 x 4 chunks, beside a folder for what is set aside.
struct Case {
    folder: TempDir,
}

const SIDE: usize = 32;
const INDEX: usize = 16 * 16 + 4;

fn sharding(chunk: u64, inner: &Value, location: &str) -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": [chunk, chunk], "codecs": inner, "index_location": location,
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]}})
}

impl Case {
    fn new(location: &str) -> Self {
        Self::of(json!([sharding(8, &json!(["bytes", "crc32c"]), location)]))
    }

    fn of(codecs: Value) -> Self {
        let case = Self { folder: TempDir::new().unwrap() };
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": [SIDE, SIDE], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [SIDE, SIDE]}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 7, "codecs": codecs,
        });
        let NodeMetadata::Array(metadata) =
            NodeMetadata::parse(document.to_string().as_bytes()).unwrap()
        else {
            panic!("it is an array")
        };
        let engine = Engine::shared().unwrap();
        let array = ArrayNode::create(&engine, &case.location(), metadata).unwrap();
        array
            .write_elements(Region::all(), ElementsRef::Fixed(&elements()), &WriteOptions::new())
            .unwrap();
        case
    }

    fn location(&self) -> Location {
        Location::parse(self.folder.path().join("a.zarr").to_str().unwrap()).unwrap()
    }

    fn array(&self) -> ArrayNode {
        ArrayNode::open(&Engine::shared().unwrap(), &self.location()).unwrap()
    }

    fn shard(&self) -> PathBuf {
        self.folder.path().join("a.zarr/c/0/0")
    }

    fn aside(&self) -> PathBuf {
        self.folder.path().join("aside")
    }

    /// Corrupts the bytes of the shard.
    fn spoil(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.shard()).unwrap();
        change(&mut bytes);
        fs::write(self.shard(), bytes).unwrap();
    }

    /// Changes an entry of the shard's index, and updates its checksum.
    fn spoil_entry(&self, at_start: bool, entry: usize, offset: u64, len: u64) {
        self.spoil(|bytes| {
            let start = if at_start { 0 } else { bytes.len() - INDEX };
            let index = &mut bytes[start..start + INDEX];
            index[entry * 16..entry * 16 + 8].copy_from_slice(&offset.to_le_bytes());
            index[entry * 16 + 8..entry * 16 + 16].copy_from_slice(&len.to_le_bytes());
            let checksum = crc32c::crc32c(&index[..INDEX - 4]);
            index[INDEX - 4..].copy_from_slice(&checksum.to_le_bytes());
        });
    }

    fn repair(&self, decode: bool, dry_run: bool) -> Vec<Repair> {
        let aside = Location::parse(self.aside().to_str().unwrap()).unwrap();
        let options = RepairOptions::new(aside).decode(decode).dry_run(dry_run);
        let mut told = Vec::new();
        let engine = Engine::shared().unwrap();
        repair(&engine, &self.location(), &options, &mut |repair| told.push(repair)).unwrap();
        told
    }

    /// Repairs; a dry run before reports the same and changes nothing.
    fn kinds(&self, decode: bool) -> Vec<(RepairKind, Option<Vec<u64>>)> {
        let before = contents(self.folder.path());
        let kind = |repair: Repair| (repair.kind, repair.chunk);
        let foreseen: Vec<_> = self.repair(decode, true).into_iter().map(kind).collect();
        assert_eq!(contents(self.folder.path()), before);
        let done: Vec<_> = self.repair(decode, false).into_iter().map(kind).collect();
        assert_eq!(done, foreseen);
        // Nothing is wrong any more except the losses, which are reported until they are dealt
        // with.
        let found = self.damage();
        let is_loss = |kind: &FindingKind| {
            matches!(kind, FindingKind::LostChunk | FindingKind::UnprovedChunk)
        };
        assert!(found.iter().all(is_loss), "{done:?}: {found:?}");
        let takes = [RepairKind::ChunkSetAside, RepairKind::ObjectSetAside];
        let takes = done.iter().any(|(kind, _)| takes.contains(kind));
        assert_eq!(found.contains(&FindingKind::LostChunk), takes, "{done:?}: {found:?}");
        assert_eq!(self.repair(true, false), []);
        done
    }

    /// The kinds of damage that there are.
    fn damage(&self) -> Vec<FindingKind> {
        let mut found = Vec::new();
        let options = VerifyOptions::new().decode(true);
        let engine = Engine::shared().unwrap();
        verify(&engine, &self.location(), &options, &mut |finding| {
            found.extend((finding.severity == Severity::Damage).then_some(finding.kind));
        })
        .unwrap();
        found
    }

    fn is_sound(&self) -> bool {
        let options = VerifyOptions::new().decode(true);
        let engine = Engine::shared().unwrap();
        verify(&engine, &self.location(), &options, &mut |_| {}).unwrap().is_ok()
    }

    /// Fails unless the array is unchanged except for these chunks, which hold only the fill value.
    fn lost(&self, chunks: &[[usize; 2]]) {
        let mut expected = elements();
        for [row, column] in chunks {
            for i in 0..64 {
                expected[(row * 8 + i / 8) * SIDE + column * 8 + i % 8] = 7;
            }
        }
        assert_eq!(self.array().read_elements(Region::all()).unwrap(), Elements::Fixed(expected));
    }
}

fn elements() -> Vec<u8> {
    (0..SIDE * SIDE).map(|i| (i * i / 7 + i) as u8 | 8).collect()
}

/// All files below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_sound_array_is_left_alone() {
    for location in ["start", "end"] {
        let case = Case::new(location);
        let before = contents(case.folder.path());
        assert_eq!(case.repair(true, false), []);
        assert_eq!(contents(case.folder.path()), before);
    }
}

#[test]
fn a_damaged_chunk_is_set_aside_and_the_others_stay() {
    for location in ["start", "end"] {
        let case = Case::new(location);
        let entries = case.array().shard_entries(&[0, 0]).unwrap().unwrap().entries;
        let place = entries[6].clone().unwrap();
        case.spoil(|bytes| bytes[place.start as usize + 5] ^= 0x40);
        let damaged =
            fs::read(case.shard()).unwrap()[place.start as usize..place.end as usize].to_vec();
        assert!(case.array().read_elements(Region::all()).is_err());
        assert_eq!(case.repair(false, false), []);
        assert_eq!(case.kinds(true), [(RepairKind::ChunkSetAside, Some(vec![1, 2]))]);
        case.lost(&[[1, 2]]);
        let kept = contents(&case.aside());
        let bytes = kept.iter().find(|(path, _)| path.extension().unwrap() == "bytes").unwrap();
        assert_eq!(*bytes.1, damaged);
        let about = kept.iter().find(|(path, _)| path.extension().unwrap() == "json").unwrap();
        let about: Value = serde_json::from_slice(about.1).unwrap();
        assert_eq!((&about["chunk"], &about["object"]), (&json!([1, 2]), &json!("c/0/0")));
        // And it can be written again.
        let data = [1; 64];
        let region = Region::of_box(&[8, 16], &[8, 8]);
        case.array()
            .write_elements(&region, ElementsRef::Fixed(&data), &WriteOptions::new())
            .unwrap();
        assert_eq!(case.array().read_elements(&region).unwrap(), Elements::Fixed(data.to_vec()));
    }
}

#[test]
fn entries_that_mean_nothing_are_emptied() {
    for (at_start, location) in [(true, "start"), (false, "end")] {
        for (offset, len) in
            [(1 << 40, 68), (0, u64::MAX), (u64::MAX, 68), (u64::MAX - 3, 100), (300, 0)]
        {
            let case = Case::new(location);
            case.spoil_entry(at_start, 5, offset, len);
            let chunk = Some(vec![1, 1]);
            assert_eq!(case.kinds(false), [(RepairKind::ChunkSetAside, chunk)], "{offset} {len}");
            case.lost(&[[1, 1]]);
        }
    }
}

#[test]
fn chunks_that_share_bytes_get_bytes_of_their_own_if_they_make_sense() {
    let raw = json!([sharding(8, &json!(["bytes"]), "end")]);
    let case = Case::of(raw);
    // Without a checksum any 64 bytes are a chunk.
    let entries = case.array().shard_entries(&[0, 0]).unwrap().unwrap().entries;
    let first = entries[3].clone().unwrap();
    case.spoil_entry(false, 9, first.start + 32, 64);
    let before = case.array().read_elements(Region::all()).unwrap();
    // It reaches over two others.
    let kinds: Vec<_> = case.kinds(false).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [RepairKind::Separated; 2]);
    assert_eq!(case.array().read_elements(Region::all()).unwrap(), before);

    let case = Case::new("end");
    case.spoil_entry(false, 9, first.start + 32, 68);
    assert!(case.kinds(false).contains(&(RepairKind::ChunkSetAside, Some(vec![2, 1]))));
}

#[test]
fn a_torn_tail_is_cut_behind_the_last_valid_index() {
    let case = Case::new("end");
    // The first state of the shard, followed by a torn update.
    let data = [9; 64];
    let region = Region::of_box(&[0, 0], &[8, 8]);
    let options = WriteOptions::new().strategy(Strategy::Append);
    let first = fs::read(case.shard()).unwrap();
    case.array().write_elements(&region, ElementsRef::Fixed(&data), &options).unwrap();
    let second = fs::read(case.shard()).unwrap();
    assert_eq!(second[..first.len()], first);
    fs::write(case.shard(), &second[..second.len() - 9]).unwrap();
    assert!(case.array().read_elements(Region::all()).is_err());
    assert_eq!(case.kinds(true), [(RepairKind::IndexRestored, None)]);
    case.lost(&[]);
    assert_eq!(fs::read(case.shard()).unwrap(), first);
    let tail = second[first.len()..second.len() - 9].to_vec();
    assert!(contents(&case.aside()).values().any(|kept| *kept == tail));

    // Bytes that were never part of a shard.
    let case = Case::new("end");
    case.spoil(|bytes| bytes.extend_from_slice(&[0xAB; 10_000]));
    assert_eq!(case.kinds(true), [(RepairKind::IndexRestored, None)]);
    case.lost(&[]);
}

#[test]
fn a_shard_without_any_index_is_set_aside_whole() {
    for location in ["start", "end"] {
        let case = Case::new(location);
        case.spoil(|bytes| {
            let at = if location == "start" { 3 } else { bytes.len() - 20 };
            bytes[at] ^= 1;
        });
        let bytes = fs::read(case.shard()).unwrap();
        assert_eq!(case.kinds(true), [(RepairKind::ObjectSetAside, None)]);
        assert!(!case.shard().exists());
        assert!(contents(&case.aside()).values().any(|kept| *kept == bytes));
        assert_eq!(
            case.array().read_elements(Region::all()).unwrap(),
            Elements::Fixed(vec![7; SIDE * SIDE])
        );
    }
    for len in [0, 1, INDEX - 1] {
        let case = Case::new("end");
        case.spoil(|bytes| bytes.truncate(len));
        assert_eq!(case.kinds(false), [(RepairKind::ObjectSetAside, None)]);
    }
}

#[test]
fn of_shards_in_shards_only_the_damaged_chunk_is_lost() {
    let inner = json!([sharding(8, &json!(["bytes", "crc32c"]), "end")]);
    for location in ["start", "end"] {
        let case = Case::of(json!([sharding(16, &inner, location)]));
        // The bytes of the chunk at 3, 1 differ from all others.
        let chunk: Vec<u8> = (0..64).map(|i| elements()[(24 + i / 8) * SIDE + 8 + i % 8]).collect();
        case.spoil(|bytes| {
            let at = bytes.windows(64).position(|window| window == chunk).unwrap();
            bytes[at + 9] ^= 2;
        });
        assert_eq!(case.kinds(true), [(RepairKind::ChunkSetAside, Some(vec![3, 1]))]);
        case.lost(&[[3, 1]]);
    }
}

#[test]
fn a_damaged_chunk_that_is_an_object_is_set_aside() {
    let case = Case::of(json!(["bytes", "crc32c"]));
    case.spoil(|bytes| bytes[77] ^= 1);
    assert_eq!(case.kinds(true), [(RepairKind::ObjectSetAside, Some(vec![0, 0]))]);
    assert!(!case.shard().exists());
}

#[test]
fn leftovers_of_killed_writers_are_cleared() {
    let case = Case::new("end");
    let temporary = case.shard().with_file_name(".shardine-1-2-3.tmp");
    fs::write(&temporary, b"half of a shard").unwrap();
    let journal = case.shard().with_file_name(".shardine-0.journal");
    fs::write(&journal, b"not of this shard").unwrap();
    let told: Vec<RepairKind> = case.repair(false, false).into_iter().map(|r| r.kind).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(!temporary.exists() && !journal.exists());
    case.lost(&[]);
}

#[test]
fn what_is_damaged_in_one_array_of_a_group_is_mended_there() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("zarr.json"), br#"{"zarr_format": 3, "node_type": "group"}"#)
        .unwrap();
    for name in ["one", "two"] {
        let case = Case::new("end");
        let from = case.folder.path().join("a.zarr");
        for (path, bytes) in contents(&from) {
            let to = folder.path().join(name).join(path.strip_prefix(&from).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, bytes).unwrap();
        }
    }
    let shard = folder.path().join("two/c/0/0");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[3] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let location = Location::parse(folder.path().to_str().unwrap()).unwrap();
    let place = TempDir::new().unwrap();
    let aside = Location::parse(place.path().join("aside").to_str().unwrap()).unwrap();
    let options = RepairOptions::new(aside).decode(true);
    let mut told = Vec::new();
    let engine = Engine::shared().unwrap();
    repair(&engine, &location, &options, &mut |repair| told.push(repair)).unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].object.as_ref().unwrap().as_str(), "two/c/0/0");
    let options = VerifyOptions::new().decode(true);
    let mut found = Vec::new();
    let summary = verify(&engine, &location, &options, &mut |finding| found.push(finding)).unwrap();
    found.retain(|finding| finding.kind == FindingKind::LostChunk);
    assert_eq!((summary.lost_chunks, summary.damage, found.len()), (1, 1, 1));
    assert_eq!(found[0].object.as_ref().unwrap().as_str(), "two/c/0/0");
}

#[test]
fn compacting_squeezes_gaps_out_and_changes_nothing_else() {
    for location in ["start", "end"] {
        let case = Case::new(location);
        let options = WriteOptions::new().strategy(Strategy::Append).max_gap(1.0);
        let mut expected = elements();
        for step in 0..5usize {
            let data = [step as u8; 64];
            let region = Region::of_box(&[8 * (step as u64 % 3), 8], &[8, 8]);
            case.array().write_elements(&region, ElementsRef::Fixed(&data), &options).unwrap();
            for i in 0..64 {
                expected[(8 * (step % 3) + i / 8) * SIDE + 8 + i % 8] = step as u8;
            }
        }
        let grown = fs::metadata(case.shard()).unwrap().len();
        let run = |dry_run| {
            let mut told = Vec::new();
            let options = CompactOptions::new().dry_run(dry_run);
            let engine = Engine::shared().unwrap();
            compact(&engine, &case.location(), &options, &mut |r| told.push(r.unwrap())).unwrap();
            told
        };
        let foreseen = run(true);
        assert_eq!(fs::metadata(case.shard()).unwrap().len(), grown);
        assert_eq!(run(false), foreseen);
        assert_eq!((foreseen[0].before, foreseen[0].after), (grown, (16 * 68 + INDEX) as u64));
        assert_eq!(fs::metadata(case.shard()).unwrap().len(), foreseen[0].after);
        assert_eq!(run(false), []);
        assert_eq!(case.array().read_elements(Region::all()).unwrap(), Elements::Fixed(expected));
    }
}

#[test]
fn compacting_stops_when_it_is_told_to_and_says_how_far_it_is() {
    let case = Case::new("end");
    let options = WriteOptions::new().strategy(Strategy::Append).max_gap(1.0);
    let region = Region::of_box(&[0, 8], &[8, 8]);
    case.array().write_elements(&region, ElementsRef::Fixed(&[1; 64]), &options).unwrap();
    let grown = fs::metadata(case.shard()).unwrap().len();
    let token = CancelToken::new();
    token.cancel();
    let context = JobContext::new(&Engine::shared().unwrap()).cancel(&token);
    let stopped = compact(&context, &case.location(), &CompactOptions::new(), &mut |_| {});
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(fs::metadata(case.shard()).unwrap().len(), grown);

    let heard: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let told = Arc::clone(&heard);
    let context = JobContext::new(&Engine::shared().unwrap())
        .progress(move |now| told.lock().unwrap().push((now.job_done, now.job_total)));
    compact(&context, &case.location(), &CompactOptions::new(), &mut |_| {}).unwrap();
    assert_eq!(*heard.lock().unwrap(), [(1, 1)]);
    assert!(fs::metadata(case.shard()).unwrap().len() < grown);
}

#[test]
fn entries_that_mean_the_same_bytes_still_do_after_compacting() {
    let case = Case::new("end");
    let entries = case.array().shard_entries(&[0, 0]).unwrap().unwrap().entries;
    let same = entries[2].clone().unwrap();
    case.spoil_entry(false, 13, same.start, same.end - same.start);
    let before = case.array().read_elements(Region::all()).unwrap();
    let engine = Engine::shared().unwrap();
    compact(&engine, &case.location(), &CompactOptions::new(), &mut |_| {}).unwrap();
    assert_eq!(fs::metadata(case.shard()).unwrap().len(), (15 * 68 + INDEX) as u64);
    assert_eq!(case.array().read_elements(Region::all()).unwrap(), before);
}

#[test]
fn the_index_of_a_shard_inside_is_not_taken_for_a_lost_one() {
    // Both levels have four entries, so their indexes have the same length.
    let inner = json!([sharding(8, &json!(["bytes", "crc32c"]), "end")]);
    let case = Case::of(json!([sharding(16, &inner, "end")]));
    case.spoil(|bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    let spoiled = fs::read(case.shard()).unwrap();
    assert_eq!(case.kinds(true), [(RepairKind::ObjectSetAside, None)]);
    assert_eq!(fs::read(case.aside().join("c_0_0.bytes")).unwrap(), spoiled);
}

#[test]
fn a_storage_that_fails_is_no_reason_to_take_anything_away() {
    let case = Case::new("start");
    case.spoil(|bytes| bytes[INDEX + 9] ^= 1);
    let spoiled = fs::read(case.shard()).unwrap();
    let aside = Location::root(Arc::new(MemoryStore::new()));
    for operation in [Operation::Open, Operation::Read] {
        for number in 0..40 {
            fs::write(case.shard(), &spoiled).unwrap();
            let store = FaultStore::new(FileStore::new(case.folder.path().join("a.zarr")));
            store.fail(operation, number);
            let location = Location::root(Arc::new(store.clone()));
            let options = RepairOptions::new(aside.clone()).decode(true);
            let engine = Engine::shared().unwrap();
            let mut told = Vec::new();
            let done = repair(&engine, &location, &options, &mut |repair| told.push(repair.kind));
            assert!(case.shard().exists(), "{operation:?} {number}: {done:?}, {told:?}");
            assert!(!told.contains(&RepairKind::ObjectSetAside), "{told:?}");
            if store.waiting() > 0 {
                assert!(number > 10, "{operation:?} happens {number} times only");
                break;
            }
        }
    }
}

#[test]
fn damage_that_cannot_be_reached_is_told_to_be_left() {
    // The output of a codec before an inner shard is not taken apart.
    let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "|u1"}});
    let inner = json!([delta, sharding(8, &json!(["bytes", "crc32c"]), "end")]);
    let case = Case::of(json!([sharding(16, &inner, "start")]));
    case.spoil(|bytes| {
        let first = 16 * 4 + 4;
        bytes[first + 9] ^= 1;
    });
    assert!(!case.is_sound());
    let told: Vec<_> = case.repair(true, false).into_iter().map(|repair| repair.kind).collect();
    assert_eq!(told, [RepairKind::Left]);
}

#[test]
fn an_index_that_lies_is_not_brought_back() {
    let case = Case::new("end");
    let write = |at: [u64; 2], value: u8, strategy| {
        // The array is opened for this and closed again: nobody reads the shard.
        let options = WriteOptions::new().strategy(strategy).max_gap(1.0);
        let region = Region::of_box(&at, &[8, 8]);
        case.array().write_elements(&region, ElementsRef::Fixed(&[value; 64]), &options).unwrap();
    };
    write([0, 0], 1, Strategy::Append);
    let appended = fs::metadata(case.shard()).unwrap().len();
    // This one goes where the first chunk was; the first index still says that the first chunk is
    // there.
    write([24, 24], 2, Strategy::InPlace);
    assert_eq!(fs::metadata(case.shard()).unwrap().len(), appended);
    case.spoil(|bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    assert_eq!(case.kinds(true), [(RepairKind::ObjectSetAside, None)]);
}
