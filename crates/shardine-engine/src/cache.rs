use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{UnitWeighter, Weighter};
use shardine_store::{Key, Object, Version};
use smallvec::SmallVec;

use crate::shard::ShardIndex;
use crate::tuning::{KEPT_OBJECTS, KNOWN_STALE};

/// The entries that lead from an object to something inside it; empty for the object itself.
pub(super) type Path = SmallVec<[u32; 4]>;

/// An object of an array, identified by its position in the grid: building its key would cost more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CellId {
    pub array: u64,
    pub cell: SmallVec<[u64; 4]>,
}

/// Identifies an index: which object, and which shard in it.
///
/// The offset of a shard does not identify it: entries of a damaged index may start at the same
/// byte and end at different ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexKey {
    pub cell: CellId,
    pub path: Path,
}

/// An index with the version of the object it was read from.
#[derive(Debug)]
pub struct CachedIndex {
    pub version: Version,
    pub index: ShardIndex,
}

#[derive(Clone)]
struct ByMemory;

impl Weighter<IndexKey, Arc<CachedIndex>> for ByMemory {
    fn weight(&self, key: &IndexKey, value: &Arc<CachedIndex>) -> u64 {
        let key = (key.cell.cell.len() + key.path.len()) * size_of::<u64>();
        (value.index.memory() + key + 128) as u64
    }
}

/// Cache of the indexes read so far, bounded by memory.
pub struct IndexCache {
    /// Whether there is room for any index.
    pub is_on: bool,
    cache: Mutex<Cache<IndexKey, Arc<CachedIndex>, ByMemory, RandomState>>,
}

impl IndexCache {
    pub fn new(bytes: u64) -> Self {
        let (hash, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
        let cache = Mutex::new(Cache::with(256, bytes, ByMemory, hash, lifecycle));
        Self { is_on: bytes > 0, cache }
    }

    pub fn get(&self, key: &IndexKey) -> Option<Arc<CachedIndex>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub fn insert(&self, key: IndexKey, value: Arc<CachedIndex>) {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }

    pub fn remove(&self, key: &IndexKey) {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl fmt::Debug for IndexCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexCache").finish_non_exhaustive()
    }
}

/// The positions of checksums of older indexes in the gaps of one version of a shard.
#[derive(Debug, Clone)]
pub struct StaleIndexes {
    pub version: Version,
    pub checksums: Arc<[u64]>,
}

/// Where older indexes lie in the gaps of shards that this engine has changed, which saves
/// searching for them.
pub struct KnownStale(Mutex<Cache<CellId, StaleIndexes, UnitWeighter, RandomState>>);

impl KnownStale {
    pub fn new() -> Self {
        let (hash, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
        Self(Mutex::new(Cache::with(
            KNOWN_STALE,
            KNOWN_STALE as u64,
            UnitWeighter,
            hash,
            lifecycle,
        )))
    }

    /// What is known about this version of a shard.
    pub fn get(&self, cell: &CellId, version: &Version) -> Option<Arc<[u64]>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(cell).cloned()?;
        (known.version == *version).then_some(known.checksums)
    }

    pub fn insert(&self, cell: CellId, stale: StaleIndexes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cell, stale);
    }
}

impl fmt::Debug for KnownStale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownStale").finish_non_exhaustive()
    }
}

/// An open object of a local store.
#[derive(Debug, Clone)]
pub struct KeptObject {
    pub key: Key,
    pub object: Arc<dyn Object>,
}

/// The objects read most recently, kept open. Each read checks afterwards whether they are still
/// current.
pub struct KeptObjects(Mutex<Cache<CellId, KeptObject, UnitWeighter, RandomState>>);

impl KeptObjects {
    pub fn new() -> Self {
        let (hash, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
        Self(Mutex::new(Cache::with(
            KEPT_OBJECTS,
            KEPT_OBJECTS as u64,
            UnitWeighter,
            hash,
            lifecycle,
        )))
    }

    pub fn get(&self, cell: &CellId) -> Option<KeptObject> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(cell).cloned()
    }

    pub fn insert(&self, cell: CellId, object: KeptObject) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cell, object);
    }

    pub fn remove(&self, cell: &CellId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(cell);
    }

    /// Closes all open objects of an array.
    pub fn remove_array(&self, array: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|cell, _| cell.array != array);
    }
}

impl fmt::Debug for KeptObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptObjects").finish_non_exhaustive()
    }
}
