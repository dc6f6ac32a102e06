//! Elements at listed positions: what numpy calls advanced indexing.
//!
//! Positions are grouped by chunk. A group whose elements lie in the result as they lie in the array
//! is read straight into place; of any other, the smallest box around it is read and its elements
//! are copied. So each chunk is decoded once, however many positions lie in it.

use std::ops::Range;

use shardine_codec::strided::{self, Axes, Placement};
use shardine_codec::{ElementSize, VariableElements};
use smallvec::SmallVec;

use super::Array;
use crate::Error;
use crate::engine::{Patch, WriteOptions, WriteReport};
use crate::layout::VariableTable;
use crate::selection::{Axis, RegionError, Selection};
use crate::source::{Source, SourceError};

/// Bytes of boxes that are read together before their elements are copied.
const TOGETHER: u64 = 32 << 20;

/// Boxes that are read or written in one call.
const BOXES: usize = 1 << 16;

/// One dimension of the elements that [`Array::read_picks`] and [`Array::write_picks`] pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Elements along an axis at even distances.
    Range {
        /// Which axis.
        axis: usize,
        /// Its elements.
        range: Axis,
    },
    /// Elements at listed positions: element `i` is at `lists[k][i]` along `axes[k]`.
    Points {
        /// Which axes.
        axes: Vec<usize>,
        /// The positions along each of them, as many for each.
        lists: Vec<Vec<u64>>,
    },
}

impl Pick {
    /// The number of elements along this dimension.
    pub fn count(&self) -> u64 {
        match self {
            Self::Range { range, .. } => range.count,
            Self::Points { lists, .. } => lists.first().map_or(0, Vec::len) as u64,
        }
    }
}

/// Points that lie in one chunk, as seen along their axes.
struct Group {
    /// Which points, in [`Points::order`].
    points: Range<usize>,
    /// The smallest box around them.
    low: SmallVec<[u64; 4]>,
    high: SmallVec<[u64; 4]>,
    /// Set if they are `count` points at even distances along one axis, in the result too.
    run: Option<Axis>,
}

/// Numbers the chunk that each point lies in, as far as its axes tell: shard by shard, and chunk by
/// chunk in each.
fn chunk_numbers(
    axes: &[usize],
    lists: &[Vec<u64>],
    array: &Array,
) -> Result<Vec<u128>, RegionError> {
    let too_large = || RegionError::TooLarge { shape: array.shape().to_vec() };
    let mut numbers: Vec<u128> = Vec::new();
    let count = lists.first().map_or(0, Vec::len);
    numbers.try_reserve_exact(count).map_err(|_| too_large())?;
    numbers.resize(count, 0);
    let mut most: u128 = 1;
    for within_cells in [false, true] {
        for (&axis, list) in axes.iter().zip(lists) {
            let (cell, chunk) = (array.cell_shape()[axis], array.chunk_shape()[axis]);
            let extent =
                if within_cells { cell.div_ceil(chunk) } else { array.shape()[axis] / cell + 1 };
            most = most.checked_mul(extent.into()).ok_or_else(too_large)?;
            for (number, &position) in numbers.iter_mut().zip(list) {
                let at = if within_cells { position % cell / chunk } else { position / cell };
                *number = *number * u128::from(extent) + u128::from(at);
            }
        }
    }
    Ok(numbers)
}

/// The points of one dimension.
struct Points<'a> {
    /// Which dimension of the result.
    dimension: usize,
    axes: &'a [usize],
    lists: &'a [Vec<u64>],
    /// The points by chunk, each chunk's in their own order.
    order: Vec<usize>,
    groups: Vec<Group>,
}

impl<'a> Points<'a> {
    fn new(
        dimension: usize,
        axes: &'a [usize],
        lists: &'a [Vec<u64>],
        array: &Array,
    ) -> Result<Self, RegionError> {
        let chunks = chunk_numbers(axes, lists, array)?;
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        if !chunks.is_sorted() {
            order.sort_by_key(|&point| chunks[point]);
        }
        let mut points = Self { dimension, axes, lists, order, groups: Vec::new() };
        let mut start = 0;
        while let Some(&first) = points.order.get(start) {
            let rest = &points.order[start..];
            let len = rest.iter().take_while(|&&point| chunks[point] == chunks[first]).count();
            let group = points.group(start..start + len);
            points.groups.push(group);
            start += len;
        }
        Ok(points)
    }

    /// The position of the point with this number in the order, along the axis with this number.
    fn position(&self, at: usize, axis: usize) -> u64 {
        self.lists[axis][self.order[at]]
    }

    fn group(&self, points: Range<usize>) -> Group {
        let along = |axis: usize| points.clone().map(move |at| self.position(at, axis));
        let axes = 0..self.axes.len();
        let low = axes.clone().map(|axis| along(axis).min().unwrap_or(0)).collect();
        let high = axes.map(|axis| along(axis).max().unwrap_or(0)).collect();
        let run = self.run(points.clone());
        Group { points, low, high, run }
    }

    /// The points as a range of one axis, if they are one.
    fn run(&self, points: Range<usize>) -> Option<Axis> {
        let count = points.len() as u64;
        let start = self.position(points.start, 0);
        if count == 1 {
            return Some(Axis { start, step: 1, count });
        }
        let [list] = self.lists else { return None };
        let order = &self.order[points];
        let step = list[order[1]].checked_sub(list[order[0]]).filter(|&step| step > 0)?;
        let even = |pair: &[usize]| {
            pair[1] == pair[0] + 1 && list[pair[1]].checked_sub(list[pair[0]]) == Some(step)
        };
        order.windows(2).all(even).then_some(Axis { start, step, count })
    }

    /// Whether every position in the box around a group is one of its points.
    fn is_dense(&self, group: &Group) -> bool {
        let extents = group.low.iter().zip(&group.high).map(|(low, high)| high - low + 1);
        let volume = extents.fold(1u64, u64::saturating_mul);
        if volume > group.points.len() as u64 {
            return false;
        }
        // No more than there are points.
        let mut seen = vec![false; volume as usize];
        for at in group.points.clone() {
            let boxes = group.low.iter().zip(&group.high).enumerate();
            let number = boxes.fold(0, |number, (axis, (&low, &high))| {
                number * (high - low + 1) + self.position(at, axis) - low
            });
            seen[number as usize] = true;
        }
        seen.iter().all(|&seen| seen)
    }

    /// Splits groups whose box covers its chunk although they do not cover it themselves: a write
    /// that covers a chunk does not look at what it held.
    fn split_false_covers(&mut self, array: &Array) {
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in std::mem::take(&mut self.groups) {
            let covers = self.axes.iter().zip(group.low.iter().zip(&group.high));
            let covers = covers.into_iter().all(|(&axis, (&low, &high))| {
                let chunk = array.chunk_shape()[axis];
                let end = (low / chunk + 1).saturating_mul(chunk).min(array.shape()[axis]);
                low % chunk == 0 && high + 1 == end
            });
            if !covers || self.is_dense(&group) {
                groups.push(group);
                continue;
            }
            let extents = group.low.iter().zip(&group.high).map(|(low, high)| high - low);
            let Some((axis, _)) = extents.enumerate().max_by_key(|(_, extent)| *extent) else {
                continue;
            };
            let middle = group.low[axis] + (group.high[axis] - group.low[axis]) / 2;
            let list = &self.lists[axis];
            let order = &mut self.order[group.points.clone()];
            order.sort_by_key(|&point| list[point] > middle);
            let cut = order.partition_point(|&point| list[point] <= middle) + group.points.start;
            for half in [group.points.start..cut, cut..group.points.end] {
                groups.push(self.group(half));
            }
        }
        self.groups = groups;
    }
}

/// Visits a point: its offset in memory, and its position relative to a box along each axis with
/// points.
type VisitPoint<'a> = dyn FnMut(usize, &[(usize, u64)]) -> Result<(), SourceError> + 'a;

/// What is picked, checked against an array.
struct Picked<'a> {
    /// Elements along each dimension.
    counts: Axes<usize>,
    /// The dimensions with points.
    points: Vec<Points<'a>>,
    /// The dimensions with ranges: dimension, axis, elements.
    ranges: SmallVec<[(usize, usize, Axis); 4]>,
}

/// One box of the array: a group of each dimension with points, and a part of each range.
struct PickBox {
    /// The number of a group for each dimension with points.
    groups: SmallVec<[usize; 2]>,
    /// The elements of each range before this part, and in it.
    parts: SmallVec<[(u64, u64); 4]>,
}

impl<'a> Picked<'a> {
    fn new(array: &Array, picks: &'a [Pick]) -> Result<Self, RegionError> {
        let shape = array.shape();
        let wrong = |reason| RegionError::Places { reason };
        let mut seen = vec![false; shape.len()];
        let mut see = |axis: usize| match seen.get_mut(axis) {
            Some(seen) if !*seen => {
                *seen = true;
                Ok(shape[axis])
            }
            _ => Err(wrong("each axis of the array is picked from once")),
        };
        let (mut points, mut ranges, mut counts) = (Vec::new(), SmallVec::new(), Axes::new());
        for (dimension, pick) in picks.iter().enumerate() {
            let count = usize::try_from(pick.count());
            counts.push(count.map_err(|_| RegionError::TooLarge { shape: vec![pick.count()] })?);
            match pick {
                Pick::Range { axis, range } => {
                    let len = see(*axis)?;
                    let last = range.count.saturating_sub(1).saturating_mul(range.step);
                    let last = last.saturating_add(range.start);
                    if range.step == 0 || (range.count > 0 && last >= len) {
                        return Err(RegionError::PastEnd { axis: *axis, start: last.into(), len });
                    }
                    ranges.push((dimension, *axis, *range));
                }
                Pick::Points { axes, lists } => {
                    if axes.is_empty() || axes.len() != lists.len() {
                        return Err(wrong("points have one list for each of their axes"));
                    }
                    for (&axis, list) in axes.iter().zip(lists) {
                        let len = see(axis)?;
                        if list.len() != lists[0].len() {
                            return Err(wrong("the lists of points have different lengths"));
                        }
                        if let Some(&past) = list.iter().find(|&&position| position >= len) {
                            return Err(RegionError::PastEnd { axis, start: past.into(), len });
                        }
                    }
                    points.push((dimension, axes, lists));
                }
            }
        }
        if !seen.iter().all(|&seen| seen) {
            return Err(wrong("each axis of the array is picked from once"));
        }
        let points = if counts.contains(&0) {
            Vec::new()
        } else {
            let points = points.into_iter();
            points
                .map(|(dimension, axes, lists)| Points::new(dimension, axes, lists, array))
                .collect::<Result<_, _>>()?
        };
        Ok(Self { counts, points, ranges })
    }

    fn is_empty(&self) -> bool {
        self.counts.contains(&0)
    }

    /// Along each range, how many elements a box has, so that it stays below the limit if it can.
    fn pieces(&self, array: &Array, element: u64) -> SmallVec<[u64; 4]> {
        let widest = |points: &Points<'_>| {
            let extents = points.groups.iter().map(|group| {
                let extents = group.low.iter().zip(&group.high).map(|(low, high)| high - low + 1);
                extents.fold(1u64, u64::saturating_mul)
            });
            extents.max().unwrap_or(1)
        };
        let points = self.points.iter().map(widest).fold(element, u64::saturating_mul);
        let mut counts: SmallVec<[u64; 4]> =
            self.ranges.iter().map(|(_, _, range)| range.count).collect();
        let bytes = |counts: &[u64]| counts.iter().copied().fold(points, u64::saturating_mul);
        for (i, &(_, axis, range)) in self.ranges.iter().enumerate() {
            // Whole chunks, so that each is decoded once.
            let chunk = (array.chunk_shape()[axis] / range.step).max(1);
            let excess = bytes(&counts).div_ceil(TOGETHER);
            if excess <= 1 {
                break;
            }
            let wanted = (counts[i] / excess).max(chunk);
            counts[i] = (wanted / chunk * chunk).min(counts[i]);
        }
        counts
    }

    /// Visits all boxes.
    fn each_box(
        &self,
        pieces: &[u64],
        visit: &mut dyn FnMut(PickBox) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let groups = self.points.iter().map(|points| points.groups.len() as u64);
        let parts = self.ranges.iter().zip(pieces);
        let parts = parts.map(|((_, _, range), &piece)| range.count.div_ceil(piece.max(1)));
        let limits: SmallVec<[u64; 8]> = groups.chain(parts).collect();
        let mut at: SmallVec<[u64; 8]> = SmallVec::from_elem(0, limits.len());
        loop {
            let (groups, parts) = at.split_at(self.points.len());
            let parts = parts.iter().zip(&self.ranges).zip(pieces);
            visit(PickBox {
                groups: groups.iter().map(|&group| group as usize).collect(),
                parts: parts
                    .map(|((&part, (_, _, range)), &piece)| {
                        let before = part * piece;
                        (before, piece.min(range.count - before))
                    })
                    .collect(),
            })?;
            let next = (0..at.len()).rev().find(|&i| at[i] + 1 < limits[i]);
            let Some(next) = next else { return Ok(()) };
            at[next] += 1;
            at[next + 1..].fill(0);
        }
    }

    /// The groups of a box.
    fn groups<'b>(&'b self, of: &'b PickBox) -> impl Iterator<Item = (&'b Points<'a>, &'b Group)> {
        let groups = self.points.iter().zip(&of.groups);
        groups.map(|(points, &group)| (points, &points.groups[group]))
    }

    /// The elements of the array in a box: all that lie around its points, or with `runs` exactly
    /// the points, which are runs then.
    fn selection(&self, of: &PickBox, rank: usize, runs: bool) -> Selection {
        let mut axes: SmallVec<[Axis; 4]> = SmallVec::from_elem(Axis::whole(1), rank);
        for (points, group) in self.groups(of) {
            for (i, &axis) in points.axes.iter().enumerate() {
                let (start, high) = (group.low[i], group.high[i]);
                axes[axis] = match group.run.filter(|_| runs && i == 0) {
                    Some(run) => run,
                    None => Axis { start, step: 1, count: high - start + 1 },
                };
            }
        }
        for (&(_, axis, range), &(before, count)) in self.ranges.iter().zip(&of.parts) {
            axes[axis] = Axis { start: range.start + before * range.step, step: range.step, count };
        }
        Selection { axes }
    }

    /// Where the elements of a box go if all its groups are runs; `None` if not.
    fn straight(&self, of: &PickBox, rank: usize, place: &Placement) -> Option<Placement> {
        let mut straight = Placement { start: place.start, strides: SmallVec::from_elem(0, rank) };
        for (points, group) in self.groups(of) {
            group.run?;
            let stride = place.strides[points.dimension];
            straight.start += points.order[group.points.start] * stride;
            straight.strides[points.axes[0]] = stride;
        }
        for (&(dimension, axis, _), &(before, _)) in self.ranges.iter().zip(&of.parts) {
            let stride = place.strides[dimension];
            straight.start += before as usize * stride;
            straight.strides[axis] = stride;
        }
        Some(straight)
    }

    /// Visits the points of a box, in the order of the result: the offset in `place`, and the
    /// position of the point relative to the box along each axis with points.
    fn each_point(
        &self,
        of: &PickBox,
        place: &Placement,
        visit: &mut VisitPoint<'_>,
    ) -> Result<(), SourceError> {
        let groups: SmallVec<[_; 2]> = self.groups(of).collect();
        let mut at: SmallVec<[usize; 2]> = groups.iter().map(|(_, g)| g.points.start).collect();
        let mut position: SmallVec<[(usize, u64); 4]> = SmallVec::new();
        loop {
            position.clear();
            let mut offset = place.start;
            for ((points, group), &at) in groups.iter().zip(&at) {
                offset += points.order[at] * place.strides[points.dimension];
                for (i, &axis) in points.axes.iter().enumerate() {
                    position.push((axis, points.position(at, i) - group.low[i]));
                }
            }
            visit(offset, &position)?;
            let next = (0..at.len()).rev().find(|&i| at[i] + 1 < groups[i].1.points.end);
            let Some(next) = next else { return Ok(()) };
            at[next] += 1;
            for (at, (_, group)) in at.iter_mut().zip(&groups).skip(next + 1) {
                *at = group.points.start;
            }
        }
    }
}

/// Copies one element, or the elements of the ranges that belong to one point.
fn copy(
    counts: &[usize],
    element: usize,
    (source, from): (&[u8], &Placement),
    (target, to): (&mut [u8], &Placement),
) -> Result<(), SourceError> {
    if counts.iter().all(|&count| count == 1) {
        let source = source.get(from.start..from.start + element);
        let target = target.get_mut(to.start..to.start + element);
        let (Some(source), Some(target)) = (source, target) else {
            return Err(Box::new(strided::OutOfMemory));
        };
        target.copy_from_slice(source);
        return Ok(());
    }
    strided::copy(counts, element, source, from, target, to)?;
    Ok(())
}

/// The elements that a box gets.
struct PickSource<'a> {
    picked: &'a Picked<'a>,
    of: PickBox,
    elements: &'a [u8],
    from: &'a Placement,
    element: usize,
}

impl Source for PickSource<'_> {
    fn element_size(&self) -> Option<usize> {
        Some(self.element)
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let picked = self.picked;
        let mut place = Placement { start: 0, strides: Axes::new() };
        let mut into = Placement { start: 0, strides: Axes::new() };
        let mut counts: Axes<usize> = Axes::new();
        let mut base = self.from.start;
        for (&(dimension, axis, _), &(before, _)) in picked.ranges.iter().zip(&self.of.parts) {
            let stride = self.from.strides[dimension];
            base += (before + start[axis]) as usize * stride;
            place.strides.push(stride);
            into.strides.push(to.strides[axis]);
            counts.push(shape[axis] as usize);
        }
        let from = Placement { start: base, strides: self.from.strides.clone() };
        picked.each_point(&self.of, &from, &mut |offset, position| {
            into.start = to.start;
            for &(axis, at) in position {
                let Some(at) = at.checked_sub(start[axis]).filter(|&at| at < shape[axis]) else {
                    return Ok(());
                };
                into.start += at as usize * to.strides[axis];
            }
            place.start = offset;
            copy(&counts, self.element, (self.elements, &place), (target, &into))
        })
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err("elements of variable length have no places".into())
    }
}

impl Array {
    /// Reads picked elements of fixed size, as little-endian bytes, to places that the caller
    /// chooses: element `i` goes to byte `place.start + sum(i[k] * place.strides[k])` of `out`.
    ///
    /// Each pick is a dimension of the result, and each axis of the array belongs to one of them.
    /// Each chunk is decoded once. No two elements of the result may have the same place; the same
    /// element of the array may be picked more than once. After an error the content of the places
    /// is unspecified.
    ///
    /// Needs memory for some boxes around the points, 32 MiB if chunks are smaller than that.
    ///
    /// ```
    /// # use shardine::{Array, Axis, Location, Pick, Placement};
    /// let array = Array::builder([3, 4], "uint8").create(&Location::memory())?;
    /// array.write(.., &[0u8, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23])?;
    ///
    /// // The last two columns of rows 2 and 0.
    /// let rows = Pick::Points { axes: vec![0], lists: vec![vec![2, 0]] };
    /// let columns = Pick::Range { axis: 1, range: Axis { start: 2, step: 1, count: 2 } };
    /// let mut out = [0; 4];
    /// let place = Placement::contiguous(&[2, 2], 1).ok_or("too large")?;
    /// array.read_picks(&[rows, columns], &mut out, &place)?;
    /// assert_eq!(out, [22, 23, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_picks(
        &self,
        picks: &[Pick],
        out: &mut [u8],
        place: &Placement,
    ) -> Result<(), Error> {
        let element = self.fixed_element()?;
        let picked = Picked::new(self, picks)?;
        place
            .check_distinct(&picked.counts, element, out.len())
            .map_err(|reason| RegionError::Places { reason })?;
        if picked.is_empty() {
            return Ok(());
        }
        let mut batch = ReadBatch::default();
        let pieces = picked.pieces(self, element as u64);
        picked.each_box(&pieces, &mut |of| {
            batch.add(self, &picked, of, place)?;
            if batch.is_full() {
                std::mem::take(&mut batch).read(self, &picked, out, place)?;
            }
            Ok(())
        })?;
        batch.read(self, &picked, out, place)
    }

    /// Writes elements of fixed size to picked places of the array: the reverse of
    /// [`read_picks`](Self::read_picks). Elements of the source may have the same place, so that one
    /// value goes to many. If an element of the array is picked more than once, the last one in C
    /// order of the picks wins.
    ///
    /// Each shard changes atomically, and once unless the picks are many; other elements of its
    /// chunks stay as they are, also beside other writers.
    ///
    /// ```
    /// # use shardine::{Array, Location, Pick, Placement, WriteOptions};
    /// let array = Array::builder([3, 4], "uint8").create(&Location::memory())?;
    /// let points = Pick::Points { axes: vec![0, 1], lists: vec![vec![0, 2, 2], vec![3, 1, 1]] };
    /// let place = Placement::contiguous(&[3], 1).ok_or("too large")?;
    /// array.write_picks(&[points], &[5, 6, 7], &place, &WriteOptions::new())?;
    /// assert_eq!(array.read::<u8>(..)?, [0, 0, 0, 5, 0, 0, 0, 0, 0, 7, 0, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_picks(
        &self,
        picks: &[Pick],
        elements: &[u8],
        place: &Placement,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let element = self.fixed_element()?;
        let mut picked = Picked::new(self, picks)?;
        if place.strides.len() != picked.counts.len() {
            let reason = "there must be one stride for each dimension";
            return Err(RegionError::Places { reason }.into());
        }
        let end = place.end(&picked.counts, element);
        if end.is_none_or(|end| end > elements.len()) {
            let reason = "they reach past the end of the buffer";
            return Err(RegionError::Places { reason }.into());
        }
        let mut report = WriteReport::default();
        if picked.is_empty() {
            return Ok(report);
        }
        for points in &mut picked.points {
            points.split_false_covers(self);
        }
        let picked = &picked;
        let whole: SmallVec<[u64; 4]> = picked.ranges.iter().map(|(_, _, r)| r.count).collect();
        let mut batch = Vec::new();
        picked.each_box(&whole, &mut |of| {
            let selection = picked.selection(&of, self.shape().len(), false);
            batch.push((selection, PickSource { picked, of, elements, from: place, element }));
            if batch.len() == BOXES {
                report.add(&self.write_batch(&std::mem::take(&mut batch), options)?);
            }
            Ok(())
        })?;
        if !batch.is_empty() {
            report.add(&self.write_batch(&batch, options)?);
        }
        Ok(report)
    }

    fn write_batch(
        &self,
        batch: &[(Selection, PickSource<'_>)],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        let patches = batch.iter();
        let patches: Vec<Patch<'_>> = patches
            .map(|(selection, source)| Patch { selection: selection.clone(), source })
            .collect();
        self.write_patches(&patches, options)
    }

    /// Bytes of an element, which must have a fixed size.
    fn fixed_element(&self) -> Result<usize, RegionError> {
        match self.data_type().size() {
            ElementSize::Fixed(element) => Ok(element),
            ElementSize::Variable => {
                let reason = "elements of variable length have no places";
                Err(RegionError::Places { reason })
            }
        }
    }
}

/// Boxes that are read together.
#[derive(Default)]
struct ReadBatch {
    /// What goes straight to its place.
    straight: Vec<(Selection, Placement)>,
    /// What is read into a buffer first.
    around: Vec<(Selection, Placement)>,
    boxes: Vec<PickBox>,
    bytes: usize,
}

impl ReadBatch {
    fn add(
        &mut self,
        array: &Array,
        picked: &Picked<'_>,
        of: PickBox,
        place: &Placement,
    ) -> Result<(), Error> {
        let rank = array.shape().len();
        if let Some(straight) = picked.straight(&of, rank, place) {
            self.straight.push((picked.selection(&of, rank, true), straight));
            return Ok(());
        }
        let selection = picked.selection(&of, rank, false);
        let mut around = array.c_order(&selection)?;
        around.start = self.bytes;
        let end = array.len_of(&selection)?.checked_add(self.bytes);
        self.bytes = end.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
        self.around.push((selection, around));
        self.boxes.push(of);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes as u64 >= TOGETHER || self.straight.len() + self.around.len() >= BOXES
    }

    fn read(
        self,
        array: &Array,
        picked: &Picked<'_>,
        out: &mut [u8],
        place: &Placement,
    ) -> Result<(), Error> {
        if !self.straight.is_empty() {
            array.consistently(&self.straight, &mut |array| {
                // SAFETY: the places of all picks are distinct, and each box has some of them.
                unsafe {
                    array.read_selections(&self.straight, out, &VariableTable::default(), false)
                }
            })?;
        }
        if self.around.is_empty() {
            return Ok(());
        }
        let too_large = || RegionError::TooLarge { shape: vec![self.bytes as u64] };
        let mut buffer = array.engine().memory_for_result(self.bytes).ok_or_else(too_large)?;
        array.consistently(&self.around, &mut |array| {
            // SAFETY: in C order no two elements have the same place, and each box begins where the
            // last one ends.
            unsafe {
                array.read_selections(&self.around, &mut buffer, &VariableTable::default(), false)
            }
        })?;
        let element = array.chunks.layout.element_size();
        for (of, (_, around)) in self.boxes.iter().zip(&self.around) {
            let mut to = Placement { start: 0, strides: Axes::new() };
            let mut from = Placement { start: 0, strides: Axes::new() };
            let mut counts: Axes<usize> = Axes::new();
            let mut base = place.start;
            for (&(dimension, axis, _), &(before, count)) in picked.ranges.iter().zip(&of.parts) {
                let stride = place.strides[dimension];
                base += before as usize * stride;
                to.strides.push(stride);
                from.strides.push(around.strides[axis]);
                counts.push(count as usize);
            }
            let base = Placement { start: base, strides: place.strides.clone() };
            let copied = picked.each_point(of, &base, &mut |offset, position| {
                to.start = offset;
                let inside = position.iter().map(|&(axis, at)| at as usize * around.strides[axis]);
                from.start = around.start + inside.sum::<usize>();
                copy(&counts, element, (&buffer, &from), (out, &to))
            });
            copied.map_err(|_| RegionError::Places { reason: "a box lies outside its memory" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Location;

    /// An array of the numbers of its elements.
    fn numbered(shape: &[u64], chunk: &[u64], shard: &[u64]) -> Array {
        let builder = Array::builder(shape, "uint32").chunks(chunk).shards(shard).fill(7);
        let array = builder.create(Location::memory()).unwrap().into_array();
        let count: u64 = shape.iter().product();
        array.write(.., &(0..count as u32).collect::<Vec<_>>()).unwrap();
        array
    }

    fn read(array: &Array, picks: &[Pick]) -> Vec<u32> {
        let counts: Vec<u64> = picks.iter().map(Pick::count).collect();
        let place = Placement::contiguous(&counts, 4).unwrap();
        let mut out = vec![0; counts.iter().product::<u64>() as usize * 4];
        array.read_picks(picks, &mut out, &place).unwrap();
        out.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn points(axes: &[usize], lists: &[&[u64]]) -> Pick {
        Pick::Points {
            axes: axes.to_vec(),
            lists: lists.iter().map(|list| list.to_vec()).collect(),
        }
    }

    fn range(axis: usize, start: u64, step: u64, count: u64) -> Pick {
        Pick::Range { axis, range: Axis { start, step, count } }
    }

    #[test]
    fn picks_come_in_the_order_of_the_dimensions() {
        let array = numbered(&[10, 20, 6], &[3, 4, 2], &[6, 8, 6]);
        let at = |i: u64, j: u64, k: u64| ((i * 20 + j) * 6 + k) as u32;
        let scattered = points(&[2, 0], &[&[5, 0, 5, 1], &[9, 0, 9, 2]]);
        let mut expected = Vec::new();
        for j in [1, 4, 7] {
            for (k, i) in [(5, 9), (0, 0), (5, 9), (1, 2)] {
                expected.push(at(i, j, k));
            }
        }
        assert_eq!(read(&array, &[range(1, 1, 3, 3), scattered]), expected);

        // Outer: every row with every column, unsorted and repeated.
        let (rows, columns) = ([9, 0, 4, 4], [3, 19, 0]);
        let outer = [points(&[1], &[&columns]), range(2, 0, 1, 6), points(&[0], &[&rows])];
        let mut expected = Vec::new();
        for j in columns {
            for k in 0..6 {
                expected.extend(rows.iter().map(|&i| at(i, j, k)));
            }
        }
        assert_eq!(read(&array, &outer), expected);
        assert_eq!(
            read(&array, &[points(&[0], &[&[]]), range(1, 0, 1, 20), range(2, 0, 1, 6)]),
            [0u32; 0]
        );
    }

    #[test]
    fn what_is_not_picked_stays_also_where_the_box_around_it_covers_the_chunk() {
        let array = numbered(&[8, 8], &[4, 4], &[8, 8]);
        // The corners of the first chunk, and all of another one but for one element.
        let mut lists = vec![vec![0, 3, 0, 3], vec![0, 0, 3, 3]];
        for (i, j) in (4..8).flat_map(|i| (4..8).map(move |j| (i, j))).filter(|at| *at != (5, 6)) {
            lists[0].push(i);
            lists[1].push(j);
        }
        let mut expected: Vec<u32> = (0..64).collect();
        for (&i, &j) in lists[0].iter().zip(&lists[1]) {
            expected[(i * 8 + j) as usize] = 1000;
        }
        let place = Placement { start: 0, strides: SmallVec::from_slice(&[0]) };
        let pick = Pick::Points { axes: vec![0, 1], lists };
        let value = 1000u32.to_le_bytes();
        let report = array.write_picks(&[pick], &value, &place, &WriteOptions::new()).unwrap();
        assert_eq!(array.read::<u32>(..).unwrap(), expected);
        assert_eq!((report.objects_written, report.chunks_encoded), (1, 2));
    }

    #[test]
    fn the_last_of_several_values_for_one_element_wins() {
        let array = numbered(&[8], &[4], &[8]);
        let place = Placement::contiguous(&[4], 4).unwrap();
        let values: Vec<u8> = [1u32, 2, 3, 4].iter().flat_map(|v| v.to_le_bytes()).collect();
        let pick = points(&[0], &[&[6, 1, 6, 1]]);
        array.write_picks(&[pick], &values, &place, &WriteOptions::new()).unwrap();
        assert_eq!(array.read::<u32>(..).unwrap(), [0, 4, 2, 3, 4, 5, 3, 7]);
    }

    #[test]
    fn picks_that_make_no_sense_are_refused() {
        let array = numbered(&[4, 4], &[4, 4], &[4, 4]);
        let place = Placement { start: 0, strides: SmallVec::from_slice(&[4, 4]) };
        let mut out = [0; 64];
        for picks in [
            vec![points(&[0], &[&[4]]), range(1, 0, 1, 1)],
            vec![points(&[0], &[&[0]]), range(1, 0, 2, 3)],
            vec![points(&[0], &[&[0]]), range(0, 0, 1, 1)],
            vec![points(&[0], &[&[0]]), range(2, 0, 1, 1)],
            vec![points(&[0, 1], &[&[0, 1], &[0]])],
            vec![points(&[0], &[&[0]])],
            // Two elements in one place.
            vec![points(&[0], &[&[0, 1]]), range(1, 0, 1, 2)],
        ] {
            assert!(array.read_picks(&picks, &mut out, &place).is_err(), "{picks:?}");
        }
    }
}
