//! The elements of two arrays against each other, box by box.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use shardine_codec::strided::Placement;
use shardine_codec::{Distance, ElementSize};

use super::operand::Operand;
use super::report::ElementsDiffer;
use crate::engine::{Cells, FirstError};
use crate::jobs::JobContext;
use crate::jobs::rebuild::{AxisMap, ChunkFinder, has_same_bytes, stored_extents};
use crate::store::StoreError;
use crate::{Array, Error, RegionError};

/// Elements are compared in boxes of about so many bytes, where chunks are smaller.
const COMPARED: u64 = 4 << 20;

/// The least, however little memory there is.
const LEAST: u64 = 64 << 10;

/// Of a grid of more boxes, stored objects say where there is something.
const DENSE: u64 = 1 << 17;

/// The most boxes that are kept in memory; of more, the whole grid is gone through.
const MOST_BOXES: u64 = 1 << 20;

/// What an element of variable length is taken to need.
const VARIABLE: u64 = 64;

/// So many chunks may differ as they are stored, and be decoded, before it counts how many do not.
const TRIED: u64 = 16;

/// Two arrays of one shape and type.
pub(super) struct Pair<'a> {
    context: &'a JobContext,
    a: Operand<'a>,
    b: Operand<'a>,
    /// Which axis of A each axis of B is.
    axes: &'a AxisMap,
    own_axes: AxisMap,
    encoded: Option<Encoded<'a>>,
    same_chunks: AtomicU64,
    other_chunks: AtomicU64,
    tally: Mutex<Tally>,
}

/// Chunks that can be compared as they are stored.
struct Encoded<'a> {
    a: ChunkFinder<'a>,
    b: ChunkFinder<'a>,
    chunk: Vec<u64>,
    /// Whether chunks at the end of an axis are stored alike too.
    edges: bool,
}

#[derive(Default)]
struct Tally {
    count: u64,
    largest: Option<Distance>,
    first: Option<First>,
}

/// The first element that differs, along the axes of A.
struct First {
    at: Vec<u64>,
    a: Vec<u8>,
    b: Vec<u8>,
}

/// What came of a pair.
pub(super) struct PairOutcome {
    pub elements: u64,
    pub chunks_not_decoded: u64,
    pub differ: Option<ElementsDiffer>,
}

impl<'a> Pair<'a> {
    pub fn new(context: &'a JobContext, a: Operand<'a>, b: Operand<'a>, axes: &'a AxisMap) -> Self {
        let encoded = match (a.array(), b.array()) {
            (Some(first), Some(second)) => Encoded::of(first, axes, second),
            _ => None,
        };
        Self {
            context,
            a,
            b,
            axes,
            own_axes: AxisMap::identity(a.shape().len()),
            encoded,
            same_chunks: AtomicU64::new(0),
            other_chunks: AtomicU64::new(0),
            tally: Mutex::default(),
        }
    }

    /// Compares all elements. Reports to `step` how many boxes are done, and how many there are.
    pub fn compare(self, step: &(dyn Fn(u64, u64) + Sync)) -> Result<PairOutcome, Error> {
        let elements = product(self.a.shape());
        let unit = self.unit();
        let grid = grid(self.a.shape(), &unit);
        let all = Cells::new(grid.clone());
        let stored = if elements == 0 { None } else { self.stored(&unit, all.count)? };
        let total = stored.as_ref().map_or(all.count, |boxes| boxes.len() as u64);
        if let Some(boxes) = &stored {
            self.rest(boxes, &unit, grid, elements)?;
        }
        let boxes: Box<dyn Iterator<Item = Vec<u64>> + Send> = match stored {
            Some(boxes) => Box::new(boxes.into_iter()),
            None => Box::new(all),
        };
        let done = AtomicU64::new(0);
        self.each(boxes, &unit, &|at| {
            self.context.check()?;
            let (start, shape) = self.part_of(&at, &unit);
            self.compare_box(&start, &shape)?;
            step(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            Ok(())
        })?;
        let chunks_not_decoded = self.same_chunks.load(Ordering::Relaxed);
        let tally = std::mem::take(&mut *self.tally());
        let differ = match tally.first {
            None => None,
            Some(first) => Some(ElementsDiffer {
                count: tally.count,
                total: elements,
                a: self.a.place(&first.at, &first.a)?,
                b: self.b.place(&self.axes.to_old(&first.at, 0), &first.b)?,
                largest: tally.largest,
            }),
        };
        Ok(PairOutcome { elements, chunks_not_decoded, differ })
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn element_bytes(&self) -> u64 {
        match self.a.data_type().size() {
            ElementSize::Fixed(size) => size as u64,
            ElementSize::Variable => VARIABLE,
        }
    }

    fn bytes(&self, shape: &[u64]) -> u64 {
        shape.iter().fold(self.element_bytes(), |n, &len| n.saturating_mul(len))
    }

    /// The shape of the boxes that are compared: whole chunks of both arrays, as far as memory
    /// allows, so that none is decoded more often than needed.
    fn unit(&self) -> Vec<u64> {
        let engine = self.context.engine();
        let memory = engine.memory_in_flight();
        let each = (memory / (4 * engine.threads().max(1) as u64)).clamp(LEAST, COMPARED);
        let shape = self.a.shape();
        let chunk = |chunk: Option<Vec<u64>>| -> Vec<u64> {
            let chunk = chunk.unwrap_or_else(|| vec![1; shape.len()]);
            chunk.iter().zip(shape).map(|(&n, &len)| n.min(len).max(1)).collect()
        };
        let a = chunk(self.a.chunk_shape().map(<[u64]>::to_vec));
        let b = chunk(self.b.chunk_shape().map(|chunk| self.axes.to_new(chunk, 1)));
        let both = |of: fn(u64, u64) -> u64| -> Vec<u64> {
            let axes = a.iter().zip(&b).zip(shape);
            axes.map(|((&a, &b), &len)| of(a, b).min(len).max(1)).collect()
        };
        let mut unit = both(common);
        if self.bytes(&unit) > each {
            unit = both(u64::max);
        }
        // What is larger than all memory is decoded more than once.
        while self.bytes(&unit) > each.max(memory / 4) {
            let longest = (0..unit.len()).max_by_key(|&axis| unit[axis]);
            let Some(axis) = longest.filter(|&axis| unit[axis] > 1) else { break };
            unit[axis] = unit[axis].div_ceil(2);
        }
        if self.a.data_type().size() == ElementSize::Variable {
            return unit;
        }
        for axis in (0..unit.len()).rev() {
            while unit[axis] < shape[axis] && self.bytes(&unit).saturating_mul(2) <= each {
                unit[axis] = unit[axis].saturating_mul(2);
            }
        }
        unit
    }

    /// The boxes that stored objects of either array reach into; `None` if all are to be compared.
    fn stored(&self, unit: &[u64], count: u64) -> Result<Option<BTreeSet<Vec<u64>>>, Error> {
        if count <= DENSE {
            return Ok(None);
        }
        let mut found = BTreeSet::new();
        for (operand, axes) in [(self.a, &self.own_axes), (self.b, self.axes)] {
            let Some(array) = operand.array() else { return Ok(None) };
            let extents = match stored_extents(array) {
                Err(Error::UnlistedObjects { .. }) => return Ok(None),
                extents => extents?,
            };
            for extent in extents {
                self.context.check()?;
                let (first, inside) = covered(&extent, axes, unit);
                let most = MOST_BOXES.min(count / 2);
                if inside.count.saturating_add(found.len() as u64) > most {
                    return Ok(None);
                }
                found.extend(inside.map(|inside| -> Vec<u64> {
                    first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
                }));
            }
        }
        Ok(Some(found))
    }

    /// Compares what neither array has stored, which is all of it but these boxes: one fill value
    /// against the other.
    fn rest(
        &self,
        boxes: &BTreeSet<Vec<u64>>,
        unit: &[u64],
        grid: Vec<u64>,
        elements: u64,
    ) -> Result<(), Error> {
        let (Some(a), Some(b)) = (self.a.fill(), self.b.fill()) else { return Ok(()) };
        let found = self.a.data_type().differences(&a.0, &b.0);
        if found.count == 0 {
            return Ok(());
        }
        let in_boxes = boxes.iter().map(|at| product(&self.part_of(at, unit).1));
        let count = elements - in_boxes.sum::<u64>().min(elements);
        // At most one more than there are boxes is looked at.
        if let Some(at) = Cells::new(grid).find(|at| !boxes.contains(at)) {
            let at = self.part_of(&at, unit).0;
            let first = First { at, a: a.0.clone(), b: b.0.clone() };
            self.add(count, found.largest, first);
        }
        Ok(())
    }

    /// The first element of a box, and its shape inside the array.
    fn part_of(&self, at: &[u64], unit: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let start: Vec<u64> = at.iter().zip(unit).map(|(&at, &n)| at.saturating_mul(n)).collect();
        let axes = start.iter().zip(unit).zip(self.a.shape());
        let shape = axes.map(|((&start, &n), &len)| n.min(len.saturating_sub(start))).collect();
        (start, shape)
    }

    /// Has boxes compared, as many at the same time as memory allows.
    fn each(
        &self,
        boxes: Box<dyn Iterator<Item = Vec<u64>> + Send>,
        unit: &[u64],
        run: &(dyn Fn(Vec<u64>) -> Result<(), Error> + Sync),
    ) -> Result<(), Error> {
        let engine = self.context.engine();
        let memory = self.bytes(unit).saturating_mul(2);
        let far = [self.a, self.b].into_iter().filter_map(|operand| operand.in_flight(memory));
        if let Some(most) = far.min() {
            return engine.each_waiting(0, most, boxes, run);
        }
        let (boxes, first_error) = (Mutex::new(boxes), FirstError::default());
        let workers = engine.workers_within(memory);
        engine.share(workers, workers, &|_, _| {
            while !first_error.is_set() {
                let next = boxes.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(at) = next else { break };
                if let Err(error) = run(at) {
                    first_error.set(error);
                }
            }
        });
        first_error.into_result()
    }

    fn compare_box(&self, start: &[u64], shape: &[u64]) -> Result<(), Error> {
        let encoded = self.encoded.as_ref().filter(|_| self.is_worth_it());
        let Some(encoded) = encoded.filter(|encoded| self.has_whole_chunks(encoded, start, shape))
        else {
            return self.decode_box(start, shape);
        };
        let first: Vec<u64> = start.iter().zip(&encoded.chunk).map(|(&at, &n)| at / n).collect();
        let (mut chunks, mut other) = (0u64, Vec::new());
        for inside in Cells::new(grid(shape, &encoded.chunk)) {
            let chunk: Vec<u64> = first.iter().zip(&inside).map(|(&a, &b)| a + b).collect();
            chunks += 1;
            match self.has_same_bytes(encoded, &chunk)? {
                true => self.same_chunks.fetch_add(1, Ordering::Relaxed),
                false => {
                    other.push(chunk);
                    self.other_chunks.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
        if other.len() as u64 * 2 > chunks {
            return self.decode_box(start, shape);
        }
        for chunk in other {
            let (start, shape) = self.part_of(&chunk, &encoded.chunk);
            self.decode_box(&start, &shape)?;
        }
        Ok(())
    }

    /// Whether a box consists of whole chunks, as far as the array has them.
    fn has_whole_chunks(&self, encoded: &Encoded<'_>, start: &[u64], shape: &[u64]) -> bool {
        let axes = start.iter().zip(shape).zip(&encoded.chunk).zip(self.a.shape());
        axes.into_iter().all(|(((&start, &count), &n), &len)| {
            start.is_multiple_of(n) && (count.is_multiple_of(n) || start + count == len)
        })
    }

    /// Whether comparing chunks as they are stored has spared more than it cost.
    fn is_worth_it(&self) -> bool {
        let same = self.same_chunks.load(Ordering::Relaxed);
        self.other_chunks.load(Ordering::Relaxed) <= same.saturating_add(TRIED)
    }

    /// Whether a chunk is stored alike in both arrays, or in neither where that means the same.
    fn has_same_bytes(&self, encoded: &Encoded<'_>, chunk: &[u64]) -> Result<bool, Error> {
        let (_, shape) = self.part_of(chunk, &encoded.chunk);
        if !encoded.edges && shape != encoded.chunk {
            return Ok(false);
        }
        let a = encoded.a.find(chunk)?;
        let b = encoded.b.find(&self.axes.to_old(chunk, 0))?;
        match (a, b) {
            (None, None) => Ok(match (self.a.fill(), self.b.fill()) {
                (Some(a), Some(b)) => self.a.data_type().differences(&a.0, &b.0).count == 0,
                _ => false,
            }),
            (Some(a), Some(b)) => match a.has_bytes_of(&b) {
                // It was not there after all, or is another one by now: a read decides.
                Err(StoreError::NotFound { .. } | StoreError::Changed { .. }) => Ok(false),
                same => Ok(same?),
            },
            _ => Ok(false),
        }
    }

    /// Compares the elements of a box.
    fn decode_box(&self, start: &[u64], shape: &[u64]) -> Result<(), Error> {
        let data_type = self.a.data_type();
        let ElementSize::Fixed(element) = data_type.size() else {
            return self.variable_box(start, shape);
        };
        let too_large = || RegionError::TooLarge { shape: shape.to_vec() };
        let len = usize::try_from(self.bytes(shape)).map_err(|_| too_large())?;
        let place = Placement::contiguous(shape, element).ok_or_else(too_large)?;
        let (mut a, mut b) = (vec![0; len], vec![0; len]);
        self.a.read(&self.own_axes, start, shape, &mut a, &place)?;
        self.b.read(self.axes, start, shape, &mut b, &place)?;
        let found = data_type.differences(&a, &b);
        if let Some(first) = found.first {
            let value = |bytes: &[u8]| bytes[first * element..(first + 1) * element].to_vec();
            let at = moved(start, &coordinates(first as u64, shape));
            self.add(found.count, found.largest, First { at, a: value(&a), b: value(&b) });
        }
        Ok(())
    }

    /// The same for elements of variable length.
    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<(), Error> {
        let in_b = self.axes.to_old(shape, 1);
        let a = self.a.read_variable(start, shape)?;
        let b = self.b.read_variable(&self.axes.to_old(start, 0), &in_b)?;
        let (mut count, mut first) = (0, None);
        for i in 0..product(shape) {
            let inside = coordinates(i, shape);
            let j =
                self.axes.to_old(&inside, 0).iter().zip(&in_b).fold(0, |n, (&i, &len)| n * len + i);
            let (a, b) = (a.get(i as usize), b.get(j as usize));
            if a != b {
                count += 1;
                let value = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
                first.get_or_insert_with(|| First {
                    at: moved(start, &inside),
                    a: value(a),
                    b: value(b),
                });
            }
        }
        if let Some(first) = first {
            self.add(count, None, first);
        }
        Ok(())
    }

    fn add(&self, count: u64, largest: Option<Distance>, first: First) {
        let mut tally = self.tally();
        tally.count = tally.count.saturating_add(count);
        tally.largest = match (tally.largest, largest) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        if tally.first.as_ref().is_none_or(|known| first.at < known.at) {
            tally.first = Some(first);
        }
    }
}

impl<'a> Encoded<'a> {
    /// Of two arrays whose chunks have the same bytes if they have the same elements.
    fn of(a: &'a Array, axes: &AxisMap, b: &'a Array) -> Option<Self> {
        has_same_bytes(b, axes, a).then(|| Self {
            a: ChunkFinder::new(a),
            b: ChunkFinder::new(b),
            chunk: a.chunk_shape().to_vec(),
            edges: a.cuts_edges() == b.cuts_edges(),
        })
    }
}

/// Boxes of such a shape along each axis.
fn grid(shape: &[u64], unit: &[u64]) -> Vec<u64> {
    shape.iter().zip(unit).map(|(&len, &n)| len.div_ceil(n.max(1))).collect()
}

fn product(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |n: u64, &len| n.saturating_mul(len))
}

fn moved(start: &[u64], by: &[u64]) -> Vec<u64> {
    start.iter().zip(by).map(|(&a, &b)| a + b).collect()
}

/// The place of an element of a box, by its number in C order.
fn coordinates(mut number: u64, shape: &[u64]) -> Vec<u64> {
    let mut at = vec![0; shape.len()];
    for (at, &n) in at.iter_mut().zip(shape).rev() {
        *at = number % n.max(1);
        number /= n.max(1);
    }
    at
}

/// The least common multiple.
fn common(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// The first box of such a shape that an extent reaches into, and how many there are from there.
fn covered(extent: &[Range<u64>], axes: &AxisMap, unit: &[u64]) -> (Vec<u64>, Cells) {
    let start: Vec<u64> = extent.iter().map(|range| range.start).collect();
    let end: Vec<u64> = extent.iter().map(|range| range.end).collect();
    let (start, end) = (axes.to_new(&start, 0), axes.to_new(&end, 1));
    let first: Vec<u64> = start.iter().zip(unit).map(|(&start, &n)| start / n.max(1)).collect();
    let count = end.iter().zip(unit).zip(&first);
    let count = count.map(|((&end, &n), &first)| end.div_ceil(n.max(1)).saturating_sub(first));
    let count = Cells::new(count.collect());
    (first, count)
}
