//! A wrapper around another store that lies, refuses or counts, as a test needs.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use shardine::store::*;

/// What a wrapped store does besides passing calls on.
#[derive(Debug, Default)]
pub struct Tricks {
    /// Listings are refused.
    pub no_list: bool,
    /// Reads claim to be as cheap as those of files.
    pub near: bool,
    /// Objects whose last byte is written wrong.
    pub garble: Mutex<Vec<Key>>,
    /// Objects whose last byte is not written.
    pub shorten: Mutex<Vec<Key>>,
    /// Objects that claim to have changed whenever they are read.
    pub restless: Mutex<Vec<Key>>,
    /// How long a read takes.
    pub delay: std::time::Duration,
    /// Bytes that were read and are still in memory.
    pub held: AtomicI64,
    /// The maximum of that.
    pub most_held: AtomicI64,
    /// Reads in flight.
    pub reading: AtomicU64,
    /// The maximum of that.
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

impl<S: Store> layer::StoreLayer for WrappedStore<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.inner
    }

    fn object(&self, key: &Key, inner: Arc<dyn Object>) -> Arc<dyn Object> {
        Arc::new(WrappedObject { inner, key: key.clone(), tricks: Arc::clone(&self.tricks) })
    }

    fn writer(&self, key: &Key, inner: Box<dyn ObjectWriter>) -> Box<dyn ObjectWriter> {
        Box::new(WrappedWriter { inner, key: key.clone(), tricks: Arc::clone(&self.tricks) })
    }

    fn read_cost(&self) -> ReadCost {
        if self.tricks.near { ReadCost::local(16 << 10) } else { self.inner.read_cost() }
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        if self.tricks.no_list {
            let (store, operation) = (Store::name(self), "list objects");
            return Err(StoreError::Unsupported { store, operation });
        }
        self.inner.list(prefix)
    }
}

#[derive(Debug)]
struct WrappedObject {
    inner: Arc<dyn Object>,
    key: Key,
    tricks: Arc<Tricks>,
}

/// Bytes that count as long as somebody holds them.
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

impl layer::ObjectLayer for WrappedObject {
    fn inner(&self) -> &Arc<dyn Object> {
        &self.inner
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

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        copy_into(self, start, into)
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(Object::read(&*self, range));
    }

    /// Bytes that are moved in the kernel would bypass the tricks.
    fn file(&self) -> Option<&std::fs::File> {
        None
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

    fn reserve(&self, _: u64) -> Result<Option<u64>, StoreError> {
        Ok(None)
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
