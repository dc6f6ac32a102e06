//! How the chunks of an array are laid out in its store, and what can be wrong with them.
//!
//! [`Array::objects`](crate::Array::objects) lists its objects and
//! [`Array::shard_entries`](crate::Array::shard_entries) reads the index of one.

pub use crate::engine::{PossibleObject, ShardEntries, StoredObject};
pub use crate::layout::{DecodeError, EncodeError, LayoutError};
