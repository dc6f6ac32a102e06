//! Shards of `neuroglancer_uint64_sharded_v1` as pure bytes: values by 64-bit key, found through an
//! index of indexes.
//!
//! A key's hash selects a shard and one of its *minishards*. The shard starts with a table of the
//! ranges of the minishards' indexes; each index lists keys and the ranges of their values.

mod minishard;
mod morton;
mod murmur;
mod sharding;

pub use minishard::MAX_INDEX;
pub use minishard::{Minishard, MinishardEntry, ShardTable, Uint64Error, Uint64ShardIndexes};
pub use morton::MortonCode;
pub use sharding::{Encoding, KeyHash, KeyPlace, Sharding, ShardingError};
