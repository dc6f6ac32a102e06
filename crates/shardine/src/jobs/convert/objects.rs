//! Makes the objects of a level: chunks by themselves, shards of Zarr, and objects that chunks share.

use shardine_codec::Context;
use shardine_store::{Condition, CreateOptions};

use super::level::{Fetched, Level};
use crate::engine::{
    Ahead, Batch, Cells, Finished, IndexedFrame, NewObject, ObjectCells, Piece, SharedPacking,
    Slots, Taken,
};
use crate::keyed::{Change, Encoded, OldValue};
use crate::layout::ShardLayout;
use crate::shard::ShardError;
use crate::{EngineError, Error};

/// Cell number `i` of a grid, in C order.
fn cell_of(i: usize, grid: &[u64]) -> Vec<u64> {
    let mut number = i as u64;
    let mut cell = vec![0; grid.len()];
    for (at, &n) in cell.iter_mut().zip(grid).rev() {
        *at = number % n.max(1);
        number /= n.max(1);
    }
    cell
}

impl Level<'_> {
    /// Makes each chunk an object.
    pub(super) fn objects(&self) -> Result<(), Error> {
        let grid = self.chunk_grid();
        let cells = Cells::new(grid.clone());
        // Of what is there already nothing is read.
        let count = if self.resumed { 0 } else { usize::try_from(cells.count).unwrap_or(0) };
        self.reading_ahead(count, &|i| cell_of(i, &grid), |ahead| self.each_object(cells, ahead))?;
        self.publisher.finish()?;
        Ok(())
    }

    fn each_object(&self, cells: Cells, ahead: Option<&Ahead<'_, Fetched>>) -> Result<(), Error> {
        let store = &self.new.chunks.store;
        self.new.engine().each_task(cells.enumerate(), &|(i, chunk), context| {
            let key = self.new.chunks.packing.key(&chunk)?;
            if self.is_there(&**store, &key)? {
                self.kept(1);
                return Ok(());
            }
            let mut encoded = context.take_buffer();
            if self.make(context, &chunk, ahead.map(|ahead| (ahead, i)), &mut encoded)? {
                let options = CreateOptions { head: 0, condition: Condition::None };
                let writer = store.create(&key, options)?;
                writer.append(&encoded)?;
                let len = encoded.len() as u64;
                self.publisher.add(writer.finish(&[])?, (), len)?;
                self.wrote(len);
            }
            context.give_buffer(encoded);
            self.advance(1);
            Ok(())
        })
    }

    /// Bytes of a chunk, decoded.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let element = self.new.chunks.layout.element_size() as u64;
        self.new.chunk_shape().iter().fold(element, |n, &len| n.saturating_mul(len))
    }

    /// Makes objects that chunks share.
    pub(super) fn shared_objects(&self, packing: &dyn SharedPacking) -> Result<(), Error> {
        let chunk = self.chunk_bytes();
        let bytes = |object: &ObjectCells| (object.cells.len() as u64).saturating_mul(chunk);
        let make = |object: &ObjectCells| self.shared_object(packing, object);
        self.new.engine().each_object(packing.all_objects(), &bytes, &make)?;
        self.publisher.finish()?;
        Ok(())
    }

    fn shared_object(
        &self,
        packing: &dyn SharedPacking,
        object: &ObjectCells,
    ) -> Result<(), Error> {
        let ObjectCells { object, cells } = object;
        if self.is_there(&*self.new.chunks.store, &packing.object_key(*object)?)? {
            self.kept(cells.len() as u64);
            return Ok(());
        }
        let chunk = |i: usize| cells.get(i).and_then(|&cell| packing.cell(cell));
        let wanted = |i: usize| chunk(i).map_or(Vec::new(), |chunk| chunk.to_vec());
        let report = self.reading_ahead(cells.len(), &wanted, |ahead| {
            let encode = |context: &mut Context, i: usize, _: OldValue<'_>, out: &mut Vec<u8>| {
                let Some(chunk) = chunk(i) else { return Ok(Encoded::Absent) };
                let stored = self.make(context, &chunk, ahead.map(|ahead| (ahead, i)), out)?;
                self.advance(1);
                Ok(if stored { Encoded::Value { before: 0 } } else { Encoded::Absent })
            };
            let change = Change {
                object: *object,
                keys: cells,
                replaces_all: true,
                keep_before: false,
                value_bytes: self.chunk_bytes(),
                inline: false,
                encode: &encode,
                publisher: &self.publisher,
            };
            packing.change(self.new.engine(), &change)
        })?;
        if report.written {
            self.wrote(report.bytes);
        }
        Ok(())
    }

    /// Makes shards of Zarr.
    pub(super) fn zarr_shards(&self, layout: &ShardLayout) -> Result<(), Error> {
        let axes = self.new.shape().iter().zip(self.new.chunks.cell_shape());
        let cells = Cells::new(axes.map(|(&len, &n)| len.div_ceil(n)).collect());
        let bytes = (layout.chunks() as u64).saturating_mul(self.chunk_bytes());
        let engine = self.new.engine();
        engine.each_object(cells, &|_| bytes, &|cell| self.zarr_shard(layout, cell))?;
        self.publisher.finish()?;
        Ok(())
    }

    fn zarr_shard(&self, layout: &ShardLayout, cell: &[u64]) -> Result<(), Error> {
        let (store, key) = (&self.new.chunks.store, self.new.chunks.packing.key(cell)?);
        let damaged = |source: ShardError| Error::from(EngineError::shard(&key, cell, source));
        let grid = self.chunk_grid();
        let mut entries = Vec::new();
        for &entry in layout.morton().map_err(damaged)?.iter() {
            let chunk = self.chunk_of(cell, entry);
            if chunk.iter().zip(&grid).all(|(&i, &n)| i < n) {
                entries.push(entry);
            }
        }
        if self.is_there(&**store, &key)? {
            self.kept(entries.len() as u64);
            return Ok(());
        }
        let frame = IndexedFrame { shard: layout, key: &key, cell };
        let condition = Condition::None;
        let new =
            NewObject { store: &**store, key: &key, condition, frame: &frame, any_order: false };
        let chunk = |i: usize| self.chunk_of(cell, entries.get(i).copied().unwrap_or(0));
        let engine = self.new.engine();
        let laid_down = self.reading_ahead(entries.len(), &chunk, |ahead| {
            let slots = Slots::made(&entries, self.chunk_bytes());
            new.lay_down(engine, slots, &|context, taken| self.batch(cell, taken, ahead, context))
        })?;
        if laid_down.is_empty() {
            return Ok(());
        }
        let Finished { staged, len } = laid_down.finish(engine)?;
        self.wrote(len);
        self.publisher.add(staged, (), len)?;
        Ok(())
    }

    /// The place of an entry of a shard in the grid of chunks.
    fn chunk_of(&self, cell: &[u64], entry: u32) -> Vec<u64> {
        self.new.chunks.layout.chunk_coordinates(cell, &[entry])
    }

    /// Makes chunks that follow each other.
    fn batch(
        &self,
        cell: &[u64],
        taken: &Taken<'_, u32>,
        ahead: Option<&Ahead<'_, Fetched>>,
        context: &mut Context,
    ) -> Result<Batch, Error> {
        let mut pieces = Vec::with_capacity(taken.slots.len());
        let mut encoded = context.take_buffer();
        for (number, &entry) in (taken.first..).zip(taken.slots) {
            let chunk = self.chunk_of(cell, entry);
            let start = encoded.len();
            if self.make(context, &chunk, ahead.map(|ahead| (ahead, number)), &mut encoded)? {
                let (entry, range) = (Some(entry as usize), start..encoded.len());
                pieces.push(Piece::New { entry, range });
            }
            self.advance(1);
        }
        Ok(Batch { pieces, encoded, ..Batch::default() })
    }
}
