//! Of racing writers exactly one wins, even with objects larger than a part.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardine_remote::RemoteStore;
use shardine_store::{Condition, ReadRange, Store as _, StoreError, StoreExt as _};

use super::common::{azure, fresh, s3, s3_options, seaweed};
use super::fake_s3::{FakeS3, Honours};
use super::{in_child, key, pattern, told, within};

const LARGE: usize = (9 << 20) + 1000;

const WRITERS: usize = 3;

fn rounds(usual: usize) -> usize {
    std::env::var("SHARDINE_RACE_ROUNDS").map_or(usual, |text| text.parse().unwrap())
}

/// Makes writers replace an object on the same condition, and counts the rounds in which not
/// exactly one won.
fn race(stores: &[RemoteStore], len: usize, rounds: usize, absent: bool) -> usize {
    let mut wrong = 0;
    for round in 0..rounds {
        let at = key(&format!("o{}", if absent { round } else { 0 }));
        if round == 0 && !absent {
            stores[0].put(&at, &pattern(len, 99), Condition::None).unwrap();
        }
        let condition = match absent {
            true => Condition::Absent,
            false => stores[0].edit(&at).unwrap().condition(),
        };
        let (barrier, winners, last) =
            (Barrier::new(stores.len()), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for (i, store) in stores.iter().enumerate() {
                let (barrier, winners, last, at) = (&barrier, &winners, &last, &at);
                let condition = condition.clone();
                scope.spawn(move || {
                    let data = pattern(len, (round * WRITERS + i) as u64);
                    barrier.wait();
                    match store.put(at, &data, condition) {
                        Ok(_) => {
                            winners.fetch_add(1, Ordering::SeqCst);
                            last.store(i, Ordering::SeqCst);
                        }
                        Err(StoreError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                });
            }
        });
        let winner = (round * WRITERS + last.into_inner()) as u64;
        let one = winners.into_inner() == 1;
        let whole = *stores[0].get(&at).unwrap().unwrap() == *pattern(len, winner);
        wrong += usize::from(!(one && whole));
        if absent {
            stores[0].delete(&at, &Condition::None).unwrap();
        }
    }
    wrong
}

#[test]
fn of_writers_on_one_condition_one_wins_on_s3() {
    within(3000, || {
        for (len, usual) in [(1000, 30), (LARGE, 10)] {
            for absent in [false, true] {
                let prefix = fresh("race");
                let stores: Vec<_> = (0..WRITERS).map(|_| s3(&prefix)).collect();
                let rounds = rounds(usual);
                let wrong = race(&stores, len, rounds, absent);
                println!("S3, {len} bytes, absent {absent}: {wrong} of {rounds} rounds are wrong");
                assert_eq!(wrong, 0, "{len} bytes, absent {absent}, {rounds} rounds");
            }
        }
    });
}

#[test]
fn of_writers_on_one_condition_one_wins_on_azure() {
    within(3000, || {
        for (len, usual) in [(1000, 20), (LARGE, 5)] {
            for absent in [false, true] {
                let prefix = fresh("race");
                let stores: Vec<_> = (0..WRITERS).map(|_| azure(&prefix)).collect();
                let rounds = rounds(usual);
                let wrong = race(&stores, len, rounds, absent);
                println!(
                    "Azure, {len} bytes, absent {absent}: {wrong} of {rounds} rounds are wrong"
                );
                assert_eq!(wrong, 0, "{len} bytes, absent {absent}, {rounds} rounds");
            }
        }
    });
}

#[test]
fn a_store_of_unknown_make_gets_large_updates_in_one_request() {
    within(60, || {
        let fake = FakeS3::start(Honours { writes: true, completions: true });
        let store = fake.store(|options| options);
        let large = pattern(LARGE, 4);
        store.put(&key("a"), &large, Condition::Absent).unwrap();
        let edit = store.edit(&key("a")).unwrap();
        store.put(&key("a"), &large[1..], edit.condition()).unwrap();
        let conflict = store.put(&key("a"), &large, edit.condition()).unwrap_err();
        assert!(matches!(conflict, StoreError::Conflict { .. }), "{conflict:?}");
        assert_eq!(&*store.get(&key("a")).unwrap().unwrap(), &large[1..]);
        assert_eq!(fake.begun(), 0, "an upload was begun");
        // Without a condition nothing can go wrong.
        store.put(&key("b"), &large, Condition::None).unwrap();
        assert_eq!(fake.begun(), 1);
        // The user knows better.
        let store = fake.store(|options| options.with("conditional_uploads", "true"));
        let edit = store.edit(&key("a")).unwrap();
        store.put(&key("a"), &large, edit.condition()).unwrap();
        assert!(fake.begun() > 1);
        assert_eq!(&*store.get(&key("a")).unwrap().unwrap(), &*large);
        assert_eq!((fake.names().len(), fake.uploads()), (2, 0));
    });
}

#[test]
fn an_update_that_is_too_large_for_one_request_is_refused() {
    within(60, || {
        let fake = FakeS3::start(Honours { writes: true, completions: true });
        let store = fake.store(|options| options.with("put_limit", "6000000"));
        store.put(&key("a"), b"old", Condition::None).unwrap();
        let edit = store.edit(&key("a")).unwrap();
        let error = store.put(&key("a"), &pattern(LARGE, 1), edit.condition()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Unsupported { .. }), "{text}");
        assert!(text.contains("--single-writer") && text.contains("conditional_uploads"), "{text}");
        assert_eq!(&*store.get(&key("a")).unwrap().unwrap(), b"old");
        store.put(&key("a"), &pattern(5_500_000, 1), edit.condition()).unwrap();
        let alone = fake.store(|options| options.with("put_limit", "6000000").single_writer(true));
        let edit = alone.edit(&key("a")).unwrap();
        alone.put(&key("a"), &pattern(LARGE, 1), edit.condition()).unwrap();
        assert_eq!(&*store.get(&key("a")).unwrap().unwrap(), &*pattern(LARGE, 1));
    });
}

#[test]
fn a_large_update_waits_on_the_disk_and_not_in_memory() {
    within(120, || {
        // Written beforehand, so that the server is warm and the bucket exists.
        let prefix = fresh("spooled");
        s3(&prefix).put(&key("o"), b"old", Condition::None).unwrap();
        let addr = seaweed().addr().to_string();
        let told = [("HOSTILE_ADDR", addr.as_str()), ("HOSTILE_PREFIX", prefix.as_str())];
        let text = in_child("races::update_much", &told);
        let number = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        let grown = number("after:") - number("before:");
        assert!(grown < MEMORY + (24 << 20), "{} MiB", grown >> 20);
        // More than is read as a document.
        let object = s3(&prefix).open(&key("o"), None).unwrap().read(ReadRange::All).unwrap();
        assert_eq!(object.len() as u64, 1000 + OBJECT);
        assert!(object[..1000].iter().all(|&b| b == 1) && object[1000..].iter().all(|&b| b == 7));
    });
}

const MEMORY: u64 = 16 << 20;
const OBJECT: u64 = 200 << 20;

#[test]
#[ignore = "run by another test, in a process of its own"]
fn update_much() {
    let (Some(addr), Some(prefix)) = (told("HOSTILE_ADDR"), told("HOSTILE_PREFIX")) else { return };
    let options = s3_options(addr.parse().unwrap()).with("part_size", "5242880").memory(MEMORY);
    let url = format!("s3://{}/{prefix}", super::common::BUCKET);
    let store = RemoteStore::new(&url, &options).unwrap();
    let piece = vec![7; 1 << 20];
    let edit = store.edit(&key("o")).unwrap();
    println!("\nbefore:{}", super::memory::peak());
    let options = shardine_store::CreateOptions { head: 1000, condition: edit.condition() };
    let writer = store.create(&key("o"), options).unwrap();
    for _ in 0..OBJECT / piece.len() as u64 {
        writer.append(&piece).unwrap();
    }
    store.publish(vec![writer.finish(&[1; 1000]).unwrap()]).unwrap();
    println!("after:{}", super::memory::peak());
}
