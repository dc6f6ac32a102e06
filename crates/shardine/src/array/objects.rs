//! The objects of an array, and what the indexes of its shards say.

use std::ops::ControlFlow;

use super::Array;
use crate::engine::{Cells, IndexedShard, PossibleObject, ShardEntries, StoredObject};
use crate::{EngineError, Error};

/// The result of looking at a shard.
type FoundEntries = Result<Option<ShardEntries>, Error>;

impl Array {
    /// The objects that are stored, in order of their positions.
    ///
    /// One listing per folder. Where the store cannot list, every object that may exist is probed:
    /// one request each, many in parallel, and [`Error::UnlistedObjects`] if there may be more than
    /// 10,000.
    pub fn objects(&self) -> Result<Vec<StoredObject>, Error> {
        self.chunks.objects().map_err(|error| self.unlisted(error))
    }

    /// The objects that are stored, in order of their positions: those listed, or where the store
    /// cannot list, all that may exist.
    ///
    /// One listing per folder, some in parallel in a remote store. [`Error::UnlistedObjects`] if
    /// the store cannot list and there may be more than 10,000.
    pub fn possible_objects(&self) -> Result<Vec<PossibleObject>, Error> {
        self.chunks.possible_objects().map_err(|error| self.unlisted(error))
    }

    fn unlisted(&self, error: EngineError) -> Error {
        match error {
            EngineError::Unlisted { objects } => {
                Error::UnlistedObjects { at: self.location.to_string(), objects }
            }
            error => error.into(),
        }
    }

    /// All cells of the grid.
    pub(crate) fn cells(&self) -> Cells {
        self.chunks.cells()
    }

    /// What the index of the shard at `place` says; `None` if there is no such shard, or the array
    /// is not sharded.
    ///
    /// One open and one read. For nested shards the outer ones are reported;
    /// [`entry_shape`](Self::entry_shape) is the shape of what their entries hold.
    pub fn shard_entries(&self, place: &[u64]) -> Result<Option<ShardEntries>, Error> {
        Ok(self.chunks.shard_entries(place)?)
    }

    /// What the indexes of these objects say, in this order; see
    /// [`shard_entries`](Self::shard_entries).
    ///
    /// One read each; from a remote store, as many in parallel as it keeps in flight and the
    /// engine's memory allows. Nothing more is read after a break.
    pub fn each_shard(
        &self,
        objects: &[PossibleObject],
        visit: &mut dyn FnMut(&PossibleObject, FoundEntries) -> ControlFlow<()>,
    ) {
        self.chunks
            .each_shard(objects, &mut |object, found| visit(object, found.map_err(Error::from)));
    }

    /// Opens a shard and reads its index; `None` if there is no such shard, or the array is not
    /// sharded.
    pub(crate) fn open_shard(&self, cell: &[u64]) -> Result<Option<IndexedShard>, Error> {
        Ok(self.chunks.open_shard(cell)?)
    }
}
