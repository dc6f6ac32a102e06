//! The elements of an array, asked for along the axes of a volume.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::VariableElements;
use shardine_codec::strided::{self, Placement};

use super::super::repack::block;
use super::view::View;
use crate::source::extents;
use crate::{Array, Region, Source, SourceError};

/// The most bytes of a block that is decoded as a whole.
const MOST_BLOCK: u64 = 16 << 20;

/// An array as the source of a write to another one.
pub(super) struct ViewSource<'a> {
    array: &'a Array,
    view: &'a View,
    blocks: Option<Blocks>,
}

/// In which order chunks are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As in an array in C order.
    Rows,
    /// Along a Morton curve, or nearly so.
    Morton,
}

/// A multiple of `unit` of up to `most` bytes whose parts are asked for one after the other.
fn grown(mut unit: Vec<u64>, shape: &[u64], element: u64, most: u64, order: Order) -> Vec<u64> {
    let bytes = |shape: &[u64]| shape.iter().fold(element, |n, &len| n.saturating_mul(len));
    let mut counts = vec![1u64; unit.len()];
    while bytes(&unit).saturating_mul(2) <= most {
        let mut open = (0..unit.len()).filter(|&axis| unit[axis] < shape[axis]);
        let next = match order {
            Order::Rows => open.next_back(),
            Order::Morton => open.min_by_key(|&axis| counts[axis]),
        };
        let Some(axis) = next else { break };
        unit[axis] = unit[axis].saturating_mul(2);
        counts[axis] *= 2;
    }
    unit
}

/// Blocks that are decoded as a whole and asked for in parts: where chunks of the array are larger than those that are made of
/// them. The last ones are kept.
struct Blocks {
    /// By axis of the array.
    shape: Vec<u64>,
    kept: Mutex<VecDeque<(Vec<u64>, Arc<Block>)>>,
    most: usize,
}

struct Block {
    start: Vec<u64>,
    shape: Vec<u64>,
    /// `None` until the first who wants it has decoded it.
    elements: Mutex<Option<Vec<u8>>>,
}

impl<'a> ViewSource<'a> {
    /// For chunks of this shape, by axis of a volume. If all of them are asked for, `order` is how.
    pub fn new(array: &'a Array, view: &'a View, chunk: &[u64], order: Option<Order>) -> Self {
        let threads = array.engine.threads().max(1);
        let memory = array.engine.memory_in_flight();
        let most = (memory / (8 * threads as u64)).min(MOST_BLOCK);
        let chunk = view.to_array(chunk);
        let mut block = block(array, &chunk, most);
        if !array.grid.store.read_cost().local
            && let Some(order) = order
        {
            // Many requests at once take little longer than one.
            let unit = view.to_volume(block.as_ref().unwrap_or(&chunk));
            let element = array.grid.layout.element_size() as u64;
            let grown = grown(unit, &view.to_volume(array.shape()), element, most, order);
            block = Some(view.to_array(&grown));
        }
        let blocks = block.filter(|block| *block != chunk).map(|shape| {
            // A worker needs one, and those of its neighbours may be needed again.
            let (kept, most) = (Mutex::default(), threads.saturating_mul(2));
            Blocks { shape, kept, most }
        });
        Self { array, view, blocks }
    }

    fn element(&self) -> usize {
        self.array.grid.layout.element_size()
    }
}

impl Blocks {
    /// The block that has the element at `at`, which may not be decoded yet.
    fn get(&self, at: &[u64], array: &[u64]) -> Arc<Block> {
        let number: Vec<u64> = at.iter().zip(&self.shape).map(|(&at, &n)| at / n).collect();
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
        let shape = axes.map(|((&start, &n), &len)| n.min(len - start)).collect();
        let block = Arc::new(Block { start, shape, elements: Mutex::new(None) });
        if kept.len() >= self.most {
            kept.pop_front();
        }
        kept.push_back((number, Arc::clone(&block)));
        block
    }
}

impl Source for ViewSource<'_> {
    fn element_size(&self) -> Option<usize> {
        Some(self.element())
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let (start, shape) = (self.view.to_array(start), self.view.to_array(shape));
        let strides = self.view.to_array(&to.strides);
        let to = Placement { start: to.start, strides: strides.into_iter().collect() };
        let Some(blocks) = &self.blocks else {
            return Ok(self.array.read_placed(&Region::of_box(&start, &shape), target, &to)?);
        };
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
            self.array.read_into(&Region::of_box(&block.start, &block.shape), &mut memory)?;
            *elements = Some(memory);
        }
        let memory = elements.as_deref().unwrap_or_default();
        strided::copy(&extents(&shape), element, memory, &place, target, &to)?;
        Ok(())
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err("a volume has elements of a fixed size".into())
    }
}
