//! Zarr arrays and groups.

mod array;
pub mod metadata;
mod node;
mod shards;

pub use array::Array;
pub use node::{Child, Group, Node};
pub use shards::{ShardEntries, StoredObject};
