//! Zarr arrays and groups.

mod array;
pub mod metadata;
mod node;
mod shards;

pub use array::Array;
pub use node::{Child, Group, Node};
pub(crate) use node::{DOCUMENT, read_document};
pub(crate) use shards::grid_folder;
pub use shards::{ShardEntries, StoredObject};
