//! The most frequent and the middle value of a box.

use smallvec::SmallVec;

use super::Rows;
use super::sample::Sample;
use crate::Context;

/// The sorted values of a box, kept between boxes.
#[derive(Default)]
struct Keys<K>(Vec<K>);

pub(super) fn mode<T: Sample<Key: Default>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
) {
    each_box::<T>(context, rows, out, &mut |keys| {
        keys.sort_unstable();
        let (mut best, mut most) = (T::Key::default(), 0);
        // Of equally frequent ones the first stays, which is the smallest.
        for run in keys.chunk_by(|a, b| a == b) {
            if run.len() > most
                && let Some(key) = run.first()
            {
                (best, most) = (*key, run.len());
            }
        }
        best
    });
}

pub(super) fn median<T: Sample<Key: Default>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
) {
    each_box::<T>(context, rows, out, &mut |keys| {
        let middle = keys.len().saturating_sub(1) / 2;
        *keys.select_nth_unstable(middle).1
    });
}

/// Calls `choose` with the values of each box that are not all the same.
#[inline]
fn each_box<T: Sample<Key: Default>>(
    context: &mut Context,
    rows: &Rows<'_>,
    out: &mut [u8],
    choose: &mut dyn FnMut(&mut [T::Key]) -> T::Key,
) {
    let keys = &mut context.slot::<Keys<T::Key>>().0;
    let split: SmallVec<[&[T::Bytes]; 8]> = rows.bytes(T::SIZE).map(T::split).collect();
    let (factor, inner) = (rows.factor, rows.inner);
    for (place, out) in T::split_mut(out).chunks_mut(inner).enumerate() {
        let first = place * factor;
        let end = (first + factor).min(rows.len) * inner;
        for (lane, out) in out.iter_mut().enumerate() {
            let start = first * inner + lane;
            let Some(&one) = split.first().and_then(|row| row.get(start)) else { continue };
            // Most boxes of labels hold one.
            let values = || split.iter().filter_map(|row| row.get(start..end));
            if values().all(|row| row.iter().step_by(inner).all(|value| *value == one)) {
                *out = T::store(T::of_key(T::key(T::load(one))));
                continue;
            }
            keys.clear();
            for row in values() {
                keys.extend(row.iter().step_by(inner).map(|bytes| T::key(T::load(*bytes))));
            }
            *out = T::store(T::of_key(choose(keys)));
        }
    }
}
