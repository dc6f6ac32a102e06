//! Columns of numpy as columns of Arrow, without a copy.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, make_array,
};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error;

/// Types of numpy without the byte order, which is that of the machine.
pub const TYPES: [(&str, DataType, usize); 12] = [
    ("i1", DataType::Int8, 1),
    ("i2", DataType::Int16, 2),
    ("i4", DataType::Int32, 4),
    ("i8", DataType::Int64, 8),
    ("u1", DataType::UInt8, 1),
    ("u2", DataType::UInt16, 2),
    ("u4", DataType::UInt32, 4),
    ("u8", DataType::UInt64, 8),
    ("f2", DataType::Float16, 2),
    ("f4", DataType::Float32, 4),
    ("f8", DataType::Float64, 8),
    ("b1", DataType::Boolean, 1),
];

/// The memory of an array of numpy, which lives as long as this.
struct Borrowed {
    _buffer: PyBuffer<u8>,
}

/// The bytes of an object with contiguous memory. Not copied.
fn bytes(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let buffer = PyBuffer::<u8>::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("the memory of a column is not contiguous"));
    }
    let len = buffer.len_bytes();
    match NonNull::new(buffer.buf_ptr().cast::<u8>()) {
        Some(start) if len > 0 => {
            let owner = Arc::new(Borrowed { _buffer: buffer });
            // SAFETY: the memory has this length, and the buffer keeps it alive and in its place.
            Ok(unsafe { Buffer::from_custom_allocation(start, len, owner) })
        }
        _ => Ok(Buffer::from(Vec::<u8>::new())),
    }
}

/// A batch of columns: each is a tuple of a name and either the bytes of an array, its type and its
/// width, or a list of strings.
pub fn record_batch(columns: &Bound<'_, PyList>) -> PyResult<RecordBatch> {
    let py = columns.py();
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays = Vec::with_capacity(columns.len());
    for item in columns {
        let item = item.cast_into::<PyTuple>().map_err(PyErr::from)?;
        let name: String = item.get_item(0)?.extract()?;
        let array = match item.len() {
            2 => strings(&item.get_item(1)?)?,
            _ => {
                let (kind, width) = (item.get_item(2)?, item.get_item(3)?);
                let (kind, width) = (kind.extract::<String>()?, width.extract::<usize>()?);
                let array = numbers(bytes(&item.get_item(1)?)?, &kind, width);
                array.map_err(|failed| refused(py, &failed))?
            }
        };
        fields.push(Field::new(name, array.data_type().clone(), array.null_count() > 0));
        arrays.push(array);
    }
    let rows =
        RecordBatchOptions::new().with_row_count(Some(arrays.first().map_or(0, |a| a.len())));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &rows)
        .map_err(|failed| refused(py, &failed))
}

fn refused(py: Python<'_>, failed: &ArrowError) -> PyErr {
    error::request(py, &format!("the columns cannot be used: {failed}"), None)
}

fn strings(list: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let values: Vec<Option<String>> = list.extract()?;
    Ok(Arc::new(StringArray::from(values)))
}

/// An array of numbers, or of lists of `width` numbers if that is not 0.
fn numbers(bytes: Buffer, kind: &str, width: usize) -> Result<ArrayRef, ArrowError> {
    let Some((_, data_type, size)) = TYPES.iter().find(|(name, ..)| *name == kind) else {
        let reason = format!("numbers of type {kind} cannot be stored as attributes");
        return Err(ArrowError::InvalidArgumentError(reason));
    };
    let count = bytes.len() / size;
    let values: ArrayRef = match data_type {
        DataType::Boolean => {
            Arc::new(BooleanArray::from_iter(bytes.iter().map(|byte| Some(*byte != 0))))
        }
        data_type => {
            let data = ArrayData::builder(data_type.clone()).len(count).add_buffer(bytes);
            make_array(data.align_buffers(true).build()?)
        }
    };
    if width == 0 {
        return Ok(values);
    }
    let list = i32::try_from(width)
        .map_err(|_| ArrowError::InvalidArgumentError("a row is too wide".to_owned()))?;
    let item = Arc::new(Field::new("item", values.data_type().clone(), false));
    Ok(Arc::new(arrow_array::FixedSizeListArray::try_new(item, list, values, None)?))
}

/// The numbers of an array of unsigned 64-bit integers.
pub fn whole_numbers(array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let bytes = bytes(array)?;
    let whole = bytes.chunks_exact(8).map(|number| {
        let mut le = [0; 8];
        le.copy_from_slice(number);
        // Memory of numpy has the byte order of the machine.
        if cfg!(target_endian = "big") { u64::from_be_bytes(le) } else { u64::from_le_bytes(le) }
    });
    Ok(whole.collect())
}
