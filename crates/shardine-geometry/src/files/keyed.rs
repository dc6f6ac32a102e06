//! Tables whose rows are named by numbers: attributes of objects, members of groups.

use std::collections::HashSet;
use std::io::{Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::csv_read::{CSV, CsvRows, Guess, guess_columns};
use super::invalid;
use super::table::{attribute_column, attribute_field, number_column};
use crate::{GeometryError, TableSource};

/// The most rows of a batch, as far as the format can be read in pieces.
pub(super) const BATCH_ROWS: usize = 1 << 16;

/// The rows of a file in its own columns.
pub(super) trait RawRows {
    /// The name of the format in messages.
    const FORMAT: &'static str;

    /// The next rows; `None` after the last.
    fn next(&mut self) -> Result<Option<RecordBatch>, GeometryError>;
}

impl<R: Read> RawRows for CsvRows<R> {
    const FORMAT: &'static str = CSV;

    fn next(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        self.next_rows()
    }
}

/// The rows of CSV, with the types that all cells of a column have.
pub(super) fn open_csv<R: Read + Seek>(
    mut input: R,
    keys: &[&str],
) -> Result<(CsvRows<R>, SchemaRef), GeometryError> {
    let (names, guesses) = guess_columns(&mut input, BATCH_ROWS)?;
    let mut rows = CsvRows::new(input, BATCH_ROWS)?;
    let field = |(name, guess): (&String, &Guess)| match keys.contains(&name.as_str()) {
        true => Field::new(name, DataType::Int64, false),
        false => Field::new(name, guess.data_type(), guess.has_absent()),
    };
    let fields = names.0.iter().zip(&guesses).map(field).enumerate().collect();
    rows.read_as(fields)?;
    let columns = rows.columns().clone();
    Ok((rows, columns))
}

/// The rows of a table: the columns that name them, then attributes.
pub(super) struct KeyedTable<R> {
    raw: R,
    keys: Vec<usize>,
    attributes: Vec<usize>,
    columns: SchemaRef,
    /// Rows so far.
    rows: u64,
}

impl<R: RawRows> KeyedTable<R> {
    /// Finds the columns `keys` among those of a file.
    pub fn new(raw: R, found: &SchemaRef, keys: &[&str]) -> Result<Self, GeometryError> {
        let mut seen = HashSet::new();
        if let Some(twice) = found.fields().iter().find(|field| !seen.insert(field.name())) {
            let place = format!("column {}", twice.name());
            return Err(invalid(R::FORMAT, place, "two columns have this name"));
        }
        let mut fields = Vec::with_capacity(found.fields().len());
        let mut places = Vec::with_capacity(keys.len());
        for key in keys {
            let place = found.index_of(key).map_err(|_| {
                let names: Vec<&str> = found.fields().iter().map(|f| f.name().as_str()).collect();
                let reason = format!("it is not among: {}", names.join(", "));
                invalid(R::FORMAT, format!("column {key}"), reason)
            })?;
            places.push(place);
            fields.push(Field::new(*key, DataType::Int64, false));
        }
        let attributes: Vec<usize> =
            (0..found.fields().len()).filter(|column| !places.contains(column)).collect();
        for &column in &attributes {
            fields.push(attribute_field(R::FORMAT, found.field(column))?);
        }
        let columns = Arc::new(Schema::new(fields));
        Ok(Self { raw, keys: places, attributes, columns, rows: 0 })
    }
}

impl<R: RawRows> TableSource for KeyedTable<R> {
    fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        let Some(rows) = self.raw.next()? else { return Ok(None) };
        let keys = self
            .keys
            .iter()
            .map(|&column| number_column(R::FORMAT, &rows, column, &DataType::Int64, self.rows));
        let attributes =
            self.attributes.iter().map(|&column| attribute_column(R::FORMAT, &rows, column));
        let columns = keys.chain(attributes).collect::<Result<Vec<_>, _>>()?;
        self.rows += rows.num_rows() as u64;
        Ok(Some(RecordBatch::try_new(self.columns.clone(), columns)?))
    }
}
