use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;

use crate::error::check_head;
use crate::{
    Buffer, Condition, CreateOptions, Done, Edit, FolderExchange, Folders, Headers, Key, Leftover,
    Listing, Object, ObjectWriter, Pending, ReadCost, ReadRange, Recovery, Staged, Store,
    StoreError, Version, copy_into,
};

/// A store in memory. Clones are the same store.
///
/// An open object is a snapshot, and reading it copies nothing: the buffer shares the object's
/// memory.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Default)]
struct Inner {
    objects: RwLock<BTreeMap<Key, Stored>>,
    /// Publications so far. A version is never reused, so a key that is deleted and rewritten is
    /// not mistaken for its former self.
    published: AtomicU64,
}

#[derive(Clone)]
struct Stored {
    data: Bytes,
    version: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn io(operation: &'static str, key: &Key, source: io::Error) -> StoreError {
        StoreError::Io { operation, path: format!("memory:{key}"), source }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

fn version_of(stored: &Stored) -> Version {
    Version(stored.version.to_string().into())
}

fn check(key: &Key, found: Option<&Stored>, condition: &Condition) -> Result<(), StoreError> {
    let holds = match condition {
        Condition::None => true,
        Condition::Absent => found.is_none(),
        Condition::Unchanged(expected) | Condition::Held { version: expected, .. } => {
            found.is_some_and(|s| version_of(s) == *expected)
        }
    };
    if holds { Ok(()) } else { Err(StoreError::Conflict { key: key.clone() }) }
}

impl Store for MemoryStore {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn identity(&self) -> String {
        self.name()
    }

    fn folders(&self) -> Option<&dyn Folders> {
        None
    }

    fn exchange(&self) -> Option<&dyn FolderExchange> {
        None
    }

    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        None
    }

    fn open(&self, key: &Key, _: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        let objects = self.0.objects.read().unwrap_or_else(PoisonError::into_inner);
        match objects.get(key) {
            Some(stored) => Ok(Arc::new(MemoryObject { key: key.clone(), stored: stored.clone() })),
            None => Err(StoreError::NotFound { key: key.clone(), store: self.name() }),
        }
    }

    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError> {
        self.open(key, None)
    }

    fn keeps_headers(&self) -> bool {
        false
    }

    fn can_list(&self) -> bool {
        true
    }

    /// No bytes are moved either way, so a gap costs nothing; a request costs its bookkeeping.
    fn read_cost(&self) -> ReadCost {
        ReadCost { request_in_bytes: 4096, local: false, in_flight: 64 }
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        let mut data = Vec::new();
        let head = usize::try_from(options.head).unwrap_or(usize::MAX);
        data.try_reserve(head).map_err(|e| Self::io("reserve the head of", key, e.into()))?;
        data.resize(head, 0);
        Ok(Box::new(MemoryWriter {
            store: self.clone(),
            key: key.clone(),
            head,
            condition: options.condition,
            data: Mutex::new(data),
        }))
    }

    fn create_with_headers(
        &self,
        key: &Key,
        options: CreateOptions,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        headers.refuse(self)?;
        self.create(key, options)
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        let mut ready = Vec::with_capacity(staged.len());
        for staged in staged {
            let key = staged.key.clone();
            let inner = staged.into_inner::<MemoryStaged>()?;
            if !Arc::ptr_eq(&inner.store.0, &self.0) {
                return Err(StoreError::ForeignStaged { key });
            }
            ready.push(inner);
        }
        let mut versions = Vec::with_capacity(ready.len());
        let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
        for MemoryStaged { key, data, condition, .. } in ready {
            check(&key, objects.get(&key), &condition)?;
            let version = self.0.published.fetch_add(1, Ordering::Relaxed);
            let stored = Stored { data, version };
            versions.push(version_of(&stored));
            objects.insert(key, stored);
        }
        Ok(versions)
    }

    fn publish_later(&self, staged: Vec<Staged>) -> Pending {
        Pending::done(self.publish(staged))
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        Edit::by_version(self, key)
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
        check(key, objects.get(key), condition)?;
        objects.remove(key);
        Ok(())
    }

    fn delete_last(&self, key: &Key) -> Result<(), StoreError> {
        self.delete(key, &Condition::None)
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        let prefix = prefix.map_or_else(String::new, |key| format!("{key}/"));
        let objects = self.0.objects.read().unwrap_or_else(PoisonError::into_inner);
        let mut listing = Listing::default();
        let mut from = prefix.clone();
        // One step per object or folder: everything deeper inside a folder is skipped.
        while let Some((key, stored)) =
            objects.range::<str, _>((Bound::Included(from.as_str()), Bound::Unbounded)).next()
        {
            let Some(rest) = key.as_str().strip_prefix(&prefix) else { break };
            match rest.split_once('/') {
                None => {
                    listing.objects.push((key.clone(), stored.data.len() as u64));
                    from = format!("{key}\0");
                }
                Some((folder, _)) => {
                    let folder = format!("{prefix}{folder}");
                    // '0' is the character after '/'.
                    from = format!("{folder}0");
                    listing.folders.push(Key::new(&folder)?);
                }
            }
        }
        // "a.b" sorts before "a/", but the folder "a" before the folder "a.b".
        listing.folders.sort();
        Ok(listing)
    }

    /// Unpublished objects are memory of their writers, so there are never any.
    fn leftovers(&self, _: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
        Ok(Vec::new())
    }

    fn remove_leftover(&self, _: Option<&Key>, _: &str) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn recover(&self, _: &Key) -> Result<Recovery, StoreError> {
        Ok(Recovery::Nothing)
    }

    fn before_change(&self, _: &Key) -> Result<Recovery, StoreError> {
        Ok(Recovery::Nothing)
    }

    fn remove_empty_folder(&self, _: &Key) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryObject {
    key: Key,
    stored: Stored,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, version {}", self.data.len(), self.version)
    }
}

impl Object for MemoryObject {
    fn len(&self) -> Option<u64> {
        Some(self.stored.data.len() as u64)
    }

    fn version(&self) -> Option<Version> {
        Some(version_of(&self.stored))
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let data = &self.stored.data;
        let range = range.resolve(&self.key, data.len() as u64)?;
        // Both ends are at most the length, which is a usize.
        Ok(data.slice(range.start as usize..range.end as usize).into())
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        copy_into(self, start, into)
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(self.read(range));
    }

    /// Never fails, since the object is a snapshot.
    fn check_unchanged(&self) -> Result<(), StoreError> {
        Ok(())
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

struct MemoryWriter {
    store: MemoryStore,
    key: Key,
    head: usize,
    condition: Condition,
    data: Mutex<Vec<u8>>,
}

impl fmt::Debug for MemoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWriter").field("key", &self.key).finish_non_exhaustive()
    }
}

impl ObjectWriter for MemoryWriter {
    fn append(&self, added: &[u8]) -> Result<u64, StoreError> {
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = data.len() as u64;
        data.try_reserve(added.len())
            .map_err(|e| MemoryStore::io("append to", &self.key, e.into()))?;
        data.extend_from_slice(added);
        Ok(offset)
    }

    fn reserve(&self, _: u64) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    fn write_reserved(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        let (store, operation) = (self.store.name(), "write what was not reserved");
        Err(StoreError::Unsupported { store, operation })
    }

    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError> {
        self.append(&source.read(ReadRange::Bounded(range))?)
    }

    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError> {
        let mut data = self.data.into_inner().unwrap_or_else(PoisonError::into_inner);
        check_head(head, self.head as u64)
            .map_err(|e| MemoryStore::io("write the head of", &self.key, e))?;
        data[..self.head].copy_from_slice(head);
        let data = Bytes::from(data);
        let (key, store, condition) = (self.key, self.store, self.condition);
        Ok(Staged::new(key.clone(), MemoryStaged { store, key, data, condition }))
    }
}

struct MemoryStaged {
    store: MemoryStore,
    key: Key,
    data: Bytes,
    condition: Condition,
}
