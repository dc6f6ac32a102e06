//! Means.

use super::Rows;
use super::sample::{Float, Sample};
use crate::Context;

/// Sums, kept between rows.
#[derive(Default)]
struct Sums<S>(Vec<S>);

/// A sum of values of type `T`, wide enough for all of a box.
pub(super) trait Sum<T>: Copy + Default + Send + 'static {
    fn of(value: T) -> Self;
    fn plus(self, other: Self) -> Self;
    /// The sum divided by 2 to the power of `bits`, rounded to the nearest, halves to even.
    fn shifted(self, bits: u32) -> T;
    /// The same for any other number.
    fn over(self, count: u32) -> T;
}

macro_rules! sums {
    ($($type:ty, $sum:ty;)*) => {$(
        impl Sum<$type> for $sum {
            #[inline]
            fn of(value: $type) -> Self {
                Self::from(value)
            }

            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline]
            fn shifted(self, bits: u32) -> $type {
                if bits == 0 {
                    return self as $type;
                }
                let below = self >> bits;
                // What lies halfway goes up only from an odd number.
                let half: Self = 1 << (bits - 1);
                ((self + (half - 1) + (below & 1)) >> bits) as $type
            }

            #[inline]
            fn over(self, count: u32) -> $type {
                let count = Self::try_from(count).unwrap_or(Self::MAX);
                let (below, rest) = (self.div_euclid(count), self.rem_euclid(count));
                let above = count - rest;
                let up = rest > above || rest == above && below & 1 == 1;
                (below + Self::from(up)) as $type
            }
        }
    )*};
}

sums! {
    u8, u32;
    u8, u64;
    u16, u32;
    u16, u64;
    u32, u64;
    u64, u128;
    i8, i32;
    i8, i64;
    i16, i32;
    i16, i64;
    i32, i64;
    i64, i128;
}

/// Means of integers: rows are added up first, which reads memory in order, then boxes along them.
pub(super) fn integers<T: Sample, S: Sum<T::Value>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
) {
    let sums = &mut context.slot::<Sums<S>>().0;
    add_up::<T, S>(rows, sums);
    let out = T::split_mut(out);
    let (factor, inner) = (rows.factor, rows.inner);
    let (whole, rest) = rows.boxes();
    let (full, cut) = out.split_at_mut(whole * inner);
    let count = rows.starts.len() * factor;
    match (factor, inner) {
        (1, _) => divide::<T, S>(full, sums.iter().copied(), count),
        (2, 1) => {
            let (pairs, _) = sums.as_chunks::<2>();
            divide::<T, S>(full, pairs.iter().map(|[a, b]| a.plus(*b)), count);
        }
        (4, 1) => {
            let (boxes, _) = sums.as_chunks::<4>();
            let total = |[a, b, c, d]: &[S; 4]| a.plus(*b).plus(c.plus(*d));
            divide::<T, S>(full, boxes.iter().map(total), count);
        }
        (_, 1) => {
            let total = |all: &[S]| all.iter().copied().fold(S::default(), S::plus);
            divide::<T, S>(full, sums.chunks_exact(factor).map(total), count);
        }
        _ => {
            for (lanes, out) in sums.chunks_exact(factor * inner).zip(full.chunks_exact_mut(inner))
            {
                divide::<T, S>(out, across(lanes, inner), count);
            }
        }
    }
    if rest > 0 {
        let lanes = sums.get(whole * factor * inner..).unwrap_or_default();
        divide::<T, S>(cut, across(lanes, inner), rows.starts.len() * rest);
    }
}

/// The sum at each of the positions side by side.
fn across<T, S: Sum<T>>(lanes: &[S], inner: usize) -> impl Iterator<Item = S> {
    (0..inner).map(move |lane| {
        lanes.iter().skip(lane).step_by(inner).copied().fold(S::default(), S::plus)
    })
}

/// Adds rows up, position by position.
fn add_up<T: Sample, S: Sum<T::Value>>(rows: &Rows<'_>, sums: &mut Vec<S>) {
    sums.resize(rows.len * rows.inner, S::default());
    let of = |bytes: &T::Bytes| S::of(T::load(*bytes));
    let mut remaining = rows.bytes(T::SIZE).map(T::split);
    // Four rows in one pass, as a box of 2 x 2 x 2 has, need no second look at the sums.
    if rows.starts.len() == 4
        && let (Some(a), Some(b), Some(c), Some(d)) =
            (remaining.next(), remaining.next(), remaining.next(), remaining.next())
    {
        for ((((sum, a), b), c), d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *sum = of(a).plus(of(b)).plus(of(c).plus(of(d)));
        }
        return;
    }
    if rows.starts.len() >= 2
        && let (Some(a), Some(b)) = (remaining.next(), remaining.next())
    {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum = of(a).plus(of(b));
        }
    } else if let Some(a) = remaining.next() {
        for (sum, a) in sums.iter_mut().zip(a) {
            *sum = of(a);
        }
    }
    for row in remaining {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum = sum.plus(of(value));
        }
    }
}

fn divide<T: Sample, S: Sum<T::Value>>(
    out: &mut [T::Bytes],
    sums: impl Iterator<Item = S>,
    count: usize,
) {
    if count.is_power_of_two() {
        let bits = count.trailing_zeros();
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = T::store(sum.shifted(bits));
        }
        return;
    }
    // At most 2^24.
    let count = count as u32;
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = T::store(sum.over(count));
    }
}

/// Means of floating-point numbers, which are added in C order.
pub(super) fn floats<T: Sample<Value: Float>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
) {
    let sums = &mut context.slot::<Sums<T::Value>>().0;
    let (factor, inner) = (rows.factor, rows.inner);
    let (whole, rest) = rows.boxes();
    sums.clear();
    sums.resize((whole + usize::from(rest > 0)) * inner, T::Value::default());
    for row in rows.bytes(T::SIZE) {
        add_in_order::<T>(sums, T::split(row), factor, inner);
    }
    let count = |positions: usize| (rows.starts.len() * positions) as u32;
    let (full, cut) = T::split_mut(out).split_at_mut(whole * inner);
    let mut sums = sums.iter();
    for (out, sum) in full.iter_mut().zip(sums.by_ref()) {
        *out = T::store(sum.over(count(factor)));
    }
    for (out, sum) in cut.iter_mut().zip(sums) {
        *out = T::store(sum.over(count(rest)));
    }
}

/// Adds a row to the sums of its boxes, from its beginning to its end.
fn add_in_order<T: Sample<Value: Float>>(
    sums: &mut [T::Value],
    row: &[T::Bytes],
    factor: usize,
    inner: usize,
) {
    let add = |sum: &mut T::Value, bytes: &T::Bytes| *sum = sum.plus(T::load(*bytes));
    match (factor, inner) {
        (1, _) => sums.iter_mut().zip(row).for_each(|(sum, value)| add(sum, value)),
        (2, 1) => {
            let (pairs, last) = row.as_chunks::<2>();
            for (sum, [a, b]) in sums.iter_mut().zip(pairs) {
                *sum = sum.plus(T::load(*a)).plus(T::load(*b));
            }
            if let (Some(sum), Some(value)) = (sums.get_mut(pairs.len()), last.first()) {
                add(sum, value);
            }
        }
        _ => {
            let boxes = row.chunks(factor * inner).zip(sums.chunks_mut(inner));
            for (positions, sums) in boxes {
                for lanes in positions.chunks(inner) {
                    sums.iter_mut().zip(lanes).for_each(|(sum, value)| add(sum, value));
                }
            }
        }
    }
}
