//! Zarr arrays and groups.

mod array;
pub mod metadata;
mod node;
mod resize;
mod shards;
mod slice_source;
mod slice_writer;

pub use array::Array;
pub use node::{Child, Group, Node};
pub(crate) use node::{DOCUMENT, read_document};
pub(crate) use shards::grid_folder;
pub use shards::{ShardEntries, StoredObject};
pub use slice_writer::{SliceError, SliceOptions, SliceWriter};
