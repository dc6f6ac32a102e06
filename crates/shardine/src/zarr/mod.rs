//! Zarr arrays and groups.

mod append_claim;
mod array_keys;
mod array_node;
mod attributes;
mod consolidated;
mod contents;
mod copies;
mod create;
mod data_set;
mod flat_codecs;
mod image_level;
pub mod metadata;
mod node;
mod node_names;
mod opaque_array;
mod reopen;
mod resize;
mod slice_source;
mod slice_writer;
mod stored;

/// The object beside an array's metadata that records which file is being appended, or was when the
/// program was killed; and in a store without locks, who is appending.
pub const APPEND_MARKER: &str = ".shardine-append.json";

/// The object beside an array's metadata that records which file is being converted to it, or was
/// when the program was killed.
pub const CONVERT_MARKER: &str = ".shardine-convert.json";

pub use append_claim::{AppendClaim, AppendNote};
/// The object that records which chunks of an array, or values of a folder of shards, `repair`
/// could not save.
pub const LOSS_RECORD: &str = ".shardine-lost.json";

pub use crate::set::MAX_DEPTH;
pub use array_node::ArrayNode;
pub use attributes::{attributes, change_attributes};
pub use consolidated::{StaleCopy, consolidate, remove_consolidated, renew_consolidated_above};
pub(crate) use copies::renew_copies_of;
pub use create::CreateOptions;
pub(crate) use data_set::Zarr;
pub(crate) use flat_codecs::{FlatCodecs, SHARDING};
pub use image_level::ImageLevel;
pub use metadata::ZarrFormat;
pub(crate) use node::array_document;
pub use node::formats_at;
pub use node::{Child, Group, Node};
pub(crate) use node::{
    DOCUMENT, V2_ARRAY, V2_ATTRIBUTES, V2_CONSOLIDATED, V2_DOCUMENTS, V2_GROUP, attribute_name,
    consolidated_name, node_documents, read_document, read_v2, read_v3,
};
pub(crate) use node_names::node_names;
pub use opaque_array::OpaqueArray;
pub(crate) use reopen::has_same_chunks;
pub use slice_writer::{SliceError, SliceOptions, SliceWriter};
pub(crate) use stored::{Listings, grid_folder};
