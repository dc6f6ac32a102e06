//! Vertices as rows of CSV.

use std::io::Write;

use csv::{Writer, WriterBuilder};

use super::columns::{FlatColumn, Values, flat_fields};
use super::csv_read::CSV;
use super::{cannot_hold, invalid};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySink};

/// Writes a row for each vertex: its coordinates, `object_id`, and attributes.
///
/// Floats have as many digits as it takes to read back the same. A list of numbers becomes several
/// columns. Links are not written: see [`EdgeWriter`](super::EdgeWriter).
pub struct CsvWriter<W: Write> {
    output: Writer<W>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header.
    pub fn create(output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        let mut output = writer(output);
        for field in flat_fields(schema.vertex_columns().fields()) {
            if super::columns::plain_type(field.data_type()).is_none() {
                let what = format!("column {} of type {}", field.name(), field.data_type());
                return Err(cannot_hold(CSV, what));
            }
            output.write_field(field.name()).map_err(failed)?;
        }
        output.write_record(None::<&[u8]>).map_err(failed)?;
        Ok(Self { output })
    }
}

impl<W: Write> GeometrySink for CsvWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let columns = flat_columns(CSV, &batch.vertices)?;
        let columns: Vec<(&FlatColumn, Values<'_>)> =
            columns.iter().filter_map(|column| Some((column, column.values()?))).collect();
        let mut cell = Vec::new();
        for row in 0..batch.vertices.num_rows() {
            for (column, values) in &columns {
                cell.clear();
                if let Some(at) = column.at(row) {
                    values.write_text(at, &mut cell);
                }
                self.output.write_field(&cell).map_err(failed)?;
            }
            self.output.write_record(None::<&[u8]>).map_err(failed)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        Ok(self.output.flush()?)
    }
}

/// The columns of a batch without lists.
pub(super) fn flat_columns(
    format: &'static str,
    rows: &arrow_array::RecordBatch,
) -> Result<Vec<FlatColumn>, GeometryError> {
    let mut flat = Vec::with_capacity(rows.num_columns());
    for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        let columns = FlatColumn::of(array).ok_or_else(|| {
            cannot_hold(format, format!("column {} of type {}", field.name(), field.data_type()))
        })?;
        flat.extend(columns);
    }
    Ok(flat)
}

pub(super) fn writer<W: Write>(output: W) -> Writer<W> {
    WriterBuilder::new().buffer_capacity(1 << 16).from_writer(output)
}

pub(super) fn failed(error: csv::Error) -> GeometryError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => GeometryError::Io(error),
        other => invalid(CSV, "output", format!("{other:?}")),
    }
}
