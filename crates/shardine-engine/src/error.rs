use std::ops::Range;

use shardine_store::{Key, StoreError};

use crate::Strategy;
use crate::layout::{DecodeError, EncodeError};
use crate::selection::RegionError;
use crate::shard::ShardError;

/// Why reading or writing chunks failed.
///
/// The variant says what is at fault; the message names the object, the shard, the chunk and the
/// bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The region or the buffer is wrong.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index of a shard is damaged.
    #[error("shard {shard:?} in \"{object}\": {source}")]
    Shard {
        /// The object that holds the shard.
        object: Key,
        /// Its position in the grid of shards.
        shard: Vec<u64>,
        /// What is wrong with it.
        source: Box<ShardError>,
    },
    /// A chunk is damaged.
    #[error(
        "chunk {chunk:?} in \"{object}\" (bytes {start}..{end}): {source}",
        start = range.start, end = range.end
    )]
    Decode {
        /// The object that holds the chunk.
        object: Key,
        /// Its position in the grid of chunks.
        chunk: Vec<u64>,
        /// Its bytes.
        range: Range<u64>,
        /// What is wrong with it.
        source: Box<DecodeError>,
    },
    /// A chunk cannot be written.
    #[error("chunk {chunk:?} for \"{object}\": {source}")]
    Encode {
        /// The object that would hold the chunk.
        object: Key,
        /// Its position in the grid of chunks.
        chunk: Vec<u64>,
        /// Why not.
        source: Box<EncodeError>,
    },
    /// Other writers kept winning.
    #[error("gave up on \"{object}\" after {attempts} attempts: other writers kept changing it")]
    Contention {
        /// The object.
        object: Key,
        /// The number of attempts.
        attempts: usize,
    },
    /// The shards of this array cannot be changed with the requested strategy.
    #[error("its shards cannot be changed with the strategy {strategy}: {reason}")]
    Strategy {
        /// The requested strategy.
        strategy: Strategy,
        /// Why not.
        reason: &'static str,
    },
    /// Not all chunks of a shard were written; the shard is unchanged.
    #[error("\"{object}\" was not written completely and is unchanged")]
    Unfinished {
        /// The object.
        object: Key,
    },
    /// A shard kept changing while it was read.
    #[error("gave up reading \"{object}\" after {attempts} attempts: it kept changing")]
    Unstable {
        /// The object.
        object: Key,
        /// The number of attempts.
        attempts: usize,
    },
    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads: {reason}")]
    Threads {
        /// The number requested.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// The store cannot list, and the grid has room for more objects than are probed one by one.
    #[error("the store cannot list objects, and {objects} are too many to request one by one")]
    Unlisted {
        /// How many there may be.
        objects: u64,
    },
    /// Stopped by the [`CancelToken`](crate::CancelToken) that the call watches.
    #[error("stopped")]
    Cancelled,
    /// A callback of the caller failed.
    #[error(transparent)]
    Callback(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The index of the shard at this position in the grid is damaged.
    pub fn shard(object: &Key, shard: &[u64], source: ShardError) -> Self {
        Self::Shard { object: object.clone(), shard: shard.to_vec(), source: Box::new(source) }
    }

    /// The chunk at this position in the grid of chunks cannot be written.
    pub fn encode(object: &Key, chunk: &[u64], source: EncodeError) -> Self {
        Self::Encode { object: object.clone(), chunk: chunk.to_vec(), source: Box::new(source) }
    }
}
