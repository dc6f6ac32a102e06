//! Reads the level that a stage begins from, chunk by chunk where that is possible.

use shardine_codec::strided::{Axes, Placement};
use shardine_codec::{Context, Downsample};

use super::PyramidError;
use super::geometry::{gcd, grid_of};
use crate::engine::{Cells, StoredBytes};
use crate::jobs::rebuild::{ChunkFinder, is_plain};
use crate::layout::Layout;
use crate::selection::Region;
use crate::{Array, Error};

/// The level that is read.
pub(super) struct Reader<'a> {
    array: &'a Array,
    /// Finds its chunks; `None` if they cannot be found one by one, or only by requests to a remote
    /// store, where many should be under way together.
    finder: Option<ChunkFinder<'a>>,
    /// How a chunk is encoded, if it can be decoded without the rest of its object.
    chunk: Option<&'a Layout>,
    element: usize,
}

/// The elements of a box, or that there are none.
enum Found {
    /// All of them are the fill value.
    Nothing,
    Elements(Vec<u8>),
}

impl<'a> Reader<'a> {
    pub fn new(array: &'a Array) -> Self {
        let layout = &array.chunks.layout;
        let local = array.chunks.store.read_cost().local;
        let finder = (local && layout.is_addressable_throughout()).then(|| ChunkFinder::new(array));
        let chunk = match layout {
            Layout::Chunk(_) => Some(layout),
            Layout::Shard(shard) if is_plain(shard) => Some(&shard.inner),
            _ => None,
        };
        Self { array, finder, chunk, element: layout.element_size() }
    }

    /// The array.
    pub fn array(&self) -> &'a Array {
        self.array
    }

    /// Bytes that a unit takes beside its results, where it is made from boxes of this shape.
    pub fn memory(&self, shape: &[u64], factors: &[u64]) -> u64 {
        let piece = self.piece(shape, factors, &[]);
        // Encoded and decoded.
        piece.iter().fold(2 * self.element as u64, |n, &len| n.saturating_mul(len))
    }

    /// The shape of what is read at a time for a box that begins at `start`: chunks, or so many that
    /// no box of `factors` elements lies in two.
    fn piece(&self, shape: &[u64], factors: &[u64], start: &[u64]) -> Vec<u64> {
        let is_aligned = |(&at, &chunk): (&u64, &u64)| at % chunk == 0;
        if self.finder.is_none() || !start.iter().zip(self.array.chunk_shape()).all(is_aligned) {
            return shape.to_vec();
        }
        let axes = shape.iter().zip(self.array.chunk_shape()).zip(factors);
        axes.map(|((&len, &chunk), &factor)| {
            let piece = chunk.checked_mul(factor / gcd(chunk, factor));
            piece.filter(|piece| len % piece == 0).unwrap_or(len)
        })
        .collect()
    }

    /// Reduces what the elements of a box are made from into `out`, a block in C order. `start` and
    /// `shape` are those of the box in the coarser level, whether or not it ends inside. If
    /// everything is the fill value, `out` stays as it is.
    pub fn reduce(
        &self,
        context: &mut Context,
        kernel: &Downsample,
        factors: &[u64],
        start: &[u64],
        shape: &[u64],
        out: &mut Reduced<'_>,
    ) -> Result<(), Error> {
        let scaled = |values: &[u64]| -> Vec<u64> {
            values.iter().zip(factors).map(|(&n, &f)| n.saturating_mul(f)).collect()
        };
        let (start, shape) = (scaled(start), scaled(shape));
        let axes = start.iter().zip(&shape).zip(self.array.shape());
        let bounds: Vec<u64> =
            axes.map(|((&at, &n), &len)| n.min(len.saturating_sub(at))).collect();
        let piece = self.piece(&shape, factors, &start);
        for cell in Cells::new(grid_of(&bounds, &piece)) {
            let inside: Vec<u64> = cell.iter().zip(&piece).map(|(&i, &n)| i * n).collect();
            let axes = inside.iter().zip(&piece).zip(&bounds);
            let extent: Vec<u64> = axes.map(|((&at, &n), &len)| n.min(len - at)).collect();
            let at: Vec<u64> = start.iter().zip(&inside).map(|(&a, &b)| a + b).collect();
            let elements = match self.read(context, &at, &extent)? {
                Found::Nothing => continue,
                Found::Elements(elements) => elements,
            };
            out.begin(context)?;
            let to: Vec<u64> = inside.iter().zip(factors).map(|(&at, &f)| at / f).collect();
            out.put(context, kernel, &extent, &elements, &to)?;
            context.give_buffer(elements);
        }
        Ok(())
    }

    /// Reads a box.
    fn read(&self, context: &mut Context, start: &[u64], shape: &[u64]) -> Result<Found, Error> {
        let chunk_shape = self.array.chunk_shape();
        if let Some(finder) = &self.finder {
            let axes = || start.iter().zip(shape).zip(chunk_shape);
            let first: Vec<u64> = axes().map(|((&at, _), &n)| at / n).collect();
            let last = axes().map(|((&at, &len), &n)| (at + len).div_ceil(n));
            let count = last.zip(&first).map(|(end, &first)| end - first).collect();
            let mut found = None;
            for inside in Cells::new(count) {
                let chunk: Vec<u64> = first.iter().zip(&inside).map(|(&a, &b)| a + b).collect();
                found = finder.find(&chunk)?;
                if found.is_some() {
                    break;
                }
            }
            let Some(found) = found else { return Ok(Found::Nothing) };
            if shape == chunk_shape
                && start.iter().zip(chunk_shape).all(|(&at, &n)| at % n == 0)
                && let Some(elements) = self.decode(context, &found)?
            {
                return Ok(Found::Elements(elements));
            }
        }
        let mut elements = memory(context, shape, self.element)?;
        self.array.read_bytes_into(Region::of_box(start, shape), &mut elements)?;
        Ok(Found::Elements(elements))
    }

    /// Decodes a whole chunk. `None` if that is not possible, or fails: reading it in the ordinary
    /// way then succeeds, or says what is wrong with it.
    fn decode(&self, context: &mut Context, found: &StoredBytes) -> Result<Option<Vec<u8>>, Error> {
        let (Some(layout), Some(range)) = (self.chunk, &found.range) else { return Ok(None) };
        let mut encoded = memory(context, &[range.end - range.start], 1)?;
        let mut elements = memory(context, self.array.chunk_shape(), self.element)?;
        let read = found.object.read_into(range.start, &mut encoded);
        let decoded = read.is_ok()
            && layout.decode_whole(context, &encoded, &mut elements).is_ok()
            && found.object.check_unchanged().is_ok();
        context.give_buffer(encoded);
        if decoded {
            return Ok(Some(elements));
        }
        context.give_buffer(elements);
        Ok(None)
    }
}

/// A block that is being put together from reduced boxes.
pub(super) struct Reduced<'a> {
    /// Its shape, as far as it lies in the array.
    pub shape: &'a [u64],
    pub element: usize,
    pub fill: &'a [u8],
    pub elements: Option<Vec<u8>>,
}

impl Reduced<'_> {
    /// Fills it with the fill value, unless it is begun already.
    pub fn begin(&mut self, context: &mut Context) -> Result<(), Error> {
        if self.elements.is_some() {
            return Ok(());
        }
        let mut elements = memory(context, self.shape, self.element)?;
        fill(&mut elements, self.fill);
        self.elements = Some(elements);
        Ok(())
    }

    /// Reduces a box of elements of the level below to its place, in elements of the block.
    pub fn put(
        &mut self,
        context: &mut Context,
        kernel: &Downsample,
        shape: &[u64],
        elements: &[u8],
        to: &[u64],
    ) -> Result<(), Error> {
        let misfit = || PyramidError::Misfit { shape: self.shape.to_vec() };
        let mut place = Placement::contiguous(self.shape, self.element).ok_or_else(misfit)?;
        place.start = to.iter().zip(&place.strides).map(|(&i, &n)| i as usize * n).sum();
        let shape: Axes<usize> = shape.iter().map(|&n| n as usize).collect();
        let misfit = PyramidError::Misfit { shape: self.shape.to_vec() };
        let Some(target) = &mut self.elements else { return Err(misfit.into()) };
        Ok(kernel.run(context, &shape, elements, target, &place).map_err(|_| misfit)?)
    }
}

/// Memory for a box of elements, with arbitrary content.
pub(super) fn memory(
    context: &mut Context,
    shape: &[u64],
    element: usize,
) -> Result<Vec<u8>, Error> {
    let len = shape.iter().try_fold(element, |n, &len| n.checked_mul(usize::try_from(len).ok()?));
    let memory = len.and_then(|len| context.take_filled(len).ok());
    Ok(memory.ok_or_else(|| PyramidError::Memory { shape: shape.to_vec() })?)
}

/// Fills memory with an element.
fn fill(memory: &mut [u8], element: &[u8]) {
    match element {
        [byte] => memory.fill(*byte),
        _ if element.iter().all(|byte| *byte == 0) => memory.fill(0),
        _ => memory.chunks_exact_mut(element.len().max(1)).for_each(|e| e.copy_from_slice(element)),
    }
}
