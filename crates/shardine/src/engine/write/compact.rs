//! Rewriting a shard without its gaps.

use shardine_codec::VariableElements;
use shardine_codec::strided::Placement;

use super::{Stream, Writing};
use crate::Error;
use crate::engine::{Engine, Grid, WriteOptions};
use crate::layout::{ShardLayout, UpdatePlan};
use crate::selection::{Cell, Selection};
use crate::shard::WriteOrder;
use crate::source::{Source, SourceError};

/// Squeezes the gaps out of a shard of the grid, if it is there. Nothing is decoded, and other writers wait.
pub(crate) fn compact(engine: &Engine, grid: &Grid, cell: &[u64]) -> Result<(), Error> {
    let Some(shard) = grid.layout.addressable() else { return Ok(()) };
    let options = WriteOptions::new();
    let writing = Writing::new(engine, grid, &Nothing, &options);
    let cell = Cell {
        index: cell.iter().copied().collect(),
        selection: Selection::nothing(cell.len()),
        at: cell.iter().map(|_| 0).collect(),
    };
    writing.compact(shard, &cell)
}

impl Writing<'_> {
    /// Squeezes the gaps out of a shard. Nothing is decoded.
    pub(super) fn compact(&self, shard: &ShardLayout, cell: &Cell) -> Result<(), Error> {
        let key = self.grid.keys.key(&cell.index)?;
        let bounds = self.grid.bounds(&cell.index);
        if bounds.is_empty() {
            // Without axes there is one chunk, and no selection that does not touch it.
            return Ok(());
        }
        let nothing = Cell { selection: Selection::nothing(bounds.len()), ..cell.clone() };
        self.attempts(&key, || {
            let Some(old) = self.old(&key, false)? else { return Ok(()) };
            let index = self.old_index(shard, &key, cell, &*old.object)?;
            let object = Some(&*old.object);
            let stream = Stream { writing: self, shard, key: &key, cell: &nothing, old: object };
            // Chunks keep the order that they have, and are moved in long runs.
            let order = WriteOrder::Arrival;
            let plan = UpdatePlan::new(shard, Some(&index), &nothing.selection, &bounds, order)
                .map_err(|source| stream.damaged(source))?;
            stream.rewrite(&plan, old.condition(), false)
        })?;
        self.forget(cell);
        Ok(())
    }
}

/// The source of no elements.
struct Nothing;

impl Source for Nothing {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err("there are no elements".into())
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err("there are no elements".into())
    }
}
