//! A store around another one that lies, refuses, or counts, as a test wants it.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use shardine::store::*;

/// What a wrapped store does beside passing calls on.
#[derive(Debug, Default)]
pub struct Tricks {
    /// Listings are refused.
    pub no_list: bool,
    /// Reads are said to cost as little as those of files.
    pub near: bool,
    /// Objects whose last byte is written wrong.
    pub garble: Mutex<Vec<Key>>,
    /// Objects whose last byte is not written.
    pub shorten: Mutex<Vec<Key>>,
    /// Objects that are told to have changed whenever they are read.
    pub restless: Mutex<Vec<Key>>,
    /// How long a read takes.
    pub delay: std::time::Duration,
    /// Bytes that were read and are still in memory.
    pub held: AtomicI64,
    /// The most that this was.
    pub most_held: AtomicI64,
    /// Reads under way.
    pub reading: AtomicU64,
    /// The most that this was.
    pub most_reading: AtomicU64,
}

#[derive(Debug, Clone)]
pub struct WrappedStore<S> {
    pub inner: S,
    pub tricks: Arc<Tricks>,
}

impl<S: Store> WrappedStore<S> {
    pub fn new(inner: S, tricks: Tricks) -> Self {
        Self { inner, tricks: Arc::new(tricks) }
    }
}

fn has(keys: &Mutex<Vec<Key>>, key: &Key) -> bool {
    keys.lock().unwrap().contains(key)
}

impl<S: Store> Store for WrappedStore<S> {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        let inner = self.inner.open(key, expected)?;
        Ok(Arc::new(WrappedObject { inner, key: key.clone(), tricks: Arc::clone(&self.tricks) }))
    }

    fn read_cost(&self) -> ReadCost {
        if self.tricks.near { ReadCost::local(16 << 10) } else { self.inner.read_cost() }
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        let inner = self.inner.create(key, options)?;
        Ok(Box::new(WrappedWriter { inner, key: key.clone(), tricks: Arc::clone(&self.tricks) }))
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        self.inner.publish(staged)
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        self.inner.delete(key, condition)
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        if self.tricks.no_list {
            let (store, operation) = (self.name(), "list objects");
            return Err(StoreError::Unsupported { store, operation });
        }
        self.inner.list(prefix)
    }

    fn recover(&self, key: &Key) -> Result<Recovery, StoreError> {
        self.inner.recover(key)
    }

    fn remove_empty_folder(&self, folder: &Key) -> Result<(), StoreError> {
        self.inner.remove_empty_folder(folder)
    }
}

#[derive(Debug)]
struct WrappedObject {
    inner: Arc<dyn Object>,
    key: Key,
    tricks: Arc<Tricks>,
}

/// Bytes that count as long as somebody has them.
struct Counted(Buffer, Arc<Tricks>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.held.fetch_sub(self.0.len() as i64, Ordering::SeqCst);
    }
}

impl Object for WrappedObject {
    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn version(&self) -> Option<Version> {
        self.inner.version()
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let tricks = &self.tricks;
        if has(&tricks.restless, &self.key) {
            return Err(StoreError::Changed { key: self.key.clone() });
        }
        let reading = tricks.reading.fetch_add(1, Ordering::SeqCst) + 1;
        tricks.most_reading.fetch_max(reading, Ordering::SeqCst);
        std::thread::sleep(tricks.delay);
        let bytes = self.inner.read(range);
        tricks.reading.fetch_sub(1, Ordering::SeqCst);
        let bytes = bytes?;
        let len = bytes.len() as i64;
        let held = tricks.held.fetch_add(len, Ordering::SeqCst) + len;
        tricks.most_held.fetch_max(held, Ordering::SeqCst);
        Ok(bytes::Bytes::from_owner(Counted(bytes, Arc::clone(tricks))).into())
    }
}

#[derive(Debug)]
struct WrappedWriter {
    inner: Box<dyn ObjectWriter>,
    key: Key,
    tricks: Arc<Tricks>,
}

impl ObjectWriter for WrappedWriter {
    fn append(&self, data: &[u8]) -> Result<u64, StoreError> {
        if has(&self.tricks.shorten, &self.key) {
            return self.inner.append(&data[..data.len() - 1]);
        }
        if has(&self.tricks.garble, &self.key) {
            let mut data = data.to_vec();
            *data.last_mut().unwrap() ^= 1;
            return self.inner.append(&data);
        }
        self.inner.append(data)
    }

    fn write_reserved(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.inner.write_reserved(offset, data)
    }

    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError> {
        self.append(&source.read(ReadRange::Bounded(range))?)
    }

    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError> {
        self.inner.finish(head)
    }
}
