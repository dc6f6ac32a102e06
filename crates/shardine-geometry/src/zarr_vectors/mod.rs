//! Zarr Vectors 0.9: the bytes of its cells and the documents beside them.
//!
//! A store is a Zarr v3 group. Each level has arrays with one cell per chunk of space, and each
//! cell holds one string of bytes: positions, attributes, links, or the index of the fragments
//! that the rows of the chunk form. Here are readers and writers of these strings and of the
//! attributes of groups and arrays. Nothing here reads a store.
//!
//! Readers take any bytes. They check every number before they use it, and allocate nothing in
//! proportion to a number that the length of the bytes does not bear out.

mod anchor;
mod attributes;
mod build;
mod bytes;
mod coarse;
mod documents;
mod draco;
mod error;
mod families;
mod fragments;
mod grid;
mod level;
mod manifests;
mod offsets;
mod ragged;
pub mod rules;
mod stored_type;

pub use anchor::Anchor;
pub use attributes::{AttributeDocument, Categories, Column, Scalar, Values};
pub use build::{
    BuildOptions, Builder, BuiltGroups, BuiltObjects, BuiltStore, GridArray, ObjectArray,
};
pub use coarse::{
    CoarseArray, CoarseBuilder, CoarseLevel, CoarseObjects, CoarseOptions, CoarseShare, FineChunk,
    choose_objects, kept_objects,
};
pub use documents::{
    Convention, Level, Root, STORE_ATTRIBUTE, SpaceAxis, VERSION, kind_from_name, kind_name,
};
pub use draco::{DracoCell, READS_DRACO, decode_draco};
pub use error::{DocumentError, PayloadError};
pub use families::holds_cells;
pub use fragments::{Fragment, FragmentIndex, FragmentRows, encode_fragments};
pub use grid::{ChunkCoords, GridDocument, chunk_key, chunk_of, parse_chunk_key};
pub use level::{LEVEL_ATTRIBUTE, LinkArray, LinkFamily, ObjectIndex, ObjectLayout};
pub use manifests::{Block, FragmentRef, Manifest, ManifestRows, encode_manifest};
pub use offsets::{
    LinkOffsets, delta_segment, original_order, parse_delta_segment, permutation, permutation_code,
};
pub use ragged::{Ragged, encode_ragged};
pub use stored_type::{StoredType, swap_bytes};
