//! Uploads that fail leave nothing behind.

use std::time::{Duration, Instant};

use shardine_remote::{RemoteStore, abort_unfinished_uploads};
use shardine_store::{Condition, CreateOptions, Store as _, StoreError, StoreExt as _};
use shardine_testbed::{Fault, Faults, Proxy, Rule, request};

use super::common::{BUCKET, fresh, s3, s3_options, s3_proxy};
use super::{in_child, key, pattern, store, told, within};

const LARGE: usize = (10 << 20) + 1;

fn parted(addr: std::net::SocketAddr, prefix: &str) -> RemoteStore {
    let options = s3_options(addr)
        .with("conditional_uploads", "true")
        .with("part_size", "5242880")
        .with("max_retries", "1");
    store(&format!("s3://{BUCKET}/{prefix}"), &options)
}

/// The numbers of uploads that were started, completed and aborted.
fn seen(proxy: &Proxy) -> (usize, usize, usize) {
    let count = |method: &str, what: &str| {
        proxy.count_where(|request| {
            request.method == method
                && request.target.contains(what)
                && request.upstream_status.is_some_and(|status| status < 300)
        })
    };
    (count("POST", "?uploads"), count("POST", "uploadId="), count("DELETE", "uploadId="))
}

/// Waits until each upload has ended.
fn settled(proxy: &Proxy, begun: usize) {
    let start = Instant::now();
    loop {
        let (found, completed, aborted) = seen(proxy);
        if found == begun && found == completed + aborted {
            return;
        }
        let late = start.elapsed() > Duration::from_secs(10);
        assert!(!late, "{found} begun, {completed} completed, {aborted} aborted");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_no_upload() {
    within(60, || {
        let (proxy, prefix) = (s3_proxy(), fresh("dropped"));
        let store = parted(proxy.addr(), &prefix);
        let data = pattern(LARGE, 1);
        let begin = || {
            let writer = store.create(&key("o"), CreateOptions::default()).unwrap();
            writer.append(&data).unwrap();
            writer
        };
        // Immediately, after a while, and when it is ready to be published.
        drop(begin());
        settled(&proxy, 1);
        let writer = begin();
        while proxy.count_where(|r| r.method == "PUT" && r.status == Some(200)) < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(writer);
        settled(&proxy, 2);
        drop(begin().finish(&[]).unwrap());
        settled(&proxy, 3);
        assert!(store.get(&key("o")).unwrap().is_none());
    });
}

#[test]
fn a_writer_that_is_dropped_while_the_upload_begins_leaves_none() {
    within(60, || {
        let (proxy, prefix) = (s3_proxy(), fresh("begins"));
        let store = parted(proxy.addr(), &prefix);
        proxy.set_latency(Duration::from_millis(300));
        let writer = store.create(&key("o"), CreateOptions::default()).unwrap();
        writer.append(&pattern(LARGE, 1)).unwrap();
        while proxy.count() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(writer);
        settled(&proxy, 1);
    });
}

#[test]
fn a_conflict_at_the_end_leaves_no_upload() {
    within(60, || {
        let (proxy, prefix) = (s3_proxy(), fresh("conflict"));
        let (store, other) = (parted(proxy.addr(), &prefix), s3(&prefix));
        let data = pattern(LARGE, 1);
        store.put(&key("o"), &data, Condition::Absent).unwrap();
        let edit = store.edit(&key("o")).unwrap();
        proxy.reset();
        let writer =
            store.create(&key("o"), CreateOptions { head: 0, condition: edit.condition() });
        let writer = writer.unwrap();
        writer.append(&data).unwrap();
        let staged = writer.finish(&[]).unwrap();
        other.put(&key("o"), b"other", Condition::None).unwrap();
        let error = store.publish(vec![staged]).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
        settled(&proxy, 1);
        assert_eq!(*other.get(&key("o")).unwrap().unwrap(), *b"other");
    });
}

#[test]
fn a_part_that_fails_leaves_no_upload() {
    within(60, || {
        let (proxy, prefix) = (s3_proxy(), fresh("part"));
        let store = parted(proxy.addr(), &prefix);
        let status = Fault::Status { code: 500, retry_after: None };
        proxy.set_faults(Faults::from(Rule::new(status).path("partNumber=2")));
        store.put(&key("o"), &pattern(LARGE, 1), Condition::None).unwrap_err();
        settled(&proxy, 1);
        assert!(store.get(&key("o")).unwrap().is_none());
    });
}

#[test]
fn a_completion_that_fails_leaves_no_upload() {
    within(60, || {
        let (proxy, prefix) = (s3_proxy(), fresh("completion"));
        let store = parted(proxy.addr(), &prefix);
        let status = Fault::Status { code: 500, retry_after: None };
        proxy.set_faults(Faults::from(Rule::new(status).method("POST").path("uploadId=")));
        store.put(&key("o"), &pattern(LARGE, 1), Condition::None).unwrap_err();
        settled(&proxy, 1);
        assert!(store.get(&key("o")).unwrap().is_none());
    });
}

#[test]
fn a_beginning_whose_answer_is_lost_does_no_harm() {
    within(60, || {
        let (proxy, prefix) = (s3_proxy(), fresh("beginning"));
        let store = parted(proxy.addr(), &prefix);
        let lost = Rule::new(Fault::LostAnswer).method("POST").path("?uploads").times(1);
        proxy.set_faults(Faults::from(lost));
        let data = pattern(LARGE, 1);
        store.put(&key("o"), &data, Condition::Absent).unwrap();
        assert!(*store.get(&key("o")).unwrap().unwrap() == *data);
        assert_eq!(proxy.count_where(|request| request.fault.is_some()), 1);
    });
}

#[test]
fn a_programme_that_ends_can_abort_what_it_began() {
    within(60, || {
        let (proxy, prefix) = (s3_proxy(), fresh("ends"));
        let environment =
            [("HOSTILE_ADDR", proxy.addr().to_string()), ("HOSTILE_PREFIX", prefix.clone())];
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        in_child("aborts::begin_and_end", &environment);
        let (begun, completed, aborted) = seen(&proxy);
        assert!(begun == 4 && completed == 1 && aborted >= 3, "{begun} {completed} {aborted}");
        assert_eq!(s3(&prefix).list(None).unwrap().objects.len(), 1);
    });
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn begin_and_end() {
    let (Some(addr), Some(prefix)) = (told("HOSTILE_ADDR"), told("HOSTILE_PREFIX")) else { return };
    let addr: std::net::SocketAddr = addr.parse().unwrap();
    let store = parted(addr, &prefix);
    let data = pattern(LARGE, 1);
    store.put(&key("whole"), &data, Condition::None).unwrap();
    let begin = |name: &str| {
        let writer = store.create(&key(name), CreateOptions::default()).unwrap();
        writer.append(&data).unwrap();
        writer
    };
    let writers = [begin("a"), begin("b")];
    let begun =
        |log: &str| log.matches("?uploads").count() == 3 && log.matches("partNumber").count() == 7;
    while !begun(&request(addr, "GET", "/__proxy/log", &[], b"").unwrap().text()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    abort_unfinished_uploads(Duration::from_secs(5));
    // Like a program that ends without time to drop anything.
    writers.into_iter().for_each(std::mem::forget);
    // What was dropped just before is waited for, even if it has hardly begun.
    let last = begin("c");
    while request(addr, "GET", "/__proxy/log", &[], b"").unwrap().text().matches("?uploads").count()
        < 4
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(last);
    abort_unfinished_uploads(Duration::from_secs(5));
}
