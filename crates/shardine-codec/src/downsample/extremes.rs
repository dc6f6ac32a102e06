//! The largest and the smallest of a box.

use super::Rows;
use super::sample::Sample;
use crate::Context;

/// Values, kept between rows.
#[derive(Default)]
struct Kept<V>(Vec<V>);

pub(super) fn max<T: Sample<Value: Default>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
) {
    fold::<T>(context, rows, out, T::greater);
}

pub(super) fn min<T: Sample<Value: Default>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
) {
    fold::<T>(context, rows, out, T::lesser);
}

/// Folds rows position by position, then boxes along them.
#[inline]
fn fold<T: Sample<Value: Default>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
    pick: impl Fn(T::Value, T::Value) -> T::Value + Copy,
) {
    let kept = &mut context.slot::<Kept<T::Value>>().0;
    let mut remaining = rows.bytes(T::SIZE).map(T::split);
    kept.clear();
    if let Some(first) = remaining.next() {
        kept.extend(first.iter().map(|bytes| T::load(*bytes)));
    }
    for row in remaining {
        for (kept, bytes) in kept.iter_mut().zip(row) {
            *kept = pick(*kept, T::load(*bytes));
        }
    }
    let out = T::split_mut(out);
    let (factor, inner) = (rows.factor, rows.inner);
    match (factor, inner) {
        (1, _) => {
            for (out, value) in out.iter_mut().zip(kept.iter()) {
                *out = T::store(*value);
            }
        }
        (2, 1) => {
            let (pairs, last) = kept.as_chunks::<2>();
            for (out, [a, b]) in out.iter_mut().zip(pairs) {
                *out = T::store(pick(*a, *b));
            }
            if let (Some(out), Some(value)) = (out.get_mut(pairs.len()), last.first()) {
                *out = T::store(*value);
            }
        }
        _ => {
            for (positions, out) in kept.chunks(factor * inner).zip(out.chunks_mut(inner)) {
                for (lane, out) in out.iter_mut().enumerate() {
                    let values = positions.iter().skip(lane).step_by(inner).copied();
                    if let Some(value) = values.reduce(pick) {
                        *out = T::store(value);
                    }
                }
            }
        }
    }
}
