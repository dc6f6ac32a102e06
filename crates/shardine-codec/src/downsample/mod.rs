//! Reduces boxes of elements to one element each, as the levels of a pyramid need it.
//!
//! A box is what a factor per axis spans: 2 x 2 x 2 elements, say. At the end of an array a box may
//! be cut off; then only the elements that exist count. What each [`DownsampleMethod`] means is defined to the
//! last bit, so that two programs that build a pyramid agree: integers are summed exactly and
//! rounded once, to the nearest, halves to even; floating-point numbers are summed in C order in
//! their own type (16-bit ones in `float32`) and divided once.
//!
//! A NaN in a box makes a [`DownsampleMethod::Mean`] NaN. [`DownsampleMethod::Min`] and [`DownsampleMethod::Max`] ignore NaNs
//! unless there is nothing else. For [`DownsampleMethod::Mode`] and [`DownsampleMethod::Median`] a NaN is a value like
//! any other, larger than all numbers, and all NaNs are the same; so are the two zeros.

mod extremes;
mod mean;
mod order;
mod sample;
mod stride;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::strided::{Axes, OutOfMemory, Placement};
use crate::{Context, DataType, ElementSize, Kind};
use sample::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

/// How a box of elements becomes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DownsampleMethod {
    /// The mean; of integers, rounded to the nearest, halves to even. `bool` counts as 0 and 1.
    Mean,
    /// The most frequent value; of several, the smallest. For labels.
    Mode,
    /// The middle one of the sorted values; of an even number, the lower of the two in the middle.
    Median,
    /// The first element of the box.
    Stride,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl DownsampleMethod {
    /// All methods.
    pub const ALL: [Self; 6] =
        [Self::Mean, Self::Mode, Self::Median, Self::Stride, Self::Max, Self::Min];

    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Mode => "mode",
            Self::Median => "median",
            Self::Stride => "stride",
            Self::Max => "max",
            Self::Min => "min",
        }
    }
}

impl fmt::Display for DownsampleMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DownsampleMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|method| method.name() == text);
        found.ok_or_else(|| {
            format!("\"{text}\" is not a method: mean, mode, median, stride, max or min")
        })
    }
}

/// Why elements cannot be reduced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DownsampleError {
    /// The method is not defined for the type.
    #[error("elements of type {data_type} have no {method}")]
    Type {
        /// The method.
        method: DownsampleMethod,
        /// The name of the type.
        data_type: String,
    },
    /// A factor is 0, or their product is more than [`Downsample::MOST`].
    #[error("factors {factors:?} are not positive, or reduce more than {most} elements to one")]
    Factors {
        /// The factors.
        factors: Vec<u64>,
        /// How many may be reduced to one.
        most: u64,
    },
}

/// The source rows that one row of results is made from.
struct Rows<'a> {
    source: &'a [u8],
    /// Where the first row starts.
    base: usize,
    /// Where each row starts, from there; in C order.
    starts: &'a [usize],
    /// Positions along a row.
    len: usize,
    /// Positions that become one.
    factor: usize,
    /// Elements side by side at each position, which stay apart.
    inner: usize,
}

impl<'a> Rows<'a> {
    /// The bytes of each row, for elements of this many bytes.
    fn bytes(&self, element: usize) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        let (source, base, len) = (self.source, self.base, self.len * self.inner * element);
        // The caller has checked the box against its memory.
        self.starts.iter().map(move |start| source.get(base + start..).unwrap_or_default()).map(
            move |row| match row.get(..len) {
                Some(row) => row,
                None => &[],
            },
        )
    }

    /// Whole boxes along a row, and positions left at its end.
    fn boxes(&self) -> (usize, usize) {
        (self.len / self.factor, self.len % self.factor)
    }
}

/// Makes one row of results.
type Reduce = fn(&mut Context, &Rows<'_>, &mut [u8]);

/// Reduces blocks of elements of one type by fixed factors.
#[derive(Debug, Clone)]
pub struct Downsample {
    factors: Axes<usize>,
    element: usize,
    reduce: Reduce,
}

/// An axis of a block.
#[derive(Debug, Clone, Copy)]
struct Axis {
    len: usize,
    factor: usize,
    /// Bytes from one element to the next, in the source and in the target.
    from: usize,
    to: usize,
}

impl Downsample {
    /// The most elements that become one.
    pub const MOST: u64 = 1 << 24;

    /// For elements of this type, with a factor for each axis.
    pub fn new(
        data_type: &DataType,
        method: DownsampleMethod,
        factors: &[u64],
    ) -> Result<Self, DownsampleError> {
        let count = factors.iter().try_fold(1u64, |n, &f| n.checked_mul(f));
        let count = count.filter(|count| (1..=Self::MOST).contains(count)).ok_or_else(|| {
            DownsampleError::Factors { factors: factors.to_vec(), most: Self::MOST }
        })?;
        let refuse = || DownsampleError::Type { method, data_type: data_type.name().to_owned() };
        let ElementSize::Fixed(element) = data_type.size() else { return Err(refuse()) };
        let reduce = match method {
            DownsampleMethod::Stride => stride::of_size(element),
            _ => by_type(data_type, method, count).ok_or_else(refuse)?,
        };
        // Each is at most the product.
        let factors = factors.iter().map(|&factor| factor as usize).collect();
        Ok(Self { factors, element, reduce })
    }

    /// The shape of the result for a block of this shape: halves, say, rounded up.
    pub fn reduced(&self, shape: &[usize]) -> Axes<usize> {
        shape.iter().zip(&self.factors).map(|(&n, &factor)| n.div_ceil(factor)).collect()
    }

    /// Reduces a block of elements in C order, and puts the results to their places in `target`.
    ///
    /// The block begins at the beginning of a box along each axis; where it does not end at the end
    /// of one, there is nothing behind it. Fails if the block or its places exceed their memory, or
    /// the places along the last axis are not adjacent.
    pub fn run(
        &self,
        context: &mut Context,
        shape: &[usize],
        source: &[u8],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), OutOfMemory> {
        if shape.len() != self.factors.len() || to.strides.len() != shape.len() {
            return Err(OutOfMemory);
        }
        let reduced = self.reduced(shape);
        let len = shape.iter().try_fold(self.element, |n, &d| n.checked_mul(d));
        let fits = len.is_some_and(|len| len <= source.len())
            && to.end(&reduced, self.element).is_some_and(|end| end <= target.len());
        let dense = match (reduced.last(), to.strides.last()) {
            (Some(&n), Some(&stride)) => n <= 1 || stride == self.element,
            _ => true,
        };
        if !fits || !dense {
            return Err(OutOfMemory);
        }
        if shape.contains(&0) {
            return Ok(());
        }
        let (mut outer, row, inner) = self.arrange(shape, to);
        outer.retain(|axis| axis.len > 1);
        let row_bytes = row.len.div_ceil(row.factor) * inner * self.element;
        let mut boxes = OuterBoxes::new(outer);
        while let Some((from, place)) = boxes.next() {
            let rows = Rows {
                source,
                base: from,
                starts: &boxes.starts,
                len: row.len,
                factor: row.factor,
                inner,
            };
            let place = to.start + place;
            let out = target.get_mut(place..place + row_bytes).ok_or(OutOfMemory)?;
            (self.reduce)(context, &rows, out);
        }
        Ok(())
    }

    /// Sorts the axes of a block: those outside of a row, the one along it, and how many elements
    /// lie side by side at each of its positions.
    fn arrange(&self, shape: &[usize], to: &Placement) -> (SmallVec<[Axis; 6]>, Axis, usize) {
        let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
        let mut from = self.element;
        for ((&len, &factor), &to) in shape.iter().zip(&self.factors).zip(&to.strides).rev() {
            axes.push(Axis { len, factor, from, to });
            from *= len;
        }
        axes.reverse();
        axes.retain(|axis| axis.len > 1);
        let mut inner = 1;
        while let Some(&last) = axes.last()
            && last.factor == 1
            && last.to == inner * self.element
        {
            inner *= last.len;
            axes.pop();
        }
        let row = match axes.last() {
            Some(&last) if last.to == inner * self.element || last.len <= last.factor => {
                axes.pop();
                last
            }
            _ => Axis { len: 1, factor: 1, from: 0, to: 0 },
        };
        (axes, row, inner)
    }
}

/// Walks over the boxes of the outer axes, in C order.
struct OuterBoxes {
    axes: SmallVec<[Axis; 6]>,
    at: SmallVec<[usize; 6]>,
    /// Where the rows of the current box start, from its first row on.
    starts: Vec<usize>,
    /// How far the current box reaches along each axis.
    extents: SmallVec<[usize; 6]>,
    done: bool,
}

impl OuterBoxes {
    fn new(axes: SmallVec<[Axis; 6]>) -> Self {
        let at = SmallVec::from_elem(0, axes.len());
        Self { axes, at, starts: Vec::new(), extents: SmallVec::new(), done: false }
    }

    /// Where the next box begins in the source and in the target.
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.done {
            return None;
        }
        let axes = self.axes.iter().zip(&self.at);
        let extents: SmallVec<[usize; 6]> =
            axes.clone().map(|(axis, &at)| axis.factor.min(axis.len - at * axis.factor)).collect();
        let from = axes.clone().map(|(axis, &at)| at * axis.factor * axis.from).sum();
        let place = axes.map(|(axis, &at)| at * axis.to).sum();
        if self.starts.is_empty() || extents != self.extents {
            self.extents = extents;
            self.set_starts();
        }
        self.advance();
        Some((from, place))
    }

    fn set_starts(&mut self) {
        self.starts.clear();
        self.starts.push(0);
        for (axis, &extent) in self.axes.iter().zip(&self.extents) {
            let before = std::mem::take(&mut self.starts);
            for start in before {
                self.starts.extend((0..extent).map(|i| start + i * axis.from));
            }
        }
    }

    fn advance(&mut self) {
        for (axis, at) in self.axes.iter().zip(&mut self.at).rev() {
            *at += 1;
            if *at < axis.len.div_ceil(axis.factor) {
                return;
            }
            *at = 0;
        }
        self.done = true;
    }
}

/// The kernel for a type with an order and a sum; `None` for others. `count` elements become one.
fn by_type(data_type: &DataType, method: DownsampleMethod, count: u64) -> Option<Reduce> {
    // So many 16-bit numbers fit a sum of 32 bits.
    let few = count <= 1 << 16;
    macro_rules! integer {
        ($type:ty, $narrow:ty, $wide:ty) => {
            match method {
                DownsampleMethod::Mean if few => mean::integers::<$type, $narrow>,
                DownsampleMethod::Mean => mean::integers::<$type, $wide>,
                DownsampleMethod::Mode => order::mode::<$type>,
                DownsampleMethod::Median => order::median::<$type>,
                DownsampleMethod::Max => extremes::max::<$type>,
                DownsampleMethod::Min => extremes::min::<$type>,
                DownsampleMethod::Stride => return None,
            }
        };
    }
    macro_rules! float {
        ($type:ty) => {
            match method {
                DownsampleMethod::Mean => mean::floats::<$type>,
                DownsampleMethod::Mode => order::mode::<$type>,
                DownsampleMethod::Median => order::median::<$type>,
                DownsampleMethod::Max => extremes::max::<$type>,
                DownsampleMethod::Min => extremes::min::<$type>,
                DownsampleMethod::Stride => return None,
            }
        };
    }
    let reduce: Reduce = match (data_type.kind(), data_type.size()) {
        (Kind::Bool | Kind::UInt, ElementSize::Fixed(1)) => integer!(U8, u32, u64),
        (Kind::UInt, ElementSize::Fixed(2)) => integer!(U16, u32, u64),
        (Kind::UInt, ElementSize::Fixed(4)) => integer!(U32, u64, u64),
        (Kind::UInt, ElementSize::Fixed(8)) => integer!(U64, u128, u128),
        (Kind::Int, ElementSize::Fixed(1)) => integer!(I8, i32, i64),
        (Kind::Int, ElementSize::Fixed(2)) => integer!(I16, i32, i64),
        (Kind::Int, ElementSize::Fixed(4)) => integer!(I32, i64, i64),
        (Kind::Int, ElementSize::Fixed(8)) => integer!(I64, i128, i128),
        (Kind::Float, ElementSize::Fixed(2)) => float!(F16),
        (Kind::Float, ElementSize::Fixed(4)) => float!(F32),
        (Kind::Float, ElementSize::Fixed(8)) => float!(F64),
        (Kind::SmallFloat, ElementSize::Fixed(2)) => float!(Bf16),
        _ => return None,
    };
    Some(reduce)
}
