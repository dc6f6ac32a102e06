//! The memory of numpy arrays.

use std::slice;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use shardine::Placement;

/// A new array whose elements are not set, as `numpy.empty` makes it: large ones in huge pages,
/// `MemoryError` if there is no room.
pub fn empty<'py>(
    py: Python<'py>,
    shape: &[u64],
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let empty = EMPTY
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.getattr("empty")?.unbind()))?;
    let made = empty.bind(py).call1((PyTuple::new(py, shape)?, dtype));
    // What could not even be addressed is a `ValueError` to numpy.
    let made = made.map_err(|error| match error.is_instance_of::<PyValueError>(py) {
        true => PyMemoryError::new_err(error.value(py).to_string()),
        false => error,
    })?;
    Ok(made.cast_into::<PyUntypedArray>()?)
}

/// The bytes that an array spans, and where in them its elements are.
pub struct Memory<T> {
    /// From the first byte of the first element to the last byte of the last one.
    pub bytes: T,
    /// The first element is at 0.
    pub place: Placement,
}

/// The bytes of an array that nothing else refers to, or that the caller of the package has given
/// to be filled.
///
/// # Safety
/// The array must live as long as the memory, and nobody else may use its elements.
pub unsafe fn mutable<'a>(
    array: &Bound<'_, PyUntypedArray>,
    element: usize,
) -> PyResult<Memory<&'a mut [u8]>> {
    let (start, len, place) = span(array, element)?;
    let bytes = match len {
        0 => Default::default(),
        // SAFETY: numpy guarantees that all elements lie in its memory; see `span`. The caller
        // guarantees that this is the only reference.
        len => unsafe { slice::from_raw_parts_mut(start, len) },
    };
    Ok(Memory { bytes, place })
}

/// The bytes of an array that is read.
///
/// # Safety
/// The array must live as long as the memory, and nobody may change its elements meanwhile.
pub unsafe fn shared<'a>(
    array: &Bound<'_, PyUntypedArray>,
    element: usize,
) -> PyResult<Memory<&'a [u8]>> {
    let (start, len, place) = span(array, element)?;
    let bytes = match len {
        0 => Default::default(),
        // SAFETY: as in `mutable`.
        len => unsafe { slice::from_raw_parts(start.cast_const(), len) },
    };
    Ok(Memory { bytes, place })
}

/// Where the elements of an array with ascending axes lie.
fn span(
    array: &Bound<'_, PyUntypedArray>,
    element: usize,
) -> PyResult<(*mut u8, usize, Placement)> {
    if array.dtype().itemsize() != element {
        let message = format!("the array in memory has elements of type {}", array.dtype());
        return Err(PyTypeError::new_err(message));
    }
    let counts = array.shape();
    let single = |(&stride, &count): (&isize, &usize)| if count < 2 { 0 } else { stride };
    let strides = array.strides().iter().zip(counts).map(single).map(usize::try_from);
    let strides: Result<Vec<usize>, _> = strides.collect();
    let descending = |_| PyTypeError::new_err("an axis of the array in memory is reversed");
    let place = Placement { start: 0, strides: strides.map_err(descending)?.into() };
    let len = place.end(counts, element);
    let len = len.ok_or_else(|| PyTypeError::new_err("the array in memory is too large"))?;
    // SAFETY: the pointer refers to a live array object, whose fields are read while attached.
    let start = unsafe { (*array.as_array_ptr()).fields.data }.cast::<u8>();
    Ok((start, len, place))
}
