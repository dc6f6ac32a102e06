//! Where the elements of a write come from.

use shardine_codec::strided::{self, Axes, Placement};
use shardine_codec::{ElementsRef, VariableElements};

use crate::selection::RegionError;

/// Why a source could not provide its elements.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Elements to be written, requested box by box.
///
/// Coordinates are relative to the region being written: its first element is at the origin,
/// wherever the region lies in the array. Boxes are requested from several threads in parallel, in
/// the order in which chunks are encoded, and each element once, unless another writer was faster
/// and an update has to be retried. A source may read other arrays, even with the same engine, from
/// the thread it is called on. It must not hand work to the engine's threads and wait for it (with
/// rayon, it should use a pool of its own).
pub trait Source: Sync {
    /// Bytes of an element, if the source knows; a size other than the array's is refused.
    fn element_size(&self) -> Option<usize> {
        None
    }

    /// Copies a box of fixed-size elements to `to` in `target`.
    ///
    /// An element that is not copied keeps the value it has in the array, unless the region covers
    /// its chunk completely: then it is undefined.
    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError>;

    /// A box of variable-length elements, in C order.
    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError>;

    /// A key shared by boxes that one thread should request consecutively because that is cheaper,
    /// computed from where a box starts: for example, boxes from one block that has to be decoded
    /// as a whole. `None` if it does not matter.
    fn together(&self, _start: &[u64]) -> Option<Vec<u64>> {
        None
    }
}

/// Elements in memory, in C order.
#[derive(Debug, Clone)]
pub struct MemorySource<'a> {
    elements: ElementsRef<'a>,
    element: usize,
    strides: Axes<usize>,
}

impl<'a> MemorySource<'a> {
    /// Elements of a region of this shape; `element` is the size of one, if fixed.
    pub fn new(
        elements: ElementsRef<'a>,
        shape: &[u64],
        element: Option<usize>,
    ) -> Result<Self, RegionError> {
        let too_large = || RegionError::TooLarge { shape: shape.to_vec() };
        let size = |unit: usize| -> Option<usize> {
            shape.iter().try_fold(unit, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
        };
        let (expected, actual) = match (elements, element) {
            (ElementsRef::Fixed(bytes), Some(element)) => (size(element), bytes.len()),
            (ElementsRef::Variable(elements), None) => (size(1), elements.len()),
            (ElementsRef::Fixed(bytes), None) => (Some(0), bytes.len()),
            (ElementsRef::Variable(elements), Some(_)) => (Some(0), elements.byte_len()),
        };
        let expected = expected.ok_or_else(too_large)?;
        let mixed = matches!(elements, ElementsRef::Fixed(_)) != element.is_some();
        if expected != actual || mixed {
            let (expected, actual) = (expected as u64, actual as u64);
            return Err(RegionError::BufferSize { expected, actual });
        }
        let element = element.unwrap_or(1);
        let strides = Placement::contiguous(shape, element).ok_or_else(too_large)?.strides;
        Ok(Self { elements, element, strides })
    }

    fn placed(&self, start: &[u64]) -> Placement {
        let at = start.iter().zip(&self.strides).map(|(&i, &s)| i as usize * s).sum();
        Placement { start: at, strides: self.strides.clone() }
    }
}

/// A shape as memory sizes.
pub fn extents(shape: &[u64]) -> Axes<usize> {
    shape.iter().map(|&n| n as usize).collect()
}

impl Source for MemorySource<'_> {
    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let ElementsRef::Fixed(bytes) = self.elements else { return Err(not_fixed()) };
        strided::copy(&extents(shape), self.element, bytes, &self.placed(start), target, to)?;
        Ok(())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let ElementsRef::Variable(elements) = self.elements else { return Err(not_fixed()) };
        let mut out = VariableElements::new();
        crate::layout::for_each_offset(&extents(shape), &self.placed(start), |at| {
            out.push(elements.get(at).unwrap_or_default());
        });
        Ok(out)
    }
}

fn not_fixed() -> SourceError {
    "the source does not hold elements of the array's kind".into()
}

/// A part of a source, from some position on.
#[derive(Clone)]
pub struct PartOfSource<'a> {
    /// The source.
    pub source: &'a dyn Source,
    /// Where the part starts in the source.
    pub start: Vec<u64>,
}

impl PartOfSource<'_> {
    fn place(&self, start: &[u64]) -> Vec<u64> {
        start.iter().zip(&self.start).map(|(&at, &start)| at.saturating_add(start)).collect()
    }
}

impl Source for PartOfSource<'_> {
    fn element_size(&self) -> Option<usize> {
        self.source.element_size()
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        self.source.copy_box(&self.place(start), shape, target, to)
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        self.source.variable_box(&self.place(start), shape)
    }

    fn together(&self, start: &[u64]) -> Option<Vec<u64>> {
        self.source.together(&self.place(start))
    }
}

/// Elements generated by a function, box by box: the source for writes larger than memory.
///
/// The function gets the start and shape of a box and fills a buffer with its elements, in C order.
///
/// ```
/// # use shardine_engine::source::GeneratorSource;
/// // The number of each element of a 2-d region that is 100 wide.
/// let numbers = GeneratorSource::new(4, |start, shape, out| {
///     for (i, element) in out.chunks_exact_mut(4).enumerate() {
///         let (row, column) = (i as u64 / shape[1], i as u64 % shape[1]);
///         let number = (start[0] + row) * 100 + start[1] + column;
///         element.copy_from_slice(&(number as u32).to_le_bytes());
///     }
///     Ok(())
/// });
/// ```
#[derive(Debug)]
pub struct GeneratorSource<F> {
    element: usize,
    generate: F,
}

impl<F> GeneratorSource<F>
where
    F: Fn(&[u64], &[u64], &mut [u8]) -> Result<(), SourceError> + Sync,
{
    /// A source of elements of `element` bytes each.
    pub fn new(element: usize, generate: F) -> Self {
        Self { element, generate }
    }
}

impl<F> Source for GeneratorSource<F>
where
    F: Fn(&[u64], &[u64], &mut [u8]) -> Result<(), SourceError> + Sync,
{
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
        let from = Placement::contiguous(shape, self.element).ok_or(strided::OutOfMemory)?;
        let extents = extents(shape);
        let len = from.end(&extents, self.element).ok_or(strided::OutOfMemory)?;
        if from.strides == to.strides
            && let Some(out) = target.get_mut(to.start..to.start + len)
        {
            return (self.generate)(start, shape, out);
        }
        let mut elements = vec![0; len];
        (self.generate)(start, shape, &mut elements)?;
        strided::copy(&extents, self.element, &elements, &from, target, to)?;
        Ok(())
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err(not_fixed())
    }
}
