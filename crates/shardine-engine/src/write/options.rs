use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shard::WriteOrder;

/// How an existing shard is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// In place if that costs less and no reader can ever find the shard without an index;
    /// otherwise a rewrite.
    #[default]
    Auto,
    /// Writes a new shard beside the old one, then replaces it.
    Rewrite,
    /// Writes new chunks into gaps of the shard or to its end, then switches its index.
    InPlace,
    /// The same, but never uses gaps.
    Append,
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "rewrite" => Ok(Self::Rewrite),
            "in-place" => Ok(Self::InPlace),
            "append" => Ok(Self::Append),
            _ => Err(format!("\"{text}\" is not auto, rewrite, in-place or append")),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Rewrite => "rewrite",
            Self::InPlace => "in-place",
            Self::Append => "append",
        })
    }
}

/// The default share of gaps above which a shard is compacted.
const MAX_GAP: f64 = 0.25;

/// How a region is written. None of this goes into the metadata.
#[derive(Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// How existing shards are changed.
    pub strategy: Strategy,
    /// A shard changed in place is compacted if gaps take up more than this share of it.
    pub max_gap: f64,
    /// The order of chunks in new shards.
    pub order: WriteOrder,
    /// Stores chunks that hold nothing but the fill value. By default they are left out.
    pub store_empty: bool,
    /// Called from any thread with the bytes of elements encoded since the last call.
    pub progress: Option<Arc<dyn Fn(u64) + Send + Sync>>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            max_gap: MAX_GAP,
            order: WriteOrder::default(),
            store_empty: false,
            progress: None,
        }
    }
}

impl WriteOptions {
    /// The defaults: Morton order, and chunks of nothing but the fill value are not stored.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how existing shards are changed.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the share of gaps, from 0 to 1, above which shards are compacted.
    pub fn max_gap(mut self, share: f64) -> Self {
        self.max_gap = share;
        self
    }

    /// Sets the order in which chunks are written.
    pub fn order(mut self, order: WriteOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets whether chunks of nothing but the fill value are stored.
    pub fn store_empty(mut self, store: bool) -> Self {
        self.store_empty = store;
        self
    }

    /// Sets the progress callback.
    pub fn progress(mut self, progress: Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("strategy", &self.strategy)
            .field("max_gap", &self.max_gap)
            .field("order", &self.order)
            .field("store_empty", &self.store_empty)
            .finish_non_exhaustive()
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteReport {
    /// Objects written, whether new or rewritten.
    pub objects_written: u64,
    /// Objects removed because only the fill value was left in them.
    pub objects_removed: u64,
    /// Chunks that were encoded and stored.
    pub chunks_encoded: u64,
    /// Chunks that were moved unchanged.
    pub chunks_kept: u64,
    /// Chunks not stored because they hold nothing but the fill value.
    pub chunks_empty: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl WriteReport {
    /// Adds what another write did.
    pub fn add(&mut self, other: &Self) {
        self.objects_written += other.objects_written;
        self.objects_removed += other.objects_removed;
        self.chunks_encoded += other.chunks_encoded;
        self.chunks_kept += other.chunks_kept;
        self.chunks_empty += other.chunks_empty;
        self.bytes_written += other.bytes_written;
    }
}
