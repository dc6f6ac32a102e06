//! Shards of values by 64-bit key as they are stored: found, listed and changed.

mod change;
mod gzip;
mod joined;
mod kind;
mod kv;
mod shards;

pub(crate) use change::{Change, ChangeReport, Encoded, OldValue, before_values, change_shard};
pub(crate) use gzip::gzip;
pub use kind::PayloadKind;
pub(crate) use kind::fragments_len;
pub use kv::{KeyValueStore, KeyValues, ListedKey, PutReport};
pub(crate) use shards::KeyedShards;
