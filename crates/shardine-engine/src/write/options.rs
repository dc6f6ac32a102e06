use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shard::WriteOrder;

/// How a shard that exists is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// In place where that costs less and no reader of any make can find the shard without an index; else a rewrite.
    #[default]
    Auto,
    /// A new shard beside the old one, which then takes its place.
    Rewrite,
    /// New chunks go into gaps of the shard or to its end, then its index is switched.
    InPlace,
    /// The same, but never into gaps.
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

/// The share of a shard that may be gaps before it is compacted, unless another is set.
const MAX_GAP: f64 = 0.25;

/// How a region is written. None of it goes into the metadata.
#[derive(Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// How shards that exist are changed.
    pub strategy: Strategy,
    /// A shard that was changed in place is compacted if more than this share of it is gaps.
    pub max_gap: f64,
    /// The order of chunks in new shards.
    pub order: WriteOrder,
    /// Store chunks that hold nothing but the fill value. By default they are left out.
    pub store_empty: bool,
    /// Called with the bytes of elements that were encoded since the last call, from any thread.
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
    /// Morton order, nothing stored that is all fill value.
    pub fn new() -> Self {
        Self::default()
    }

    /// With shards that exist changed in this way.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// With shards compacted past this share of gaps, from 0 to 1.
    pub fn max_gap(mut self, share: f64) -> Self {
        self.max_gap = share;
        self
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
