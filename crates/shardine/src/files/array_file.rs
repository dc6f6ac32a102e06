//! Fixed-size elements in a file, as the source of a write: read box by box, never all in memory.

mod tiles;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use shardine_codec::strided::{self, Axes, Placement};
use shardine_codec::{DataType, ElementSize, SwapUnit, VariableElements};

use super::stored_type::Conversion;
use crate::source::{Source, SourceError};
pub use tiles::Neighbours;
use tiles::{Tiles, in_file_order};

/// A gap of up to this many bytes is cheaper to read than to skip with another call.
const GAP: usize = 4 << 10;

/// The longest span that is read in one call. With a buffer of this size per thread, memory use
/// stays small.
const SPAN: usize = 256 << 10;

/// The contents of a file, and how they are converted.
#[derive(Debug)]
pub struct ArrayFile {
    file: File,
    /// Where the first element is.
    data_start: u64,
    shape: Vec<u64>,
    /// Bytes from one element to the next, in the file, by axis.
    strides: Vec<u64>,
    /// Bytes of an element in the file.
    element: usize,
    conversion: Conversion,
    /// Those of the array's type, for swapping bytes.
    swap_units: Vec<SwapUnit>,
    /// Bytes of an element of the array.
    target_element: usize,
    buffers: Mutex<Vec<Buffers>>,
    tiles: Option<Tiles>,
}

/// Memory that one thread uses for a while.
#[derive(Debug, Default)]
struct Buffers {
    span: Vec<u8>,
    gathered: Vec<u8>,
    converted: Vec<u8>,
}

/// How the elements lie in the file.
#[derive(Debug, Clone, Copy)]
pub struct FileLayout<'a> {
    pub data_start: u64,
    pub shape: &'a [u64],
    pub fortran: bool,
    pub conversion: Conversion,
}

impl ArrayFile {
    /// The elements of a file for an array of this type; `None` if the type has variable length, or
    /// if the file would be longer than a file can be.
    pub fn new(file: File, layout: FileLayout<'_>, data_type: &DataType) -> Option<Self> {
        let ElementSize::Fixed(target_element) = data_type.size() else { return None };
        let FileLayout { data_start, shape, fortran, conversion } = layout;
        let element = match conversion {
            Conversion::Cast(cast) => cast.from.bytes(),
            _ => target_element,
        };
        let mut strides = vec![0; shape.len()];
        let mut stride = element as u64;
        let order: Vec<usize> =
            if fortran { (0..shape.len()).collect() } else { (0..shape.len()).rev().collect() };
        for k in order {
            strides[k] = stride;
            stride = stride.checked_mul(shape[k].max(1))?;
        }
        data_start.checked_add(stride)?;
        let swap_units = data_type.swap_units().to_vec();
        let buffers = Mutex::default();
        Some(Self {
            file,
            data_start,
            shape: shape.to_vec(),
            strides,
            element,
            conversion,
            swap_units,
            target_element,
            buffers,
            tiles: None,
        })
    }

    /// Keeps what is read along with a chunk for its neighbours.
    pub fn keeping(mut self, neighbours: Neighbours<'_>) -> Self {
        let nearest = (0..self.shape.len()).min_by_key(|&k| {
            // The stride of an axis of length 1 is irrelevant.
            (self.shape[k] <= 1, self.strides[k])
        });
        self.tiles =
            nearest.and_then(|axis| Tiles::new(&self.shape, axis, self.element, neighbours));
        self
    }

    /// Copies a box in the file's form, from kept tiles if that saves reads.
    fn gather(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
        span: &mut Vec<u8>,
    ) -> Result<(), SourceError> {
        let spans = Spans::new(shape, &self.strides, self.element);
        // Nothing is read needlessly if spans have no gaps and are long enough.
        let sparse = !spans.is_dense(shape, self.element) || spans.len < GAP;
        let tiles = self.tiles.as_ref().filter(|_| sparse);
        let place = tiles.and_then(|tiles| tiles.place(start, shape, &self.shape));
        let (Some(tiles), Some(place)) = (tiles, place) else {
            return self.read_box(start, shape, target, to, span);
        };
        let (mut from, len) =
            in_file_order(&place.shape, &self.strides, self.element).ok_or(strided::OutOfMemory)?;
        let whole = from.clone();
        let offsets = start.iter().zip(&place.start).zip(&from.strides);
        from.start = offsets.map(|((&at, &start), &stride)| (at - start) as usize * stride).sum();
        let extents: Axes<usize> = shape.iter().map(|&n| n as usize).collect();
        tiles.with(
            place,
            len,
            &mut |place, bytes| self.read_box(&place.start, &place.shape, bytes, &whole, span),
            &mut |bytes| Ok(strided::copy(&extents, self.element, bytes, &from, target, to)?),
        )
    }

    /// Reads a box in the file's form.
    fn read_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
        span: &mut Vec<u8>,
    ) -> Result<(), SourceError> {
        let first: u64 = start.iter().zip(&self.strides).map(|(&i, &stride)| i * stride).sum();
        let spans = Spans::new(shape, &self.strides, self.element);
        let inner: Vec<usize> = spans.inner.iter().map(|&k| shape[k] as usize).collect();
        let from = Placement {
            start: 0,
            strides: spans.inner.iter().map(|&k| self.strides[k] as usize).collect(),
        };
        let inner_strides: Axes<usize> = spans.inner.iter().map(|&k| to.strides[k]).collect();
        // The same layout on both sides and no gap: the file's bytes go straight to their place.
        let direct = spans.is_dense(shape, self.element) && from.strides == inner_strides;
        for (in_file, in_target) in spans.places(shape, &self.strides, &to.strides) {
            let offset = self.data_start + first + in_file;
            let place = to.start + in_target;
            if direct {
                let part = target.get_mut(place..).and_then(|part| part.get_mut(..spans.len));
                let part = part.ok_or(strided::OutOfMemory)?;
                self.file.read_exact_at(part, offset)?;
            } else {
                span.resize(spans.len, 0);
                self.file.read_exact_at(span, offset)?;
                let to = Placement { start: place, strides: inner_strides.clone() };
                strided::copy(&inner, self.element, span, &from, target, &to)?;
            }
        }
        Ok(())
    }

    /// Copies a box whose elements differ in form between file and array.
    fn convert(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
        buffers: &mut Buffers,
    ) -> Result<(), SourceError> {
        let extents: Axes<usize> = shape.iter().map(|&n| n as usize).collect();
        let packed = Placement::contiguous(shape, self.element).ok_or(strided::OutOfMemory)?;
        let len = packed.end(&extents, self.element).ok_or(strided::OutOfMemory)?;
        let Buffers { span, gathered, converted } = buffers;
        gathered.resize(len, 0);
        self.gather(start, shape, gathered, &packed, span)?;
        let elements = match self.conversion {
            Conversion::Cast(cast) => {
                converted.clear();
                cast.convert(gathered, converted).map_err(|unfit| {
                    let at: Vec<u64> = place(unfit.element as u64, shape)
                        .iter()
                        .zip(start)
                        .map(|(&i, &start)| i + start)
                        .collect();
                    format!(
                        "element {at:?} is {}, which does not fit the array's type",
                        unfit.value
                    )
                })?;
                converted
            }
            Conversion::Swap => {
                strided::swap_units(gathered, self.element, &self.swap_units);
                gathered
            }
            Conversion::None => gathered,
        };
        let from = Placement::contiguous(shape, self.target_element).ok_or(strided::OutOfMemory)?;
        strided::copy(&extents, self.target_element, elements, &from, target, to)?;
        Ok(())
    }
}

/// The coordinates of element `i` of a box, in C order.
fn place(mut i: u64, shape: &[u64]) -> Vec<u64> {
    let mut at = vec![0; shape.len()];
    for (at, &n) in at.iter_mut().zip(shape).rev() {
        *at = i % n.max(1);
        i /= n.max(1);
    }
    at
}

impl Source for ArrayFile {
    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        if shape.contains(&0) {
            return Ok(());
        }
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffers = buffers.unwrap_or_default();
        let result = match self.conversion {
            Conversion::None => self.gather(start, shape, target, to, &mut buffers.span),
            _ => self.convert(start, shape, target, to, &mut buffers),
        };
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
        result
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err("the file holds elements of fixed size".into())
    }
}

/// How a box is read: in spans over its inner axes, one for each position on the outer ones.
#[derive(Debug, PartialEq, Eq)]
struct Spans {
    /// Bytes of a span in the file.
    len: usize,
    /// The axes within a span, by file stride, longest first.
    inner: Vec<usize>,
    /// The axes that are iterated over, likewise.
    outer: Vec<usize>,
}

impl Spans {
    /// Adds axis after axis, from the most closely spaced elements outwards, as long as few bytes
    /// are read in vain.
    fn new(shape: &[u64], strides: &[u64], element: usize) -> Self {
        let mut outer: Vec<usize> = (0..shape.len()).collect();
        outer.sort_by_key(|&k| (std::cmp::Reverse(strides[k]), k));
        let mut inner = Vec::new();
        let mut len = element;
        while let Some(&k) = outer.last() {
            let more = (shape[k] - 1).checked_mul(strides[k]);
            let longer =
                more.and_then(|n| usize::try_from(n).ok()).and_then(|n| n.checked_add(len));
            let gap = strides[k].saturating_sub(len as u64);
            match longer {
                Some(longer) if shape[k] == 1 || (gap <= GAP as u64 && longer <= SPAN) => {
                    len = longer;
                    inner.insert(0, k);
                    outer.pop();
                }
                // A run without gaps goes straight to its place, so its length is not limited.
                Some(longer) if gap == 0 => {
                    len = longer;
                    inner.insert(0, k);
                    outer.pop();
                }
                _ => break,
            }
        }
        Self { len, inner, outer }
    }

    /// Whether a span holds nothing but elements of the box.
    fn is_dense(&self, shape: &[u64], element: usize) -> bool {
        let wanted = self.inner.iter().try_fold(element, |n, &k| n.checked_mul(shape[k] as usize));
        wanted == Some(self.len)
    }

    /// Where the spans begin: in the file, and in the target.
    fn places(
        &self,
        shape: &[u64],
        in_file: &[u64],
        in_target: &[usize],
    ) -> impl Iterator<Item = (u64, usize)> {
        let lengths: Vec<u64> = self.outer.iter().map(|&k| shape[k]).collect();
        let strides: Vec<(u64, usize)> =
            self.outer.iter().map(|&k| (in_file[k], in_target[k])).collect();
        let count: u64 = lengths.iter().product();
        (0..count).map(move |i| {
            let at = place(i, &lengths);
            at.iter().zip(&strides).fold((0, 0), |(file, target), (&i, &(f, t))| {
                (file + i * f, target + i as usize * t)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_gaps_are_read_along_and_long_ones_skipped() {
        // 8 rows of 16 bytes, 1 KiB apart; planes 1 MiB apart.
        let spans = Spans::new(&[4, 8, 8], &[1 << 20, 1 << 10, 2], 2);
        assert_eq!(spans, Spans { len: 7 * 1024 + 16, inner: vec![1, 2], outer: vec![0] });
        // Rows 8 KiB apart.
        let spans = Spans::new(&[8, 8], &[8 << 10, 2], 2);
        assert_eq!(spans, Spans { len: 16, inner: vec![1], outer: vec![0] });
        // Whole planes, whatever their size.
        let spans = Spans::new(&[8, 1024, 1024], &[2 << 20, 2 << 10, 2], 2);
        assert_eq!(spans, Spans { len: 16 << 20, inner: vec![0, 1, 2], outer: vec![] });
    }

    proptest! {
        #[test]
        fn any_box_of_a_file_is_found_in_any_order(
            axes in proptest::collection::vec((1u64..9, 0u64..8, 1u64..9), 0..4),
            fortran: bool,
            swap: bool,
            wide: bool,
            kept: bool,
        ) {
            // A wide last axis has gaps that are skipped.
            let widen = |k: usize, n: u64| if wide && k == 0 { n * 3000 } else { n };
            let shape: Vec<u64> = axes.iter().enumerate().map(|(k, a)| widen(k, a.0)).collect();
            let start: Vec<u64> = axes.iter().zip(&shape).map(|(a, &n)| a.1.min(n - 1)).collect();
            let part: Vec<u64> =
                axes.iter().zip(&shape).zip(&start).map(|((a, &n), &s)| a.2.min(n - s)).collect();
            let total: u64 = shape.iter().product();
            // Each element is its own number in C order.
            let mut bytes = b"head".to_vec();
            for i in 0..total {
                let at = if fortran {
                    let reversed: Vec<u64> = shape.iter().rev().copied().collect();
                    place(i, &reversed).into_iter().rev().collect()
                } else {
                    place(i, &shape)
                };
                let number = at.iter().zip(&shape).fold(0, |n, (&i, &len)| n * len + i) as u32;
                bytes.extend(if swap { number.to_be_bytes() } else { number.to_le_bytes() });
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let conversion = if swap { Conversion::Swap } else { Conversion::None };
            let layout = FileLayout { data_start: 4, shape: &shape, fortran, conversion };
            let data_type = DataType::parse_name("uint32").unwrap();
            let mut source = ArrayFile::new(file, layout, &data_type).unwrap();
            if kept {
                // With or without the hint of how chunks are read, the result is the same.
                let (chunk, per_shard) = (vec![2; shape.len()], vec![2; shape.len()]);
                source = source.keeping(Neighbours { chunk: &chunk, per_shard: &per_shard, memory: 4000 });
            }
            let count: u64 = part.iter().product();
            let mut out = vec![0; count as usize * 4 + 4];
            let mut to = Placement::contiguous(&part, 4).unwrap();
            to.start = 4;
            source.copy_box(&start, &part, &mut out, &to).unwrap();
            for i in 0..count {
                let at = place(i, &part);
                let number = at.iter().zip(&start).zip(&shape).fold(0, |n, ((&i, &s), &len)| n * len + i + s);
                let found = &out[4 + 4 * i as usize..][..4];
                prop_assert_eq!(found, (number as u32).to_le_bytes());
            }
        }
    }
}
