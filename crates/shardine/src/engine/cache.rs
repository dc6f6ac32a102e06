use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use shardine_store::{Key, Version};
use smallvec::SmallVec;

use crate::shard::ShardIndex;

/// The entries that lead from an object to something in it; empty for the object itself.
pub(super) type Path = SmallVec<[u32; 4]>;

/// Which index: of which array, in which object, of which shard in it.
///
/// Where a shard begins does not name it: the entries of a damaged index may begin at the same byte and
/// end at others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct IndexKey {
    pub array: u64,
    pub object: Key,
    pub path: Path,
}

/// An index with the version of the object that it was read from.
#[derive(Debug)]
pub(crate) struct CachedIndex {
    pub version: Version,
    pub index: ShardIndex,
}

#[derive(Clone)]
struct ByMemory;

impl Weighter<IndexKey, Arc<CachedIndex>> for ByMemory {
    fn weight(&self, key: &IndexKey, value: &Arc<CachedIndex>) -> u64 {
        (value.index.memory() + key.object.as_str().len() + 128) as u64
    }
}

/// The indexes that were read, as many as fit.
pub(crate) struct IndexCache {
    cache: Mutex<Cache<IndexKey, Arc<CachedIndex>, ByMemory>>,
}

impl IndexCache {
    pub fn new(bytes: u64) -> Self {
        Self { cache: Mutex::new(Cache::with_weighter(256, bytes, ByMemory)) }
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
