//! Values by key as a store of objects, so that the engine reads them as it reads any others.

use std::ops::Range;
use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{
    Buffer, Condition, CreateOptions, Done, Edit, Key, Listing, Object, ObjectWriter, ReadCost,
    ReadRange, Staged, Store, StoreError, Version,
};

use super::shards::{KeyedShards, OpenShard};

/// The values of sharded keys, each as an object. The last part of an object's key is the 64-bit key, in decimal.
///
/// Only to be read: values are written shard by shard.
#[derive(Debug)]
pub(crate) struct KeyedStore(pub Arc<KeyedShards>);

/// One value.
#[derive(Debug)]
struct Value {
    shards: Arc<KeyedShards>,
    number: u64,
    shard: Arc<OpenShard>,
    key: Key,
    range: Range<u64>,
}

impl std::fmt::Debug for OpenShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenShard").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Value {
    /// Where bytes of the value are in its shard.
    fn inside(&self, range: &ReadRange) -> Result<ReadRange, StoreError> {
        let len = self.range.end - self.range.start;
        let range = range.resolve(&self.key, len)?;
        let start = self.range.start;
        Ok(ReadRange::Bounded(start + range.start..start + range.end))
    }

    fn notice<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Changed { .. } | StoreError::NotFound { .. }) = &result {
            self.shards.forget(self.number);
        }
        result
    }
}

impl Object for Value {
    fn len(&self) -> Option<u64> {
        Some(self.range.end - self.range.start)
    }

    fn version(&self) -> Option<Version> {
        self.shard.object.version()
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let range = self.inside(&range)?;
        self.notice(self.shard.object.read(range))
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let end = start.saturating_add(into.len() as u64);
        let ReadRange::Bounded(range) = self.inside(&ReadRange::Bounded(start..end))? else {
            return Ok(());
        };
        self.notice(self.shard.object.read_into(range.start, into))
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        match self.inside(&range) {
            Ok(range) => {
                let object = Arc::clone(&self.shard.object);
                object.read_then(range, Box::new(move |answer| done(self.notice(answer))));
            }
            Err(error) => done(Err(error)),
        }
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.notice(self.shard.object.check_unchanged())
    }

    fn can_be_kept(&self) -> bool {
        self.shard.object.can_be_kept()
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        self.shard.object.is_current()
    }
}

impl KeyedStore {
    fn unsupported(&self, operation: &'static str) -> StoreError {
        StoreError::Unsupported { store: self.name(), operation }
    }
}

impl Store for KeyedStore {
    fn name(&self) -> String {
        match &self.0.folder {
            Some(folder) => format!("{}/{folder}", self.0.store.name()),
            None => self.0.store.name(),
        }
    }

    fn open(&self, key: &Key, _: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        let text = key.as_str().rsplit('/').next().unwrap_or_default();
        let id: u64 = text.parse().map_err(|_| StoreError::Key {
            text: key.to_string(),
            reason: "its last part is not a key of 64 bits",
        })?;
        let found = self.0.find(id, &mut Context::default())?;
        let Some((shard, range)) = found else {
            return Err(StoreError::NotFound { key: key.clone(), store: self.name() });
        };
        let (shards, number) = (Arc::clone(&self.0), self.0.sharding.place(id).shard);
        Ok(Arc::new(Value { shards, number, shard, key: key.clone(), range }))
    }

    fn read_cost(&self) -> ReadCost {
        self.0.store.read_cost()
    }

    fn create(&self, _: &Key, _: CreateOptions) -> Result<Box<dyn ObjectWriter>, StoreError> {
        Err(self.unsupported("write one value without its shard"))
    }

    fn publish(&self, _: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        Err(self.unsupported("write one value without its shard"))
    }

    fn edit(&self, _: &Key) -> Result<Edit, StoreError> {
        Err(self.unsupported("write one value without its shard"))
    }

    fn delete(&self, _: &Key, _: &Condition) -> Result<(), StoreError> {
        Err(self.unsupported("remove one value without its shard"))
    }

    fn can_list(&self) -> bool {
        false
    }

    fn list(&self, _: Option<&Key>) -> Result<Listing, StoreError> {
        Err(self.unsupported("list values as objects"))
    }
}
