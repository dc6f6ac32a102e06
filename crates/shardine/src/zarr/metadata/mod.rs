//! Zarr v3 metadata documents: `zarr.json` in, structures out, and back.
//!
//! Version 2 documents are converted to the version 3 structures that decode the same chunks.
//!
//! Nothing here reads or writes a file. A document preserves everything in it: members that are not
//! understood but may be ignored, their order, and every value stay as they were, unless a setter
//! changed them (only white space, escapes and the digits of a float may be written differently).
//! Anything that may not be ignored is refused, with the member's place in the message.
//!
//! Harmless deviations from the specification are read, reported, and written as they should be
//! (`deviations.rs`).
//!
//! Python writers put `NaN`, `Infinity` and integers beyond 64 bits into attributes. They are read
//! (as Zarr's strings for them, and as the nearest float) and written back unchanged.

mod array;
mod deviations;
mod document;
mod error;
mod group;
mod integers;
mod key_encoding;
mod meaning;
mod node;
mod opaque;
#[cfg(test)]
mod tests;
mod v2;

pub use crate::location::ZarrFormat;
pub use array::{ArrayMetadata, NewArray};
pub(crate) use array::{DIMENSIONS, FILL_VALUE};
pub use document::MAX_DOCUMENT_BYTES;
pub(crate) use document::{
    attributes_in, has_kept_numbers_in, with_attributes, with_dimension_names,
};
pub use error::MetadataError;
pub use group::{ConsolidatedEntry, GroupMetadata};
pub use key_encoding::{ChunkKeyEncoding, Separator};
pub use node::{NodeMetadata, check_node_name};
pub use opaque::{OpaqueMetadata, Unsupported};
pub use shardine_codec::{codec_specs_from_json, codec_specs_to_json};
pub(crate) use v2::{V2Array, v2_consolidated, v2_names, v2_without};
