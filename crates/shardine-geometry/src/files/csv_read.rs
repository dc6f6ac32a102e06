//! Rows of CSV.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use csv::{ByteRecord, ErrorKind, ReaderBuilder, Trim};

use super::columns::{ColumnBuilder, parse_bool, text_type};
use super::invalid;
use super::lines::BoundedRows;
use super::options::ReadOptions;
use super::table::{Assembler, Mapping};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySource, OBJECT_ID};

pub(super) const CSV: &str = "CSV";

/// Far above any real table.
const MAX_COLUMNS: usize = 1 << 13;

/// How much of a file is looked at to find what separates its columns.
const BEGINNING: u64 = 1 << 16;

/// Reads CSV with a header: a column for each axis, `object_id`, and attributes.
///
/// Lines may have both ends in a row, in the columns `x0`, `y0`, `z0`, `x1`, `y1`, `z1`. Columns
/// are separated by commas, or by tabs or semicolons if the header has no comma. An empty cell of
/// an attribute is an absent value, also of strings: text has no other way to say it.
pub struct CsvReader<R> {
    rows: CsvRows<R>,
    assembler: Assembler,
}

impl<R: Read + Seek> CsvReader<R> {
    /// Reads the file twice: first for the types of attributes, which depend on all rows.
    ///
    /// An attribute is of integers (64 bits), floats, Booleans or strings, whichever of these all
    /// its values are.
    pub fn open(mut input: R, options: &ReadOptions) -> Result<Self, GeometryError> {
        let start = input.stream_position()?;
        let mut rows = CsvRows::new(&mut input, options.rows())?;
        let names = rows.names();
        let mapping = Mapping::new(CSV, &names.each(), options)?;
        let mut guesses = vec![Guess::default(); names.0.len()];
        while let Some(record) = rows.next_record()? {
            for &column in &mapping.attributes {
                guesses[column].look_at(record.get(column).unwrap_or_default());
            }
        }
        input.seek(SeekFrom::Start(start))?;
        let attributes = mapping
            .attributes
            .iter()
            .map(|&column| {
                let guess = &guesses[column];
                Field::new(&names.0[column], guess.data_type(), guess.has_absent())
            })
            .collect();
        Self::with_attributes(input, options, &attributes)
    }
}

impl<R: Read> CsvReader<R> {
    /// Reads the file once, with attributes of these types. Other columns are left out.
    pub fn with_attributes(
        input: R,
        options: &ReadOptions,
        attributes: &Fields,
    ) -> Result<Self, GeometryError> {
        let mut rows = CsvRows::new(input, options.rows())?;
        let names = rows.names();
        let mapping = Mapping::new(CSV, &names.each(), options)?;
        let mut fields = Vec::new();
        for (column, name) in names.0.iter().enumerate() {
            if mapping.object == Some(column) {
                fields.push((column, Field::new(OBJECT_ID, DataType::Int64, false)));
            } else if mapping.positions.iter().flatten().any(|&at| at == column) {
                let coordinate = options.coordinate.clone().unwrap_or(DataType::Float64);
                fields.push((column, Field::new(name, coordinate, false)));
            } else if let Some((_, field)) = attributes.find(name) {
                fields.push((column, field.as_ref().clone()));
            }
        }
        if let Some(missing) = attributes.iter().find(|field| !names.0.contains(field.name())) {
            return Err(invalid(CSV, "line 1", format!("there is no column {}", missing.name())));
        }
        rows.read_as(fields)?;
        let assembler = Assembler::new(CSV, rows.columns(), options)?;
        Ok(Self { rows, assembler })
    }
}

impl<R: Read> GeometrySource for CsvReader<R> {
    fn schema(&self) -> &GeometrySchema {
        &self.assembler.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        match self.rows.next_rows()? {
            Some(rows) => self.assembler.batch(&rows).map(Some),
            None => Ok(None),
        }
    }

    fn object_columns(&self) -> &[String] {
        &self.assembler.object_columns
    }
}

/// The names of columns.
#[derive(Clone)]
pub(super) struct Names(pub Vec<String>);

impl Names {
    pub fn each(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

/// The rows of a CSV file in columns, whatever these mean.
pub(super) struct CsvRows<R> {
    reader: csv::Reader<BoundedRows<std::io::Chain<std::io::Cursor<Vec<u8>>, R>>>,
    record: ByteRecord,
    names: Names,
    batch_rows: usize,
    /// The columns that are read, and where they are in the file.
    builders: Vec<(usize, ColumnBuilder)>,
    columns: SchemaRef,
}

impl<R: Read> CsvRows<R> {
    pub fn new(mut input: R, batch_rows: usize) -> Result<Self, GeometryError> {
        let mut beginning = Vec::new();
        (&mut input).take(BEGINNING).read_to_end(&mut beginning)?;
        let header = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let has = |separator: &u8| header.contains(separator);
        let delimiter = [b',', b'\t', b';'].into_iter().find(has).unwrap_or(b',');
        let input = BoundedRows::new(std::io::Cursor::new(beginning).chain(input));
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .trim(Trim::Headers)
            .buffer_capacity(1 << 16)
            .from_reader(input);
        let header = reader.byte_headers().map_err(wrong)?.clone();
        if header.len() > MAX_COLUMNS {
            let reason = format!("it has {} columns, and {MAX_COLUMNS} are read", header.len());
            return Err(invalid(CSV, "line 1", reason));
        }
        let mut names = Vec::with_capacity(header.len());
        for name in &header {
            match std::str::from_utf8(name) {
                Ok(name) => names.push(name.trim_start_matches('\u{feff}').to_owned()),
                Err(_) => return Err(invalid(CSV, "line 1", "a name is not text in UTF-8")),
            }
        }
        Ok(Self {
            reader,
            record: ByteRecord::new(),
            names: Names(names),
            batch_rows,
            builders: Vec::new(),
            columns: Arc::new(Schema::empty()),
        })
    }

    pub fn names(&self) -> Names {
        self.names.clone()
    }

    pub fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// Which columns are read, and as what.
    pub fn read_as(&mut self, fields: Vec<(usize, Field)>) -> Result<(), GeometryError> {
        self.builders = Vec::with_capacity(fields.len());
        for (column, field) in &fields {
            let builder = ColumnBuilder::new(field.data_type()).ok_or_else(|| {
                let reason = format!("values of type {} are not read", field.data_type());
                invalid(CSV, format!("column {}", field.name()), reason)
            })?;
            self.builders.push((*column, builder));
        }
        let fields: Vec<Field> = fields.into_iter().map(|(_, field)| field).collect();
        self.columns = Arc::new(Schema::new(fields));
        Ok(())
    }

    pub fn next_record(&mut self) -> Result<Option<&ByteRecord>, GeometryError> {
        self.reader.get_mut().reset();
        let line = self.reader.position().line();
        match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => Ok(Some(&self.record)),
            Ok(false) => Ok(None),
            Err(error) => match error.kind() {
                ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    Err(invalid(CSV, format!("line {line}"), error.to_string()))
                }
                _ => Err(wrong(error)),
            },
        }
    }

    /// The next rows; `None` after the last.
    pub fn next_rows(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        let mut rows = 0;
        while rows < self.batch_rows && self.next_record()?.is_some() {
            rows += 1;
            for (index, (column, builder)) in self.builders.iter_mut().enumerate() {
                let mut cell = self.record.get(*column).unwrap_or_default();
                let field = self.columns.field(index);
                let text = matches!(builder, ColumnBuilder::Text(_));
                if !text {
                    cell = cell.trim_ascii();
                }
                if cell.is_empty() && field.is_nullable() {
                    builder.push_absent();
                    continue;
                }
                let cell = std::str::from_utf8(cell);
                if !cell.is_ok_and(|cell| builder.push_text(cell)) {
                    let line = self.record.position().map_or(0, csv::Position::line);
                    return Err(invalid(
                        CSV,
                        format!("line {line}, column {}", field.name()),
                        match cell {
                            Ok("") => "the value is missing".to_owned(),
                            Ok(cell) => {
                                let cell: String = cell.chars().take(40).collect();
                                format!("{cell:?} is not of type {}", field.data_type())
                            }
                            Err(_) => "it is not text in UTF-8".to_owned(),
                        },
                    ));
                }
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = self.builders.iter_mut().map(|(_, builder)| builder.finish()).collect();
        Ok(Some(RecordBatch::try_new(self.columns.clone(), arrays)?))
    }
}

fn wrong(error: csv::Error) -> GeometryError {
    let line = error.position().map_or(1, csv::Position::line);
    match error.into_kind() {
        ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            invalid(CSV, format!("line {line}"), error.to_string())
        }
        ErrorKind::Io(error) => GeometryError::Io(error),
        ErrorKind::UnequalLengths { expected_len, len, .. } => invalid(
            CSV,
            format!("line {line}"),
            format!("it has {len} cells, and the header has {expected_len}"),
        ),
        _ => invalid(CSV, format!("line {line}"), "it is no row of CSV"),
    }
}

/// What the columns of a file may be, by all its rows: their names, and a guess for each. The file
/// is then where it was.
pub(super) fn guess_columns<R: Read + Seek>(
    input: &mut R,
    batch_rows: usize,
) -> Result<(Names, Vec<Guess>), GeometryError> {
    let start = input.stream_position()?;
    let mut rows = CsvRows::new(&mut *input, batch_rows)?;
    let names = rows.names();
    let mut guesses = vec![Guess::default(); names.0.len()];
    while let Some(record) = rows.next_record()? {
        for (guess, cell) in guesses.iter_mut().zip(record) {
            guess.look_at(cell);
        }
    }
    input.seek(SeekFrom::Start(start))?;
    Ok((names, guesses))
}

/// What all values of a column so far may be.
#[derive(Debug, Clone)]
pub(super) struct Guess {
    signed: bool,
    unsigned: bool,
    float: bool,
    boolean: bool,
    absent: bool,
    any: bool,
}

impl Default for Guess {
    fn default() -> Self {
        let (signed, unsigned, float, boolean) = (true, true, true, true);
        Self { signed, unsigned, float, boolean, absent: false, any: false }
    }
}

impl Guess {
    pub fn look_at(&mut self, cell: &[u8]) {
        let cell = cell.trim_ascii();
        if cell.is_empty() {
            self.absent = true;
            return;
        }
        self.any = true;
        let cell = std::str::from_utf8(cell).unwrap_or("?");
        self.signed &= cell.parse::<i64>().is_ok();
        self.unsigned &= cell.parse::<u64>().is_ok();
        self.float = self.float && (self.signed || cell.parse::<f64>().is_ok());
        self.boolean &= parse_bool(cell).is_some();
    }

    pub fn data_type(&self) -> DataType {
        match self {
            Self { any: false, .. } => text_type(),
            Self { signed: true, .. } => DataType::Int64,
            Self { unsigned: true, .. } => DataType::UInt64,
            Self { float: true, .. } => DataType::Float64,
            Self { boolean: true, .. } => DataType::Boolean,
            _ => text_type(),
        }
    }

    /// Whether values are missing.
    pub fn has_absent(&self) -> bool {
        self.absent
    }
}
