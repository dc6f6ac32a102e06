//! One pass over a level, from which all levels of a stage are made.
//!
//! A worker takes a unit: it reads and decodes the chunks that a block of the finest new level is
//! made from, one by one, reduces each while it is in the cache, encodes the block, and reduces it
//! into the block above. The worker with the last part of a block encodes that too, and so on to
//! the coarsest level of the stage. So each chunk of the source is decoded once, each new one encoded
//! once, and no worker waits for another, except if it is far ahead.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use shardine_codec::{Context, Downsample, DownsampleMethod, ElementsRef};

use super::PyramidError;
use super::geometry::{Grid, Stage, grid_of};
use super::output::{GiveUp, LevelCounts, Made, MadeChunk, Output, OutputLevel};
use super::reader::{Reader, Reduced, memory};
use super::units::{Assembly, Occupied, Unit, Units, parent};
use crate::engine::{Cells, FirstError, on_threads};
use crate::jobs::rebuild::{is_plain, stored_extents};
use crate::jobs::{JobContext, JobProgress};
use crate::layout::{EncodeOptions, SourceView, Update};
use crate::selection::{Region, Selection};
use crate::source::MemorySource;
use crate::{Array, EngineError, Error};

/// A grid of more blocks than this is not walked: stored objects show where there is data.
const DENSE: u64 = 1 << 20;

/// A level that a pass makes.
pub(super) struct PassLevel<'a> {
    pub array: &'a Array,
    pub grid: &'a Grid,
    /// The objects of an earlier run.
    pub kept: HashSet<Vec<u64>>,
}

/// A pass, ready to run tasks.
pub(super) struct Pass<'a> {
    context: &'a JobContext,
    stage: &'a Stage,
    reader: Reader<'a>,
    grids: Vec<Grid>,
    outputs: Vec<OutputLevel<'a>>,
    kernels: Vec<Downsample>,
    kept: Vec<HashSet<Vec<u64>>>,
    occupied: Option<Occupied>,
    element: usize,
    /// Units that are done, for reports.
    done: AtomicU64,
    total: u64,
    bytes: AtomicU64,
    name: String,
}

impl<'a> Pass<'a> {
    /// A pass from `source` to `levels`, those of the stage. `name` is for reports.
    pub fn new(
        context: &'a JobContext,
        stage: &'a Stage,
        source: &'a Array,
        levels: Vec<PassLevel<'a>>,
        method: DownsampleMethod,
        name: &str,
    ) -> Result<Self, Error> {
        let mut pass = Self {
            context,
            stage,
            reader: Reader::new(source),
            grids: Vec::new(),
            outputs: Vec::new(),
            kernels: Vec::new(),
            kept: Vec::new(),
            occupied: None,
            element: source.chunks.layout.element_size(),
            done: AtomicU64::new(0),
            total: 0,
            bytes: AtomicU64::new(0),
            name: name.to_owned(),
        };
        for PassLevel { array, grid, kept } in levels {
            let kernel = Downsample::new(source.data_type(), method, &grid.factors);
            let at = || array.location().to_string();
            pass.kernels.push(kernel.map_err(|source| PyramidError::Method { at: at(), source })?);
            let shard = array.chunks.layout.addressable().filter(|shard| is_plain(shard));
            pass.outputs.push(OutputLevel { array, shard });
            pass.grids.push(grid.clone());
            pass.kept.push(kept);
        }
        pass.total = pass.unit_grid().iter().fold(1, |n, &len| n.saturating_mul(len));
        if pass.total > DENSE {
            pass.occupied = pass.find_data()?;
            if let Some(units) = pass.occupied.as_ref().and_then(|occupied| occupied.first()) {
                pass.total = units.len() as u64;
            }
        }
        Ok(pass)
    }

    fn unit_grid(&self) -> Vec<u64> {
        match (self.grids.first(), self.stage.blocks.first()) {
            (Some(grid), Some(block)) => grid_of(&grid.shape, block),
            _ => Vec::new(),
        }
    }

    /// The blocks that stored objects of the source reach into; `None` if that cannot be told.
    fn find_data(&self) -> Result<Option<Occupied>, Error> {
        let (Some(grid), Some(block)) = (self.grids.first(), self.stage.blocks.first()) else {
            return Ok(None);
        };
        let extents = match stored_extents(self.reader.array()) {
            Err(Error::UnlistedObjects { .. }) => return Ok(None),
            extents => extents?,
        };
        let mut occupied: Occupied = vec![HashSet::new()];
        for extent in extents {
            let axes = || extent.iter().zip(block).zip(&grid.factors);
            let each = |((_, &n), &f): ((_, &u64), &u64)| n.saturating_mul(f).max(1);
            let first: Vec<u64> = axes().map(|one| one.0.0.start / each(one)).collect();
            let end = axes().map(|one| one.0.0.end.div_ceil(each(one)));
            let count = end.zip(&first).map(|(end, &first)| end.saturating_sub(first)).collect();
            let cells = Cells::new(count);
            if cells.count.saturating_add(occupied[0].len() as u64) > DENSE << 6 {
                return Ok(None);
            }
            occupied[0].extend(cells.map(|inside| -> Vec<u64> {
                first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
            }));
        }
        for level in 0..self.grids.len() - 1 {
            let above = occupied[level].iter();
            let above = above.map(|at| parent(self.stage, &self.grids, level, at)).collect();
            occupied.push(above);
        }
        Ok(Some(occupied))
    }

    /// The places of all tasks that may have something to do, in order.
    pub fn tasks(&self) -> Vec<Vec<u64>> {
        let (Some(grid), Some(block)) = (self.grids.last(), self.stage.blocks.last()) else {
            return Vec::new();
        };
        let cells = Cells::new(grid_of(&grid.shape, &self.stage.task));
        let Some(occupied) = self.occupied.as_ref().and_then(|occupied| occupied.last()) else {
            return cells.collect();
        };
        let task_of = |at: &Vec<u64>| -> Vec<u64> {
            let axes = at.iter().zip(block).zip(&self.stage.task);
            axes.map(|((&at, &n), &task)| at.saturating_mul(n) / task.max(1)).collect()
        };
        let tasks: std::collections::BTreeSet<Vec<u64>> = occupied.iter().map(task_of).collect();
        tasks.into_iter().collect()
    }

    /// Runs a task. Its objects are durable and visible afterwards.
    pub fn run(&self, at: &[u64]) -> Result<Vec<LevelCounts>, Error> {
        let engine = self.context.engine();
        let output = Output::new(engine, &self.outputs);
        let assembly = Assembly::default();
        let is_stored = |level: usize, at: &[u64]| self.is_stored(level, at);
        let units =
            Units::new(self.stage, &self.grids, at, self.occupied.as_ref(), &is_stored, &assembly);
        let units = Mutex::new(units);
        let first_error = FirstError::default();
        let (cost, parents) = self.memory();
        let available = engine.memory_in_flight().saturating_sub(parents);
        let affordable = usize::try_from(available / cost).unwrap_or(usize::MAX).max(1);
        let work = |context: &mut Context, window: usize| {
            let _guard = GiveUp(&output);
            while !first_error.is_set() {
                let next = units.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(unit) = next else { break };
                if !output.wait_for_turn(unit.number, window as u64) {
                    break;
                }
                let made = self
                    .context
                    .check()
                    .and_then(|()| self.make(context, &output, &assembly, unit))
                    .and_then(|()| self.advance());
                if let Err(error) = made {
                    first_error.set(error);
                    output.give_up();
                }
            }
        };
        let source = self.reader.array();
        let far = engine.at_once(&*source.chunks.store, cost).min(affordable);
        if source.chunks.store.read_cost().local {
            let workers = engine.threads().min(affordable);
            let window = affordable.min(workers * 4);
            let _permit = engine.admit(cost.saturating_mul(window as u64).saturating_add(parents));
            engine.share(workers, workers, &|_, context| work(context, window));
        } else {
            // These wait for the store. What they read counts for itself.
            on_threads(far, &|| engine.with_context(|context| work(context, far * 2)));
        }
        first_error.into_result()?;
        if !assembly.into_inner().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Err(self.lost());
        }
        let counts = output.finish()?;
        let bytes = counts.iter().map(|counts| counts.bytes).sum();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(counts)
    }

    /// Bytes for a unit that is under way, and for the blocks above all of them.
    fn memory(&self) -> (u64, u64) {
        let bytes = |block: &Vec<u64>| {
            block.iter().fold(self.element as u64, |n, &len| n.saturating_mul(len))
        };
        let mut blocks = self.stage.blocks.iter().map(bytes);
        let unit = blocks.next().unwrap_or(1);
        let parents = blocks.fold(0u64, |sum, block| sum.saturating_add(block.saturating_mul(2)));
        let read = match (self.grids.first(), self.stage.blocks.first()) {
            (Some(grid), Some(block)) => {
                let axes = block.iter().zip(&grid.factors);
                let shape: Vec<u64> = axes.map(|(&n, &f)| n.saturating_mul(f)).collect();
                self.reader.memory(&shape, &grid.factors)
            }
            _ => 0,
        };
        // Its elements, a chunk of them while it is encoded, and the encoded ones.
        (unit.saturating_mul(3).saturating_add(read).max(1), parents)
    }

    fn advance(&self) -> Result<(), Error> {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.context.is_watched() {
            let bytes = self.bytes.load(Ordering::Relaxed);
            let progress = JobProgress::steps(&self.name, done.min(self.total), self.total);
            self.context.report(JobProgress { bytes, ..progress });
        }
        Ok(())
    }

    /// Where a block begins, and how much of it lies in the array.
    fn extent(&self, level: usize, at: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let (block, shape) = (&self.stage.blocks[level], &self.grids[level].shape);
        let start: Vec<u64> = at.iter().zip(block).map(|(&i, &n)| i.saturating_mul(n)).collect();
        let axes = start.iter().zip(block).zip(shape);
        let bounds = axes.map(|((&at, &n), &len)| n.min(len.saturating_sub(at))).collect();
        (start, bounds)
    }

    /// The chunks of a block: where each begins, and how much of it lies in the array.
    fn pieces(&self, level: usize, at: &[u64]) -> Vec<(Vec<u64>, Vec<u64>)> {
        let (start, bounds) = self.extent(level, at);
        let piece = &self.grids[level].piece;
        let place = |cell: Vec<u64>| {
            let axes = || cell.iter().zip(piece).zip(&start).zip(&bounds);
            let at = axes().map(|(((&i, &n), &start), _)| start + i * n).collect();
            let extent = axes().map(|(((&i, &n), _), &len)| n.min(len - i * n)).collect();
            (at, extent)
        };
        Cells::new(grid_of(&bounds, piece)).map(place).collect()
    }

    /// The object that holds the chunk that begins at an element.
    fn object_of(&self, level: usize, start: &[u64]) -> Vec<u64> {
        start.iter().zip(&self.grids[level].object).map(|(&at, &n)| at / n.max(1)).collect()
    }

    /// Whether all objects of a block are stored already.
    fn is_stored(&self, level: usize, at: &[u64]) -> bool {
        let kept = &self.kept[level];
        !kept.is_empty()
            && self
                .pieces(level, at)
                .iter()
                .all(|(start, _)| kept.contains(&self.object_of(level, start)))
    }

    /// Makes a unit, and the blocks above that it completes.
    fn make(
        &self,
        context: &mut Context,
        output: &Output<'_>,
        assembly: &Assembly,
        unit: Unit,
    ) -> Result<(), Error> {
        let Unit { number, mut at, mut is_needed } = unit;
        let mut elements = self.unit(context, &at, is_needed)?;
        let (made, empty) = self.encode(context, output, 0, &at, elements.as_deref())?;
        output.deliver(number, made)?;
        if empty && let Some(elements) = elements.take() {
            context.give_buffer(elements);
        }
        for level in 0..self.grids.len() - 1 {
            let above = parent(self.stage, &self.grids, level, &at);
            let key = (level + 1, above);
            let waiting = {
                let assembly = assembly.lock().unwrap_or_else(PoisonError::into_inner);
                assembly.get(&key).cloned()
            };
            let Some(waiting) = waiting else { return Err(self.lost()) };
            let mut state = waiting.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(elements) = elements.take() {
                if is_needed {
                    let so_far = state.elements.take();
                    let put = self.put(context, level, &at, &key.1, &elements, so_far)?;
                    state.elements = Some(put);
                }
                context.give_buffer(elements);
            }
            state.missing = state.missing.saturating_sub(1);
            if state.missing > 0 {
                return Ok(());
            }
            let Some(number) = state.number else { return Err(self.lost()) };
            elements = state.elements.take();
            is_needed = waiting.is_needed;
            drop(state);
            assembly.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            at = key.1;
            let (made, empty) =
                self.encode(context, output, level + 1, &at, elements.as_deref())?;
            output.deliver(number, made)?;
            if empty && let Some(elements) = elements.take() {
                context.give_buffer(elements);
            }
        }
        if let Some(elements) = elements {
            context.give_buffer(elements);
        }
        Ok(())
    }

    /// A bug of ours, which must not become a level with holes.
    fn lost(&self) -> Error {
        PyramidError::Misfit { shape: self.stage.task.clone() }.into()
    }

    /// The elements of a unit; `None` if all are the fill value, or nobody needs them.
    fn unit(
        &self,
        context: &mut Context,
        at: &[u64],
        is_needed: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (start, bounds) = self.extent(0, at);
        if self.is_stored(0, at) {
            if !is_needed {
                return Ok(None);
            }
            let mut elements = memory(context, &bounds, self.element)?;
            let region = Region::of_box(&start, &bounds);
            self.outputs[0].array.read_bytes_into(region, &mut elements)?;
            return Ok(Some(elements));
        }
        let (grid, block) = (&self.grids[0], &self.stage.blocks[0]);
        let mut reduced = Reduced {
            shape: &bounds,
            element: self.element,
            fill: &self.outputs[0].array.fill().0,
            elements: None,
        };
        let (kernel, factors) = (&self.kernels[0], &grid.factors);
        self.reader.reduce(context, kernel, factors, &start, block, &mut reduced)?;
        Ok(reduced.elements)
    }

    /// Reduces a block into the one above it, which is begun if there is nothing of it yet.
    fn put(
        &self,
        context: &mut Context,
        level: usize,
        at: &[u64],
        above: &[u64],
        elements: &[u8],
        so_far: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Error> {
        let (start, shape) = self.extent(level, at);
        let (above_start, above_shape) = self.extent(level + 1, above);
        let axes = start.iter().zip(&self.grids[level + 1].factors).zip(&above_start);
        let to: Vec<u64> = axes.map(|((&at, &f), &above)| (at / f).saturating_sub(above)).collect();
        let mut reduced = Reduced {
            shape: &above_shape,
            element: self.element,
            fill: &self.outputs[level + 1].array.fill().0,
            elements: so_far,
        };
        reduced.begin(context)?;
        reduced.put(context, &self.kernels[level + 1], &shape, elements, &to)?;
        reduced.elements.ok_or_else(|| self.lost())
    }

    /// Encodes the chunks of a block whose objects are not stored yet. Returns whether all of its
    /// elements are known to be the fill value.
    fn encode(
        &self,
        context: &mut Context,
        output: &Output<'_>,
        level: usize,
        at: &[u64],
        elements: Option<&[u8]>,
    ) -> Result<(Made, bool), Error> {
        let OutputLevel { array, shard } = &self.outputs[level];
        let (block_start, block_shape) = self.extent(level, at);
        let mut made = Made { level, chunks: Vec::new(), bytes: Vec::new() };
        let mut empty = true;
        let source = match elements {
            Some(elements) => {
                made.bytes = output.spare();
                let elements = ElementsRef::Fixed(elements);
                Some(MemorySource::new(elements, &block_shape, Some(self.element))?)
            }
            None => None,
        };
        for (start, extent) in self.pieces(level, at) {
            let cell = self.object_of(level, &start);
            if self.kept[level].contains(&cell) {
                // Nothing is known about its elements.
                empty = false;
                continue;
            }
            let axes = start.iter().zip(&self.grids[level].piece);
            let chunk: Vec<u64> = axes.map(|(&at, &n)| at / n.max(1)).collect();
            let (layout, entry) = match shard {
                Some(shard) => {
                    let (_, path) = array.chunks.layout.find_chunk(&chunk);
                    (&shard.inner, path.first().map_or(0, |&entry| entry as usize))
                }
                None => (array.chunks.layout_of(&cell), 0),
            };
            let Some(source) = &source else {
                made.chunks.push(MadeChunk { cell, entry, range: None });
                continue;
            };
            let selection = Selection::whole(&extent);
            let inside = start.iter().zip(&block_start).map(|(&a, &b)| a - b).collect();
            let update = Update {
                selection: &selection,
                bounds: &extent,
                source: SourceView::new(source, inside),
                options: EncodeOptions::default(),
            };
            let from = made.bytes.len();
            let outcome = layout.update(context, None, &update, &mut made.bytes);
            let outcome = outcome.map_err(|source| match array.chunks.packing.key(&cell) {
                Ok(object) => Error::from(EngineError::encode(&object, &chunk, source)),
                Err(error) => error.into(),
            })?;
            let range = outcome.stored.then_some(from..made.bytes.len());
            empty &= range.is_none();
            made.chunks.push(MadeChunk { cell, entry, range });
        }
        Ok((made, empty))
    }
}
