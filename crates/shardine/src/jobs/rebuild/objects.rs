//! Makes the objects of an array: shards, single chunks, and objects shared by chunks.

use shardine_codec::Context;
use shardine_store::{Condition, CreateOptions, Key, ReadRange, Staged, StoreError, StoreExt};

use super::relation::Relation;
use super::transfer::{Fetched, Made, Transfer};
use super::{Note, RepackCheck, TaskObject, is_stale};
use crate::engine::{
    Ahead, Batch, Cells, Finished, IndexedFrame, NewObject, ObjectCells, Publish, SharedPacking,
    Slots, StoredBytes, Taken,
};
use crate::keyed::{Change, Encoded, OldValue};
use crate::layout::{Layout, ShardLayout};
use crate::shard::WriteOrder;
use crate::source::PartOfSource;
use crate::{Array, EngineError, Error, Region, WriteOptions};

/// Entries of a shard that are looked up together.
const WINDOW: usize = 1024;

/// Chunks open as files of their own at a time, over all workers. Processes are commonly limited to
/// a thousand open files.
const OPEN_CHUNKS: usize = 384;

/// Chunks along the last axis that one worker moves where neither array has shards.
const TOGETHER: u64 = 256;

/// Makes the objects at some cells.
type MakeBox<'m> = dyn Fn(&[Vec<u64>], &mut Context) -> Result<(), Error> + Sync + 'm;

/// What kind of objects an array has.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// Shards of chunks, with the axes of the array.
    Shards(&'a ShardLayout),
    /// Objects shared by chunks by number.
    Shared(&'a dyn SharedPacking),
    /// Objects encoded as a whole, most of them chunks.
    Objects,
    /// Large nested shards, or shards with reordered axes: the engine's own writer makes them.
    Written,
}

impl<'a> Kind<'a> {
    pub fn of(array: &'a Array) -> Self {
        if let Some(shared) = array.chunks.packing.shared() {
            return Self::Shared(shared);
        }
        match array.chunks.layout.addressable() {
            Some(shard) if is_plain(shard) => Self::Shards(shard),
            _ if array.streams() => Self::Written,
            _ => Self::Objects,
        }
    }
}

/// Whether the entries of a shard are chunks, along the axes of the array.
pub(in crate::jobs) fn is_plain(shard: &ShardLayout) -> bool {
    matches!(shard.inner, Layout::Chunk(_)) && shard.order.iter().enumerate().all(|(i, &k)| i == k)
}

/// Publishes a shared object with a note of what is in it.
struct Noting<'t, 'a> {
    transfer: &'t Transfer<'a>,
    object: &'t ObjectCells,
}

impl Publish for Noting<'_, '_> {
    fn add(&self, staged: Staged, len: u64) -> Result<(), EngineError> {
        let note = Note::Shared(self.object.clone());
        Ok(self.transfer.publish(staged, note, len)?)
    }

    fn now(&self, staged: Staged) -> Result<(), EngineError> {
        self.transfer.publisher.publish_now(staged)
    }
}

impl Transfer<'_> {
    /// Makes all objects that belong to this process.
    pub(super) fn make_all(&self) -> Result<(), Error> {
        let engine = self.context.engine();
        match self.kind {
            Kind::Shared(shared) => {
                // Moving takes hardly any memory, and several objects keep the disk busier than
                // several workers on one.
                let chunk = if self.moves_in_kernel() { 0 } else { self.chunk_bytes() };
                let bytes =
                    |object: &ObjectCells| (object.cells.len() as u64).saturating_mul(chunk);
                let objects = self.shared_objects(shared)?;
                engine.each_object(objects, &bytes, &|object| self.make_shared(shared, object))
            }
            Kind::Shards(shard) if self.moves() => {
                let cells = self.boxes(self.new.cell_shape(), false)?;
                engine.each_task(cells, &|cell, _| self.make_shard(shard, &cell))
            }
            Kind::Shards(shard) if self.new.streams() => {
                let mut cells = self.boxes(self.new.cell_shape(), false)?;
                cells.try_for_each(|cell| self.make_shard(shard, &cell))
            }
            Kind::Shards(shard) => {
                self.each_box(&|cells, _| cells.iter().try_for_each(|c| self.make_shard(shard, c)))
            }
            Kind::Objects => self.each_box(&|cells, context| self.make_objects(cells, context)),
            Kind::Written => {
                let mut cells = self.boxes(self.new.cell_shape(), false)?;
                cells.try_for_each(|cell| self.write(&cell))
            }
        }
    }

    /// All tasks.
    pub(super) fn objects(&self) -> Result<Vec<TaskObject>, Error> {
        let cell_shape = self.new.cell_shape();
        if let Kind::Shared(shared) = self.kind {
            let place = |object: ObjectCells| match shared.object_shape() {
                Some(shape) => {
                    let first = object.cells.first().and_then(|&cell| shared.cell(cell))?;
                    let place = first.iter().zip(&shape).map(|(&i, &n)| i / n.max(1));
                    Some(TaskObject::Place(place.collect()))
                }
                None => Some(TaskObject::Shared(object.object, object.cells)),
            };
            return Ok(self.shared_objects(shared)?.filter_map(place).collect());
        }
        let unit = match self.kind {
            Kind::Objects => self.unit(),
            _ => cell_shape.to_vec(),
        };
        let cells = |at: Vec<u64>| {
            let (first, count) = self.cells_of(&at, &unit);
            TaskObject::Cells { first, count }
        };
        Ok(self.boxes(&unit, false)?.map(cells).collect())
    }

    /// Runs one task.
    pub(super) fn run_object(&self, object: &TaskObject) -> Result<(), Error> {
        let engine = self.context.engine();
        match (object, self.kind) {
            (TaskObject::Cells { first, count }, kind) => {
                let all = self.new.cells();
                let axes = first.iter().zip(count).zip(all.grid());
                // Cells outside the grid do not exist.
                let count = axes.map(|((&at, &n), &all)| n.min(all.saturating_sub(at))).collect();
                let cell = |inside: Vec<u64>| -> Vec<u64> {
                    first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
                };
                let mut cells = Cells::new(count).map(cell);
                match kind {
                    Kind::Shards(shard) => cells.try_for_each(|c| self.make_shard(shard, &c))?,
                    Kind::Written => cells.try_for_each(|cell| self.write(&cell))?,
                    Kind::Objects => {
                        let cells: Vec<Vec<u64>> = cells.collect();
                        engine.with_context(|context| self.make_objects(&cells, context))?;
                    }
                    Kind::Shared(_) => {}
                }
            }
            (TaskObject::Place(place), Kind::Shared(shared)) => {
                if let Some(object) = self.object_at(shared, place) {
                    self.make_shared(shared, &object)?;
                }
            }
            (TaskObject::Shared(object, cells), Kind::Shared(shared)) => {
                let of_it = |cell: &&u64| shared.object_of(**cell) == *object;
                let cells = cells.iter().filter(of_it).copied().collect();
                self.make_shared(shared, &ObjectCells { object: *object, cells })?;
            }
            _ => {}
        }
        self.finish()?;
        if self.options.check == RepackCheck::Elements {
            self.compare_task(object)?;
        }
        Ok(())
    }

    /// Decodes what a task has made, and compares.
    fn compare_task(&self, object: &TaskObject) -> Result<(), Error> {
        let compare = |cell: &[u64], shape: &[u64]| {
            let (start, bounds) = self.part_of(cell, shape);
            self.compare_box(&start, &bounds)
        };
        let cells = match (object, self.kind) {
            (TaskObject::Cells { first, count }, _) => {
                let cell = |inside: Vec<u64>| -> Vec<u64> {
                    first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
                };
                let inside = |cell: &Vec<u64>| {
                    cell.iter().zip(self.new.cells().grid()).all(|(&i, &n)| i < n)
                };
                let mut cells = Cells::new(count.clone()).map(cell).filter(inside);
                return cells.try_for_each(|cell| compare(&cell, self.new.cell_shape()));
            }
            (TaskObject::Place(place), Kind::Shared(shared)) => {
                self.object_at(shared, place).map_or(Vec::new(), |object| object.cells)
            }
            (TaskObject::Shared(_, cells), _) => cells.clone(),
            _ => Vec::new(),
        };
        let Kind::Shared(shared) = self.kind else { return Ok(()) };
        let mut cells = cells.into_iter().filter_map(|cell| shared.cell(cell));
        cells.try_for_each(|cell| compare(&cell, self.new.chunk_shape()))
    }

    /// The cells of a box of this shape: the first, and the number along each axis.
    fn cells_of(&self, at: &[u64], unit: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let (start, shape) = self.part_of(at, unit);
        let axes = || start.iter().zip(&shape).zip(self.new.cell_shape());
        let first = axes().map(|((&start, _), &n)| start / n).collect();
        (first, axes().map(|((_, &len), &n)| len.div_ceil(n)).collect())
    }

    /// Makes boxes of objects in parallel, each box on one worker.
    fn each_box(&self, make: &MakeBox<'_>) -> Result<(), Error> {
        let unit = self.unit();
        let boxes = self.boxes(&unit, false)?;
        self.context.engine().each_task(boxes, &|at, context| {
            let (first, count) = self.cells_of(&at, &unit);
            let cell = |inside: Vec<u64>| -> Vec<u64> {
                first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
            };
            let cells: Vec<Vec<u64>> = Cells::new(count).map(cell).collect();
            make(&cells, context)
        })
    }

    /// The shape of the boxes of objects that one worker makes, in elements.
    fn unit(&self) -> Vec<u64> {
        let cell = self.new.cell_shape();
        if !self.moves() {
            return self.source.block_shape().unwrap_or_else(|| cell.to_vec());
        }
        // Without new shards, objects are made from one old shard after the other.
        let of_shards = self.old.shard_shape().map(|shape| self.axes.to_new(shape, 1));
        let unit = of_shards.unwrap_or_else(|| {
            let mut unit = cell.to_vec();
            if let Some(last) = unit.last_mut() {
                *last = last.saturating_mul(TOGETHER);
            }
            unit
        });
        // Whole objects, whatever the shape of the old shards.
        let whole = |(&unit, &cell): (&u64, &u64)| (unit / cell.max(1)).max(1).saturating_mul(cell);
        unit.iter().zip(cell).map(whole).collect()
    }

    /// Publishes an object, and checks those that have become visible.
    pub(super) fn publish(&self, staged: Staged, note: Note, len: u64) -> Result<(), Error> {
        self.wrote(1, len);
        for published in self.publisher.add(staged, note, len)? {
            self.check_made(&published)?;
        }
        Ok(())
    }

    /// Whether an earlier run has made this object as this run would.
    fn is_kept(&self, key: &Key, note: &Note, chunks: u64) -> Result<bool, Error> {
        let store = &self.new.chunks.store;
        if !self.resumed || !store.contains(key)? {
            return Ok(false);
        }
        if !self.moves() {
            self.kept_unseen(chunks)?;
            return Ok(true);
        }
        match self.compare(note, self.options.check != RepackCheck::None) {
            Ok((stored, absent)) => {
                self.kept(stored, absent)?;
                Ok(true)
            }
            Err(error) if is_stale(&error) => {
                // The chunks it was made from may be gone by now, in which case nothing replaces
                // it.
                store.delete(key, &Condition::None)?;
                Ok(false)
            }
            // An unreadable object may be right or wrong.
            Err(error) => Err(error),
        }
    }

    /// The entries of a shard that lie in the array, with their chunks, in write order.
    pub(super) fn entries(
        &self,
        shard: &ShardLayout,
        key: &Key,
        cell: &[u64],
    ) -> Result<Vec<(usize, Vec<u64>)>, Error> {
        let grid = self.chunk_grid();
        let mut entries = Vec::new();
        let mut add = |entry: u32| {
            let chunk = self.new.chunks.layout.chunk_coordinates(cell, &[entry]);
            if chunk.iter().zip(&grid).all(|(&i, &n)| i < n) {
                entries.push((entry as usize, chunk));
            }
        };
        match self.options.order {
            WriteOrder::Morton => {
                let damaged = |source| Error::from(EngineError::shard(key, cell, source));
                shard.morton().map_err(damaged)?.iter().for_each(|&entry| add(entry));
            }
            WriteOrder::C | WriteOrder::Arrival => (0..shard.chunks() as u32).for_each(add),
        }
        Ok(entries)
    }

    /// Makes a shard.
    fn make_shard(&self, shard: &ShardLayout, cell: &[u64]) -> Result<(), Error> {
        if !self.is_mine(cell) {
            return Ok(());
        }
        self.context.check()?;
        let key = self.new.chunks.packing.key(cell)?;
        let mut entries = self.entries(shard, &key, cell)?;
        if self.is_kept(&key, &Note::Cell(cell.to_vec()), entries.len() as u64)? {
            return Ok(());
        }
        let groups = self.group(&mut entries);
        let new = NewObject {
            store: &*self.new.chunks.store,
            key: &key,
            condition: Condition::None,
            frame: &IndexedFrame { shard, key: &key, cell },
            any_order: false,
        };
        let is_made = |(_, chunk): &(usize, Vec<u64>)| !self.is_movable(chunk);
        let always = |_: &(usize, Vec<u64>)| true;
        let chunk = |i: usize| entries.get(i).map_or(Vec::new(), |(_, chunk)| chunk.clone());
        let engine = self.context.engine();
        let laid_down = self.reading_ahead(entries.len(), &chunk, |ahead| {
            let slots = Slots {
                is_made: if self.moves_in_kernel() { &is_made } else { &always },
                groups,
                ..Slots::made(&entries, shard.inner.decoded_len())
            };
            new.lay_down(engine, slots, &|context, taken| self.batch(taken, ahead, context))
        })?;
        if laid_down.is_empty() {
            return Ok(());
        }
        let Finished { staged, len } = laid_down.finish(engine)?;
        self.publish(staged, Note::Cell(cell.to_vec()), len)
    }

    /// Sorts entries so that those best made by one worker are adjacent; returns the size of each
    /// group, or nothing if it does not matter.
    fn group(&self, entries: &mut [(usize, Vec<u64>)]) -> Vec<usize> {
        if self.moves_in_kernel() {
            let together = match &self.old.chunks.layout {
                Layout::Chunk(_) if self.old.chunks.packing.shared().is_none() => {
                    (OPEN_CHUNKS / self.context.engine().threads().max(1)).clamp(8, WINDOW)
                }
                _ => WINDOW,
            };
            return vec![together; entries.len().div_ceil(together)];
        }
        if self.moves() || self.source.block_shape().is_none() {
            return Vec::new();
        }
        let mut ranks = std::collections::HashMap::new();
        let mut groups: Vec<usize> = Vec::new();
        let block = |chunk: &[u64]| {
            let (start, _) = self.part_of(chunk, self.new.chunk_shape());
            self.source.block_of(&start).unwrap_or_default()
        };
        for (_, chunk) in entries.iter() {
            let next = ranks.len();
            let rank = *ranks.entry(block(chunk)).or_insert(next);
            if rank == groups.len() {
                groups.push(0);
            }
            groups[rank] += 1;
        }
        // Groups in order of first appearance; the order within a group stays.
        entries.sort_by_cached_key(|(_, chunk)| ranks.get(&block(chunk)).copied());
        groups
    }

    /// Makes consecutive chunks.
    fn batch(
        &self,
        taken: &Taken<'_, (usize, Vec<u64>)>,
        ahead: Option<&Ahead<'_, Fetched>>,
        context: &mut Context,
    ) -> Result<Batch, Error> {
        let mut batch = Batch { encoded: context.take_buffer(), ..Batch::default() };
        let mut moved: Vec<(usize, StoredBytes)> = Vec::new();
        for (number, (entry, chunk)) in (taken.first..).zip(taken.slots) {
            let start = batch.encoded.len();
            let ahead = ahead.map(|ahead| (ahead, number));
            match self.make(context, chunk, ahead, &mut batch.encoded)? {
                Made::Absent => batch.encoded.truncate(start),
                Made::Bytes => batch.push_made(Some(*entry), start),
                Made::Moved(found) if self.options.order == WriteOrder::Arrival => {
                    moved.push((*entry, found));
                }
                Made::Moved(found) => push(&mut batch, *entry, found)?,
            }
        }
        // In storage order, so that the longest runs can be moved together.
        moved.sort_by_key(|(_, found)| found.place());
        moved.into_iter().try_for_each(|(entry, found)| push(&mut batch, entry, found))?;
        self.advance(taken.slots.len() as u64)?;
        Ok(batch)
    }

    /// Makes adjacent objects that are encoded as a whole.
    fn make_objects(&self, cells: &[Vec<u64>], context: &mut Context) -> Result<(), Error> {
        let mut wanted = Vec::with_capacity(cells.len());
        for cell in cells {
            if !self.is_mine(cell) {
                continue;
            }
            let (key, chunks) = (self.new.chunks.packing.key(cell)?, self.chunks_in(cell));
            if !self.is_kept(&key, &Note::Cell(cell.clone()), chunks)? {
                wanted.push((key, cell, chunks));
            }
        }
        let chunk = |i: usize| wanted.get(i).map_or(Vec::new(), |(_, cell, _)| (*cell).clone());
        self.reading_ahead(wanted.len(), &chunk, |ahead| {
            for (i, (key, cell, chunks)) in wanted.iter().enumerate() {
                self.make_object(key, cell, ahead.map(|ahead| (ahead, i)), context)?;
                self.advance(*chunks)?;
            }
            Ok(())
        })
    }

    /// The number of an object's chunks that lie in the array.
    fn chunks_in(&self, cell: &[u64]) -> u64 {
        let (_, bounds) = self.part_of(cell, self.new.cell_shape());
        bounds.iter().zip(self.new.chunk_shape()).map(|(&len, &n)| len.div_ceil(n)).product()
    }

    fn make_object(
        &self,
        key: &Key,
        cell: &[u64],
        ahead: Option<(&Ahead<'_, Fetched>, usize)>,
        context: &mut Context,
    ) -> Result<(), Error> {
        let mut encoded = context.take_buffer();
        let made = self.make(context, cell, ahead, &mut encoded)?;
        if !matches!(made, Made::Absent) {
            let options = CreateOptions { head: 0, condition: Condition::None };
            let writer = self.new.chunks.store.create(key, options)?;
            let len = match made {
                Made::Moved(StoredBytes { object, range: Some(range) }) => {
                    writer.append_from(&*object, range.clone())?;
                    object.check_unchanged()?;
                    range.end - range.start
                }
                _ => {
                    writer.append(&encoded)?;
                    encoded.len() as u64
                }
            };
            self.publish(writer.finish(&[])?, Note::Cell(cell.to_vec()), len)?;
        }
        context.give_buffer(encoded);
        Ok(())
    }

    /// Makes an object shared by chunks.
    fn make_shared(&self, packing: &dyn SharedPacking, object: &ObjectCells) -> Result<(), Error> {
        if !self.is_mine_shared(object.object) {
            return Ok(());
        }
        self.context.check()?;
        let cells = &object.cells;
        let key = packing.object_key(object.object)?;
        if self.is_kept(&key, &Note::Shared(object.clone()), cells.len() as u64)? {
            return Ok(());
        }
        let chunk = |i: usize| cells.get(i).and_then(|&cell| packing.cell(cell));
        let wanted = |i: usize| chunk(i).map_or(Vec::new(), |chunk| chunk.to_vec());
        self.reading_ahead(cells.len(), &wanted, |ahead| {
            let encode = |context: &mut Context, i: usize, _: OldValue<'_>, out: &mut Vec<u8>| {
                let Some(chunk) = chunk(i) else { return Ok(Encoded::Absent) };
                let made = self.make(context, &chunk, ahead.map(|ahead| (ahead, i)), out)?;
                self.advance(1)?;
                Ok(match made {
                    Made::Absent => Encoded::Absent,
                    Made::Bytes => Encoded::Value { before: 0 },
                    Made::Moved(StoredBytes { object, range }) => {
                        let Some(range) = range else {
                            out.extend_from_slice(&object.read(ReadRange::All)?);
                            return Ok(Encoded::Value { before: 0 });
                        };
                        Encoded::Moved { object, before: 0..0, range }
                    }
                })
            };
            let change = Change {
                object: object.object,
                keys: cells,
                replaces_all: true,
                keep_before: false,
                value_bytes: match self.relation {
                    Relation::Same if self.moves_in_kernel() => 0,
                    _ => self.chunk_bytes(),
                },
                inline: false,
                encode: &encode,
                publisher: &Noting { transfer: self, object },
            };
            packing.change(self.context.engine(), &change)
        })?;
        Ok(())
    }

    /// Writes an object with the engine's own writer.
    fn write(&self, cell: &[u64]) -> Result<(), Error> {
        if !self.is_mine(cell) {
            return Ok(());
        }
        self.context.check()?;
        let (start, shape) = self.part_of(cell, self.new.cell_shape());
        let (key, chunks) = (self.new.chunks.packing.key(cell)?, self.chunks_in(cell));
        if self.is_kept(&key, &Note::Cell(cell.to_vec()), chunks)? {
            return Ok(());
        }
        let options =
            WriteOptions::new().order(self.options.order).store_empty(self.options.store_empty);
        let source = PartOfSource { source: &self.source, start: start.clone() };
        let report = self.new.write_from(Region::of_box(&start, &shape), &source, &options)?;
        self.wrote_chunks(report.chunks_encoded, report.chunks_empty);
        self.wrote(report.objects_written, report.bytes_written);
        self.advance(chunks)
    }
}

/// Adds a moved chunk.
fn push(batch: &mut Batch, entry: usize, found: StoredBytes) -> Result<(), Error> {
    match found.range {
        Some(range) => {
            batch.unlocked = true;
            batch.push_moved(Some(entry), &found.object, range);
        }
        // An object of unknown length.
        None => match found.object.read(ReadRange::All) {
            Err(StoreError::NotFound { .. }) => {}
            bytes => batch.push_bytes(Some(entry), &bytes?),
        },
    }
    Ok(())
}
