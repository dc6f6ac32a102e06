//! The options of verbs that change shards.

use clap::Args;
use shardine::{Strategy, WriteOptions};

use crate::units;

/// How shards that exist are changed.
#[derive(Debug, Args)]
pub struct Update {
    /// How shards that exist are changed: auto, rewrite, in-place or append
    ///
    /// auto: in place where that costs less and the shard's index is at the start and has a checksum, else rewrite.
    /// rewrite: a new shard is written beside the old one and takes its place; always possible.
    /// in-place: new chunks go into gaps of the shard or to its end, then its index is switched.
    /// append: the same, but gaps are left as they are.
    #[arg(long, value_name = "STRATEGY", default_value = "auto", verbatim_doc_comment)]
    strategy: Strategy,
    /// The share of a shard that may be gaps; one with more is squeezed when it is changed in
    /// place. 25%, or 0.25
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = units::parse_share)]
    max_gap: f64,
}

impl Update {
    /// The options of a write.
    pub fn options(&self) -> WriteOptions {
        WriteOptions::new().strategy(self.strategy).max_gap(self.max_gap)
    }
}
