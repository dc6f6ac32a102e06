//! The first element of a box.

use super::{Reduce, Rows};
use crate::Context;

/// The kernel for elements of this many bytes.
pub(super) fn of_size(element: usize) -> Reduce {
    match element {
        1 => sized::<1>,
        2 => sized::<2>,
        4 => sized::<4>,
        8 => sized::<8>,
        _ => any,
    }
}

fn sized<const N: usize>(_: &mut Context, rows: &Rows<'_>, out: &mut [u8]) {
    let Some(first) = rows.bytes(N).next() else { return };
    let ((from, _), (out, _)) = (first.as_chunks::<N>(), out.as_chunks_mut::<N>());
    if rows.inner == 1 {
        for (out, element) in out.iter_mut().zip(from.iter().step_by(rows.factor)) {
            *out = *element;
        }
        return;
    }
    let boxes = from.chunks(rows.inner).step_by(rows.factor);
    for (out, elements) in out.chunks_mut(rows.inner).zip(boxes) {
        out.copy_from_slice(elements);
    }
}

/// Elements of any size.
fn any(_: &mut Context, rows: &Rows<'_>, out: &mut [u8]) {
    let positions = rows.len.div_ceil(rows.factor);
    let size = out.len().checked_div(positions).unwrap_or(0).max(1);
    let start = rows.base + rows.starts.first().copied().unwrap_or(0);
    let from = rows.source.get(start..).unwrap_or_default();
    for (out, elements) in out.chunks_mut(size).zip(from.chunks(size).step_by(rows.factor)) {
        out.copy_from_slice(elements);
    }
}
