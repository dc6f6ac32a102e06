//! The elements of an array, asked for along the axes of a volume.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::VariableElements;
use shardine_codec::strided::{self, Placement};

use super::super::repack::block;
use super::view::View;
use crate::engine::tuning::MAX_BLOCK;
use crate::source::extents;
use crate::{Array, Region, Source, SourceError};

/// An array as the source of a write to another one.
pub(super) struct ViewSource<'a> {
    array: &'a Array,
    view: &'a View,
    blocks: Option<Blocks>,
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
    /// For chunks of this shape, by axis of a volume.
    pub fn new(array: &'a Array, view: &'a View, chunk: &[u64]) -> Self {
        let threads = array.engine().threads().max(1);
        let memory = array.engine().memory_in_flight();
        let most = (memory / (8 * threads as u64)).min(MAX_BLOCK);
        let chunk = view.to_array(chunk, 1);
        let blocks = block(array, &chunk, most).filter(|block| *block != chunk).map(|shape| {
            // A worker needs one, and those of its neighbours may be needed again.
            let (kept, most) = (Mutex::default(), threads.saturating_mul(2));
            Blocks { shape, kept, most }
        });
        Self { array, view, blocks }
    }

    fn element(&self) -> usize {
        self.array.chunks.layout.element_size()
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
        let (start, shape) = (self.view.to_array(start, 0), self.view.to_array(shape, 1));
        let strides = self.view.to_array(&to.strides, 0);
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
