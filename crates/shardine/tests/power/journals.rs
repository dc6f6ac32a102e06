//! Journals that no longer belong to their shard, or never did.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardine::jobs::{CopyOptions, copy};
use shardine::store::{FileStore, MemoryStore, Store};
use shardine::{Engine, EngineError, Error, Location, Strategy};

use crate::disk::{Disk, Image, Kept, Random, image, put};
use crate::scene::{
    Call, Deed, ReadOnly, SHARD, ZSTD, check, create, document, engine, exactly, folder, open,
    read, read_parts, record,
};

const JOURNAL: &str = "c/0/.shardine-0.journal";

/// A full array, and what failures leave of an update of its first shard: all states with a
/// journal.
struct Left {
    model: Vec<u8>,
    /// Before the update.
    whole: Image,
    states: Vec<Image>,
}

fn left(engine: &Arc<Engine>, document: &str, strategy: Strategy) -> Left {
    let folder = folder();
    let mut random = Random(21);
    let array = create(engine, folder.path(), document);
    let all = Call::noise([0, 0], [64, 32], strategy, &mut random);
    let hole = Call::noise([9, 9], [5, 5], strategy, &mut random);
    let mut model = vec![0; 2 * SHARD];
    for call in [&all, &hole] {
        call.write(&array).unwrap();
        call.apply(&mut model);
    }
    drop(array);
    let whole = image(folder.path());
    let deed = Deed::Write(Call::noise([3, 0], [8, 20], strategy, &mut random));
    let run = record(engine, whole.clone(), exactly(&model), &[deed], None).unwrap();
    let mut disk = Disk::new(&whole);
    let mut states = Vec::new();
    for step in &run.log {
        disk.apply(step);
        for kept in [Kept::All, Kept::Some(states.len() as u64, 64)] {
            let state = disk.fail(kept);
            if state.contains_key(Path::new(JOURNAL)) && !states.contains(&state) {
                states.push(state);
            }
        }
    }
    Left { model, whole, states }
}

/// The first shard as another program writes it, and its contents.
fn foreign(
    engine: &Arc<Engine>,
    document: &str,
    seed: u64,
    shape: [usize; 2],
) -> (Vec<u8>, Vec<u8>) {
    let folder = folder();
    let array = create(engine, folder.path(), document);
    let call = Call::noise([0, 0], shape, Strategy::Rewrite, &mut Random(seed));
    call.write(&array).unwrap();
    let mut model = vec![0; 2 * SHARD];
    call.apply(&mut model);
    (fs::read(folder.path().join("c/0/0")).unwrap(), model[..SHARD].to_vec())
}

fn updates() -> [Call; 2] {
    let mut random = Random(5);
    [[9, 9], [28, 4]].map(|at| Call::noise(at, [5, 20], Strategy::InPlace, &mut random))
}

#[test]
fn what_another_program_wrote_since_stays() {
    let engine = engine();
    for location in ["start", "end"] {
        for codec in ["", ZSTD] {
            let document = document(codec, location);
            // As long as the old one, with the same index if chunks have a fixed size; shorter; of
            // another size.
            let others = [(1, [32, 32]), (2, [10, 32]), (3, [32, 9])]
                .map(|(seed, shape)| foreign(&engine, &document, seed, shape));
            for strategy in [Strategy::InPlace, Strategy::Append] {
                let left = left(&engine, &document, strategy);
                assert!(left.states.len() > 2);
                for state in &left.states {
                    for (bytes, shard) in &others {
                        let mut state = state.clone();
                        state.insert(PathBuf::from("c/0/0"), Some(bytes.clone()));
                        let found = [shard.as_slice(), &left.model[SHARD..]].concat();
                        check(&engine, &state, &exactly(&found), &updates()).unwrap();
                    }
                    // Removed.
                    let mut state = state.clone();
                    state.remove(Path::new("c/0/0"));
                    let found = [&[0; SHARD][..], &left.model[SHARD..]].concat();
                    check(&engine, &state, &exactly(&found), &updates()).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_shard_that_was_cut_is_left_as_it_is() {
    let engine = engine();
    for location in ["start", "end"] {
        let left = left(&engine, &document("", location), Strategy::InPlace);
        for state in &left.states {
            for len in [0, 100, 900] {
                let folder = folder();
                put(state, folder.path());
                let path = folder.path().join("c/0/0");
                fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
                let bytes = fs::read(&path).unwrap();
                let array = open(&engine, FileStore::new(folder.path()));
                // With the index at the start some of it can still be read.
                assert!(read(&array).is_err());
                assert_eq!(fs::read(&path).unwrap(), bytes);
                let [one, all] = [
                    updates()[0].clone(),
                    Call::noise([0, 0], [64, 32], Strategy::InPlace, &mut Random(1)),
                ];
                let _ = one.write(&array);
                all.write(&array).unwrap();
                assert!(read(&array).unwrap() == all.data);
                assert!(!folder.path().join(JOURNAL).exists());
            }
        }
    }
}

#[test]
fn what_is_no_journal_harms_nobody() {
    let engine = engine();
    for location in ["start", "end"] {
        let left = left(&engine, &document(ZSTD, location), Strategy::InPlace);
        let real = left.states.last().unwrap()[Path::new(JOURNAL)].clone().unwrap();
        let make: [&dyn Fn(&Path); 9] = [
            &|path| fs::write(path, b"").unwrap(),
            &|path| fs::write(path, [0x53; 5000]).unwrap(),
            &|path| fs::write(path, b"SHRDJNL1").unwrap(),
            &|path| fs::write(path, [b"SHRDJNL1".as_slice(), &[0xff; 100]].concat()).unwrap(),
            &|path| fs::File::create(path).unwrap().set_len(1 << 42).unwrap(),
            &|path| fs::create_dir(path).unwrap(),
            &|path| fs::create_dir_all(path.join("inside")).unwrap(),
            &|path| symlink("nowhere", path).unwrap(),
            // The target of a link is not touched.
            &|path| {
                fs::write(path.with_file_name("elsewhere"), &real).unwrap();
                symlink("elsewhere", path).unwrap();
            },
        ];
        for (number, make) in make.iter().enumerate() {
            let shapes = [([9, 9], [5, 5]), ([0, 0], [64, 32])];
            for (start, shape) in shapes {
                for strategy in [Strategy::InPlace, Strategy::Rewrite] {
                    let folder = folder();
                    put(&left.whole, folder.path());
                    make(&folder.path().join(JOURNAL));
                    let array = open(&engine, FileStore::new(folder.path()));
                    assert!(read_parts(&array).unwrap() == left.model);
                    let call = Call::noise(start, shape, strategy, &mut Random(2));
                    let outcome = call.write(&array);
                    outcome.unwrap_or_else(|e| panic!("{number} {strategy} {shape:?}: {e:?}"));
                    let mut model = left.model.clone();
                    call.apply(&mut model);
                    assert!(read_parts(&array).unwrap() == model, "{number} {strategy} {shape:?}");
                    let elsewhere = folder.path().join("c/0/elsewhere");
                    assert!(number != 8 || fs::read(elsewhere).unwrap() == real);
                }
            }
        }
    }
}

#[test]
fn damage_beside_a_journal_is_told_as_what_it_is() {
    let engine = engine();
    for location in ["start", "end"] {
        let left = left(&engine, &document(ZSTD, location), Strategy::InPlace);
        for state in &left.states {
            // The magic number of a frame.
            let mut state = state.clone();
            let shard = state.get_mut(Path::new("c/0/0")).unwrap().as_mut().unwrap();
            let mut at = 0;
            while let Some(found) =
                shard[at..].windows(4).position(|w| w == 0xfd2f_b528_u32.to_le_bytes())
            {
                shard[at + found] ^= 1;
                at += found + 4;
            }
            let folder = folder();
            put(&state, folder.path());
            for store in [
                FileStore::observed(folder.path(), Arc::new(ReadOnly)),
                FileStore::new(folder.path()),
            ] {
                let error =
                    open(&engine, store).read_elements(shardine::Region::all()).unwrap_err();
                assert!(
                    matches!(error, Error::Engine(EngineError::Decode { .. })),
                    "{location}: {error:?}"
                );
            }
        }
    }
}

#[test]
fn a_copy_of_an_interrupted_shard_is_the_shard_before_or_after() {
    let engine = engine();
    for location in ["start", "end"] {
        let left = left(&engine, &document(ZSTD, location), Strategy::InPlace);
        for (i, state) in left.states.iter().enumerate() {
            for read_only in [false, true] {
                let (from, to) = (folder(), folder());
                put(state, from.path());
                let source: Arc<dyn Store> = match read_only {
                    true => Arc::new(FileStore::observed(from.path(), Arc::new(ReadOnly))),
                    false => Arc::new(FileStore::new(from.path())),
                };
                let expected = read(&open(&engine, Arc::clone(&source))).unwrap();
                let kept = from.path().join(JOURNAL).exists();
                assert!(kept || !read_only);
                // As it was left, not as the reader above may have recovered it.
                put(state, from.path());
                let target: Arc<dyn Store> = match i % 2 {
                    0 => Arc::new(FileStore::new(to.path())),
                    _ => Arc::new(MemoryStore::new()),
                };
                let places = [&source, &target].map(|store| Location::root(Arc::clone(store)));
                copy(&places[0], &places[1], &CopyOptions::new()).unwrap();
                assert!(read(&open(&engine, target)).unwrap() == expected, "{location} {i}");
            }
        }
    }
}
