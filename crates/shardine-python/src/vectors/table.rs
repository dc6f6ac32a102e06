//! Tables of Python as batches of Arrow: through the C data interface, or from columns of numpy.

use std::ffi::CStr;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use super::columns;
use crate::error;

/// The name of a capsule with a stream of batches.
pub const STREAM: &CStr = c"arrow_array_stream";

/// Batches of a table, one after the other.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The columns and the batches of a table: a list of columns as `shardine.vectors` makes them, or
/// anything with `__arrow_c_stream__`.
pub fn batches(table: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Batches)> {
    if let Ok(list) = table.cast::<PyList>() {
        let batch = columns::record_batch(list)?;
        return Ok((batch.schema(), Box::new(std::iter::once(Ok(batch)))));
    }
    let reader = stream(table)?;
    Ok((reader.schema(), Box::new(reader)))
}

/// All rows of a table as one batch.
pub fn whole(table: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let list = table.cast::<PyList>().map_err(|_| PyTypeError::new_err("needs columns"))?;
    columns::record_batch(list)
}

fn stream(table: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let py = table.py();
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let capsule = capsule
        .cast_into::<PyCapsule>()
        .map_err(|_| PyTypeError::new_err("__arrow_c_stream__ returned no capsule"))?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a stream of the C data interface. It is moved out, and an
    // empty one is left in its place, which the capsule then has nothing to release of.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    reader
        .map_err(|failed| error::request(py, &format!("the table cannot be read: {failed}"), None))
}
