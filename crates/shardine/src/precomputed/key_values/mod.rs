//! Folders of uint64 shards as key-value stores.

mod kind;
mod kv;

pub use kind::PayloadKind;
pub(crate) use kind::fragments_len;
pub use kv::{KeyValueStore, KeyValues, ListedKey, PutReport};
