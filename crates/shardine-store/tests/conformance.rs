//! Every store of this crate keeps the promises of a store.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_store::{
    CountingStore, FaultStore, FileStore, Key, MemoryStore, Recovery, Store, StoreError,
    conformance, layer,
};
use tempfile::TempDir;

/// Stores in new folders, which live as long as this.
struct Folders {
    parent: TempDir,
    made: AtomicU64,
}

impl Folders {
    fn new() -> Self {
        Self { parent: TempDir::new().unwrap(), made: AtomicU64::new(0) }
    }

    fn store(&self) -> FileStore {
        let n = self.made.fetch_add(1, Ordering::Relaxed);
        // Not created beforehand: a store creates its root itself.
        FileStore::new(self.parent.path().join(format!("store/{n}")))
    }
}

#[test]
fn the_store_in_memory_conforms() {
    conformance::run(|| Box::new(MemoryStore::new()));
}

#[test]
fn the_store_on_files_conforms() {
    let folders = Folders::new();
    conformance::run(|| Box::new(folders.store()));
}

#[test]
fn the_counting_store_conforms() {
    let folders = Folders::new();
    conformance::run(|| Box::new(CountingStore::new(MemoryStore::new())));
    conformance::run(|| Box::new(CountingStore::new(folders.store())));
}

#[test]
fn the_faulty_store_without_faults_conforms() {
    conformance::run(|| Box::new(FaultStore::new(MemoryStore::new())));
}

#[test]
fn a_pointer_to_a_store_conforms() {
    let boxed: fn() -> Box<dyn Store> = || Box::new(MemoryStore::new());
    conformance::run(|| Box::new(CountingStore::new(boxed())));
}

#[test]
fn layers_pass_on_what_they_do_not_change() {
    conformance::check_layer(Arc::new, &[]);
    conformance::check_layer(Box::new, &[]);
    conformance::check_layer(|store| Arc::new(store) as Arc<dyn Store>, &[]);
    // Calls that bypass the methods of a store could be neither counted nor made to fail.
    conformance::check_layer(CountingStore::new, &["folders", "exchange", "above"]);
    let itself = ["folders", "exchange", "above", "publish_later"];
    conformance::check_layer(FaultStore::new, &itself);
}

/// A layer that answers in place of the store behind it.
#[derive(Debug)]
struct Forgetful<S>(S);

impl<S: Store> layer::StoreLayer for Forgetful<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.0
    }

    fn recover(&self, _: &Key) -> Result<Recovery, StoreError> {
        Ok(Recovery::Before(self.0.open(&Key::new("a")?, None)?))
    }
}

#[test]
fn a_layer_that_drops_a_call_is_named() {
    let dropped = std::panic::catch_unwind(|| conformance::check_layer(Forgetful, &[]));
    let message = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "recover is not passed on");
    conformance::check_layer(Forgetful, &["recover"]);
    let passed_on = std::panic::catch_unwind(|| conformance::check_layer(Arc::new, &["edit"]));
    let message = *passed_on.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "edit is passed on after all");
}

#[test]
fn a_store_that_breaks_a_promise_is_named() {
    let broken = std::panic::catch_unwind(|| {
        conformance::run(|| {
            let store = FaultStore::new(MemoryStore::new());
            store.fail(shardine_store::Operation::List, 0);
            Box::new(store)
        });
    });
    let message = *broken.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("a_listing_is_one_level_in_order"), "{message}");
    assert!(!message.contains("what_is_written_is_read"), "{message}");
}
