//! All reads of an open object see one version of it.

use std::sync::Mutex;

use shardine_remote::RemoteStore;
use shardine_store::conformance::ThreadEach;
use shardine_store::{Condition, Read, ReadRange, Store as _, StoreError, StoreExt as _};

use super::common::{azure, fresh, s3};
use super::{key, pattern, within};

const LEN: usize = 10_000;

fn stores() -> [(RemoteStore, RemoteStore); 2] {
    let (a, b) = (fresh("consistent"), fresh("consistent"));
    [(s3(&a), s3(&a)), (azure(&b), azure(&b))]
}

fn changed(answer: Result<shardine_store::Buffer, StoreError>) {
    let error = answer.map(|bytes| bytes.len()).unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error:?}");
}

#[test]
fn an_object_replaced_between_two_reads_is_changed() {
    within(60, || {
        for (store, other) in stores() {
            for len in [LEN, LEN / 2, LEN * 2] {
                let o = key(&format!("o{len}"));
                let (old, new) = (pattern(LEN, 1), pattern(len, 2));
                store.put(&o, &old, Condition::None).unwrap();
                let object = store.open(&o, None).unwrap();
                let head = object.read(ReadRange::Head { need: 4, most: 100 }).unwrap();
                assert_eq!(*head, old[..4]);
                other.put(&o, &new, Condition::None).unwrap();
                // The prefetched bytes are still those of the old version, which is correct.
                assert_eq!(*object.read(ReadRange::Bounded(50..100)).unwrap(), old[50..100]);
                changed(object.read(ReadRange::Bounded(50..101)));
                changed(object.read(ReadRange::All));
                changed(object.read(ReadRange::Suffix(10)));
                changed(object.read(ReadRange::Tail { need: 1, most: 10 }));
                let mut into = [0; 10];
                assert!(object.read_into(200, &mut into).is_err());
                assert_eq!(*store.get(&o).unwrap().unwrap(), new);
            }
        }
    });
}

#[test]
fn an_object_that_is_gone_is_not_mixed_with_nothing() {
    within(60, || {
        for (store, other) in stores() {
            store.put(&key("o"), &pattern(LEN, 1), Condition::None).unwrap();
            let object = store.open(&key("o"), None).unwrap();
            object.read(ReadRange::Bounded(0..10)).unwrap();
            other.delete(&key("o"), &Condition::None).unwrap();
            let error = object.read(ReadRange::Bounded(10..20)).unwrap_err();
            let right = matches!(error, StoreError::Changed { .. } | StoreError::NotFound { .. });
            assert!(right, "{error:?}");
        }
    });
}

#[test]
fn a_version_that_is_expected_is_the_one_that_is_read() {
    within(60, || {
        for (store, other) in stores() {
            let (old, new) = (pattern(LEN, 1), pattern(LEN, 2));
            let first = store.put(&key("o"), &old, Condition::None).unwrap();
            let object = store.open(&key("o"), Some(&first)).unwrap();
            assert_eq!(*object.read(ReadRange::Suffix(9)).unwrap(), old[LEN - 9..]);
            assert_eq!(object.version(), Some(first.clone()));
            let second = other.put(&key("o"), &new, Condition::None).unwrap();
            for range in [
                ReadRange::All,
                ReadRange::Bounded(1..2),
                ReadRange::Bounded(2..2),
                ReadRange::Suffix(5),
                ReadRange::Suffix(0),
                ReadRange::Head { need: 1, most: 5 },
                ReadRange::Tail { need: 1, most: 5 },
                ReadRange::Bounded(0..LEN as u64 + 1),
                ReadRange::Bounded(LEN as u64..LEN as u64 + 1),
            ] {
                let object = store.open(&key("o"), Some(&first)).unwrap();
                changed(object.read(range));
            }
            let object = store.open(&key("o"), Some(&second)).unwrap();
            assert_eq!(*object.read(ReadRange::All).unwrap(), new);
        }
    });
}

#[test]
fn batches_do_not_mix_versions() {
    within(60, || {
        for (store, other) in stores() {
            let versions = [vec![1u8; LEN], vec![2u8; LEN]];
            store.put(&key("o"), &versions[0], Condition::None).unwrap();
            let object = store.open(&key("o"), None).unwrap();
            let range = |i: u64| ReadRange::Bounded(i * 10..i * 10 + 10);
            let seen = Mutex::new(Vec::new());
            let mut reads = (0..300).map(|i| {
                if i == 100 {
                    other.put(&key("o"), &versions[1], Condition::None).unwrap();
                }
                Read { object: object.clone(), range: range(i) }
            });
            store.read_batch(&ThreadEach, &mut reads, &|_, answer| match answer {
                Ok(bytes) => seen.lock().unwrap().extend_from_slice(&bytes),
                Err(StoreError::Changed { .. }) => seen.lock().unwrap().push(0),
                Err(error) => panic!("{error}"),
            });
            let seen = seen.into_inner().unwrap();
            let mixed = seen.contains(&1) && seen.contains(&2);
            assert!(!mixed && seen.contains(&0), "reads of one open object saw two versions");
        }
    });
}

#[test]
fn ranges_past_the_end_are_errors_on_every_kind() {
    within(60, || {
        for (store, _) in stores() {
            for len in [0usize, 1, 100] {
                let o = key(&format!("o{len}"));
                store.put(&o, &pattern(len, 1), Condition::None).unwrap();
                let n = len as u64;
                for range in [
                    ReadRange::Bounded(0..n + 1),
                    ReadRange::Bounded(n..n + 1),
                    ReadRange::Bounded(n + 1..n + 1),
                    ReadRange::Bounded(n + 5..n + 9),
                    ReadRange::Bounded(u64::MAX - 1..u64::MAX),
                    ReadRange::Bounded(0..u64::MAX),
                    #[allow(clippy::reversed_empty_ranges, reason = "it is to be refused")]
                    ReadRange::Bounded(9..3),
                    ReadRange::Suffix(n + 1),
                    ReadRange::Suffix(u64::MAX),
                    ReadRange::Head { need: n + 1, most: u64::MAX },
                    ReadRange::Tail { need: n + 1, most: u64::MAX },
                ] {
                    let object = store.open(&o, None).unwrap();
                    let error = object.read(range.clone()).map(|b| b.len()).unwrap_err();
                    let right = matches!(error, StoreError::OutOfRange { len, .. } if len == n);
                    assert!(right, "{range:?} of {len}: {error:?}");
                }
                for range in [
                    ReadRange::All,
                    ReadRange::Bounded(0..n),
                    ReadRange::Suffix(n),
                    ReadRange::Head { need: n, most: u64::MAX },
                    ReadRange::Tail { need: n, most: u64::MAX },
                    ReadRange::Tail { need: n, most: 0 },
                ] {
                    let object = store.open(&o, None).unwrap();
                    let bytes = object.read(range.clone());
                    assert_eq!(*bytes.unwrap(), pattern(len, 1), "{range:?} of {len}");
                }
            }
        }
    });
}
