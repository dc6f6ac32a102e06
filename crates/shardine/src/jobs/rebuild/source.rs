//! The elements of an array, addressed along the axes of another one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::strided::{self, Placement};
use shardine_codec::{ElementSize, Elements, VariableElements};

use super::axes::AxisMap;
use crate::engine::tuning::MAX_BLOCK;
use crate::source::extents;
use crate::{Array, Error, Region, Source, SourceError};

/// An array as the source of a write to another one, in the coordinates of the latter.
pub(in crate::jobs) struct ArraySource<'a> {
    array: &'a Array,
    axes: &'a AxisMap,
    blocks: Option<Blocks>,
}

/// Blocks that are decoded whole and requested in parts, where the array's chunks are larger than
/// those made from them, or not aligned with them. The last ones are cached.
struct Blocks {
    /// By axis of the array.
    shape: Vec<u64>,
    kept: Mutex<VecDeque<(Vec<u64>, Arc<Block>)>>,
    most: usize,
}

struct Block {
    start: Vec<u64>,
    shape: Vec<u64>,
    /// `None` until the first reader has decoded it.
    elements: Mutex<Option<Vec<u8>>>,
}

impl<'a> ArraySource<'a> {
    /// For boxes of this shape, along the axes of the new array.
    pub fn new(array: &'a Array, axes: &'a AxisMap, unit: &[u64]) -> Self {
        let threads = array.engine().threads().max(1);
        let memory = array.engine().memory_in_flight();
        let most = (memory / (8 * threads as u64)).min(MAX_BLOCK);
        let unit = axes.to_old(unit, 1);
        let blocks = block(array, &unit, most).filter(|block| *block != unit).map(|shape| {
            // Each worker needs one, and its neighbours' may be needed again.
            let (kept, most) = (Mutex::default(), threads.saturating_mul(2));
            Blocks { shape, kept, most }
        });
        Self { array, axes, blocks }
    }

    /// The shape of the blocks that are decoded whole, along the axes of the new array.
    pub fn block_shape(&self) -> Option<Vec<u64>> {
        self.blocks.as_ref().map(|blocks| self.axes.to_new(&blocks.shape, 1))
    }

    /// The block that contains an element of the new array, so that everything from one block can
    /// be made together.
    pub fn block_of(&self, start: &[u64]) -> Option<Vec<u64>> {
        let blocks = self.blocks.as_ref()?;
        Some(blocks.number(&self.axes.to_old(start, 0)))
    }

    /// Reads a box of elements, bypassing the blocks.
    pub fn read(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), Error> {
        let (start, shape) = (self.axes.to_old(start, 0), self.axes.to_old(shape, 1));
        let strides = self.axes.to_old(&to.strides, 0);
        let to = Placement { start: to.start, strides: strides.into_iter().collect() };
        self.array.read_bytes_placed(Region::of_box(&start, &shape), target, &to)
    }

    fn element(&self) -> usize {
        self.array.chunks.layout.element_size()
    }
}

impl Blocks {
    fn number(&self, at: &[u64]) -> Vec<u64> {
        at.iter().zip(&self.shape).map(|(&at, &n)| at / n).collect()
    }

    /// The block that contains the element at `at`; it may not be decoded yet.
    fn get(&self, at: &[u64], array: &[u64]) -> Arc<Block> {
        let number = self.number(at);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = kept.iter().position(|(known, _)| *known == number)
            && let Some(found) = kept.remove(i)
        {
            let block = Arc::clone(&found.1);
            kept.push_back(found);
            return block;
        }
        let start: Vec<u64> = number.iter().zip(&self.shape).map(|(&i, &n)| i * n).collect();
        let axes = start.iter().zip(&self.shape).zip(array);
        let shape = axes.map(|((&start, &n), &len)| n.min(len.saturating_sub(start))).collect();
        let block = Arc::new(Block { start, shape, elements: Mutex::new(None) });
        if kept.len() >= self.most {
            kept.pop_front();
        }
        kept.push_back((number, Arc::clone(&block)));
        block
    }
}

impl Source for ArraySource<'_> {
    fn element_size(&self) -> Option<usize> {
        match self.array.data_type().size() {
            ElementSize::Fixed(size) => Some(size),
            ElementSize::Variable => None,
        }
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let Some(blocks) = &self.blocks else {
            return Ok(self.read(start, shape, target, to)?);
        };
        let (start, shape) = (self.axes.to_old(start, 0), self.axes.to_old(shape, 1));
        let strides = self.axes.to_old(&to.strides, 0);
        let to = Placement { start: to.start, strides: strides.into_iter().collect() };
        let element = self.element();
        let block = blocks.get(&start, self.array.shape());
        let from = Placement::contiguous(&block.shape, element).ok_or(strided::OutOfMemory)?;
        let offset = start.iter().zip(&block.start).zip(&from.strides);
        let offset = offset.map(|((&at, &start), &stride)| (at - start) as usize * stride).sum();
        let place = Placement { start: offset, strides: from.strides.clone() };
        let mut elements = block.elements.lock().unwrap_or_else(PoisonError::into_inner);
        if elements.is_none() {
            let len = from.end(&extents(&block.shape), element).ok_or(strided::OutOfMemory)?;
            let mut memory = vec![0; len];
            self.array.read_bytes_into(Region::of_box(&block.start, &block.shape), &mut memory)?;
            *elements = Some(memory);
        }
        let memory = elements.as_deref().unwrap_or_default();
        strided::copy(&extents(&shape), element, memory, &place, target, &to)?;
        Ok(())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        if !self.axes.is_identity() {
            return Err("elements of variable length keep the order of their axes".into());
        }
        match self.array.read_elements(Region::of_box(start, shape))? {
            Elements::Variable(elements) => Ok(elements),
            Elements::Fixed(_) => Err("the array has elements of a fixed size".into()),
        }
    }

    fn together(&self, start: &[u64]) -> Option<Vec<u64>> {
        self.block_of(start)
    }
}

fn bytes(shape: &[u64], element: u64) -> u64 {
    shape.iter().fold(element, |n, &len| n.saturating_mul(len))
}

/// The shape of boxes of new objects or chunks that are best decoded together: a multiple of the
/// chunks of both arrays, as far as `most` bytes allow. `None` if no two new objects share an old
/// chunk.
fn block(old: &Array, new: &[u64], most: u64) -> Option<Vec<u64>> {
    let old_chunk = old.chunk_shape();
    if old.data_type().size() == ElementSize::Variable
        || new.iter().zip(old_chunk).all(|(&new, &old)| new % old == 0)
    {
        return None;
    }
    // How many new chunks make a multiple of the old.
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
    while bytes(&block, old.chunks.layout.element_size() as u64) > most {
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
