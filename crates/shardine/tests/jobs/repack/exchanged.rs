//! Handles that are open while a job replaces the array: nothing is read wrong, and nothing written
//! is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use shardine::jobs::{CopyOptions, RepackError, RepackOptions, Severity, copy};
use shardine::{ArrayNode, ElementsRef, Error, Packing, Region, SliceOptions, SliceWriter};

use crate::common::findings::check_at;
use crate::common::*;
use crate::repack::scene::*;

/// Ends the other threads, even if this one fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn to(shard: &[u64]) -> RepackOptions {
    RepackOptions::new().packing(Packing::Shard(shard.to_vec()))
}

/// An array of 16 x 16 x 16 and its elements.
fn cube(folder: &std::path::Path) -> (ArrayNode, Vec<u8>) {
    let array = create_at(&at(folder), &sharded(&[16, 16, 16], &[8, 8, 8], &[4, 4, 4]));
    let all = noise(array.shape().iter().product::<u64>() as usize * 2, 7);
    write(&array, "", all.clone());
    (array, all)
}

#[test]
fn a_handle_reads_what_has_taken_the_place_of_its_array() {
    let folder = folder();
    let (array, all) = cube(folder.path());
    assert_eq!(read(&array, ""), all);
    for (shard, chunk) in [(16, 4), (8, 8), (16, 2), (4, 4)] {
        let options = to(&[shard; 3]).chunk(&[chunk; 3]);
        one(&at(folder.path()), None, &options);
        assert_eq!(read(&array, ""), all);
        let parts: Vec<Region> = ["0:5,3,:", "15"].iter().map(|s| s.parse().unwrap()).collect();
        let many = array.read_many_elements(&parts).unwrap();
        assert_eq!(many[1].as_ref(), ElementsRef::Fixed(&all[15 * 512..]));
        let mut out = vec![0; all.len()];
        array.read_bytes_into(Region::all(), &mut out).unwrap();
        assert_eq!(out, all);
    }
}

#[test]
fn what_a_handle_writes_goes_to_what_has_taken_the_place_of_its_array() {
    let folder = folder();
    let (array, mut all) = cube(folder.path());
    for (seed, shard) in [16, 4, 8].into_iter().enumerate() {
        one(&at(folder.path()), None, &to(&[shard; 3]));
        let plane = noise(512, seed as u64);
        write(&array, &format!("{}", seed + 3), plane.clone());
        all[(seed + 3) * 512..(seed + 4) * 512].copy_from_slice(&plane);
        assert_eq!(read(&reopen(&array), ""), all);
        assert!(check_at(&at(folder.path()), true).1.is_empty());
    }
}

#[test]
fn an_array_of_another_type_is_not_read_by_an_old_handle() {
    let folder = folder();
    let (array, _) = cube(folder.path());
    std::fs::remove_dir_all(folder.path().join("c")).unwrap();
    std::fs::remove_file(folder.path().join("zarr.json")).unwrap();
    let other = document(&[16, 16, 16], &[4, 4, 4], "uint8".into(), 0.into(), json!([bytes()]));
    create_at(&at(folder.path()), &other);
    assert!(matches!(array.read_elements(Region::all()), Err(Error::Replaced { .. })));
    let elements = vec![0; 16 * 16 * 16 * 2];
    let written =
        array.write_elements(Region::all(), ElementsRef::Fixed(&elements), &Default::default());
    assert!(matches!(written, Err(Error::Replaced { .. })));
}

#[test]
fn a_job_does_not_take_an_array_away_from_an_append() {
    let folder = folder();
    let array = create_at(&at(folder.path()), &sharded(&[0, 8], &[12, 8], &[4, 4]));
    // A handle opened before a job ended follows it.
    let early = reopen(&array);
    one(&at(folder.path()), None, &to(&[24, 8]));
    let mut writer = SliceWriter::new(early, 0, SliceOptions::new().commit_every(3)).unwrap();
    let mut all = Vec::new();
    for n in 0..17u64 {
        let plane = noise(16, n);
        writer.push_elements(ElementsRef::Fixed(&plane)).unwrap();
        all.extend(plane);
        let job = repack(&at(folder.path()), None, &to(&[12, 8]));
        assert!(matches!(job, Err(Error::AppendUnderWay { .. })), "{job:?}");
    }
    writer.finish().unwrap();
    one(&at(folder.path()), None, &to(&[12, 8]));
    let array = ArrayNode::open(&engine(), &at(folder.path())).unwrap();
    assert_eq!(array.shape(), [17, 8]);
    assert_eq!(read(&array, ""), all);
    assert!(check_at(&at(folder.path()), true).1.is_empty());
}

#[test]
fn planes_that_replace_others_go_to_what_has_taken_the_place_of_the_array() {
    for (chunk, commit) in [(1, 1), (4, 1), (4, 3), (3, 5)] {
        let folder = folder();
        let array = create_at(&at(folder.path()), &sharded(&[17, 8], &[12, 8], &[chunk, 4]));
        let options = SliceOptions::new().commit_every(commit).start(0);
        let mut writer = SliceWriter::new(array, 0, options).unwrap();
        let mut all = Vec::new();
        let packings = [[24u64, 8], [12, 8], [36, 8], [12, 8]];
        for n in 0..17u64 {
            let plane = noise(16, n);
            writer.push_elements(ElementsRef::Fixed(&plane)).unwrap();
            all.extend(plane);
            if n % 4 == 3 && writer.committed() == writer.position() {
                one(&at(folder.path()), None, &to(&packings[n as usize / 4]));
            }
        }
        writer.finish().unwrap();
        let array = ArrayNode::open(&engine(), &at(folder.path())).unwrap();
        assert_eq!(read(&array, ""), all, "chunk {chunk}, commit every {commit}");
        assert!(check_at(&at(folder.path()), true).1.is_empty());
    }
}

#[test]
fn a_job_waits_for_those_who_hold_the_array_and_is_finished_later() {
    let folder = folder();
    let (array, all) = cube(folder.path());
    let held = array.hold().unwrap();
    let options = to(&[16; 3]).wait(Duration::from_millis(50));
    let error = refused(&at(folder.path()), None, &options);
    assert!(matches!(error, RepackError::InUse { .. }), "{error}");
    assert_eq!(read(held.array(), ""), all);
    drop(held);
    one(&at(folder.path()), None, &options);
    assert_eq!(read(&array, ""), all);
    assert_eq!(reopen(&array).shard_shape(), Some(&[16, 16, 16][..]));
}

#[test]
fn those_who_come_while_a_job_waits_do_not_delay_it() {
    let folder = folder();
    let (array, _) = cube(folder.path());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Separate handles: operations on one handle share a hold.
                    let array = reopen(&array);
                    let _held = array.hold().unwrap();
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let _stop = Stop(&stop);
        let start = Instant::now();
        for shard in [16, 4, 8] {
            one(&at(folder.path()), None, &to(&[shard; 3]).wait(Duration::from_secs(20)));
        }
        assert!(start.elapsed() < Duration::from_secs(20));
    });
}

/// Readers, writers, other appenders and jobs at the same time, from threads with handles of their
/// own.
#[test]
fn readers_and_writers_beside_a_loop_of_jobs() {
    let folder = folder();
    let (array, _) = cube(folder.path());
    write(&array, "", vec![0; 16 * 512]);
    let place = at(folder.path());
    let stop = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    thread::scope(|scope| {
        // Each writer has its own planes, all elements of which are one number that only grows.
        for writer in 0..2u64 {
            let (place, stop, rounds) = (&place, &stop, &rounds);
            scope.spawn(move || {
                let old = ArrayNode::open(&engine(), place).unwrap();
                for n in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let plane = n as u16;
                    let elements: Vec<u8> = plane.to_le_bytes().repeat(256);
                    let region: Region = format!("{}", writer * 5 + n % 4).parse().unwrap();
                    old.write_elements(&region, ElementsRef::Fixed(&elements), &Default::default())
                        .unwrap();
                    // What was written is seen by every later reader.
                    let fresh = ArrayNode::open(&engine(), place).unwrap();
                    let found = fresh.read_elements(&region).unwrap().into_fixed().unwrap();
                    assert!(found == elements, "lost a write of {plane} by {writer}");
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..2 {
            let (place, stop) = (&place, &stop);
            scope.spawn(move || {
                let old = ArrayNode::open(&engine(), place).unwrap();
                let mut last = [0u16; 16];
                while !stop.load(Ordering::Relaxed) {
                    for (plane, last) in last.iter_mut().enumerate() {
                        let region: Region = format!("{plane}").parse().unwrap();
                        let found = old.read_elements(&region).unwrap().into_fixed().unwrap();
                        // A plane crosses several shards, which change one by one.
                        for element in found.chunks_exact(2) {
                            let element = u16::from_le_bytes([element[0], element[1]]);
                            let range = last.saturating_sub(4)..=last.saturating_add(5000);
                            assert!(range.contains(&element), "{element} after {last} in {plane}");
                        }
                        *last = u16::from_le_bytes([found[0], found[1]]).max(*last);
                    }
                }
            });
        }
        let (place, stop) = (&place, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let (_, findings) = check_at(place, true);
                let damage: Vec<_> =
                    findings.iter().filter(|f| f.severity == Severity::Damage).collect();
                assert!(damage.is_empty(), "{damage:?}");
            }
        });
        let _stop = Stop(stop);
        let target = tempfile::tempdir().unwrap();
        let mut done = 0;
        let start = Instant::now();
        for n in 0.. {
            // The same call finishes what was refused.
            let shard = [16, 4, 8][done % 3];
            match repack(place, None, &to(&[shard; 3])) {
                Ok(_) => done += 1,
                Err(Error::Repack(RepackError::Changed { .. } | RepackError::InUse { .. })) => {}
                Err(error) => panic!("{error}"),
            }
            let copied = at(&target.path().join(format!("{n}")));
            match copy(place, &copied, &CopyOptions::new()) {
                Ok(_) => drop(elements(&copied)),
                Err(error) => panic!("{error}"),
            }
            if done >= 12 || start.elapsed() > Duration::from_secs(30) {
                break;
            }
        }
        assert!(done > 0 && rounds.load(Ordering::Relaxed) > 0);
    });
    assert!(check_at(&place, true).1.iter().all(|finding| finding.severity != Severity::Damage));
}
