//! Encodes chunks anew where their shape or their codecs are to be others, each part of the old array decoded once where
//! the two shapes allow it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::strided::{self, Axes, Placement};
use shardine_codec::{Context, ElementSize, Elements, VariableElements};
use shardine_store::{Condition, CreateOptions, StoreExt};

use super::build::{Build, Tally};
use super::{RepackError, RepackProgress};
use crate::engine::Cells;
use crate::engine::tuning::MAX_BLOCK;
use crate::layout::{EncodeOptions, SourceView, Update};
use crate::selection::Selection;
use crate::source::{MemorySource, extents};
use crate::{Array, EngineError, Error, Region, Source, SourceError, WriteOptions};

/// Elements are compared in boxes of about so many bytes.
const COMPARED: u64 = 4 << 20;

impl Build<'_> {
    pub(super) fn recode_all(&self) -> Result<(), Error> {
        if self.new.streams() { self.recode_shards() } else { self.recode_objects() }
    }

    /// Writes large shards one after the other, with all workers at each.
    fn recode_shards(&self) -> Result<(), Error> {
        let new = self.new;
        let chunk_bytes = bytes(new.chunk_shape(), element(new)).max(1);
        let total = self.chunk_count();
        let done = Arc::new(AtomicU64::new(0));
        let mut options = WriteOptions::new().order(self.options.order);
        if let Some(tell) = self.options.progress.clone() {
            let (done, array) = (Arc::clone(&done), self.path.to_owned());
            options = options.progress(Arc::new(move |bytes| {
                let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                let done = done.div_ceil(chunk_bytes).min(total);
                tell(RepackProgress { array: array.clone(), done, total });
            }));
        }
        let block = block(self.old, new.chunk_shape(), most_block(self.old));
        for cell in self.boxes(new.chunks.cell_shape(), false)? {
            let (start, shape) = self.part(&cell, new.chunks.cell_shape());
            if self.resumed && self.is_there(&cell)? {
                self.kept();
                done.fetch_add(bytes(&shape, element(new)), Ordering::Relaxed);
                continue;
            }
            let source = ArraySource::new(self.old, &start, &shape, block.as_deref());
            let report = new.write_from(&Region::of_box(&start, &shape), &source, &options)?;
            let (recoded, empty) = (report.chunks_encoded, report.chunks_empty);
            self.add(Tally { moved: 0, recoded, empty });
            self.wrote(report.objects_written, report.bytes_written);
        }
        Ok(())
    }

    /// Writes objects that are encoded in memory, a block of them at a time for each worker.
    fn recode_objects(&self) -> Result<(), Error> {
        let cell_shape = self.new.chunks.cell_shape();
        let block = block(self.old, cell_shape, most_block(self.old));
        let block = block.unwrap_or_else(|| cell_shape.to_vec());
        let blocks = self.boxes(&block, false)?;
        self.new.engine().each_task(blocks, &|at, context| {
            let (start, shape) = self.part(&at, &block);
            let axes = || start.iter().zip(&shape).zip(cell_shape);
            let first: Vec<u64> = axes().map(|((&start, _), &n)| start / n).collect();
            let count = axes().map(|((_, &len), &n)| len.div_ceil(n)).collect();
            let mut cells = Vec::new();
            for inside in Cells::new(count) {
                let cell: Vec<u64> = first.iter().zip(&inside).map(|(&a, &b)| a + b).collect();
                if self.resumed && self.is_there(&cell)? {
                    self.kept();
                    self.advance(self.chunks_in(&cell));
                } else {
                    cells.push(cell);
                }
            }
            if cells.is_empty() {
                return Ok(());
            }
            let elements = self.old.read(&Region::of_box(&start, &shape))?;
            let size = match self.old.data_type().size() {
                ElementSize::Fixed(size) => Some(size),
                ElementSize::Variable => None,
            };
            let source = MemorySource::new(elements.as_ref(), &shape, size)?;
            cells.iter().try_for_each(|cell| self.recode_object(context, cell, &source, &start))
        })?;
        self.publisher.finish()?;
        Ok(())
    }

    fn recode_object(
        &self,
        context: &mut Context,
        cell: &[u64],
        source: &MemorySource<'_>,
        origin: &[u64],
    ) -> Result<(), Error> {
        let grid = &self.new.chunks;
        let key = grid.packing.key(cell)?;
        let (start, bounds) = self.part(cell, grid.cell_shape());
        let at: Axes<u64> = start.iter().zip(origin).map(|(&a, &b)| a - b).collect();
        let selection = Selection::whole(&bounds);
        let update = Update {
            selection: &selection,
            bounds: &bounds,
            source: SourceView::new(source, at),
            options: EncodeOptions { order: self.options.order, store_empty: false },
        };
        let mut encoded = context.take_buffer();
        let outcome = grid
            .layout
            .update(context, None, &update, &mut encoded)
            .map_err(|source| EngineError::encode(&key, cell, source))?;
        if outcome.stored {
            let options = CreateOptions { head: 0, condition: Condition::None };
            let writer = grid.store.create(&key, options)?;
            writer.append(&encoded)?;
            let len = encoded.len() as u64;
            self.wrote(1, len);
            self.publisher.add(writer.finish(&[])?, cell.to_vec(), len)?;
        }
        context.give_buffer(encoded);
        self.count(Tally { moved: 0, recoded: outcome.encoded, empty: outcome.empty });
        Ok(())
    }

    /// Where a cell of a grid of such boxes begins, and how much of it lies in the array.
    fn part(&self, cell: &[u64], shape: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let start: Vec<u64> = cell.iter().zip(shape).map(|(&i, &n)| i * n).collect();
        let axes = start.iter().zip(shape).zip(self.new.shape());
        let part = axes.map(|((&start, &n), &len)| n.min(len - start)).collect();
        (start, part)
    }

    /// Chunks of an object that lie in the array.
    fn chunks_in(&self, cell: &[u64]) -> u64 {
        let (_, shape) = self.part(cell, self.new.chunks.cell_shape());
        shape.iter().zip(self.new.chunk_shape()).map(|(&len, &n)| len.div_ceil(n)).product()
    }

    /// Whether an earlier run has made this object.
    fn is_there(&self, cell: &[u64]) -> Result<bool, Error> {
        Ok(self.new.chunks.store.contains(&self.new.chunks.packing.key(cell)?)?)
    }

    /// Decodes all that is stored of both arrays, and compares.
    pub(super) fn compare_elements(&self) -> Result<(), Error> {
        let most = COMPARED.min(most_block(self.old));
        let unit = grown(self.new.chunk_shape(), self.new.shape(), element(self.new), most);
        self.new.engine().each_task(self.boxes(&unit, true)?, &|at, _| {
            let (start, shape) = self.part(&at, &unit);
            let region = Region::of_box(&start, &shape);
            if self.old.read(&region)? == self.new.read(&region)? {
                return Ok(());
            }
            Err(RepackError::Elements { start, shape }.into())
        })
    }
}

fn element(array: &Array) -> u64 {
    array.chunks.layout.element_size() as u64
}

fn bytes(shape: &[u64], element: u64) -> u64 {
    shape.iter().fold(element, |n, &len| n.saturating_mul(len))
}

/// The most bytes of a block: what the budget has for each worker, beside what is encoded from it.
fn most_block(array: &Array) -> u64 {
    let each = array.engine().memory_in_flight() / (4 * array.engine().threads() as u64);
    each.min(MAX_BLOCK)
}

/// The shape of boxes of new objects or chunks that are best decoded together: a multiple of the chunks of both arrays, as far
/// as `most` bytes allow. `None` if one new object has all of the old chunks that it is made from to itself.
pub(in crate::jobs) fn block(old: &Array, new: &[u64], most: u64) -> Option<Vec<u64>> {
    let old_chunk = old.chunk_shape();
    if old.data_type().size() == ElementSize::Variable
        || new.iter().zip(old_chunk).all(|(&new, &old)| new % old == 0)
    {
        return None;
    }
    // How many new ones are a multiple of the old.
    let common = |new: u64, old: u64| {
        let (mut x, mut y) = (new, old);
        while y != 0 {
            (x, y) = (y, x % y);
        }
        old / x
    };
    let axes = new.iter().zip(old_chunk).zip(old.shape());
    let mut block: Vec<u64> = axes
        .map(|((&new, &old), &len)| {
            let count = common(new, old).min(len.div_ceil(new)).max(1);
            count.checked_mul(new).unwrap_or(new)
        })
        .collect();
    while bytes(&block, element(old)) > most {
        let widest = (0..block.len()).max_by_key(|&axis| block[axis] / new[axis])?;
        let count = block[widest] / new[widest];
        if count < 2 {
            break;
        }
        block[widest] = count.div_ceil(2) * new[widest];
        if count == 2 || count == 3 {
            block[widest] = (count - 1) * new[widest];
        }
    }
    Some(block)
}

/// A multiple of `unit` of about `most` bytes.
fn grown(unit: &[u64], shape: &[u64], element: u64, most: u64) -> Vec<u64> {
    let mut grown = unit.to_vec();
    for axis in (0..unit.len()).rev() {
        while grown[axis] < shape[axis] && bytes(&grown, element).saturating_mul(2) <= most {
            grown[axis] = grown[axis].saturating_mul(2);
        }
    }
    grown
}

/// The elements of a region of an array, for another one.
struct ArraySource<'a> {
    array: &'a Array,
    start: &'a [u64],
    shape: &'a [u64],
    blocks: Option<Blocks<'a>>,
}

/// Blocks that are decoded as a whole and asked for in parts.
struct Blocks<'a> {
    shape: &'a [u64],
    loaded: Mutex<HashMap<Vec<u64>, Arc<Block>>>,
    /// Memory of blocks that were used up.
    spare: Mutex<Vec<Vec<u8>>>,
}

struct Block {
    start: Vec<u64>,
    shape: Vec<u64>,
    /// `None` until the first who wants it has decoded it.
    elements: Mutex<Option<Vec<u8>>>,
    /// Elements that nobody has asked for yet.
    left: AtomicU64,
}

impl<'a> ArraySource<'a> {
    fn new(array: &'a Array, start: &'a [u64], shape: &'a [u64], block: Option<&'a [u64]>) -> Self {
        let blocks =
            block.map(|shape| Blocks { shape, loaded: Mutex::default(), spare: Mutex::default() });
        Self { array, start, shape, blocks }
    }

    fn absolute(&self, start: &[u64]) -> Vec<u64> {
        self.start.iter().zip(start).map(|(&a, &b)| a + b).collect()
    }

    /// The block that has the element at `at`, which may not be decoded yet.
    fn block(&self, blocks: &Blocks<'_>, at: &[u64]) -> (Vec<u64>, Arc<Block>) {
        let number: Vec<u64> = at.iter().zip(blocks.shape).map(|(&at, &n)| at / n).collect();
        let mut loaded = blocks.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let block = loaded.entry(number.clone()).or_insert_with(|| {
            // Blocks are those of the array; the region has a part of those at its edges.
            let axes = || number.iter().zip(blocks.shape).zip(self.start.iter().zip(self.shape));
            let start: Vec<u64> = axes().map(|((&i, &n), (&from, _))| from.max(i * n)).collect();
            let ends = axes().map(|((&i, &n), (&from, &len))| {
                from.saturating_add(len).min((i * n).saturating_add(n))
            });
            let shape: Vec<u64> = ends.zip(&start).map(|(end, &start)| end - start).collect();
            let left = AtomicU64::new(shape.iter().product());
            Arc::new(Block { start, shape, elements: Mutex::new(None), left })
        });
        (number, Arc::clone(block))
    }

    fn copy_from_block(
        &self,
        blocks: &Blocks<'_>,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let element = element(self.array) as usize;
        let (number, block) = self.block(blocks, start);
        let from = Placement::contiguous(&block.shape, element).ok_or(strided::OutOfMemory)?;
        let offset = start.iter().zip(&block.start).zip(&from.strides);
        let offset = offset.map(|((&at, &start), &stride)| (at - start) as usize * stride).sum();
        let place = Placement { start: offset, strides: from.strides.clone() };
        {
            let mut elements = block.elements.lock().unwrap_or_else(PoisonError::into_inner);
            if elements.is_none() {
                let len = from.end(&extents(&block.shape), element).ok_or(strided::OutOfMemory)?;
                let spare = blocks.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let mut memory = spare.unwrap_or_default();
                memory.resize(len, 0);
                self.array.read_into(&Region::of_box(&block.start, &block.shape), &mut memory)?;
                *elements = Some(memory);
            }
            let memory = elements.as_deref().unwrap_or_default();
            strided::copy(&extents(shape), element, memory, &place, target, to)?;
        }
        let count: u64 = shape.iter().product();
        if block.left.fetch_sub(count, Ordering::AcqRel) <= count {
            blocks.loaded.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            let memory = block.elements.lock().unwrap_or_else(PoisonError::into_inner).take();
            blocks.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(memory);
        }
        Ok(())
    }
}

impl Source for ArraySource<'_> {
    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let start = self.absolute(start);
        match &self.blocks {
            Some(blocks) => self.copy_from_block(blocks, &start, shape, target, to),
            None => Ok(self.array.read_placed(&Region::of_box(&start, shape), target, to)?),
        }
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        match self.array.read(&Region::of_box(&self.absolute(start), shape))? {
            Elements::Variable(elements) => Ok(elements),
            Elements::Fixed(_) => Err("the array has elements of a fixed size".into()),
        }
    }

    fn together(&self, start: &[u64]) -> Option<Vec<u64>> {
        let blocks = self.blocks.as_ref()?;
        let at = self.absolute(start);
        Some(at.iter().zip(blocks.shape).map(|(&at, &n)| at / n).collect())
    }
}
