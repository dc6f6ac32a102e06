//! A store in memory that behaves as remote ones may: what is open is known only by reading, and things change.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use shardine::store::*;

#[derive(Debug)]
pub struct OddStore {
    inner: MemoryStore,
    me: Weak<OddStore>,
    /// Reads until one fails with `Changed`; negative for never.
    pub change_after: AtomicI64,
    /// Reads until one brings bytes that were being overwritten; negative for never.
    pub garble_after: AtomicI64,
}

impl OddStore {
    pub fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            inner: MemoryStore::new(),
            me: Weak::clone(me),
            change_after: AtomicI64::new(-1),
            garble_after: AtomicI64::new(-1),
        })
    }
}

#[derive(Debug)]
struct Lazy {
    store: Weak<OddStore>,
    key: Key,
    expected: Option<Version>,
    seen: Mutex<Option<(Version, u64)>>,
    garbled: Mutex<bool>,
}

impl Object for Lazy {
    fn len(&self) -> Option<u64> {
        self.seen.lock().unwrap().as_ref().map(|seen| seen.1)
    }

    fn version(&self) -> Option<Version> {
        self.seen.lock().unwrap().as_ref().map(|seen| seen.0.clone())
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let store = self.store.upgrade().unwrap();
        let object = store.inner.open(&self.key, None)?;
        let (version, len) = (object.version().unwrap(), object.len().unwrap());
        let pinned = self.version().or_else(|| self.expected.clone());
        let changed = store.change_after.fetch_sub(1, Ordering::SeqCst) == 0;
        if changed || pinned.is_some_and(|pinned| pinned != version) {
            return Err(StoreError::Changed { key: self.key.clone() });
        }
        *self.seen.lock().unwrap() = Some((version, len));
        let bytes = object.read(range)?;
        if store.garble_after.fetch_sub(1, Ordering::SeqCst) == 0 {
            *self.garbled.lock().unwrap() = true;
            let garbled: Vec<u8> = bytes.iter().map(|b| b ^ 0x55).collect();
            return Ok(bytes::Bytes::from(garbled).into());
        }
        Ok(bytes)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        if *self.garbled.lock().unwrap() {
            return Err(StoreError::Changed { key: self.key.clone() });
        }
        Ok(())
    }
}

impl Store for OddStore {
    fn name(&self) -> String {
        "odd".into()
    }

    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        Ok(Arc::new(Lazy {
            store: Weak::clone(&self.me),
            key: key.clone(),
            expected: expected.cloned(),
            seen: Mutex::default(),
            garbled: Mutex::default(),
        }))
    }

    fn read_cost(&self) -> ReadCost {
        ReadCost { request_in_bytes: 0, local: false, in_flight: 16 }
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        self.inner.create(key, options)
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        self.inner.publish(staged)
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        self.inner.delete(key, condition)
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        self.inner.list(prefix)
    }
}
