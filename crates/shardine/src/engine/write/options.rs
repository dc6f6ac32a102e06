use std::fmt;
use std::sync::Arc;

use crate::shard::WriteOrder;

/// How a region is written. None of it goes into the metadata.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The order of chunks in new shards.
    pub order: WriteOrder,
    /// Store chunks that hold nothing but the fill value. By default they are left out.
    pub store_empty: bool,
    /// Called with the bytes of elements that were encoded since the last call, from any thread.
    pub progress: Option<Arc<dyn Fn(u64) + Send + Sync>>,
}

impl WriteOptions {
    /// Morton order, nothing stored that is all fill value.
    pub fn new() -> Self {
        Self::default()
    }

    /// With chunks laid down in this order.
    pub fn order(mut self, order: WriteOrder) -> Self {
        self.order = order;
        self
    }

    /// With chunks of nothing but the fill value stored or not.
    pub fn store_empty(mut self, store: bool) -> Self {
        self.store_empty = store;
        self
    }

    /// With a function that is told of progress.
    pub fn progress(mut self, progress: Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("order", &self.order)
            .field("store_empty", &self.store_empty)
            .finish_non_exhaustive()
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteReport {
    /// Objects that were written, new or anew.
    pub objects_written: u64,
    /// Objects that were removed because nothing but fill value was left in them.
    pub objects_removed: u64,
    /// Chunks that were encoded and stored.
    pub chunks_encoded: u64,
    /// Chunks that were moved as they were.
    pub chunks_kept: u64,
    /// Chunks that were not stored, because they hold nothing but the fill value.
    pub chunks_empty: u64,
    /// Bytes written.
    pub bytes_written: u64,
}
