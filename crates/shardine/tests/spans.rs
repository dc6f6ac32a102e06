//! What a tracing program sees: one span for each call, whatever it touches.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine::jobs::{RepackOptions, VerifyOptions, repack, verify};
use shardine::{Array, CodecChoice, Location, Packing, WriteOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// All spans of the process, in the order in which they began, as text.
static SPANS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener(AtomicU64);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("shardine")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        SPANS.lock().unwrap().push(fields.0);
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn spans() -> Vec<String> {
    std::mem::take(&mut *SPANS.lock().unwrap())
}

// One test: the subscriber belongs to the whole process.
#[test]
fn a_call_is_one_span_however_many_chunks_it_touches() {
    tracing::subscriber::set_global_default(Listener(AtomicU64::new(0))).unwrap();
    let engine = common::engine();
    let (source, target) = (Location::memory(), Location::memory());
    let builder = Array::builder([64, 64], "uint16").chunks([4, 4]).shards([16, 16]);
    let array = builder.create_in(&engine, &source).unwrap();
    assert_eq!(spans(), [""; 0]);

    let at = source.to_string();
    array.write(.., &[1u16; 64 * 64]).unwrap();
    let parts = [(0..1, &[2u16; 64][..]), (1..2, &[3; 64])];
    array.write_many(parts, &WriteOptions::new()).unwrap();
    let write = |regions: u64| format!("write array={at} regions={regions}");
    assert_eq!(spans(), [write(1), write(2)]);

    array.read::<u16>(..).unwrap();
    array.read_into((0, 0), &mut [0u16]).unwrap();
    array.read_elements(0).unwrap();
    array.read_many::<u16>([0..1, 1..2, 2..3]).unwrap();
    let read = |regions: u64| format!("read array={at} regions={regions}");
    assert_eq!(spans(), [read(1), read(1), read(1), read(3)]);
    array.read::<u16>("no region").unwrap_err();
    assert_eq!(spans(), [""; 0]);

    Array::open_in(&engine, &source).unwrap();
    assert_eq!(spans(), [format!("open at={at}")]);

    let job = |name: &str| format!("job job=\"{name}\" at={at}");
    verify(&engine, &source, &VerifyOptions::new().decode(true), &mut |_| {}).unwrap();
    assert_eq!(spans(), [job("verify")]);

    // One that reads every chunk through an array: those reads have no spans.
    let options = RepackOptions::new()
        .chunk(&[8, 8])
        .packing(Packing::ChunksPerShard(vec![2]))
        .codecs(CodecChoice::Words(vec!["gzip:1".to_owned()]));
    repack(&engine, &source, Some(&target), &options, &mut |_| {}).unwrap();
    let mut seen = spans();
    assert_eq!(seen.remove(0), job("repack"));
    assert!(seen.iter().all(|span| span.starts_with("open ")), "{seen:?}");
    assert!(seen.len() < 5, "{seen:?}");
}
