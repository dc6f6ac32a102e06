//! Splits a region that is larger than memory into parts to read one by one.

use crate::{Axis, Region, Selection};

/// The order in which the parts must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The parts make up the region in C order: for a stream.
    Sequential,
    /// Any order: for a file, where each part has its own place.
    Any,
}

/// A part of a region. Coordinates are relative to the region: its first element is at the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slab {
    pub start: Vec<u64>,
    pub shape: Vec<u64>,
}

impl Slab {
    /// The part as a region of the array.
    pub fn region(&self, axes: &[Axis]) -> Region {
        let parts = axes.iter().zip(&self.start).zip(&self.shape).map(|((axis, &at), &count)| {
            // The part lies in the region and the region in the array, so this does not saturate.
            let start = axis.start.saturating_add(at.saturating_mul(axis.step));
            Axis { start, step: axis.step, count }
        });
        Region::from(&Selection { axes: parts.collect() })
    }
}

/// How an axis is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Whole,
    /// After this many selected elements.
    Selected(u64),
    /// At every multiple of this many elements of the array.
    Aligned(u64),
}

/// The parts of a region, in C order of their positions, made lazily.
#[derive(Debug, Clone)]
pub struct Slabs {
    axes: Vec<Axis>,
    cuts: Vec<Cut>,
    at: Vec<u64>,
    done: bool,
}

/// Cuts a region into parts of at most `budget` bytes, or of one element where that is more.
///
/// Cuts lie between chunks where the budget allows, so that no chunk is decoded twice, and between
/// shards where it allows that. In [`Order::Sequential`] a part is a run of leading rows, so with a
/// budget below a row of chunks some are decoded more than once; in [`Order::Any`] that only
/// happens with a budget below one chunk.
pub fn plan(
    axes: &[Axis],
    chunk: &[u64],
    shard: Option<&[u64]>,
    element: u64,
    budget: u64,
    order: Order,
) -> Slabs {
    let shard = shard.unwrap_or(chunk);
    let budget = (budget / element.max(1)).max(1);
    let grids: Vec<(u64, u64)> =
        chunk.iter().zip(shard).map(|(&chunk, &shard)| (chunk.max(1), shard.max(1))).collect();
    let boxes = match order {
        Order::Any => cut_boxes(axes, &grids, budget),
        Order::Sequential => None,
    };
    let cuts = boxes.unwrap_or_else(|| cut_rows(axes, &grids, budget));
    let done = axes.iter().any(|axis| axis.count == 0);
    Slabs { axes: axes.to_vec(), cuts, at: vec![0; axes.len()], done }
}

/// Cuts an axis into parts of at most `most` selected elements, between chunks if possible.
fn cut(axis: Axis, (chunk, shard): (u64, u64), most: u64) -> Cut {
    if most >= axis.count {
        return Cut::Whole;
    }
    // This many elements of the array hold at most `most` selected ones, wherever they begin.
    let span = most.saturating_mul(axis.step);
    match (span / shard * shard, span / chunk * chunk) {
        (shards @ 1.., _) => Cut::Aligned(shards),
        (0, chunks @ 1..) => Cut::Aligned(chunks),
        (0, 0) => Cut::Selected(most),
    }
}

/// Runs of leading rows.
fn cut_rows(axes: &[Axis], grids: &[(u64, u64)], budget: u64) -> Vec<Cut> {
    let mut cuts = vec![Cut::Whole; axes.len()];
    let mut left = budget;
    for k in (0..axes.len()).rev() {
        cuts[k] = cut(axes[k], grids[k], left);
        if cuts[k] != Cut::Whole {
            cuts[..k].fill(Cut::Selected(1));
            break;
        }
        left /= axes[k].count.max(1);
        if left == 0 {
            cuts[..k].fill(Cut::Selected(1));
            break;
        }
    }
    cuts
}

/// Boxes of whole chunks, long along the last axes; `None` if one chunk exceeds the budget.
fn cut_boxes(axes: &[Axis], grids: &[(u64, u64)], budget: u64) -> Option<Vec<Cut>> {
    // The most selected elements in a chunk, along each axis.
    let one: Vec<u64> = axes
        .iter()
        .zip(grids)
        .map(|(axis, (chunk, _))| chunk.div_ceil(axis.step).min(axis.count).max(1))
        .collect();
    let mut size = one.iter().try_fold(1u64, |n, &m| n.checked_mul(m))?;
    if size > budget {
        return None;
    }
    let mut cuts: Vec<Cut> = grids.iter().map(|&(chunk, _)| Cut::Aligned(chunk)).collect();
    for k in (0..axes.len()).rev() {
        let rest = size / one[k];
        cuts[k] = cut(axes[k], grids[k], budget / rest);
        if cuts[k] != Cut::Whole {
            break;
        }
        size = rest * axes[k].count.max(1);
    }
    Some(cuts)
}

impl Slabs {
    /// The number of selected elements along an axis in the part that begins at `at`.
    fn extent(&self, k: usize) -> u64 {
        let (axis, at) = (self.axes[k], self.at[k]);
        let left = axis.count - at;
        match self.cuts[k] {
            Cut::Whole => left,
            Cut::Selected(n) => left.min(n),
            Cut::Aligned(n) => {
                let first = axis.start.saturating_add(at.saturating_mul(axis.step));
                (n - first % n).div_ceil(axis.step).min(left)
            }
        }
    }
}

impl Iterator for Slabs {
    type Item = Slab;

    fn next(&mut self) -> Option<Slab> {
        if self.done {
            return None;
        }
        let shape: Vec<u64> = (0..self.axes.len()).map(|k| self.extent(k)).collect();
        let slab = Slab { start: self.at.clone(), shape };
        self.done = true;
        for k in (0..self.axes.len()).rev() {
            self.at[k] += slab.shape[k];
            if self.at[k] < self.axes[k].count {
                self.done = false;
                break;
            }
            self.at[k] = 0;
        }
        Some(slab)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(shape: &[u64]) -> Vec<Axis> {
        shape.iter().map(|&n| Axis::whole(n)).collect()
    }

    fn shapes(slabs: Slabs) -> Vec<Vec<u64>> {
        slabs.map(|slab| slab.shape).collect()
    }

    #[test]
    fn what_fits_is_one_part() {
        for order in [Order::Sequential, Order::Any] {
            let slabs = plan(&whole(&[10, 10]), &[4, 4], None, 2, 200, order);
            assert_eq!(shapes(slabs), [[10, 10]]);
            assert_eq!(shapes(plan(&[], &[], None, 8, 1, order)), [[0u64; 0]]);
        }
    }

    #[test]
    fn nothing_has_no_parts() {
        let slabs = plan(&whole(&[10, 0]), &[4, 4], None, 2, 200, Order::Any);
        assert_eq!(slabs.count(), 0);
    }

    #[test]
    fn rows_are_cut_between_chunks_and_shards() {
        let axes = whole(&[100, 10]);
        // 30 rows fit: 28 are whole chunks.
        let slabs = plan(&axes, &[4, 4], None, 1, 300, Order::Sequential);
        assert_eq!(shapes(slabs), [[28, 10], [28, 10], [28, 10], [16, 10]]);
        // 24 of them are whole shards.
        let slabs = plan(&axes, &[4, 4], Some(&[12, 4]), 1, 300, Order::Sequential);
        assert_eq!(shapes(slabs)[..2], [[24, 10], [24, 10]]);
        // Not even one chunk's rows fit.
        let slabs = plan(&axes, &[4, 4], None, 1, 30, Order::Sequential);
        assert_eq!(shapes(slabs)[0], [3, 10]);
    }

    #[test]
    fn a_region_that_begins_inside_a_chunk_is_cut_where_the_next_begins() {
        let axes = [Axis { start: 3, step: 1, count: 20 }, Axis::whole(1)];
        let slabs = plan(&axes, &[4, 4], None, 1, 9, Order::Sequential);
        assert_eq!(shapes(slabs), [[5, 1], [8, 1], [7, 1]]);
    }

    #[test]
    fn a_file_is_filled_in_boxes_of_whole_chunks_where_rows_are_too_long() {
        let axes = whole(&[100, 1000]);
        let slabs = plan(&axes, &[10, 10], None, 1, 2500, Order::Any);
        assert_eq!(shapes(slabs)[0], [10, 250]);
        let slabs = plan(&axes, &[10, 10], None, 1, 25_000, Order::Any);
        assert_eq!(shapes(slabs)[0], [20, 1000]);
        // A chunk that exceeds the budget leaves rows.
        let slabs = plan(&axes, &[10, 10], None, 1, 50, Order::Any);
        assert_eq!(shapes(slabs)[0], [1, 50]);
    }

    #[test]
    fn a_part_is_a_region_of_the_array() {
        let axes = [Axis { start: 3, step: 2, count: 20 }, Axis::whole(7)];
        let slab = Slab { start: vec![5, 1], shape: vec![4, 2] };
        let selection = slab.region(&axes).resolve(&[60, 7]).unwrap();
        assert_eq!(selection.axes[0], Axis { start: 13, step: 2, count: 4 });
        assert_eq!(selection.axes[1], Axis { start: 1, step: 1, count: 2 });
    }

    fn axis() -> impl Strategy<Value = (Axis, u64, u64)> {
        (0u64..20, 1u64..5, 1u64..30, 1u64..9, 1u64..4).prop_map(
            |(start, step, count, chunk, chunks)| {
                (Axis { start, step, count }, chunk, chunk * chunks)
            },
        )
    }

    proptest! {
        #[test]
        fn every_element_is_in_one_part_and_no_part_is_too_large(
            axes in proptest::collection::vec(axis(), 0..4),
            element in 1u64..9,
            budget in 1u64..5000,
            sequential: bool,
        ) {
            let order = if sequential { Order::Sequential } else { Order::Any };
            let chunk: Vec<u64> = axes.iter().map(|a| a.1).collect();
            let shard: Vec<u64> = axes.iter().map(|a| a.2).collect();
            let axes: Vec<Axis> = axes.iter().map(|a| a.0).collect();
            let shape: Vec<u64> = axes.iter().map(|a| a.count).collect();
            let total: u64 = shape.iter().product();
            let mut seen = vec![false; total as usize];
            let mut next = 0;
            for slab in plan(&axes, &chunk, Some(&shard), element, budget, order) {
                let n: u64 = slab.shape.iter().product();
                prop_assert!(n == 1 || n * element <= budget);
                for i in 0..n {
                    let (mut i, mut at, mut stride) = (i, 0, 1);
                    for k in (0..shape.len()).rev() {
                        at += (slab.start[k] + i % slab.shape[k]) * stride;
                        i /= slab.shape[k];
                        stride *= shape[k];
                    }
                    prop_assert!(!seen[at as usize]);
                    seen[at as usize] = true;
                    if order == Order::Sequential {
                        prop_assert_eq!(at, next);
                        next += 1;
                    }
                }
            }
            prop_assert!(seen.into_iter().all(|seen| seen));
        }
    }
}
