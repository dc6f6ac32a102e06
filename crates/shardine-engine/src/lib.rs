//! Reads and writes the chunks of n-dimensional arrays in any format: plans which bytes are needed,
//! fetches them in batches, decodes them in parallel straight into place, and writes objects that
//! hold many chunks.
//!
//! A format describes an array to the engine with a [`ChunkSet`]: how its chunks are encoded
//! ([`layout`]), and, through a [`Packing`], which object holds which chunk. Nothing here knows
//! about metadata documents.
//!
//! `shardine` is built on this crate. The interface follows that crate's needs and changes with
//! them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod ahead;
mod budget;
mod cache;
mod cancel;
mod cells;
mod chunk_set;
mod engine;
mod error;
mod first_error;
mod in_order;
mod into_region;
pub mod keyed;
pub mod layout;
pub mod memory;
mod object;
mod packing;
mod publisher;
mod read;
mod region_item;
mod region_text;
pub mod selection;
pub mod shard;
pub mod source;
mod tasks;
pub mod tuning;
mod write;

pub use ahead::{Ahead, reading_ahead};
pub use budget::{Budget, Permit};
pub use cancel::CancelToken;
pub use cells::Cells;
pub use chunk_set::{
    ChunkSet, EdgeLayouts, First, IndexedShard, PossibleObject, actual_length, first_read,
};
pub use engine::{Engine, EngineOptions, MAX_THREADS};
pub use error::Error;
pub use first_error::FirstError;

pub use in_order::{Crew, in_order};
pub use object::{
    Batch, Finished, Frame, GrowingObject, IndexedFrame, LaidDown, NewObject, Piece, Slots, Taken,
    Uint64Frame,
};
pub use packing::{
    GridKey, ObjectCells, Packing, ShardEntries, SharedObject, SharedPacking, StoredBytes,
    StoredObject, Uint64Packing, WkwPacking, shard_box, shard_numbers, wkw_cubes,
};
pub use publisher::{Publish, Publisher};
pub use tasks::on_threads;
pub use write::{Patch, Strategy, WriteOptions, WriteReport, attempts, is_streamed};
