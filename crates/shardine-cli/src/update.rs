//! The options of verbs that change shards.

use clap::Args;
use shardine::{Strategy, WriteOptions};

use crate::units;

/// How shards that exist are changed.
#[derive(Debug, Args)]
pub struct Update {
    /// Set how existing shards are updated: auto, rewrite, in-place or append
    ///
    /// auto: in place if that is cheaper and the shard's index is at the start with a checksum, else rewrite.
    /// rewrite: write a new shard beside the old one, then replace the old one; always possible.
    /// in-place: write new chunks into gaps of the shard or at its end, then switch its index.
    /// append: like in-place, but never reuse gaps.
    #[arg(long, value_name = "STRATEGY", default_value = "auto", verbatim_doc_comment)]
    strategy: Strategy,
    /// Allow this share of gaps in a shard, such as 25% or 0.25; a shard with more is compacted
    /// when it is updated in place
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = units::parse_share)]
    max_gap: f64,
}

impl Update {
    /// The options of a write.
    pub fn options(&self) -> WriteOptions {
        WriteOptions::new().strategy(self.strategy).max_gap(self.max_gap)
    }
}
