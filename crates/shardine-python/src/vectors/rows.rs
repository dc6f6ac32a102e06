//! The rows of an answer, and how Python gets at them.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, SchemaRef};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use shardine::vectors::{GeometryBatch, GeometrySchema};

use super::columns::TYPES;
use super::table::STREAM;

/// Vertices and links that answer a query.
#[pyclass(frozen, module = "shardine._shardine", name = "VectorRows")]
pub struct Rows {
    schema: GeometrySchema,
    vertices: Vec<RecordBatch>,
    /// Which table a column is from: that of the vertices, or that of the links.
    link_attributes: Vec<RecordBatch>,
    links: Vec<u64>,
    #[pyo3(get)]
    notes: Vec<String>,
}

/// A column: its name, its type in numpy and the number of values in a row, 0 if a row is one.
type Column = (String, &'static str, usize);

impl Rows {
    pub fn new(schema: GeometrySchema, batches: Vec<GeometryBatch>, notes: Vec<String>) -> Self {
        let mut links = Vec::new();
        let (mut vertices, mut link_attributes) = (Vec::new(), Vec::new());
        for batch in batches {
            links.extend(batch.links.rows);
            link_attributes.extend(batch.links.attributes);
            vertices.push(batch.vertices);
        }
        Self { schema, vertices, link_attributes, links, notes }
    }

    fn columns_of(&self, of_links: bool) -> SchemaRef {
        match of_links {
            false => self.schema.vertex_columns(),
            true => {
                std::sync::Arc::new(arrow_schema::Schema::new(self.schema.link_attributes.clone()))
            }
        }
    }

    /// The pieces of a column.
    fn pieces(&self, name: &str, of_links: bool) -> PyResult<Vec<ArrayRef>> {
        let batches = if of_links { &self.link_attributes } else { &self.vertices };
        let piece = |batch: &RecordBatch| batch.column_by_name(name).cloned();
        let pieces: Option<Vec<ArrayRef>> = batches.iter().map(piece).collect();
        pieces.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

#[pymethods]
impl Rows {
    #[getter]
    fn kind(&self) -> &'static str {
        self.schema.kind.name()
    }

    #[getter]
    fn axes(&self) -> Vec<(String, Option<String>)> {
        self.schema.axes.iter().map(|axis| (axis.name.clone(), axis.unit.clone())).collect()
    }

    #[getter]
    fn has_objects(&self) -> bool {
        self.schema.objects
    }

    #[getter]
    fn vertex_count(&self) -> usize {
        self.vertices.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn link_width(&self) -> usize {
        self.schema.kind.link_width()
    }

    #[getter]
    fn link_count(&self) -> usize {
        self.links.len().checked_div(self.link_width()).unwrap_or(0)
    }

    /// The type of coordinates.
    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        plain(&self.schema.coordinate).map(|(kind, _)| kind)
    }

    /// The attributes of vertices, or of links.
    fn attributes(&self, of_links: bool) -> PyResult<Vec<Column>> {
        let fields = match of_links {
            false => &self.schema.vertex_attributes,
            true => &self.schema.link_attributes,
        };
        let column = |field: &arrow_schema::FieldRef| {
            let (kind, width) = plain(field.data_type())?;
            Ok((field.name().clone(), kind, width))
        };
        fields.iter().map(column).collect()
    }

    /// Writes the coordinates of all vertices into memory, vertex by vertex.
    fn fill_positions(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let rank = self.schema.axes.len();
        let size = self.schema.coordinate.primitive_width().unwrap_or(1);
        let out = Filled::get(out, self.vertex_count().saturating_mul(rank * size))?;
        py.detach(|| {
            let mut rest = out.bytes();
            for batch in &self.vertices {
                let len = batch.num_rows() * rank * size;
                let (here, after) = rest.split_at_mut(len.min(rest.len()));
                for (axis, column) in batch.columns().iter().take(rank).enumerate() {
                    let values = values(column, size);
                    match size {
                        4 => spread::<4>(here, values, axis, rank),
                        8 => spread::<8>(here, values, axis, rank),
                        2 => spread::<2>(here, values, axis, rank),
                        _ => spread::<1>(here, values, axis, rank),
                    }
                }
                rest = after;
            }
        });
        Ok(())
    }

    /// Writes the values of a column into memory. Returns whether some are missing.
    fn fill_column(&self, name: &str, of_links: bool, out: &Bound<'_, PyAny>) -> PyResult<bool> {
        let pieces = self.pieces(name, of_links)?;
        let mut total = Vec::new();
        let mut missing = false;
        for piece in &pieces {
            missing |= piece.null_count() > 0;
            total.push(column_bytes(piece)?);
        }
        let filled = Filled::get(out, total.iter().map(Vec::len).sum())?;
        let mut rest = filled.bytes();
        for bytes in &total {
            let (here, after) = rest.split_at_mut(bytes.len());
            here.copy_from_slice(bytes);
            rest = after;
        }
        Ok(missing)
    }

    /// Which values of a column are missing.
    fn missing(&self, name: &str, of_links: bool) -> PyResult<Vec<bool>> {
        let pieces = self.pieces(name, of_links)?;
        Ok(pieces.iter().flat_map(|piece| (0..piece.len()).map(|row| piece.is_null(row))).collect())
    }

    /// The strings of a column: each once, and which of them a row has; -1 for none.
    fn strings(&self, name: &str, of_links: bool) -> PyResult<(Vec<String>, Vec<i32>)> {
        let mut numbers: HashMap<String, i32> = HashMap::new();
        let (mut words, mut rows) = (Vec::new(), Vec::new());
        for piece in self.pieces(name, of_links)? {
            let Some(codes) = piece.as_dictionary_opt::<Int32Type>() else {
                return Err(PyKeyError::new_err(name.to_owned()));
            };
            let Some(values) = codes.values().as_string_opt::<i32>() else {
                return Err(PyKeyError::new_err(name.to_owned()));
            };
            let mut number = |word: &str| {
                *numbers.entry(word.to_owned()).or_insert_with(|| {
                    words.push(word.to_owned());
                    (words.len() - 1) as i32
                })
            };
            let here: Vec<i32> = values.iter().map(|word| word.map_or(-1, &mut number)).collect();
            rows.extend(codes.keys().iter().map(|code| {
                let code = code.and_then(|code| usize::try_from(code).ok());
                code.and_then(|code| here.get(code).copied()).unwrap_or(-1)
            }));
        }
        Ok((words, rows))
    }

    /// Writes the numbers of the vertices that links join into memory.
    fn fill_links(&self, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let out = Filled::get(out, self.links.len().saturating_mul(8))?;
        for (place, link) in out.bytes().chunks_exact_mut(8).zip(&self.links) {
            let bytes = match cfg!(target_endian = "big") {
                true => link.to_be_bytes(),
                false => link.to_le_bytes(),
            };
            place.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// The vertices as a stream of the Arrow C data interface, without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Another schema is a wish that need not be met.
        drop(requested_schema);
        let columns = self.columns_of(false);
        let batches = self.vertices.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, columns);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, STREAM)
    }
}

/// The type of a column in numpy, and the number of values in a row, 0 if a row is one.
fn plain(data_type: &DataType) -> PyResult<(&'static str, usize)> {
    let unknown = || PyValueError::new_err(format!("numpy has no type for {data_type}"));
    match data_type {
        DataType::Dictionary(..) => Ok(("str", 0)),
        DataType::FixedSizeList(item, width) => {
            let (kind, _) = plain(item.data_type())?;
            Ok((kind, usize::try_from(*width).map_err(|_| unknown())?))
        }
        data_type => {
            let found = TYPES.iter().find(|(_, known, _)| known == data_type);
            found.map(|(kind, ..)| (*kind, 0)).ok_or_else(unknown)
        }
    }
}

/// The bytes of the values of a column of numbers.
fn values(column: &ArrayRef, size: usize) -> Vec<u8> {
    let data = column.to_data();
    let start = data.offset() * size;
    let bytes = data.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
    bytes.get(start..start + column.len() * size).unwrap_or_default().to_vec()
}

fn column_bytes(column: &ArrayRef) -> PyResult<Vec<u8>> {
    if let Some(list) = column.as_fixed_size_list_opt() {
        let width = list.value_length().unsigned_abs() as usize;
        // Values of the rows before a slice are still there.
        let first = list.offset() * width;
        let values = list.values().slice(first.min(list.values().len()), list.len() * width);
        return column_bytes(&values);
    }
    if let Some(flags) = column.as_boolean_opt() {
        return Ok((0..flags.len()).map(|row| u8::from(flags.value(row))).collect());
    }
    let size = column.data_type().primitive_width();
    let size = size.ok_or_else(|| PyValueError::new_err("the column has no numbers"))?;
    let mut bytes = values(column, size);
    if column.null_count() > 0 && column.data_type().is_floating() {
        let nan: &[u8] = match size {
            2 => &0x7e00u16.to_le_bytes(),
            4 => &f32::NAN.to_le_bytes(),
            _ => &f64::NAN.to_le_bytes(),
        };
        for row in (0..column.len()).filter(|row| column.is_null(*row)) {
            bytes[row * size..(row + 1) * size].copy_from_slice(nan);
        }
    }
    Ok(bytes)
}

/// Writes the values of one axis between those of the others.
fn spread<const N: usize>(out: &mut [u8], values: Vec<u8>, axis: usize, rank: usize) {
    let rows = out.chunks_exact_mut(N * rank);
    for (row, value) in rows.zip(values.chunks_exact(N)) {
        row[axis * N..(axis + 1) * N].copy_from_slice(value);
    }
}

/// Memory of numpy that is filled here.
struct Filled {
    buffer: PyBuffer<u8>,
    len: usize,
}

impl Filled {
    /// Memory that `shardine.vectors` has just made, of this many bytes.
    fn get(object: &Bound<'_, PyAny>, len: usize) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(object)?;
        if buffer.readonly() || !buffer.is_c_contiguous() || buffer.len_bytes() != len {
            return Err(PyValueError::new_err("the memory is not what it should be"));
        }
        Ok(Self { buffer, len })
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self) -> &mut [u8] {
        match self.len {
            0 => &mut [],
            // SAFETY: the memory has this length, is writable, and was made for this call: nothing
            // else refers to it.
            len => unsafe {
                std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast::<u8>(), len)
            },
        }
    }
}
