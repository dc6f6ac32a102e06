//! Rewrites a shard without its gaps.

use super::task::Task;
use super::{Stream, Writing};
use crate::Error;
use crate::keyed::Change;
use crate::layout::{ShardLayout, UpdatePlan};
use crate::shard::WriteOrder;
use crate::tuning::WRITE_BATCH;
use crate::{ChunkSet, Engine, Publisher, WriteOptions};

/// Removes the gaps from the shard at a position in the grid, if it exists. Nothing is decoded, and
/// other writers wait.
pub fn compact(engine: &Engine, grid: &ChunkSet, cell: &[u64]) -> Result<(), Error> {
    if let Some(shared) = grid.packing.shared() {
        let Some(object) = shared.object_at(cell) else { return Ok(()) };
        let publisher = Publisher::new(&*grid.store, WRITE_BATCH);
        return shared.change(engine, &Change::nothing(object, &publisher)).map(drop);
    }
    let Some(shard) = grid.layout.addressable() else { return Ok(()) };
    Writing::new(engine, grid, &WriteOptions::new()).compact(shard, cell)
}

impl Writing<'_> {
    /// Removes the gaps from a shard. Nothing is decoded.
    pub(super) fn compact(&self, shard: &ShardLayout, cell: &[u64]) -> Result<(), Error> {
        let key = self.grid.packing.key(cell)?;
        let bounds = self.grid.bounds(cell);
        let task = Task::nothing(cell);
        self.attempts(&key, || {
            let Some(old) = self.old(&key, false)? else { return Ok(()) };
            let index = self.old_index(shard, &key, cell, &*old.object)?;
            let object = Some(&old.object);
            let stream = Stream { writing: self, shard, key: &key, task: &task, old: object };
            // Chunks keep their order, and are moved in long runs.
            let order = WriteOrder::Arrival;
            let plan = UpdatePlan::new(shard, Some(&index), &[], &bounds, order)
                .map_err(|source| stream.damaged(source))?;
            stream.rewrite(&plan, old.condition(), false)
        })?;
        self.forget(cell);
        Ok(())
    }
}
