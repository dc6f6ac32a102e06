//! A store in memory that behaves as remote ones may: an open object is only known by reading it,
//! and objects change.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use shardine::store::*;

#[derive(Debug)]
pub struct OddStore {
    inner: MemoryStore,
    me: Weak<OddStore>,
    /// Reads until one fails with `Changed`; negative for never.
    pub change_after: AtomicI64,
    /// Reads until one returns bytes that were being overwritten; negative for never.
    pub garble_after: AtomicI64,
    /// Milliseconds that a request takes.
    pub latency: AtomicU64,
    /// Requests in flight, and the most there ever were.
    under_way: AtomicUsize,
    pub peak: AtomicUsize,
    /// Whether listings are refused.
    pub unlistable: AtomicBool,
    /// Objects that are replaced after the next listing that names them.
    pub replaced: Mutex<Vec<(Key, Vec<u8>)>>,
}

/// A request in flight.
struct Request<'a>(&'a OddStore);

impl<'a> Request<'a> {
    fn begin(store: &'a OddStore) -> Self {
        let now = store.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        store.peak.fetch_max(now, Ordering::SeqCst);
        match store.latency.load(Ordering::SeqCst) {
            0 => {}
            latency => std::thread::sleep(Duration::from_millis(latency)),
        }
        Self(store)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl OddStore {
    pub fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            inner: MemoryStore::new(),
            me: Weak::clone(me),
            change_after: AtomicI64::new(-1),
            garble_after: AtomicI64::new(-1),
            latency: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            unlistable: AtomicBool::new(false),
            replaced: Mutex::default(),
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
        let _request = Request::begin(&store);
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

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        copy_into(self, start, into)
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(self.read(range));
    }

    fn can_be_kept(&self) -> bool {
        false
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn headers(&self) -> Headers {
        Headers::default()
    }

    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}

impl layer::StoreLayer for OddStore {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    fn name(&self) -> String {
        "odd".into()
    }

    fn identity(&self) -> String {
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

    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError> {
        Store::open(self, key, None)
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        Edit::by_version(self, key)
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        let _request = Request::begin(self);
        if self.unlistable.load(Ordering::SeqCst) {
            return Err(StoreError::Unsupported { store: Store::name(self), operation: "list" });
        }
        let listing = self.inner.list(prefix)?;
        let mut replaced = self.replaced.lock().unwrap();
        for (key, _) in &listing.objects {
            if let Some(i) = replaced.iter().position(|(replaced, _)| replaced == key) {
                let (key, bytes) = replaced.swap_remove(i);
                self.inner.put(&key, &bytes, Condition::None)?;
            }
        }
        Ok(listing)
    }
}
