//! A write whose answer is lost is reported as what it was: done, once.

use std::time::Duration;

use shardine_remote::RemoteStore;
use shardine_store::{Condition, ReadRange, Store as _, StoreError, StoreExt as _};
use shardine_testbed::{Azurite, Fault, Faults, Proxy, ProxyOptions, Rule};

use super::common::{BUCKET, azure, azurite, fresh, s3, s3_options, s3_proxy};
use super::{key, pattern, store, within};

const LARGE: usize = (5 << 20) + 777;

fn s3_at(proxy: &Proxy, prefix: &str) -> RemoteStore {
    let options = s3_options(proxy.addr()).with("part_size", "5242880");
    store(&format!("s3://{BUCKET}/{prefix}"), &options)
}

fn azure_proxy() -> Proxy {
    Proxy::start(azurite().addr(), ProxyOptions::default()).unwrap()
}

fn azure_at(proxy: &Proxy, prefix: &str) -> RemoteStore {
    let options = shardine_remote::StoreOptions::new()
        .with("azure_storage_account_name", Azurite::ACCOUNT)
        .with("azure_storage_account_key", Azurite::KEY)
        .with("azure_storage_endpoint", &format!("{}/{}", proxy.url(), Azurite::ACCOUNT))
        .with("part_size", "5242880");
    store(&format!("az://{BUCKET}/{prefix}"), &options)
}

/// Both servers, each with a proxy: the clean store, the one behind the proxy, the proxy, and the
/// request that assembles an object from parts.
fn both(name: &str, run: impl Fn(RemoteStore, RemoteStore, &Proxy, Rule) + Sync) {
    let lost = || Rule::new(Fault::LostAnswer);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (proxy, prefix) = (s3_proxy(), fresh(name));
            let completes = lost().method("POST").path("uploadId=");
            let options = s3_options(proxy.addr()).with("part_size", "5242880");
            let options = options.with("conditional_uploads", "true");
            let faulty = store(&format!("s3://{BUCKET}/{prefix}"), &options);
            run(s3(&prefix), faulty, &proxy, completes);
        });
        // From disk, in one request.
        scope.spawn(|| {
            let (proxy, prefix) = (s3_proxy(), fresh(name));
            let completes = lost().method("PUT").path("large");
            run(s3(&prefix), s3_at(&proxy, &prefix), &proxy, completes);
        });
        scope.spawn(|| {
            let (proxy, prefix) = (azure_proxy(), fresh(name));
            let completes = lost().method("PUT").path("comp=blocklist");
            run(azure(&prefix), azure_at(&proxy, &prefix), &proxy, completes);
        });
    });
}

#[test]
fn a_lost_answer_is_no_conflict() {
    within(90, || {
        both("lost", |clean, faulty, proxy, completes| {
            // Find out beforehand whether conditions are honoured.
            faulty.put(&key("first"), &pattern(LARGE, 0), Condition::Absent).unwrap();
            for (name, len) in [("small", 1000), ("large", LARGE)] {
                let (o, data) = (key(name), pattern(len, 1));
                let lose = || {
                    let lost = Rule::new(Fault::LostAnswer).method("PUT").path(name);
                    proxy.set_faults(Faults::from(
                        if len < LARGE { lost } else { completes.clone() }.times(1),
                    ));
                };
                lose();
                proxy.reset();
                let version = faulty.put(&o, &data, Condition::Absent).unwrap();
                assert_eq!(proxy.count_where(|request| request.fault.is_some()), 1);
                let object = clean.open(&o, Some(&version)).unwrap();
                assert!(*object.read(ReadRange::All).unwrap() == *data);

                let edit = faulty.edit(&o).unwrap();
                assert_eq!(edit.version, version);
                lose();
                let second = faulty.put(&o, &data[1..], edit.condition()).unwrap();
                assert_eq!(proxy.count_where(|request| request.fault.is_some()), 2);
                assert_ne!(second, version);
                let object = clean.open(&o, Some(&second)).unwrap();
                assert!(*object.read(ReadRange::All).unwrap() == data[1..]);

                // The same again is a conflict.
                for condition in [Condition::Absent, edit.condition()] {
                    lose();
                    let error = faulty.put(&o, &data, condition).unwrap_err();
                    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
                }
                assert!(*clean.get(&o).unwrap().unwrap() == data[1..]);
            }
        });
    });
}

#[test]
fn a_write_with_a_lost_answer_stays_done_if_others_write_before_the_look() {
    within(90, || {
        both("between", |clean, faulty, proxy, completes| {
            faulty.put(&key("first"), &pattern(LARGE, 0), Condition::Absent).unwrap();
            for (name, len) in [("small", 1000), ("large", LARGE)] {
                for fresh in [true, false] {
                    let (o, data) = (key(&format!("{name}-{fresh}")), pattern(len, 1));
                    let condition = if fresh {
                        Condition::Absent
                    } else {
                        clean.put(&o, b"old", Condition::None).unwrap();
                        faulty.edit(&o).unwrap().condition()
                    };
                    let lost = Rule::new(Fault::LostAnswer).method("PUT").path(name);
                    let lost = if len < LARGE { lost } else { completes.clone() };
                    // The check comes late, so that another writer can be faster.
                    let late = Rule::new(Fault::Drop).method("HEAD").times(4);
                    proxy.set_faults(Faults::new(0, [lost.times(1), late]));
                    proxy.reset();
                    std::thread::scope(|scope| {
                        let writing = scope.spawn(|| faulty.put(&o, &data, condition));
                        let happened = || {
                            proxy.count_where(|request| {
                                request.fault == Some("lost-answer")
                                    && request.upstream_status.is_some()
                            }) > 0
                        };
                        while !happened() {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        let edit = clean.edit(&o).unwrap();
                        let seen = edit.object.read(ReadRange::All).unwrap();
                        assert!(*seen == *data, "it took place before its answer was lost");
                        clean.put(&o, b"newer", edit.condition()).unwrap();
                        let version = writing.join().unwrap().unwrap();
                        // That version is not what is there now.
                        let object = clean.open(&o, Some(&version)).unwrap();
                        let error = object.read(ReadRange::All).unwrap_err();
                        assert!(matches!(error, StoreError::Changed { .. }), "{error:?}");
                    });
                    assert_eq!(*clean.get(&o).unwrap().unwrap(), *b"newer", "nobody wrote over it");
                }
            }
        });
    });
}

/// Adds a line to a list, retrying until it was added. Returns how often another writer was faster.
fn add(store: &RemoteStore, token: &str, padding: usize) -> usize {
    let mut conflicts = 0;
    loop {
        let edit = store.edit(&key("list")).unwrap();
        let mut text = match edit.object.read(ReadRange::All) {
            Ok(text) => text.to_vec(),
            // Another writer replaced it in the meantime.
            Err(StoreError::Changed { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        text.truncate(text.len() - padding);
        text.extend_from_slice(token.as_bytes());
        text.push(b'\n');
        text.resize(text.len() + padding, b' ');
        match store.put(&key("list"), &text, edit.condition()) {
            Ok(_) => return conflicts,
            Err(StoreError::Conflict { .. }) => conflicts += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Adds lines from several threads on a bad network, and checks that each is there once.
fn count(clean: &RemoteStore, faulty: &[RemoteStore], each: usize, padding: usize) {
    clean.put(&key("list"), &vec![b' '; padding], Condition::None).unwrap();
    std::thread::scope(|scope| {
        for (i, store) in faulty.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..each {
                    add(store, &format!("{i}-{n}"), padding);
                }
            });
        }
    });
    let text = clean.get(&key("list")).unwrap().unwrap().to_vec();
    let text = String::from_utf8(text).unwrap();
    let mut found: Vec<&str> = text.split_whitespace().collect();
    found.sort_unstable();
    let mut expected: Vec<String> =
        (0..faulty.len()).flat_map(|i| (0..each).map(move |n| format!("{i}-{n}"))).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

fn storm(seed: u64) -> Faults {
    let rule = |fault| Rule::new(fault).probability(0.1);
    let status = Fault::Status { code: 503, retry_after: None };
    Faults::new(
        seed,
        [
            rule(Fault::LostAnswer).method("PUT"),
            rule(Fault::LostAnswer).method("POST"),
            rule(Fault::Drop),
            rule(status),
        ],
    )
}

fn is_lost(request: &shardine_testbed::Recorded) -> bool {
    request.fault == Some("lost-answer")
}

/// More rounds on request.
fn rounds(usual: usize) -> usize {
    std::env::var("SHARDINE_LONG").map_or(usual, |_| usual * 20)
}

#[test]
fn a_counter_in_a_storm_counts_right_on_s3() {
    within(600, || {
        let (proxy, prefix) = (s3_proxy(), fresh("counter"));
        let faulty: Vec<_> = (0..3).map(|_| s3_at(&proxy, &prefix)).collect();
        proxy.set_faults(storm(1));
        count(&s3(&prefix), &faulty, rounds(8), 0);
        assert!(proxy.count_where(is_lost) > 0);
    });
}

#[test]
fn a_counter_in_a_storm_counts_right_on_azure() {
    within(600, || {
        let (proxy, prefix) = (azure_proxy(), fresh("counter"));
        let faulty: Vec<_> = (0..3).map(|_| azure_at(&proxy, &prefix)).collect();
        proxy.set_faults(storm(2));
        count(&azure(&prefix), &faulty, rounds(6), 0);
        assert!(proxy.count_where(is_lost) > 0);
    });
}

#[test]
fn a_counter_in_parts_counts_right() {
    within(600, || {
        let (proxy, prefix) = (s3_proxy(), fresh("counter-parts"));
        let faulty: Vec<_> = (0..2).map(|_| s3_at(&proxy, &prefix)).collect();
        proxy.set_faults(storm(3));
        count(&s3(&prefix), &faulty, rounds(3), LARGE);
        assert!(proxy.count_where(|request| request.fault.is_some()) > 0);
    });
}
