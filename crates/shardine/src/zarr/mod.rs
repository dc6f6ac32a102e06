//! Zarr arrays and groups.

mod array;
pub mod metadata;
mod node;
mod resize;
mod shards;
mod slice_source;
mod slice_writer;
mod stored;

/// The object beside an array's metadata that says which file is being appended, or was when the program was killed.
pub const APPEND_MARKER: &str = ".shardine-append.json";

/// The object beside an array's metadata that says which file is being converted to it, or was when the program was killed.
pub const CONVERT_MARKER: &str = ".shardine-convert.json";

/// The object that tells which chunks of an array, or values of a folder of shards, `repair` could not save.
pub const LOSS_RECORD: &str = ".shardine-lost.json";

pub use array::Array;
pub use node::formats_at;
pub use node::{Child, Group, Node};
pub(crate) use node::{
    DOCUMENT, V2_DOCUMENTS, consolidated_name, node_documents, read_document, read_v2, read_v3,
};
pub use shards::ShardEntries;
pub(crate) use shards::{First, actual_length, first_read};
pub use slice_writer::{SliceError, SliceOptions, SliceWriter};
pub(crate) use stored::{Cells, Listings, grid_folder};
pub use stored::{PossibleObject, StoredObject};
