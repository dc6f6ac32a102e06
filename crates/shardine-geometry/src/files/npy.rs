//! Positions in `.npy` files, N x D.

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Fields, SchemaRef};
use shardine_npy::{Descr, Header};

use super::columns::{ColumnBuilder, Values, cast, is_number};
use super::options::ReadOptions;
use super::{cannot_hold, invalid};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySink, GeometrySource, Links};

const NPY: &str = ".npy";

/// Types of numbers and their names in the header, but for the byte order.
const TYPES: &[(&str, DataType, usize)] = &[
    ("i1", DataType::Int8, 1),
    ("i2", DataType::Int16, 2),
    ("i4", DataType::Int32, 4),
    ("i8", DataType::Int64, 8),
    ("u1", DataType::UInt8, 1),
    ("u2", DataType::UInt16, 2),
    ("u4", DataType::UInt32, 4),
    ("u8", DataType::UInt64, 8),
    ("f4", DataType::Float32, 4),
    ("f8", DataType::Float64, 8),
];

/// Reads an array of N x D numbers, a row for each point, in either order of axes and bytes.
pub struct NpyReader<R> {
    input: R,
    schema: GeometrySchema,
    columns: SchemaRef,
    stored: DataType,
    size: usize,
    big_endian: bool,
    fortran: bool,
    data_start: u64,
    rows: u64,
    next_row: u64,
    batch_rows: usize,
    bytes: Vec<u8>,
}

impl<R: Read + Seek> NpyReader<R> {
    /// Reads the header. Rows of lines are their ends in turn: each two form a line, whose id is
    /// its number.
    pub fn open(mut input: R, options: &ReadOptions) -> Result<Self, GeometryError> {
        let start = input.stream_position()?;
        let header = Header::read(&mut input)
            .map_err(|error| invalid(NPY, "header", format!("it {error}")))?;
        let wrong = |reason: String| invalid(NPY, "header", reason);
        let name = match &header.descr {
            Descr::Plain(name) => name.as_str(),
            Descr::Fields(_) => "a struct",
        };
        let found = TYPES.iter().find(|(code, ..)| name.get(1..) == Some(*code));
        let (order, Some((_, stored, size))) = (name.get(..1), found) else {
            return Err(wrong(format!("coordinates of type {name} are not read")));
        };
        let [rows, dimensions] = header.shape[..] else {
            let reason = format!("its shape {:?} is not that of N points of D axes", header.shape);
            return Err(wrong(reason));
        };
        let axes = options.axes_or_usual(dimensions.min(64) as usize);
        if axes.len() as u64 != dimensions || dimensions == 0 {
            let reason =
                format!("a row has {dimensions} numbers, and there are {} axes", axes.len());
            return Err(wrong(reason));
        }
        let data_start = start + header.data_start;
        let end = input.seek(SeekFrom::End(0))?;
        let needed = rows.checked_mul(dimensions).and_then(|count| count.checked_mul(*size as u64));
        if needed.is_none_or(|needed| needed > end.saturating_sub(data_start)) {
            return Err(wrong(format!("the file is too short for {rows} x {dimensions} numbers")));
        }
        let lines = options.kind == crate::GeometryKind::Lines;
        if options.kind.has_objects() && !lines {
            let what = format!("the objects of {}; give them as a table", options.kind.name());
            return Err(cannot_hold(NPY, what));
        }
        if lines && rows % 2 == 1 {
            return Err(wrong(format!("{rows} rows are not the ends of lines")));
        }
        let coordinate = options.coordinate.clone().unwrap_or_else(|| stored.clone());
        if !is_number(&coordinate) {
            return Err(cannot_hold(NPY, format!("coordinates of type {coordinate}")));
        }
        let schema = GeometrySchema {
            kind: options.kind,
            axes,
            coordinate,
            objects: lines,
            vertex_attributes: Fields::empty(),
            link_attributes: Fields::empty(),
        };
        Ok(Self {
            input,
            columns: schema.vertex_columns(),
            schema,
            stored: stored.clone(),
            size: *size,
            big_endian: order == Some(">"),
            fortran: header.fortran,
            data_start,
            rows,
            next_row: 0,
            batch_rows: options.rows(),
            bytes: Vec::new(),
        })
    }

    /// One coordinate of the next rows, of which `bytes` holds all in C order.
    fn column(&mut self, axis: usize, rows: usize) -> Result<ArrayRef, GeometryError> {
        let (size, dimensions) = (self.size, self.schema.axes.len());
        let mut step = size * dimensions;
        let mut start = size * axis;
        if self.fortran {
            (step, start) = (size, 0);
            let element = axis as u64 * self.rows + self.next_row;
            self.fill(element, rows)?;
        }
        let mut builder = ColumnBuilder::new(&self.stored)
            .ok_or_else(|| cannot_hold(NPY, self.stored.to_string()))?;
        for row in self.bytes.chunks_exact(step) {
            builder.push_bytes(&row[start..start + size], self.big_endian);
        }
        cast(&builder.finish(), &self.schema.coordinate).map_err(|row| {
            let row = self.next_row + row.unwrap_or(0) as u64;
            let reason = format!("a coordinate does not fit into {}", self.schema.coordinate);
            invalid(NPY, format!("row {row}"), reason)
        })
    }

    /// Reads `count` numbers from the given one on.
    fn fill(&mut self, element: u64, count: usize) -> Result<(), GeometryError> {
        self.input.seek(SeekFrom::Start(self.data_start + element * self.size as u64))?;
        self.bytes.resize(count * self.size, 0);
        Ok(self.input.read_exact(&mut self.bytes)?)
    }
}

impl<R: Read + Seek> GeometrySource for NpyReader<R> {
    fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        // Both ends of a line come together.
        let most =
            if self.schema.objects { self.batch_rows.next_multiple_of(2) } else { self.batch_rows };
        let rows = (self.rows - self.next_row).min(most as u64) as usize;
        if rows == 0 {
            return Ok(None);
        }
        let dimensions = self.schema.axes.len();
        if !self.fortran {
            self.fill(self.next_row * dimensions as u64, rows * dimensions)?;
        }
        let mut arrays =
            (0..dimensions).map(|axis| self.column(axis, rows)).collect::<Result<Vec<_>, _>>()?;
        let first_row = self.next_row;
        if self.schema.objects {
            let ids = (first_row..first_row + rows as u64).map(|row| (row / 2) as i64);
            arrays.push(Arc::new(Int64Array::from_iter_values(ids)));
        }
        self.next_row += rows as u64;
        let vertices = RecordBatch::try_new(self.columns.clone(), arrays)?;
        let links = Links { width: self.schema.kind.link_width(), ..Links::default() };
        Ok(Some(GeometryBatch { first_row, vertices, links }))
    }
}

/// Writes positions as an array of N x D numbers, little-endian and in C order.
pub struct NpyWriter<W> {
    output: W,
    start: u64,
    descr: String,
    dimensions: usize,
    rows: u64,
}

impl<W: Write + Seek> NpyWriter<W> {
    /// Writes the header, which is replaced in the end.
    pub fn create(mut output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        let found = TYPES.iter().find(|(_, data_type, _)| *data_type == schema.coordinate);
        let Some((code, _, size)) = found else {
            return Err(cannot_hold(NPY, format!("coordinates of type {}", schema.coordinate)));
        };
        let descr = format!("{}{code}", if *size == 1 { "|" } else { "<" });
        let dimensions = schema.axes.len();
        let start = output.stream_position()?;
        output.write_all(&Header::bytes_of_growing(&descr, &[0, dimensions as u64]))?;
        Ok(Self { output, start, descr, dimensions, rows: 0 })
    }
}

impl<W: Write + Seek> GeometrySink for NpyWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let axes = batch.vertices.columns().iter().take(self.dimensions);
        let axes: Vec<Values<'_>> = axes.filter_map(|axis| Values::new(axis)).collect();
        let rows = batch.vertices.num_rows();
        let mut bytes = Vec::with_capacity(rows * axes.len() * 8);
        for row in 0..rows {
            axes.iter().for_each(|axis| axis.write_bytes(row, &mut bytes));
        }
        self.output.write_all(&bytes)?;
        self.rows += rows as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        let shape = [self.rows, self.dimensions as u64];
        self.output.seek(SeekFrom::Start(self.start))?;
        self.output.write_all(&Header::bytes_of_growing(&self.descr, &shape))?;
        self.output.seek(SeekFrom::End(0))?;
        Ok(self.output.flush()?)
    }
}
