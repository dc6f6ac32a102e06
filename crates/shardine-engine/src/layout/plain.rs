//! Chunks whose bytes are their elements: any part can be read without the rest.

use std::ops::Range;

use shardine_codec::strided::{self, Axes, OutOfMemory, Placement};
use shardine_codec::{Context, ElementSize, Endian};

use super::Leaf;
use super::decode::{DecodeError, Target, counts};
use crate::selection::{Axis, Selection};

/// Bytes of a plain chunk that are read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainRun {
    /// The elements of the chunk needed from them.
    pub selection: Selection,
    /// Their offset in the selection that the run is part of.
    pub at: Axes<u64>,
    /// The bytes, from the first needed element to the last.
    pub bytes: Range<usize>,
}

impl Leaf {
    /// The runs of bytes that hold the selected elements of a chunk that is stored as it lies in
    /// memory.
    ///
    /// A hole of up to `gap` bytes does not end a run, and a run has at most `most` bytes unless a
    /// single element is larger. `None` if the chunk has to be decoded as a whole.
    pub fn plain_runs(
        &self,
        selection: &Selection,
        gap: usize,
        most: usize,
    ) -> Option<Vec<PlainRun>> {
        self.codec.plain()?;
        let ElementSize::Fixed(element) = self.codec.spec().data_type.size() else { return None };
        let mut order: Axes<usize> = (0..self.strides.len()).collect();
        order.sort_by(|&a, &b| self.strides[b].cmp(&self.strides[a]));
        let mut runs = Vec::new();
        let at = Axes::from_elem(0, selection.axes.len());
        let cutter = Cutter { leaf: self, order, element, gap, most };
        cutter.cut(0, selection.clone(), at, &mut runs);
        Some(runs)
    }

    /// The part of the target that `len` stored bytes fill unchanged, if the selection is
    /// contiguous there.
    ///
    /// The bytes must be those of the selection: the whole chunk if all of it is selected, or a run
    /// of it.
    ///
    /// # Safety
    /// Nobody else may touch the box at `place` while the slice lives.
    pub unsafe fn plain_place<'a>(
        &self,
        selection: &Selection,
        target: &Target<'a>,
        place: &Placement,
        len: u64,
    ) -> Option<&'a mut [u8]> {
        // Elements in memory are little-endian on every machine.
        if self.codec.plain() != Some(Endian::Little) || target.table.is_some() {
            return None;
        }
        let len = usize::try_from(len).ok()?;
        let shape = counts(selection);
        // As many bytes as elements take, at the same strides: neither side has holes.
        let from = self.selected(selection);
        let axes = shape.iter().zip(from.strides.iter().zip(&place.strides));
        let alike = axes.clone().all(|(&n, (a, b))| n == 1 || a == b);
        let whole = selection.bytes(target.element) == len as u64
            && from.end(&shape, target.element)? - from.start == len;
        if !(alike && whole) {
            return None;
        }
        // SAFETY: upheld by the caller; the box has no holes, so it is this slice.
        unsafe { target.window.slice(place.start, len) }
    }

    /// Puts the elements of a run in place; `bytes` are the run's, `skipped` is the number of the
    /// chunk's bytes before it.
    ///
    /// # Safety
    /// Nobody else may touch the box at `place` at the same time.
    pub unsafe fn decode_run(
        &self,
        context: &mut Context,
        bytes: &[u8],
        skipped: usize,
        selection: &Selection,
        target: &Target<'_>,
        place: &Placement,
    ) -> Result<(), DecodeError> {
        let mut from = self.selected(selection);
        from.start = from.start.checked_sub(skipped).ok_or(OutOfMemory)?;
        let swapped = match self.codec.plain() {
            Some(Endian::Big) => {
                let mut swapped = context.take_filled(bytes.len())?;
                swapped.copy_from_slice(bytes);
                let units = self.codec.spec().data_type.swap_units();
                strided::swap_units(&mut swapped, target.element, units);
                Some(swapped)
            }
            _ => None,
        };
        let source = swapped.as_deref().unwrap_or(bytes);
        let shape = counts(selection);
        // SAFETY: upheld by the caller.
        unsafe {
            strided::copy_into(&shape, target.element, source, &from, &target.window, place)?;
        }
        if let Some(swapped) = swapped {
            context.give_buffer(swapped);
        }
        Ok(())
    }
}

struct Cutter<'a> {
    leaf: &'a Leaf,
    /// The axes, widest stride first.
    order: Axes<usize>,
    element: usize,
    gap: usize,
    most: usize,
}

impl Cutter<'_> {
    /// Splits along the axes from number `k` on.
    fn cut(&self, k: usize, selection: Selection, at: Axes<u64>, runs: &mut Vec<PlainRun>) {
        let Some(&axis) = self.order.get(k) else {
            return runs.push(self.run(selection, at));
        };
        let Axis { start, step, count } = selection.axes[axis];
        if count == 1 {
            return self.cut(k + 1, selection, at, runs);
        }
        let stride = self.leaf.strides[axis] * step as usize;
        let inner = self.span(k + 1, &selection);
        let together = if stride - inner.min(stride) > self.gap {
            1
        } else {
            // As many as fit, the last one without the hole after it.
            (self.most.saturating_sub(inner) / stride + 1) as u64
        };
        if together >= count {
            return runs.push(self.run(selection, at));
        }
        for first in (0..count).step_by(together as usize) {
            let mut part = selection.clone();
            let count = together.min(count - first);
            part.axes[axis] = Axis { start: start + first * step, step, count };
            let mut at = at.clone();
            at[axis] += first;
            if together == 1 {
                self.cut(k + 1, part, at, runs);
            } else {
                runs.push(self.run(part, at));
            }
        }
    }

    /// Bytes from the first selected element to the last along the axes from number `k` on.
    fn span(&self, k: usize, selection: &Selection) -> usize {
        let axes = self.order[k..].iter().map(|&axis| {
            let Axis { step, count, .. } = selection.axes[axis];
            if count > 1 {
                (count - 1) as usize * step as usize * self.leaf.strides[axis]
            } else {
                0
            }
        });
        axes.sum::<usize>() + self.element
    }

    fn run(&self, selection: Selection, at: Axes<u64>) -> PlainRun {
        let start = self.leaf.selected(&selection).start;
        let bytes = start..start + self.span(0, &selection);
        PlainRun { selection, at, bytes }
    }
}
