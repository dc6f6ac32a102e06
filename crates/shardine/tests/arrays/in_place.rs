//! In-place updates of shards.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardine::jobs::{Finding, VerifyOptions, verify};
use shardine::store::{
    DiskObserver, DiskStep, FileStore, Key, MemoryStore, Recovery, Store, StoreError, Verdict,
    layer,
};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{
    Array, ArrayNode, Elements, ElementsRef, Engine, EngineError, EngineOptions, Error, Location,
    Region, Strategy, WriteOptions,
};
use tempfile::TempDir;

/// A shard of 8 x 8 chunks of 16 x 16 bytes.
fn document(codec: &str, location: &str, checksum: &str) -> String {
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [256, 128], "data_type": "uint8",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [128, 128]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0,
        "codecs": [{{"name": "sharding_indexed", "configuration": {{
            "chunk_shape": [16, 16], "codecs": ["bytes"{codec}], "index_location": "{location}",
            "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}{checksum}]}}}}]}}"#
    )
}

const ZSTD: &str = r#", {"name": "zstd", "configuration": {"level": 1, "checksum": false}}"#;
const CRC: &str = r#", "crc32c""#;

fn create(location: &Location, document: &str) -> ArrayNode {
    let NodeMetadata::Array(metadata) = NodeMetadata::parse(document.as_bytes()).unwrap() else {
        panic!("it is an array")
    };
    let engine = Engine::new(&EngineOptions::new().threads(2)).unwrap();
    ArrayNode::create(&engine, location, metadata).unwrap()
}

fn at(folder: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(folder)))
}

/// A fast and poor random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

fn noise(len: usize, random: &mut Random, kinds: u64) -> Vec<u8> {
    (0..len).map(|_| random.next(kinds) as u8).collect()
}

struct Model {
    shape: [usize; 2],
    bytes: Vec<u8>,
}

impl Model {
    fn write(&mut self, start: [usize; 2], shape: [usize; 2], data: &[u8]) {
        for row in 0..shape[0] {
            let to = (start[0] + row) * self.shape[1] + start[1];
            self.bytes[to..to + shape[1]]
                .copy_from_slice(&data[row * shape[1]..(row + 1) * shape[1]]);
        }
    }
}

fn region(start: [usize; 2], shape: [usize; 2]) -> Region {
    Region::of_box(&start.map(|n| n as u64), &shape.map(|n| n as u64))
}

#[test]
fn any_updates_in_place_give_what_a_rewrite_gives() {
    let mut random = Random(1);
    for location in ["start", "end"] {
        for codec in ["", ZSTD] {
            for strategy in [Strategy::InPlace, Strategy::Append, Strategy::Auto] {
                let folder = TempDir::new().unwrap();
                let array = create(&at(folder.path()), &document(codec, location, CRC));
                let mut model = Model { shape: [256, 128], bytes: vec![0; 256 * 128] };
                let options = WriteOptions::new().strategy(strategy);
                for step in 0..40 {
                    let start = [random.next(250) as usize, random.next(120) as usize];
                    let shape = [
                        1 + random.next(256 - start[0] as u64) as usize / (1 + step % 4),
                        1 + random.next(128 - start[1] as u64) as usize / (1 + step % 3),
                    ];
                    let kinds = 1 + random.next(200);
                    let data = noise(shape[0] * shape[1], &mut random, kinds);
                    let elements = ElementsRef::Fixed(&data);
                    array.write_elements(region(start, shape), elements, &options).unwrap();
                    model.write(start, shape, &data);
                    let found = array.read_elements(Region::all()).unwrap();
                    assert_eq!(found, Elements::Fixed(model.bytes.clone()));
                    let fresh =
                        ArrayNode::open(&Engine::shared().unwrap(), &at(folder.path())).unwrap();
                    assert_eq!(fresh.read_elements(Region::all()).unwrap(), found);
                }
                let left = fs::read_dir(folder.path().join("c/0")).unwrap();
                let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
                assert_eq!(left, ["0"]);
            }
        }
    }
}

/// Lets this many steps pass and no more, as if the process had died there.
#[derive(Debug)]
struct Dead(AtomicUsize);

impl DiskObserver for Dead {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        let lived = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if lived.is_ok() { Verdict::Go } else { Verdict::Fail(std::io::ErrorKind::Other.into()) }
    }
}

/// A shard whose writer died after `steps` steps of an in-place update; returns whether it
/// finished.
fn dead(folder: &Path, location: &str, steps: usize) -> bool {
    dead_with(folder, "", location, steps)
}

/// Like [`dead`], with a codec for its chunks.
fn dead_with(folder: &Path, codec: &str, location: &str, steps: usize) -> bool {
    let array = create(&at(folder), &document(codec, location, CRC));
    let data = vec![1; 256 * 128];
    array.write_elements(Region::all(), ElementsRef::Fixed(&data), &WriteOptions::new()).unwrap();
    let dying = FileStore::observed(folder, Arc::new(Dead(AtomicUsize::new(steps))));
    let engine = Engine::shared().unwrap();
    let array = ArrayNode::open(&engine, &Location::root(Arc::new(dying))).unwrap();
    let options = WriteOptions::new().strategy(Strategy::InPlace);
    array.write_elements(region([0, 0], [16, 16]), ElementsRef::Fixed(&[2; 256]), &options).is_ok()
}

#[test]
fn the_journal_of_a_dead_writer_belongs_to_its_shard() {
    for location in ["start", "end"] {
        for steps in 0.. {
            let folder = TempDir::new().unwrap();
            let done = dead(folder.path(), location, steps);
            let array = ArrayNode::open(&Engine::shared().unwrap(), &at(folder.path())).unwrap();
            let options = WriteOptions::new().strategy(Strategy::InPlace);
            let data = ElementsRef::Fixed(&[3; 256]);
            array.write_elements(region([16, 0], [16, 16]), data, &options).unwrap();
            let found =
                array.read_elements(region([0, 0], [16, 16])).unwrap().into_fixed().unwrap();
            assert!(found == [1; 256] || found == [2; 256], "{location}, {steps}");
            let left = fs::read_dir(folder.path().join("c/0")).unwrap();
            let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let left: Vec<_> = left.filter(|name| !name.ends_with(".tmp")).collect();
            assert_eq!(left, ["0"], "{location}, {steps}");
            if done {
                break;
            }
        }
    }
}

#[test]
fn a_shard_that_somebody_else_put_there_is_not_cut_by_an_old_journal() {
    for location in ["start", "end"] {
        for steps in 0.. {
            let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            let done = dead(folder.path(), location, steps);
            // With other chunks, longer, and as valid as the first.
            let foreign = create(&at(other.path()), &document("", location, CRC));
            let options = WriteOptions::new().strategy(Strategy::Append).max_gap(1.0);
            for (value, row) in [(4, 16), (5, 32)] {
                let (rows, data) = (128 - row, vec![value; (128 - row) * 128]);
                let data = ElementsRef::Fixed(&data);
                foreign.write_elements(region([row, 0], [rows, 128]), data, &options).unwrap();
            }
            let from = other.path().join("c/0/0");
            fs::copy(&from, folder.path().join("new")).unwrap();
            fs::rename(folder.path().join("new"), folder.path().join("c/0/0")).unwrap();
            let array = ArrayNode::open(&Engine::shared().unwrap(), &at(folder.path())).unwrap();
            let data = ElementsRef::Fixed(&[3; 256]);
            array.write_elements(region([16, 0], [16, 16]), data, &options).unwrap();
            foreign.write_elements(region([16, 0], [16, 16]), data, &options).unwrap();
            let shard = region([0, 0], [128, 128]);
            assert!(array.read_elements(&shard).unwrap() == foreign.read_elements(&shard).unwrap());
            if done {
                break;
            }
        }
    }
}

/// A store in which someone replaces the shard just before a reader checks it.
#[derive(Debug)]
struct Replaced(FileStore);

impl layer::StoreLayer for Replaced {
    type Inner = FileStore;

    fn inner(&self) -> &FileStore {
        &self.0
    }

    fn recover(&self, key: &Key) -> Result<Recovery, StoreError> {
        let array = ArrayNode::open(&Engine::shared().unwrap(), &at(self.0.root())).unwrap();
        let data = ElementsRef::Fixed(&[9; 128 * 128]);
        array.write_elements(region([0, 0], [128, 128]), data, &WriteOptions::new()).unwrap();
        self.0.recover(key)
    }
}

#[test]
fn what_a_dead_writer_left_does_not_count_once_another_has_replaced_it() {
    let mut unreadable = 0;
    for steps in 0.. {
        let folder = TempDir::new().unwrap();
        let done = dead(folder.path(), "end", steps);
        let store = Replaced(FileStore::new(folder.path()));
        let engine = Engine::new(&EngineOptions::new().threads(1)).unwrap();
        let array = ArrayNode::open(&engine, &Location::root(Arc::new(store))).unwrap();
        let found = array.read_elements(region([64, 64], [1, 2])).unwrap().into_fixed().unwrap();
        assert!(found == [1, 1] || found == [9, 9], "{steps}: {found:?}");
        unreadable += usize::from(found == [9, 9]);
        if done {
            break;
        }
    }
    assert!(unreadable > 0);
}

/// A disk that nothing can be written to; counts the attempts.
#[derive(Debug, Default)]
struct ReadOnly(AtomicUsize);

impl DiskObserver for ReadOnly {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        self.0.fetch_add(1, Ordering::SeqCst);
        Verdict::Fail(std::io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// All files of a folder and what they hold.
fn files(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

/// The kinds of findings in an array on a disk, and how many chunks were decoded.
fn verified(store: FileStore) -> (Vec<&'static str>, u64) {
    let engine = Engine::new(&EngineOptions::new().threads(2)).unwrap();
    let (mut kinds, options) = (Vec::new(), VerifyOptions::new().decode(true));
    let tell = &mut |finding: Finding| kinds.push(finding.kind.name());
    let summary = verify(&engine, &Location::root(Arc::new(store)), &options, tell).unwrap();
    (kinds, summary.chunks_decoded)
}

#[test]
fn a_shard_whose_writer_died_is_verified_as_its_readers_see_it() {
    let mut torn = 0;
    for location in ["start", "end"] {
        for steps in 0.. {
            let folder = TempDir::new().unwrap();
            let done = dead(folder.path(), location, steps);
            let shards = folder.path().join("c/0");
            let before = files(&shards);
            let disk = Arc::new(ReadOnly::default());
            let read_only = || FileStore::observed(folder.path(), disk.clone());
            let about = format!("{location}, {steps}");
            // What readers see without being able to recover it is sound, and all of it is checked.
            for store in [read_only(), FileStore::new(folder.path())] {
                let (kinds, decoded) = verified(store);
                let harmless = ["leftover-journal", "leftover-temporary", "gap"];
                assert!(kinds.iter().all(|kind| harmless.contains(kind)), "{about}: {kinds:?}");
                assert_eq!(decoded, 128, "{about}");
            }
            assert_eq!(disk.0.load(Ordering::SeqCst), 0, "{about}");
            assert_eq!(files(&shards), before, "{about}");
            let engine = Engine::new(&EngineOptions::new().threads(1)).unwrap();
            let array = ArrayNode::open(&engine, &Location::root(Arc::new(read_only()))).unwrap();
            array.read_elements(Region::all()).unwrap();
            // Damage behind the journal is found: here an empty index.
            let journal =
                before.iter().find(|(path, _)| path.extension() == Some("journal".as_ref()));
            if let Some((journal, bytes)) = journal {
                torn += usize::from(verified_without(journal, folder.path()) == ["index"]);
                fs::write(journal, bytes).unwrap();
            }
            if done {
                break;
            }
        }
    }
    assert!(torn > 0, "no shard was torn, so nothing was tested");
}

/// What is found without the journal.
fn verified_without(journal: &Path, folder: &Path) -> Vec<&'static str> {
    fs::remove_file(journal).unwrap();
    let (mut kinds, _) = verified(FileStore::new(folder));
    kinds.retain(|kind| *kind == "index" || *kind == "truncated");
    kinds
}

#[test]
fn damage_below_an_interrupted_change_is_found() {
    let mut found = 0;
    for location in ["start", "end"] {
        for steps in 0.. {
            let folder = TempDir::new().unwrap();
            let checked = r#", "crc32c""#;
            let done = dead_with(folder.path(), checked, location, steps);
            let shards = folder.path().join("c/0");
            let is_journal = |path: &Path| path.extension() == Some("journal".as_ref());
            let has_journal = files(&shards).iter().any(|(path, _)| is_journal(path));
            // The last chunk is not what the writer was changing.
            let path = shards.join("0");
            let mut shard = fs::read(&path).unwrap();
            let index = 64 * 16 + 4;
            let at = if location == "start" { index } else { 0 } + 63 * 260 + 100;
            shard[at] ^= 1;
            fs::write(&path, &shard).unwrap();
            let (kinds, _) = verified(FileStore::new(folder.path()));
            assert!(kinds.contains(&"chunk"), "{location}, {steps}: {kinds:?}");
            found += usize::from(has_journal);
            if done {
                break;
            }
        }
    }
    assert!(found > 0, "no writer left a journal, so nothing was tested");
}

#[test]
fn a_chunk_of_fixed_size_takes_a_slot_that_was_freed() {
    for location in ["start", "end"] {
        let folder = TempDir::new().unwrap();
        let array = create(&at(folder.path()), &document("", location, CRC));
        let mut random = Random(2);
        let data = noise(256 * 128, &mut random, 256);
        array
            .write_elements(Region::all(), ElementsRef::Fixed(&data), &WriteOptions::new())
            .unwrap();
        let path = folder.path().join("c/0/0");
        let before = fs::metadata(&path).unwrap().len();
        let options = WriteOptions::new().strategy(Strategy::InPlace);
        for step in 0..50 {
            let data = noise(256, &mut random, 256);
            let at = [16 * (step % 8), 16 * (step % 3)];
            array
                .write_elements(region(at, [16, 16]), ElementsRef::Fixed(&data), &options)
                .unwrap();
        }
        // One slot is always free, and with the index at the end so is the slot of the first index.
        let index = 64 * 16 + 4;
        let most = before + 256 + if location == "end" { index } else { 0 };
        let len = fs::metadata(&path).unwrap().len();
        assert!(len <= most, "{location}: {before} bytes before, {len} after");
    }
}

#[test]
fn what_cannot_be_made_safe_is_refused_and_auto_rewrites() {
    let folder = TempDir::new().unwrap();
    let array = create(&at(folder.path()), &document(ZSTD, "start", ""));
    let data = vec![1; 256];
    let write = |array: &Array, strategy| {
        let options = WriteOptions::new().strategy(strategy);
        array.write_elements(region([0, 0], [16, 16]), ElementsRef::Fixed(&data), &options)
    };
    for strategy in [Strategy::InPlace, Strategy::Append] {
        assert!(matches!(
            write(&array, strategy),
            Err(Error::Engine(EngineError::Strategy { .. }))
        ));
    }
    assert!(array.objects().unwrap().is_empty());
    write(&array, Strategy::Auto).unwrap();

    // A store whose objects are only replaced whole.
    let memory =
        create(&Location::root(Arc::new(MemoryStore::new())), &document(ZSTD, "start", CRC));
    write(&memory, Strategy::InPlace).unwrap();
    let error = write(&memory, Strategy::InPlace).unwrap_err();
    assert!(error.to_string().contains("in place"), "{error}");

    // A file with two names: the other one must not change.
    let linked = TempDir::new().unwrap();
    let array = create(&at(linked.path()), &document(ZSTD, "start", CRC));
    write(&array, Strategy::InPlace).unwrap();
    fs::hard_link(linked.path().join("c/0/0"), linked.path().join("backup")).unwrap();
    let backup = fs::read(linked.path().join("backup")).unwrap();
    assert!(
        write(&array, Strategy::InPlace).unwrap_err().to_string().contains("more than one name")
    );
    write(&array, Strategy::Rewrite).unwrap();
    assert_eq!(fs::read(linked.path().join("backup")).unwrap(), backup);
}

#[test]
fn many_updates_of_one_chunk_do_not_grow_the_shard() {
    for location in ["start", "end"] {
        for strategy in [Strategy::InPlace, Strategy::Append] {
            let folder = TempDir::new().unwrap();
            let array = create(&at(folder.path()), &document(ZSTD, location, CRC));
            let mut random = Random(3);
            let data = noise(256 * 128, &mut random, 256);
            array
                .write_elements(Region::all(), ElementsRef::Fixed(&data), &WriteOptions::new())
                .unwrap();
            let options = WriteOptions::new().strategy(strategy);
            for _ in 0..250 {
                let kinds = 2 + random.next(200);
                let data = noise(256, &mut random, kinds);
                array
                    .write_elements(region([32, 32], [16, 16]), ElementsRef::Fixed(&data), &options)
                    .unwrap();
                let found = array.shard_entries(&[0, 0]).unwrap().unwrap();
                let lens = found.entries.iter().flatten().map(|range| range.end - range.start);
                let live = found.len - found.gap_bytes;
                let most = live * 3 / 2 + lens.max().unwrap();
                assert!(found.len <= most, "{location} {strategy}: {} of {most}", found.len);
            }
        }
    }
}

#[test]
fn auto_changes_large_shards_in_place_if_every_reader_always_finds_an_index() {
    use std::os::unix::fs::MetadataExt;

    for (location, checksum, in_place) in
        [("start", CRC, true), ("end", CRC, false), ("start", "", false)]
    {
        let folder = TempDir::new().unwrap();
        let document = document("", location, checksum)
            .replace("[256, 128]", "[2048, 2048]")
            .replace("[128, 128]", "[2048, 2048]");
        let array = create(&at(folder.path()), &document);
        let data = noise(2048 * 2048, &mut Random(5), 256);
        array
            .write_elements(Region::all(), ElementsRef::Fixed(&data), &WriteOptions::new())
            .unwrap();
        let path = folder.path().join("c/0/0");
        let inode = || fs::metadata(&path).unwrap().ino();
        let (before, len) = (inode(), fs::metadata(&path).unwrap().len());
        let report = array
            .write_elements(
                region([5, 5], [3, 3]),
                ElementsRef::Fixed(&[1; 9]),
                &WriteOptions::new(),
            )
            .unwrap();
        assert_eq!(inode() == before, in_place, "{location} {checksum}");
        assert_eq!(report.bytes_written < len / 2, in_place);
        // Too much to be worth it.
        let before = inode();
        let data = noise(2048 * 1500, &mut Random(6), 256);
        array
            .write_elements(
                region([0, 0], [1500, 2048]),
                ElementsRef::Fixed(&data),
                &WriteOptions::new(),
            )
            .unwrap();
        assert_ne!(inode(), before);
    }
}

#[test]
fn writers_of_one_engine_do_not_wait_for_each_other_for_ever() {
    let folder = TempDir::new().unwrap();
    let location = at(folder.path());
    let array = Arc::new(create(&location, &document("", "start", CRC)));
    let all = vec![1; 256 * 128];
    array.write_elements(Region::all(), ElementsRef::Fixed(&all), &WriteOptions::new()).unwrap();
    let (done, told) = std::sync::mpsc::channel();
    let write = |strategy, row: usize| {
        let (array, done) = (Arc::clone(&array), done.clone());
        std::thread::spawn(move || {
            let options = WriteOptions::new().strategy(strategy);
            let data = ElementsRef::Fixed(&[9; 128]);
            array.write_elements(region([row, 0], [1, 128]), data, &options).unwrap();
            done.send(()).unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let held = location.store.edit(&location.key("c/0/0").unwrap()).unwrap();
    // The first one should get the lock while the others occupy all workers and wait for it.
    write(Strategy::InPlace, 0);
    (1..5).for_each(|row| write(Strategy::Rewrite, row));
    drop(held);
    for _ in 0..5 {
        told.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }
    let rows = array.read_elements(region([0, 0], [6, 128])).unwrap().into_fixed().unwrap();
    assert_eq!(rows, [vec![9; 5 * 128], vec![1; 128]].concat());
}
