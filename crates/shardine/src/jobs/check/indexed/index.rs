use std::ops::{Deref, Range};

use shardine_codec::Context;
use shardine_store::StoreError;

use crate::layout::ShardLayout;
use crate::shard::{ShardError, ShardIndex};

/// The index of a shard, and its location in the shard.
pub(in crate::jobs) struct Indexed {
    pub index: ShardIndex,
    pub range: Range<u64>,
}

/// Why a shard has no index.
pub(in crate::jobs) enum NoIndex {
    /// It is shorter than its index.
    Truncated(ShardError),
    /// The bytes that should be the index, and what is wrong with them.
    Undecodable(Range<u64>, ShardError),
}

impl NoIndex {
    pub fn source(self) -> ShardError {
        match self {
            Self::Truncated(source) | Self::Undecodable(_, source) => source,
        }
    }
}

/// Reads the index of a shard at some bytes of an object. One read.
pub(in crate::jobs) fn read_index<B: Deref<Target = [u8]>>(
    shard: &ShardLayout,
    at: &Range<u64>,
    context: &mut Context,
    read: impl FnOnce(Range<u64>) -> Result<B, StoreError>,
) -> Result<Result<Indexed, NoIndex>, StoreError> {
    let len = at.end - at.start;
    let range = match shard.index.range(len) {
        Ok(range) => range,
        Err(error) => return Ok(Err(NoIndex::Truncated(error))),
    };
    let stored = at.start + range.start..at.start + range.end;
    let bytes = read(stored.clone())?;
    Ok(match shard.index.decode(context, &bytes, len) {
        Ok(index) => Ok(Indexed { index, range }),
        Err(error) => Err(NoIndex::Undecodable(stored, error)),
    })
}
