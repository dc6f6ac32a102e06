//! Readers with an index from before, while slots are freed and reused.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use shardine::store::FileStore;
use shardine::{Elements, Region, Strategy, WriteOptions};

use crate::disk::Random;
use crate::scene::{Call, create, document, engine, folder, open, read};

fn len(root: &Path) -> u64 {
    fs::metadata(root.join("c/0/0")).unwrap().len()
}

/// A chunk that is full of one number of two bytes.
fn chunk(value: u16, strategy: Strategy) -> Call {
    let options = WriteOptions::new().strategy(strategy).max_gap(1.0);
    Call { start: [8, 8], shape: [8, 8], data: value.to_le_bytes().repeat(32), options }
}

#[test]
fn a_slot_is_used_again_only_when_nobody_reads() {
    for location in ["start", "end"] {
        let folder = folder();
        let (writers, readers) = (engine(), engine());
        let array = create(&writers, folder.path(), &document("", location));
        Call::noise([0, 0], [64, 32], Strategy::Rewrite, &mut Random(1)).write(&array).unwrap();
        chunk(1, Strategy::InPlace).write(&array).unwrap();
        let before = len(folder.path());
        for value in 2..6 {
            chunk(value, Strategy::InPlace).write(&array).unwrap();
        }
        // Nobody reads: two slots take turns; so do two positions of an index at the end.
        let settled = len(folder.path());
        assert!(
            settled <= before + if location == "end" { 260 + 64 } else { 0 },
            "{before} {settled}"
        );
        for value in 6..10 {
            chunk(value, Strategy::InPlace).write(&array).unwrap();
        }
        assert_eq!(len(folder.path()), settled);

        let reader = open(&readers, FileStore::new(folder.path()));
        read(&reader).unwrap();
        // The file is kept open by its reader.
        chunk(10, Strategy::InPlace).write(&array).unwrap();
        let grown = len(folder.path());
        assert!(grown > settled, "{location}");
        assert_eq!(read(&reader).unwrap()[8 * 32 + 8], 10);
        drop((reader, readers));
        for value in 11..15 {
            chunk(value, Strategy::InPlace).write(&array).unwrap();
        }
        assert!(len(folder.path()) <= grown + 64 + 260);
    }
}

#[test]
fn readers_see_whole_chunks_of_states_that_were() {
    for location in ["start", "end"] {
        for strategy in [Strategy::InPlace, Strategy::Append, Strategy::Auto] {
            let folder = folder();
            let writers = engine();
            let array = create(&writers, folder.path(), &document("", location));
            chunk(1, strategy).write(&array).unwrap();
            let root = folder.path();
            let (done, newest) = (AtomicBool::new(false), AtomicUsize::new(1));
            thread::scope(|scope| {
                for kind in 0..3 {
                    let (done, newest) = (&done, &newest);
                    scope.spawn(move || {
                        let readers = engine();
                        let kept = open(&readers, FileStore::new(root));
                        let mut last = 0;
                        while !done.load(Ordering::Relaxed) {
                            let from = newest.load(Ordering::SeqCst);
                            let region = Region::of_box(&[8, 8], &[8, 8]);
                            let found = match kind {
                                0 => kept.read_elements(&region),
                                1 => open(&readers, FileStore::new(root)).read_elements(&region),
                                _ => kept.read_elements(Region::all()),
                            };
                            let Elements::Fixed(mut found) = found.unwrap() else { panic!() };
                            if kind == 2 {
                                let rows = found.chunks(32).skip(8).take(8);
                                found = rows.flat_map(|row| row[8..16].to_vec()).collect();
                            }
                            let value = u16::from_le_bytes([found[0], found[1]]);
                            let whole = found.chunks(2).all(|two| two == value.to_le_bytes());
                            assert!(whole, "{found:?}");
                            // What was there when the read began, or later.
                            assert!(usize::from(value) >= from, "{value} after {from}");
                            assert!(value >= last, "{value} after {last}");
                            last = value;
                        }
                    });
                }
                for n in 2..300 {
                    chunk(n as u16, strategy).write(&array).unwrap();
                    newest.store(n, Ordering::SeqCst);
                }
                done.store(true, Ordering::Relaxed);
            });
        }
    }
}
