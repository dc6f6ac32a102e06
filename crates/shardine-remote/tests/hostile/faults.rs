//! Occasional network failures go unnoticed.

use std::sync::Mutex;
use std::time::Duration;

use shardine_remote::RemoteStore;
use shardine_store::conformance::ThreadEach;
use shardine_store::{Condition, Read, ReadRange, Store as _, StoreExt as _};
use shardine_testbed::{Fault, Faults, Proxy, Rule};

use super::common::{BUCKET, fresh, s3, s3_options, s3_proxy};
use super::{key, pattern, store, within};

const LEN: usize = 100_000;

/// More than two parts.
const LARGE: usize = (10 << 20) + 12_345;

/// Everything that can go wrong, each often enough to hit what is retried.
fn faults() -> Vec<Rule> {
    let status = |code, retry_after| Fault::Status { code, retry_after };
    vec![
        Rule::new(Fault::Drop).times(2),
        Rule::new(Fault::DropMiddle).times(2),
        Rule::new(Fault::LostAnswer).times(2),
        Rule::new(status(503, None)).times(2),
        Rule::new(status(503, Some(1))).times(1),
        Rule::new(status(500, None)).times(2),
        Rule::new(status(429, None)).times(1),
        Rule::new(Fault::Truncate).times(2),
        Rule::new(Fault::Slow { piece: 8000, pause: Duration::from_millis(5) }).times(2),
        Rule::new(Fault::Stall(Duration::from_millis(1300))).times(1),
    ]
}

fn through(proxy: &Proxy, prefix: &str, read_timeout: &str) -> RemoteStore {
    let options =
        s3_options(proxy.addr()).with("read_timeout", read_timeout).with("part_size", "5242880");
    store(&format!("s3://{BUCKET}/{prefix}"), &options)
}

/// Runs something for each fault, in parallel, with a clean store and one with the fault to come.
fn with_each(name: &str, run: impl Fn(&RemoteStore, &RemoteStore, &dyn Fn()) + Sync) {
    std::thread::scope(|scope| {
        for (i, rule) in faults().into_iter().enumerate() {
            let run = &run;
            // The last fault is noticed only by the timeout.
            let timeout = if i + 1 == faults().len() { "1" } else { "30" };
            scope.spawn(move || {
                let (proxy, prefix) = (s3_proxy(), fresh(name));
                let bad = || proxy.set_faults(Faults::from(rule.clone()));
                run(&s3(&prefix), &through(&proxy, &prefix, timeout), &bad);
                let faults = proxy.count_where(|request| request.fault.is_some());
                assert!(faults > 0, "{rule:?} did not happen");
            });
        }
    });
}

#[test]
fn reads_bring_the_right_bytes() {
    within(90, || {
        let data = pattern(LEN, 1);
        with_each("reads", |clean, faulty, bad| {
            clean.put(&key("o"), &data, Condition::None).unwrap();
            let cases = [
                (ReadRange::All, 0..LEN),
                (ReadRange::Bounded(17..70_001), 17..70_001),
                (ReadRange::Suffix(50_000), 50_000..LEN),
                (ReadRange::Head { need: 10, most: 60_000 }, 0..10),
                (ReadRange::Tail { need: 10, most: 60_000 }, LEN - 10..LEN),
                (ReadRange::Bounded(0..0), 0..0),
            ];
            for (range, expected) in cases {
                let object = faulty.open(&key("o"), None).unwrap();
                bad();
                let got = object.read(range.clone()).unwrap();
                assert_eq!(*got, data[expected], "{range:?}");
                // Prefetched bytes are correct as well.
                bad();
                let got = object.read(ReadRange::Bounded(5..LEN as u64 - 5)).unwrap();
                assert_eq!(*got, data[5..LEN - 5], "after {range:?}");
                assert_eq!(object.len(), Some(LEN as u64));
            }
        });
    });
}

#[test]
fn batches_bring_the_right_bytes() {
    within(90, || {
        let data = pattern(LEN, 2);
        let proxy = s3_proxy();
        let prefix = fresh("batches");
        s3(&prefix).put(&key("o"), &data, Condition::None).unwrap();
        let faulty = through(&proxy, &prefix, "2");
        let rules = faults().into_iter().map(|rule| rule.times(u64::MAX).probability(0.04));
        proxy.set_faults(Faults::new(3, rules));
        let object = faulty.open(&key("o"), None).unwrap();
        let range = |i: usize| (i * 300) as u64..(i * 300 + 1000) as u64;
        let mut reads =
            (0..200).map(|i| Read { object: object.clone(), range: ReadRange::Bounded(range(i)) });
        let seen = Mutex::new(vec![0; 200]);
        faulty.read_batch(&ThreadEach, &mut reads, &|i, answer| {
            let range = range(i);
            assert_eq!(*answer.unwrap(), data[range.start as usize..range.end as usize]);
            seen.lock().unwrap()[i] += 1;
        });
        assert_eq!(*seen.lock().unwrap(), [1; 200]);
        assert!(proxy.count_where(|request| request.fault.is_some()) > 20);
    });
}

#[test]
fn writes_arrive_once_and_whole() {
    within(120, || {
        with_each("writes", |clean, faulty, bad| {
            let o = key("o");
            for (round, condition) in [Condition::Absent, Condition::None].into_iter().enumerate() {
                let data = pattern(LEN, round as u64);
                bad();
                let version = faulty.put(&o, &data, condition).unwrap();
                let object = clean.open(&o, Some(&version)).unwrap();
                assert_eq!(*object.read(ReadRange::All).unwrap(), data);
            }
            for seed in 5..7 {
                let data = pattern(LEN, seed);
                let edit = faulty.edit(&o).unwrap();
                bad();
                let version = faulty.put(&o, &data, edit.condition()).unwrap();
                let object = clean.open(&o, Some(&version)).unwrap();
                assert_eq!(*object.read(ReadRange::All).unwrap(), data);
            }
            bad();
            faulty.delete(&o, &Condition::None).unwrap();
            assert!(clean.get(&o).unwrap().is_none());
        });
    });
}

#[test]
fn uploads_in_parts_arrive_once_and_whole() {
    within(120, || {
        let data = pattern(LARGE, 9);
        with_each("parts", |clean, faulty, bad| {
            let o = key("o");
            bad();
            faulty.put(&o, &data, Condition::Absent).unwrap();
            let edit = faulty.edit(&o).unwrap();
            bad();
            let version = faulty.put(&o, &data[7..], edit.condition()).unwrap();
            let object = clean.open(&o, Some(&version)).unwrap();
            assert!(*object.read(ReadRange::All).unwrap() == data[7..]);
        });
    });
}

#[test]
fn listings_are_whole() {
    within(90, || {
        with_each("listings", |clean, faulty, bad| {
            for name in ["a", "b/c", "b/d", "e"] {
                clean.put(&key(name), b"xyz", Condition::None).unwrap();
            }
            bad();
            let listing = faulty.list(None).unwrap();
            assert_eq!(listing.objects, [(key("a"), 3), (key("e"), 3)]);
            assert_eq!(listing.folders, [key("b")]);
            bad();
            let below = faulty.list(Some(&key("b"))).unwrap();
            assert_eq!(below.objects, [(key("b/c"), 3), (key("b/d"), 3)]);
        });
    });
}
