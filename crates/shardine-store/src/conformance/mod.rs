//! What every store must do, as checks that can be run on any store.
//!
//! ```
//! use shardine_store::{MemoryStore, conformance};
//!
//! conformance::run(|| Box::new(MemoryStore::new()));
//! ```
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a library of tests: a check fails by a panic"
)]

mod batch;
mod edit;
mod layer;
mod list;
mod publish;
mod race;
mod read;
mod write;

pub use layer::{Recorder, check_layer};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::{
    Condition, CreateOptions, Key, Object, ReadRange, Store, StoreError, StoreExt, Workers,
};

/// Workers for batches in tests: a thread for each task.
#[derive(Debug, Clone, Copy)]
pub struct ThreadEach;

impl Workers for ThreadEach {
    fn run<T: Send>(&self, mut next: impl FnMut() -> Option<T>, task: impl Fn(T) + Sync) {
        let task = &task;
        thread::scope(|scope| {
            while let Some(given) = next() {
                scope.spawn(move || task(given));
            }
        });
    }
}

/// Creates a new, empty store at every call.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Store>;

/// One promise of a store.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The promise, in words.
    pub name: &'static str,
    /// Panics if it is broken.
    pub run: fn(Make<'_>),
}

macro_rules! suite {
    ($($check:ident),* $(,)?) => {
        pub(super) const CHECKS: &[super::Check] =
            &[$(super::Check { name: stringify!($check), run: $check }),*];
    };
}
use suite;

/// All checks, for a harness that runs them one by one.
pub fn checks() -> impl Iterator<Item = Check> {
    [
        read::CHECKS,
        batch::CHECKS,
        write::CHECKS,
        publish::CHECKS,
        edit::CHECKS,
        race::CHECKS,
        list::CHECKS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Runs all checks, each on stores of its own, and panics with the names of those that failed.
///
/// `make` returns a new, empty store at every call; two of them must not share objects. A failed
/// check prints its message to standard error when it fails; the others still run.
pub fn run(make: impl Fn() -> Box<dyn Store>) {
    let failed: Vec<_> = checks()
        .filter(|check| catch_unwind(AssertUnwindSafe(|| (check.run)(&make))).is_err())
        .map(|check| check.name)
        .collect();
    assert!(failed.is_empty(), "the store breaks {}: {}", failed.len(), failed.join(", "));
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

/// Bytes that vary with position and seed.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn put(store: &dyn Store, at: &str, data: &[u8]) -> crate::Version {
    store.put(&key(at), data, Condition::None).expect("an unconditional write")
}

fn get(store: &dyn Store, at: &str) -> Option<Vec<u8>> {
    store.get(&key(at)).expect("a read").map(|buffer| buffer.to_vec())
}

fn open(store: &dyn Store, at: &str) -> std::sync::Arc<dyn Object> {
    store.open(&key(at), None).expect("an object to open")
}

fn create(store: &dyn Store, at: &str) -> Box<dyn crate::ObjectWriter> {
    store.create(&key(at), CreateOptions::default()).expect("a writer")
}

/// The version of an object, as seen by reading it.
fn version(store: &dyn Store, at: &str) -> crate::Version {
    let object = open(store, at);
    object.read(ReadRange::All).expect("a read");
    object.version().expect("a version after the first read")
}

/// Whether the store has no conditional removals. If so, nothing was removed; otherwise the object
/// is gone.
fn refuses_conditional_removal(store: &dyn Store, at: &str, condition: &Condition) -> bool {
    let before = get(store, at);
    match store.delete(&key(at), condition) {
        Err(StoreError::Unsupported { .. }) => {
            assert_eq!(get(store, at), before);
            true
        }
        result => {
            result.expect("a removal");
            assert_eq!(get(store, at), None);
            false
        }
    }
}

fn is_conflict<T>(result: &Result<T, StoreError>, at: &str) -> bool {
    matches!(result, Err(StoreError::Conflict { key }) if key.as_str() == at)
}
