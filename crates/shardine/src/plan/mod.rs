//! How an array is best cut into chunks and shards.

mod packing;
mod sample;

pub use packing::chunks_per_shard_for;
pub use sample::{Sample, sample};
