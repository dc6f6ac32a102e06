//! Makes the objects of a level: chunks by themselves, shards of Zarr, and shards by 64-bit key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;
use shardine_store::{Condition, CreateOptions, Staged};

use super::ahead::Ahead;
use super::level::Level;
use super::shards::{KeyedShard, keyed_shards};
use crate::Error;
use crate::engine::{Batch, FirstError, PackedCells, Piece, Sequencer};
use crate::keyed::{Change, ChangeReport, Encoded, OldValue, change_shard};
use crate::layout::ShardLayout;
use crate::shard::{IndexLocation, ShardError};
use crate::zarr::Cells;

/// Decoded bytes from which the chunks of one shard are made in parallel, and not several shards.
const STREAM: u64 = 1 << 20;

/// Shards that are made side by side where they are small.
const TOGETHER: usize = 256;

/// Decoded bytes of the chunks that a worker makes at once.
const PIECE: u64 = 256 << 10;

/// Bytes of bookkeeping for each piece of work in flight.
const OVERHEAD: u64 = 1024;

/// Where a worker panics, nobody waits for what it was to bring.
struct GiveUp<'a, 'b>(&'a Sequencer<'b>);

impl Drop for GiveUp<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

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

    fn each_object(&self, cells: Cells, ahead: Option<&Ahead<'_>>) -> Result<(), Error> {
        let store = &self.new.grid.store;
        self.share(cells.enumerate(), &|(i, chunk), context| {
            let key = self.new.grid.keys.key(&chunk)?;
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
                self.publisher.add(writer.finish(&[])?, chunk, len)?;
                self.wrote(len);
            }
            context.give_buffer(encoded);
            self.advance(1);
            Ok(())
        })
    }

    /// Has shards made, small ones side by side and large ones one after the other with all workers at each.
    fn all_shards<T: Send + Sync>(
        &self,
        mut shards: impl Iterator<Item = T>,
        chunks: &dyn Fn(&T) -> u64,
        make: &(dyn Fn(&T) -> Result<(), Error> + Sync),
    ) -> Result<(), Error> {
        let chunk = self.chunk_bytes();
        let is_small = |shard: &T| chunks(shard).saturating_mul(chunk) <= STREAM;
        let mut next = shards.next();
        while let Some(first) = next.take() {
            if !is_small(&first) {
                make(&first)?;
                next = shards.next();
                continue;
            }
            let mut small = vec![first];
            for shard in shards.by_ref() {
                if !is_small(&shard) || small.len() == TOGETHER {
                    next = Some(shard);
                    break;
                }
                small.push(shard);
            }
            self.share(small.iter(), &|shard, _| make(shard))?;
        }
        Ok(())
    }

    /// Bytes of a chunk, decoded.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let element = self.new.grid.layout.element_size() as u64;
        self.new.chunk_shape().iter().fold(element, |n, &len| n.saturating_mul(len))
    }

    /// Makes shards by 64-bit key.
    pub(super) fn keyed_shards(&self, packed: &PackedCells) -> Result<(), Error> {
        let staged: Mutex<Vec<Staged>> = Mutex::default();
        let shards = keyed_shards(&packed.shards.sharding, packed.code);
        let count = |shard: &KeyedShard| shard.keys.len() as u64;
        self.all_shards(shards, &count, &|shard| self.keyed_shard(packed, shard, &staged))?;
        let staged = staged.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !staged.is_empty() {
            packed.shards.store.publish(staged)?;
        }
        Ok(())
    }

    fn keyed_shard(
        &self,
        packed: &PackedCells,
        shard: &KeyedShard,
        staged: &Mutex<Vec<Staged>>,
    ) -> Result<(), Error> {
        let shards = &*packed.shards;
        if self.is_there(&*shards.store, &shards.shard_key(shard.number)?)? {
            self.kept(shard.keys.len() as u64);
            return Ok(());
        }
        // In the order in which they are laid down.
        let mut keys = shard.keys.clone();
        keys.sort_unstable_by_key(|&key| (shards.sharding.place(key).minishard, key));
        let cell = |number: usize| keys.get(number).and_then(|&key| packed.code.decode(key));
        let chunk = |i: usize| cell(i).map_or(Vec::new(), |[x, y, z]| vec![x, y, z, 0]);
        let report = self.reading_ahead(keys.len(), &chunk, |ahead| {
            self.change_keyed(packed, shard.number, &keys, ahead, staged)
        })?;
        if report.written {
            self.wrote(report.bytes);
        }
        Ok(())
    }

    fn change_keyed(
        &self,
        packed: &PackedCells,
        shard: u64,
        keys: &[u64],
        ahead: Option<&Ahead<'_>>,
        staged: &Mutex<Vec<Staged>>,
    ) -> Result<ChangeReport, Error> {
        let shards = &*packed.shards;
        let encode = |context: &mut Context, number: usize, _: OldValue<'_>, out: &mut Vec<u8>| {
            let cell = keys.get(number).and_then(|&key| packed.code.decode(key));
            let Some([x, y, z]) = cell else { return Ok(Encoded::Absent) };
            let ahead = ahead.map(|ahead| (ahead, number));
            let stored = self.make(context, &[x, y, z, 0], ahead, out)?;
            self.advance(1);
            Ok(if stored { Encoded::Value { before: 0 } } else { Encoded::Absent })
        };
        change_shard(
            &self.new.engine,
            &Change {
                shards,
                shard,
                keys,
                replaces_all: true,
                keep_before: false,
                value_bytes: self.chunk_bytes(),
                encode: &encode,
                staged: Some(staged),
            },
        )
    }

    /// Makes shards of Zarr.
    pub(super) fn zarr_shards(&self, layout: &ShardLayout) -> Result<(), Error> {
        let axes = self.new.shape().iter().zip(self.new.grid.cell_shape());
        let cells = Cells::new(axes.map(|(&len, &n)| len.div_ceil(n)).collect());
        let chunks = layout.chunks() as u64;
        self.all_shards(cells, &|_| chunks, &|cell| self.zarr_shard(layout, cell))?;
        self.publisher.finish()?;
        Ok(())
    }

    fn zarr_shard(&self, layout: &ShardLayout, cell: &[u64]) -> Result<(), Error> {
        let (store, key) = (&self.new.grid.store, self.new.grid.keys.key(cell)?);
        let damaged = |source: ShardError| Error::Shard {
            object: key.clone(),
            shard: cell.to_vec(),
            source: Box::new(source),
        };
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
        let options = CreateOptions { head: layout.index.head(), condition: Condition::None };
        let writer = store.create(&key, options)?;
        let sequencer = Sequencer::new(&*writer, None, layout.chunks(), false).map_err(damaged)?;
        let chunk = |i: usize| self.chunk_of(cell, entries.get(i).copied().unwrap_or(0));
        self.reading_ahead(entries.len(), &chunk, |ahead| {
            self.lay_down(cell, &entries, ahead, &sequencer)
        })?;
        let unfinished = || Error::Unfinished { object: key.clone() };
        let (index, bytes) = sequencer.into_index().ok_or_else(unfinished)?;
        if index.all_absent() {
            return Ok(());
        }
        let encoded = self.new.engine.with_context(|context| layout.index.encode(context, &index));
        let encoded = encoded.map_err(|source| {
            let (start, end) = (0, layout.index.len());
            damaged(ShardError::Index { start, end, source })
        })?;
        let staged = match layout.index.location() {
            IndexLocation::Start => writer.finish(&encoded)?,
            IndexLocation::End => {
                writer.append(&encoded)?;
                writer.finish(&[])?
            }
        };
        let len = bytes + layout.index.len();
        self.wrote(len);
        self.publisher.add(staged, cell.to_vec(), len)?;
        Ok(())
    }

    /// Has the workers make the chunks of a shard, as many at once as the budget allows, and lays them down in order.
    fn lay_down(
        &self,
        cell: &[u64],
        entries: &[u32],
        ahead: Option<&Ahead<'_>>,
        sequencer: &Sequencer<'_>,
    ) -> Result<(), Error> {
        let engine = &self.new.engine;
        let chunk = self.chunk_bytes();
        let together = (PIECE / chunk.max(1)).max(1) as usize;
        // The elements, their encoded form, and what they are made from.
        let cost = (PIECE + chunk).saturating_mul(3).saturating_add(OVERHEAD);
        let affordable = (engine.memory_in_flight() / cost).max(1) as usize;
        let workers = engine.threads().min(affordable);
        let window = affordable.min(workers * 4);
        let _permit = engine.admit(cost.saturating_mul(window as u64));
        let first_error = FirstError::default();
        let next = AtomicUsize::new(0);
        engine.share(workers, workers, &|_, context| {
            let _guard = GiveUp(sequencer);
            while !first_error.is_set() {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let first = number.saturating_mul(together).min(entries.len());
                let batch = &entries[first..entries.len().min(first.saturating_add(together))];
                if batch.is_empty() || !sequencer.wait_for_turn(number, window, context) {
                    break;
                }
                let made = self.batch(cell, batch, ahead.map(|ahead| (ahead, first)), context);
                if let Err(error) = made.and_then(|made| Ok(sequencer.finish(number, made)?)) {
                    first_error.set(error);
                    sequencer.give_up();
                }
            }
        });
        first_error.into_result()
    }

    /// The place of an entry of a shard in the grid of chunks.
    fn chunk_of(&self, cell: &[u64], entry: u32) -> Vec<u64> {
        self.new.grid.layout.chunk_coordinates(cell, &[entry])
    }

    /// Makes chunks that follow each other; `ahead` has the number of the first.
    fn batch(
        &self,
        cell: &[u64],
        entries: &[u32],
        ahead: Option<(&Ahead<'_>, usize)>,
        context: &mut Context,
    ) -> Result<Batch, Error> {
        let mut pieces = Vec::with_capacity(entries.len());
        let mut encoded = context.take_buffer();
        for (i, &entry) in entries.iter().enumerate() {
            let chunk = self.chunk_of(cell, entry);
            let ahead = ahead.map(|(ahead, first)| (ahead, first + i));
            let start = encoded.len();
            if self.make(context, &chunk, ahead, &mut encoded)? {
                pieces.push(Piece::New { entry: entry as usize, range: start..encoded.len() });
            }
            self.advance(1);
        }
        Ok(Batch { pieces, encoded })
    }
}
