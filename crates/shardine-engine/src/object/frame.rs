//! What surrounds the chunks of an object, in each format.

use shardine_codec::{CodecError, Context};
use shardine_store::{Key, StoreError};

use crate::Error;
use crate::layout::ShardLayout;
use crate::shard::uint64::{Sharding, Uint64ShardIndexes};
use crate::shard::{IndexLocation, ShardError, ShardIndex};

/// The first and last bytes of an object.
pub struct Ends {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
}

/// How an object records where its chunks are.
pub trait Frame: Sync {
    /// Bytes before the first chunk.
    fn head(&self) -> u64;

    /// An index in which no chunk has a range yet.
    fn places(&self) -> Result<ShardIndex, Error>;

    /// The bytes before and after the chunks, given where the chunks lie and where the last one
    /// ends.
    fn close(&self, context: &mut Context, placed: &ShardIndex, end: u64) -> Result<Ends, Error>;
}

/// A shard of `sharding_indexed`.
pub struct IndexedFrame<'a> {
    /// How the shard is encoded.
    pub shard: &'a ShardLayout,
    /// Its key, for errors.
    pub key: &'a Key,
    /// Its position in the grid.
    pub cell: &'a [u64],
}

impl IndexedFrame<'_> {
    fn damaged(&self, source: ShardError) -> Error {
        Error::shard(self.key, self.cell, source)
    }
}

impl Frame for IndexedFrame<'_> {
    fn head(&self) -> u64 {
        self.shard.index.head()
    }

    fn places(&self) -> Result<ShardIndex, Error> {
        ShardIndex::empty(self.shard.chunks()).map_err(|source| self.damaged(source))
    }

    fn close(&self, context: &mut Context, placed: &ShardIndex, _: u64) -> Result<Ends, Error> {
        let index = &self.shard.index;
        let encoded = index.encode(context, placed).map_err(|source| {
            let (start, end) = (0, index.len());
            self.damaged(ShardError::Index { start, end, source })
        })?;
        Ok(match index.location() {
            IndexLocation::Start => Ends { head: encoded, tail: Vec::new() },
            IndexLocation::End => Ends { head: Vec::new(), tail: encoded },
        })
    }
}

/// A shard of `neuroglancer_uint64_sharded_v1`.
pub struct Uint64Frame<'a> {
    /// How the keys are sharded.
    pub sharding: &'a Sharding,
    /// Its key, for errors.
    pub key: &'a Key,
    /// The minishard and key of each value, in order.
    pub values: &'a [(u64, u64)],
}

impl Frame for Uint64Frame<'_> {
    fn head(&self) -> u64 {
        self.sharding.table_len()
    }

    fn places(&self) -> Result<ShardIndex, Error> {
        let too_many = |_| Error::Unfinished { object: self.key.clone() };
        ShardIndex::empty(self.values.len()).map_err(too_many)
    }

    fn close(&self, context: &mut Context, placed: &ShardIndex, end: u64) -> Result<Ends, Error> {
        let mut indexes = Uint64ShardIndexes::new(self.sharding, end);
        let damaged = |source: CodecError| StoreError::Damaged {
            key: self.key.clone(),
            reason: source.to_string(),
        };
        for (i, &(minishard, key)) in self.values.iter().enumerate() {
            if let Some(range) = placed.get(i).ok().flatten() {
                indexes.add(context, minishard, key, range).map_err(damaged)?;
            }
        }
        let (head, tail) = indexes.finish(context).map_err(damaged)?;
        Ok(Ends { head, tail })
    }
}
