//! Stored shards of values by 64-bit key: finding, listing and changing them.

mod change;
mod gzip;
mod joined;
mod shards;

pub use change::{
    Change, ChangeReport, EncodeValue, Encoded, OldValue, before_values, bytes_before, change_shard,
};
pub use gzip::gzip;
pub(crate) use shards::side_by_side;
pub use shards::{KeyedShards, OpenShard, ShardIndexes};
