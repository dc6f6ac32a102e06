//! What fails for good fails in time, says why, and changes nothing.

use std::time::{Duration, Instant};

use shardine_remote::RemoteStore;
use shardine_store::{Condition, ReadRange, Store as _, StoreError, StoreExt as _};
use shardine_testbed::{Fault, Faults, Proxy, Rule};

use super::common::{BUCKET, fresh, s3, s3_options, s3_proxy};
use super::{key, pattern, store, within};

const LARGE: usize = (10 << 20) + 12_345;

fn limited(proxy: &Proxy, prefix: &str, retries: &str, seconds: &str) -> RemoteStore {
    let options = s3_options(proxy.addr())
        .with("max_retries", retries)
        .with("retry_timeout", seconds)
        .with("read_timeout", "3")
        .with("part_size", "5242880");
    store(&format!("s3://{BUCKET}/{prefix}"), &options)
}

fn status(code: u16) -> Fault {
    Fault::Status { code, retry_after: None }
}

/// Asserts that a message says what was done, to what, by which request, and what the answer was.
fn says(error: &StoreError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "\"{word}\" is missing in: {text}");
    }
}

type Operation = fn(&RemoteStore) -> Result<(), StoreError>;

fn read(store: &RemoteStore) -> Result<(), StoreError> {
    store.open(&key("o"), None)?.read(ReadRange::Bounded(10..20)).map(drop)
}

fn look(store: &RemoteStore) -> Result<(), StoreError> {
    store.open(&key("o"), None)?.read(ReadRange::Suffix(0)).map(drop)
}

fn put(store: &RemoteStore) -> Result<(), StoreError> {
    store.put(&key("o"), b"new", Condition::None).map(drop)
}

fn create(store: &RemoteStore) -> Result<(), StoreError> {
    store.put(&key("new"), b"new", Condition::Absent).map(drop)
}

fn upload(store: &RemoteStore) -> Result<(), StoreError> {
    store.put(&key("o"), &pattern(LARGE, 1), Condition::None).map(drop)
}

fn delete(store: &RemoteStore) -> Result<(), StoreError> {
    store.delete(&key("o"), &Condition::None)
}

fn list(store: &RemoteStore) -> Result<(), StoreError> {
    store.list(None).map(drop)
}

#[test]
fn errors_name_the_operation_the_object_the_request_and_the_answer() {
    // The operation, the method that fails, the path it fails for, and what the message contains.
    let cases: [(Operation, &str, &str, &[&str]); 7] = [
        (read, "GET", "/o", &["read", "/o", "GET", "503"]),
        (look, "HEAD", "/o", &["look for", "/o", "HEAD", "503"]),
        (put, "PUT", "/o", &["write", "/o", "PUT", "503"]),
        (create, "PUT", "/new", &["write", "/new", "PUT", "503"]),
        (upload, "PUT", "partNumber=2", &["part", "/o", "PUT", "503"]),
        (delete, "DELETE", "/o", &["remove", "/o", "DELETE", "503"]),
        (list, "GET", "list-type", &["list", "GET", "503"]),
    ];
    within(60, move || {
        std::thread::scope(|scope| {
            for (run, method, path, words) in cases {
                scope.spawn(move || {
                    let (proxy, prefix) = (s3_proxy(), fresh("errors"));
                    let clean = s3(&prefix);
                    clean.put(&key("o"), &pattern(100, 1), Condition::None).unwrap();
                    let store = limited(&proxy, &prefix, "2", "60");
                    if path == "/new" {
                        // Find out beforehand that conditions are honoured.
                        store.put(&key("first"), b"", Condition::Absent).unwrap();
                    }
                    proxy.reset();
                    proxy
                        .set_faults(Faults::from(Rule::new(status(503)).method(method).path(path)));
                    let error = run(&store).unwrap_err();
                    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
                    says(&error, words);
                    says(&error, &[&format!("s3://{BUCKET}/{prefix}")]);
                    let tried = proxy.count_where(|request| request.fault.is_some());
                    assert_eq!(tried, 3, "max_retries is 2: {method} {path}");
                    assert_eq!(*clean.get(&key("o")).unwrap().unwrap(), pattern(100, 1));
                    assert!(clean.get(&key("new")).unwrap().is_none());
                });
            }
        });
    });
}

#[test]
fn no_retries_are_none() {
    within(60, || {
        for fault in [status(500), Fault::Drop, Fault::Truncate] {
            let (proxy, prefix) = (s3_proxy(), fresh("none"));
            s3(&prefix).put(&key("o"), &pattern(100_000, 1), Condition::None).unwrap();
            let store = limited(&proxy, &prefix, "0", "60");
            proxy.set_faults(Faults::from(Rule::new(fault.clone())));
            let error = store.get(&key("o")).unwrap_err();
            says(&error, &["read", "/o"]);
            assert_eq!(proxy.count(), 1, "{fault:?}: {error}");
            assert_eq!(proxy.count_where(|request| request.fault.is_some()), 1);
        }
    });
}

#[test]
fn the_time_for_retries_ends() {
    let operations: [(Operation, &str); 6] = [
        (read, "GET"),
        (look, "HEAD"),
        (put, "PUT"),
        (upload, "POST"),
        (delete, "DELETE"),
        (list, "GET"),
    ];
    let faults = [status(503), Fault::Drop, Fault::LostAnswer];
    within(60, move || {
        std::thread::scope(|scope| {
            for (run, method) in operations {
                for fault in faults.clone() {
                    let lost = fault == Fault::LostAnswer;
                    // Then the check finds that the write took place, or another removal does no
                    // harm.
                    if lost && ["PUT", "POST"].contains(&method) {
                        continue;
                    }
                    scope.spawn(move || {
                        let (proxy, prefix) = (s3_proxy(), fresh("time"));
                        s3(&prefix).put(&key("o"), &pattern(100, 1), Condition::None).unwrap();
                        let store = limited(&proxy, &prefix, "1000", "2");
                        let rule = Rule::new(fault.clone()).method(method);
                        proxy.set_faults(Faults::from(rule));
                        let start = Instant::now();
                        let error = run(&store).unwrap_err();
                        let took = start.elapsed();
                        // The last attempt begins in time, after a pause that may be longer than
                        // all before it.
                        assert!(
                            took < Duration::from_secs(9),
                            "{method} {fault:?}: {took:?}: {error}"
                        );
                    });
                }
            }
        });
    });
}

#[test]
fn a_write_that_fails_in_the_middle_shows_nothing() {
    within(60, || {
        std::thread::scope(|scope| {
            for condition in [Condition::None, Condition::Absent] {
                for large in [false, true] {
                    let condition = condition.clone();
                    scope.spawn(move || {
                        let (proxy, prefix) = (s3_proxy(), fresh("half"));
                        let (clean, store) = (s3(&prefix), limited(&proxy, &prefix, "1", "60"));
                        store.put(&key("first"), b"", Condition::Absent).unwrap();
                        let rule = Rule::new(Fault::DropMiddle).method("PUT").path("/o");
                        proxy.set_faults(Faults::from(rule));
                        let data = pattern(if large { LARGE } else { 1 << 20 }, 1);
                        store.put(&key("o"), &data, condition.clone()).unwrap_err();
                        assert!(clean.get(&key("o")).unwrap().is_none());
                        assert_eq!(clean.list(None).unwrap().objects, [(key("first"), 0)]);
                        if condition == Condition::None {
                            clean.put(&key("o"), b"old", Condition::None).unwrap();
                            store.put(&key("o"), &data, condition).unwrap_err();
                            assert_eq!(*clean.get(&key("o")).unwrap().unwrap(), *b"old");
                        }
                    });
                }
            }
        });
    });
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    within(40, || {
        let (proxy, prefix) = (s3_proxy(), fresh("silent"));
        s3(&prefix).put(&key("o"), b"abc", Condition::None).unwrap();
        let store = limited(&proxy, &prefix, "1", "60");
        proxy.set_faults(Faults::from(Rule::new(Fault::Stall(Duration::from_secs(30)))));
        let start = Instant::now();
        let error = store.get(&key("o")).unwrap_err();
        says(&error, &["read", "/o", "GET"]);
        assert!(start.elapsed() < Duration::from_secs(12), "{error}");
    });
}
