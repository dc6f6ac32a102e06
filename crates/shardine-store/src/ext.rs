use crate::{Buffer, Condition, CreateOptions, Key, ReadRange, Store, StoreError, Version};

/// The largest object that [`StoreExt::get`] reads: 64 MiB. Documents, such as a `zarr.json`, are far smaller.
pub const MAX_SMALL_OBJECT: u64 = 64 << 20;

/// Whole small objects in one call, for every store.
pub trait StoreExt: Store {
    /// All of an object, or `None` if there is none. One open and one read.
    ///
    /// An object of more than [`MAX_SMALL_OBJECT`] bytes is [`StoreError::TooLarge`], and none of it is read.
    fn get(&self, key: &Key) -> Result<Option<Buffer>, StoreError> {
        // A store to which opening is free learns only at the first read that the object is missing.
        match self
            .open(key, None)
            .and_then(|object| object.read(ReadRange::AtMost(MAX_SMALL_OBJECT)))
        {
            Ok(buffer) => Ok(Some(buffer)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is an object. One open, and a read of nothing, as opening is free in some stores and tells nothing there.
    fn contains(&self, key: &Key) -> Result<bool, StoreError> {
        match self.open(key, None).and_then(|object| object.read(ReadRange::Bounded(0..0))) {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes an object of these bytes, durably and at once, if the condition holds.
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
            operation: "tell the version of what it has published",
        })
    }

    /// Removes an object as the last step of a job whose result is durable: it is not waited for that the removal is, so that no
    /// failure can come after it. If it is undone by a power failure, the job can be given again.
    fn delete_last(&self, key: &Key) -> Result<(), StoreError> {
        match self.files() {
            Some(files) => files.remove_last(key),
            None => self.delete(key, &Condition::None),
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
