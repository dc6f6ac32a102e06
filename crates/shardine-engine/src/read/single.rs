//! One chunk of an open shard: the most common small read, done without a plan.

use std::sync::Arc;

use shardine_codec::Context;
use shardine_codec::strided::Placement;
use shardine_store::{Object, ReadBuffer};

use super::fetch::Scratch;
use super::{CachedIndex, CellId, IndexKey, Path, Reading};
use crate::layout::{Layout, ShardLayout};
use crate::selection::{Axis, Selection};
use crate::tuning::SINGLE_READ;

impl Reading<'_> {
    /// Reads what lies in one chunk of an open shard.
    ///
    /// `None` if it is not such a read, or if anything goes wrong: the usual path finds out what.
    ///
    /// # Safety
    /// Nobody else may touch the target's window at the same time.
    pub(super) unsafe fn read_single(
        &self,
        selection: &Selection,
        place: &Placement,
    ) -> Option<()> {
        let shard = self.grid.layout.addressable()?;
        let Layout::Chunk(leaf) = &shard.inner else { return None };
        if !shard.order.is_sorted() || shard.index.len() > SINGLE_READ {
            return None;
        }
        let mut cell = CellId { array: self.grid.id, cell: Default::default() };
        let mut inside = Selection { axes: Default::default() };
        let mut entry = 0;
        let shapes = shard.spec.shape.iter().zip(&shard.chunk_shape).zip(&shard.grid);
        for (axis, ((&shard, &chunk), &grid)) in selection.axes.iter().zip(shapes) {
            let (number, at) = (axis.start / shard, axis.start % shard);
            let start = at % chunk;
            let last = (axis.count - 1).checked_mul(axis.step)?.checked_add(start)?;
            if last >= chunk {
                return None;
            }
            cell.cell.push(number);
            inside.axes.push(Axis { start, ..*axis });
            entry = entry * grid as usize + (at / chunk) as usize;
        }
        if leaf.codec.plain().is_some() && !inside.covers(&shard.chunk_shape) {
            return None;
        }
        let object = self.engine.kept.get(&cell)?.object;
        let key = IndexKey { cell, path: Path::new() };
        let indexes = &self.engine.indexes;
        let cached = if indexes.is_on { indexes.get(&key) } else { None };
        let cached = cached.filter(|cached| object.version().as_ref() == Some(&cached.version));
        self.engine.with_context(|context| {
            let mut scratch = std::mem::take(context.slot::<Scratch>());
            let cached = match cached {
                Some(cached) => Some(cached),
                None => self.read_index(shard, &*object, key, &mut scratch.0, context),
            };
            let done = cached.and_then(|cached| {
                let Some(range) = cached.index.get(entry).ok()? else {
                    return self.fill(&inside, place).ok();
                };
                let len = range.end - range.start;
                // SAFETY: upheld by the caller.
                let out = unsafe { leaf.plain_place(&inside, self.target, place, len) };
                if let Some(out) = out
                    && !ReadBuffer::is_better_than(out, range.start)
                {
                    return object.read_into(range.start, out).ok();
                }
                if len > SINGLE_READ {
                    return None;
                }
                let room = scratch.0.room(len as usize, range.start).ok()?;
                object.read_into(range.start, room).ok()?;
                // SAFETY: as above.
                unsafe { shard.inner.decode(context, room, &inside, self.target, place) }.ok()
            });
            *context.slot::<Scratch>() = scratch;
            done.filter(|()| matches!(object.is_current(), Ok(true)))
        })
    }

    /// Reads the index of a shard and caches it if there is room.
    fn read_index(
        &self,
        shard: &ShardLayout,
        object: &dyn Object,
        key: IndexKey,
        scratch: &mut ReadBuffer,
        context: &mut Context,
    ) -> Option<Arc<CachedIndex>> {
        let len = object.len()?;
        let range = shard.index.range(len).ok()?;
        let room = scratch.room(shard.index.len() as usize, range.start).ok()?;
        object.read_into(range.start, room).ok()?;
        let index = shard.index.decode(context, room, len).ok()?;
        Some(self.remember(key, object.version(), index))
    }
}
