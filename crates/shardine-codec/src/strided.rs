//! Copies between strided boxes of elements: the inner loop of every read and write.
//!
//! A box is a start and one stride per axis, in bytes. Axes that are contiguous on
//! both sides are merged, so that whole planes move in one copy where they can;
//! axes that are contiguous on different sides are transposed in registers.

mod lanes;
mod loops;
mod stores;
mod transpose;

use std::marker::PhantomData;

use smallvec::SmallVec;

use loops::Loops;
pub use stores::Stores;

/// Strides or extents, one per axis.
pub type Axes<T> = SmallVec<[T; 6]>;

/// Memory that several workers fill in parallel, each its own boxes.
///
/// Borrowing it is safe; writing is not, because only the caller knows that the boxes of different
/// workers are disjoint. Every write checks that its box lies inside.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    start: *mut u8,
    len: usize,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: a `Window` is an exclusive borrow that is handed out in disjoint parts; the methods that
// write through it are `unsafe` and require that disjointness.
unsafe impl Send for Window<'_> {}
// SAFETY: as above.
unsafe impl Sync for Window<'_> {}

impl<'a> Window<'a> {
    /// A window over all of `memory`.
    pub fn new(memory: &'a mut [u8]) -> Self {
        Self { start: memory.as_mut_ptr(), len: memory.len(), memory: PhantomData }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of the window as a slice; `None` if it does not lie inside.
    ///
    /// # Safety
    /// Nobody else may read or write these bytes while the slice lives.
    pub unsafe fn slice(&self, start: usize, len: usize) -> Option<&'a mut [u8]> {
        let end = start.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: inside the borrowed memory as just checked; exclusive by contract.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) })
    }
}

/// A box of elements in memory: element `i` lies at `start + sum(i[k] * strides[k])`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The byte at which the box's first element starts.
    pub start: usize,
    /// Bytes from one element to the next along each axis.
    pub strides: Axes<usize>,
}

impl Placement {
    /// A box that fills its memory in C order.
    ///
    /// `None` if its size overflows.
    pub fn contiguous(shape: &[u64], element: usize) -> Option<Self> {
        let mut strides: Axes<usize> = SmallVec::from_elem(element, shape.len());
        let mut stride = element;
        for (s, &n) in strides.iter_mut().zip(shape).rev() {
            *s = stride;
            stride = stride.checked_mul(usize::try_from(n).ok()?)?;
        }
        Some(Self { start: 0, strides })
    }

    /// A box that fills its memory in Fortran order: the first axis is the densest.
    ///
    /// `None` if its size overflows.
    pub fn fortran(shape: &[u64], element: usize) -> Option<Self> {
        let reversed: Axes<u64> = shape.iter().rev().copied().collect();
        let mut place = Self::contiguous(&reversed, element)?;
        place.strides.reverse();
        Some(place)
    }

    /// Checks that a box of `shape` elements has a distinct place for each element, all of them in
    /// memory of `len` bytes; the error says what is wrong.
    ///
    /// Each axis must step over everything that the denser ones span, as is the case for any part
    /// of an array in memory.
    pub fn check_distinct(
        &self,
        shape: &[usize],
        element: usize,
        len: usize,
    ) -> Result<(), &'static str> {
        if shape.len() != self.strides.len() {
            return Err("there must be one stride for each axis");
        }
        if self.end(shape, element).is_none_or(|end| end > len) {
            return Err("they reach past the end of the buffer");
        }
        if shape.contains(&0) {
            return Ok(());
        }
        let axes = shape.iter().zip(&self.strides).filter(|(n, _)| **n > 1);
        let mut axes: Axes<(usize, usize)> = axes.map(|(&n, &stride)| (stride, n)).collect();
        axes.sort_unstable();
        let mut span = element;
        for (stride, n) in axes {
            if stride < span {
                return Err("elements overlap");
            }
            // No overflow: the end of the box was computed from the same products.
            span += stride * (n - 1);
        }
        Ok(())
    }

    /// The byte after the last one of the box; `None` on overflow. An empty box ends at its start.
    pub fn end(&self, shape: &[usize], element: usize) -> Option<usize> {
        if shape.contains(&0) {
            return Some(self.start);
        }
        let mut end = self.start.checked_add(element)?;
        for (&n, &stride) in shape.iter().zip(&self.strides) {
            end = end.checked_add((n - 1).checked_mul(stride)?)?;
        }
        Some(end)
    }
}

/// A box does not lie inside its memory.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
#[error("a box of elements reaches past the end of its memory")]
pub struct OutOfMemory;

/// Copies a box of `shape` elements of `element` bytes each.
pub fn copy(
    shape: &[usize],
    element: usize,
    source: &[u8],
    from: &Placement,
    target: &mut [u8],
    to: &Placement,
) -> Result<(), OutOfMemory> {
    // SAFETY: the window is an exclusive borrow used by this one call.
    unsafe { copy_into(shape, element, source, from, &Window::new(target), to) }
}

/// Copies a box of elements into a shared window.
///
/// # Safety
/// Nobody else may touch the target box at the same time.
pub unsafe fn copy_into(
    shape: &[usize],
    element: usize,
    source: &[u8],
    from: &Placement,
    window: &Window<'_>,
    to: &Placement,
) -> Result<(), OutOfMemory> {
    // SAFETY: upheld by the caller.
    unsafe { copy_into_with(shape, element, source, from, window, to, Stores::Cached) }
}

/// Copies a box of elements into a shared window with the given kind of stores.
///
/// Whatever the kind, the bytes are visible to any thread that learns of the copy's completion by
/// ordinary synchronization.
///
/// # Safety
/// Nobody else may touch the target box at the same time.
pub unsafe fn copy_into_with(
    shape: &[usize],
    element: usize,
    source: &[u8],
    from: &Placement,
    window: &Window<'_>,
    to: &Placement,
    stores: Stores,
) -> Result<(), OutOfMemory> {
    check(shape, element, from, source.len())?;
    check(shape, element, to, window.len())?;
    if shape.contains(&0) {
        return Ok(());
    }
    let loops = Loops::new(shape, &from.strides, &to.strides, element);
    // SAFETY: both boxes lie inside their memory as just checked, and `Loops` visits only offsets
    // of the box; source and target cannot overlap, since one is a shared and the other an
    // exclusive borrow.
    unsafe { loops.run(source.as_ptr().add(from.start), window.start.add(to.start), stores) };
    Ok(())
}

/// Writes one element to every place of a box in a shared window.
///
/// # Safety
/// Nobody else may touch the box at the same time.
pub unsafe fn fill_into(
    shape: &[usize],
    element: &[u8],
    window: &Window<'_>,
    to: &Placement,
) -> Result<(), OutOfMemory> {
    check(shape, element.len(), to, window.len())?;
    if shape.contains(&0) || element.is_empty() {
        return Ok(());
    }
    let zero: Axes<usize> = SmallVec::from_elem(0, shape.len());
    let loops = Loops::new(shape, &zero, &to.strides, element.len());
    let contiguous = loops.row_bytes();
    // A row of the fill value is built once and then copied, so filling runs at the speed of
    // copying.
    let mut row = Vec::new();
    if contiguous > element.len() {
        let count = (FILL_ROW / element.len()).clamp(1, contiguous / element.len());
        row.reserve_exact(count * element.len());
        (0..count).for_each(|_| row.extend_from_slice(element));
    }
    // SAFETY: the box lies inside the window as just checked.
    unsafe { loops.fill(element, &row, window.start.add(to.start)) };
    Ok(())
}

/// Writes one element to every place of a box.
pub fn fill(
    shape: &[usize],
    element: &[u8],
    target: &mut [u8],
    to: &Placement,
) -> Result<(), OutOfMemory> {
    // SAFETY: the window is an exclusive borrow used by this one call.
    unsafe { fill_into(shape, element, &Window::new(target), to) }
}

/// Whether `bytes` consists only of repetitions of `element`.
pub fn is_filled(bytes: &[u8], element: &[u8]) -> bool {
    let n = element.len();
    // Equal to its first element, and equal to itself shifted by one element.
    bytes.is_empty()
        || (n > 0
            && bytes.len().is_multiple_of(n)
            && &bytes[..n] == element
            && is_periodic(bytes, n))
}

/// Whether `bytes[i] == bytes[i + n]` for all `i`; compares block by block to stop early.
fn is_periodic(bytes: &[u8], n: usize) -> bool {
    const BLOCK: usize = 4096;
    let (a, b) = (&bytes[..bytes.len() - n], &bytes[n..]);
    a.chunks(BLOCK).zip(b.chunks(BLOCK)).all(|(a, b)| a == b)
}

/// Reverses the bytes of every unit of `len` bytes at `offset` in each element of `element` bytes.
pub fn swap_units(bytes: &mut [u8], element: usize, units: &[crate::SwapUnit]) {
    if let [unit] = units
        && unit.offset == 0
        && unit.len == element
    {
        match element {
            2 => return swap_words::<2>(bytes),
            4 => return swap_words::<4>(bytes),
            8 => return swap_words::<8>(bytes),
            _ => {}
        }
    }
    for element in bytes.chunks_exact_mut(element) {
        for unit in units {
            element[unit.offset..unit.offset + unit.len].reverse();
        }
    }
}

fn swap_words<const N: usize>(bytes: &mut [u8]) {
    let (words, _) = bytes.as_chunks_mut::<N>();
    for word in words {
        word.reverse();
    }
}

fn check(
    shape: &[usize],
    element: usize,
    place: &Placement,
    len: usize,
) -> Result<(), OutOfMemory> {
    if shape.len() != place.strides.len() {
        return Err(OutOfMemory);
    }
    match place.end(shape, element) {
        Some(end) if end <= len => Ok(()),
        _ => Err(OutOfMemory),
    }
}

/// The longest prepared row of fill values.
const FILL_ROW: usize = 4096;

#[cfg(test)]
mod tests;
