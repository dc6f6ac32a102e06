//! Basic indexing: integers, slices, `...` and `None`, in the semantics of numpy.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PySliceMethods, PyTuple};
use shardine::{Axis, Selection};

/// What an index selects.
pub struct Basic {
    /// The elements, in the order in which they are stored.
    pub selection: Selection,
    /// The dimensions of the result.
    pub dimensions: Vec<Dimension>,
}

/// One dimension of the result of an index.
#[derive(Clone, Copy)]
pub enum Dimension {
    /// An axis of the array; whether its elements come in reverse order.
    Axis { axis: usize, reversed: bool },
    /// A new axis of length 1.
    New,
}

/// Parses an index; `None` if it is not basic, and so has to be looked at by `shardine._indexing`.
pub fn parse(key: &Bound<'_, PyAny>, shape: &[u64]) -> PyResult<Option<Basic>> {
    match key.cast::<PyTuple>() {
        Ok(items) => parse_items(&items.iter().collect::<Vec<_>>(), shape),
        Err(_) => parse_items(std::slice::from_ref(key), shape),
    }
}

fn parse_items(items: &[Bound<'_, PyAny>], shape: &[u64]) -> PyResult<Option<Basic>> {
    let is_ellipsis = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyEllipsis>();
    let ellipses = items.iter().filter(|item| is_ellipsis(item)).count();
    let new = items.iter().filter(|item| item.is_none()).count();
    let given = items.len() - ellipses - new;
    if ellipses > 1 || given > shape.len() {
        return Ok(None);
    }
    let mut axes = Vec::with_capacity(shape.len());
    let mut dimensions = Vec::with_capacity(shape.len() + new);
    let whole = |axes: &mut Vec<Axis>, dimensions: &mut Vec<Dimension>| {
        dimensions.push(Dimension::Axis { axis: axes.len(), reversed: false });
        axes.push(Axis::whole(shape[axes.len()]));
    };
    for item in items {
        if item.is_none() {
            dimensions.push(Dimension::New);
        } else if is_ellipsis(item) {
            (given..shape.len()).for_each(|_| whole(&mut axes, &mut dimensions));
        } else {
            let axis = axes.len();
            let len = shape[axis];
            if let Ok(slice) = item.cast::<PySlice>() {
                let (range, reversed) = range_of(slice, len)?;
                axes.push(range);
                dimensions.push(Dimension::Axis { axis, reversed });
            } else if let Some(start) = integer(item)?.and_then(|at| position(at, len)) {
                axes.push(Axis { start, step: 1, count: 1 });
            } else {
                // Out of bounds here, too: a mask further on may cover several axes, and then this
                // is the index of another one.
                return Ok(None);
            }
        }
    }
    (axes.len()..shape.len()).for_each(|_| whole(&mut axes, &mut dimensions));
    Ok(Some(Basic { selection: Selection { axes: axes.into() }, dimensions }))
}

/// An integer index; `None` if it is something else, such as an array or a bool.
fn integer(item: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if item.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if !item.is_instance_of::<PyInt>() && item.getattr_opt("__index__")?.is_none() {
        return Ok(None);
    }
    // Anything else that has an `__index__`, such as an array, is left to the other parser.
    Ok(item.extract().ok())
}

/// An index counted from the beginning; `None` if it is out of bounds.
fn position(at: i64, len: u64) -> Option<u64> {
    let from_start = if at < 0 { len.checked_add_signed(at) } else { Some(at.unsigned_abs()) };
    from_start.filter(|&at| at < len)
}

/// The elements of a slice in ascending order, and whether that is the reverse of the slice's own.
fn range_of(slice: &Bound<'_, PySlice>, len: u64) -> PyResult<(Axis, bool)> {
    let len = isize::try_from(len)
        .map_err(|_| PyIndexError::new_err("an axis is too long to be indexed"))?;
    let found = slice.indices(len)?;
    let (count, step) = (found.slicelength as u64, found.step.unsigned_abs() as u64);
    if count == 0 {
        return Ok((Axis { start: 0, step: 1, count: 0 }, false));
    }
    let first = found.start as u64;
    Ok(match found.step < 0 {
        false => (Axis { start: first, step, count }, false),
        true => (Axis { start: first - (count - 1) * step, step, count }, true),
    })
}
