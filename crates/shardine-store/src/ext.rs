use crate::batch::{self, Deliver, Workers};
use crate::{Buffer, Condition, CreateOptions, Key, ReadRange, Reads, Store, StoreError, Version};

/// The largest object that [`StoreExt::get`] reads: 64 MiB. Documents, such as a `zarr.json`, are
/// far smaller.
pub const MAX_SMALL_OBJECT: u64 = 64 << 20;

/// What every store can do through the methods of [`Store`]: whole small objects in one call, and
/// reads in batches.
pub trait StoreExt: Store {
    /// All of an object, or `None` if there is none. One open and one read.
    ///
    /// An object of more than [`MAX_SMALL_OBJECT`] bytes is [`StoreError::TooLarge`], and none of
    /// it is read.
    fn get(&self, key: &Key) -> Result<Option<Buffer>, StoreError> {
        // A store where opening is free finds out only at the first read that the object is
        // missing.
        match self
            .open(key, None)
            .and_then(|object| object.read(ReadRange::AtMost(MAX_SMALL_OBJECT)))
        {
            Ok(buffer) => Ok(Some(buffer)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is an object. One open and an empty read, since in some stores opening is free
    /// and checks nothing.
    fn contains(&self, key: &Key) -> Result<bool, StoreError> {
        match self.open(key, None).and_then(|object| object.read(ReadRange::Bounded(0..0))) {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes an object with these bytes, durably and atomically, if the condition holds.
    ///
    /// ```
    /// use shardine_store::{Condition, Key, MemoryStore, StoreError, StoreExt};
    ///
    /// let store = MemoryStore::new();
    /// let key = Key::new("zarr.json")?;
    /// let first = store.put(&key, b"{}", Condition::Absent)?;
    /// store.put(&key, b"[]", Condition::Unchanged(first))?;
    /// assert_eq!(&*store.get(&key)?.unwrap(), b"[]");
    /// # Ok::<(), StoreError>(())
    /// ```
    fn put(&self, key: &Key, data: &[u8], condition: Condition) -> Result<Version, StoreError> {
        let writer = self.create(key, CreateOptions { head: 0, condition })?;
        if !data.is_empty() {
            writer.append(data)?;
        }
        let versions = self.publish(vec![writer.finish(&[])?])?;
        versions.into_iter().next().ok_or_else(|| StoreError::Unsupported {
            store: self.name(),
            operation: "report the version of what it has published",
        })
    }

    /// Whether the objects are files in folders on this machine.
    fn has_folders(&self) -> bool {
        self.folders().is_some()
    }

    /// Runs many reads and passes each answer, with its position in the batch, to `deliver` as it
    /// arrives.
    ///
    /// Answers arrive in any order and on any thread of `workers`. `reads` is drawn on the calling
    /// thread, and only as fast as it allows, so a caller that waits for memory holds back the
    /// batch. Returns when all answers have been delivered. Local reads are made by the worker that
    /// uses the answer. For other stores, as many are in flight
    /// ([`Object::read_then`](crate::Object::read_then)) as [`Store::read_cost`] says.
    fn read_batch(&self, workers: &impl Workers, reads: &mut dyn Reads, deliver: Deliver<'_>) {
        let cost = self.read_cost();
        if cost.local {
            batch::by_workers(workers, reads, deliver);
        } else {
            batch::in_flight(workers, reads, deliver, cost.in_flight);
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
