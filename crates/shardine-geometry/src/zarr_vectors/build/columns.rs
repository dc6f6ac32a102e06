//! Columns of Arrow's as parts of rows of fixed size.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields};
use serde_json::{Map, Value};

use super::invalid;
use super::text::FixedText;
use crate::GeometryError;
use crate::zarr_vectors::{AttributeDocument, Categories, Scalar, StoredType};

/// The most bytes of different strings in a column: all of them are in memory, and those of points
/// are written into a document.
const MOST_TEXT: usize = 64 << 20;

/// The code of a string that is missing, while rows are gathered.
pub(super) const MISSING: u32 = u32::MAX;

/// An attribute as it lies in a row.
#[derive(Debug)]
pub(super) struct AttributeColumn {
    pub name: String,
    /// The type of its values in a row.
    scalar: Scalar,
    /// How many values it has.
    values: usize,
    /// Where in a row it begins.
    at: usize,
    strings: Option<Strings>,
}

/// Strings in the order in which they came.
#[derive(Debug, Default)]
struct Strings {
    codes: HashMap<String, u32>,
    bytes: usize,
    missing: bool,
}

impl Strings {
    fn code(&mut self, text: &str, column: &str) -> Result<u32, GeometryError> {
        if let Some(&code) = self.codes.get(text) {
            return Ok(code);
        }
        self.bytes = self.bytes.saturating_add(text.len() + 8);
        if self.bytes > MOST_TEXT {
            let reason = format!(
                "has more than {} MiB of different strings, which have to fit into memory",
                MOST_TEXT >> 20
            );
            return Err(invalid(format!("column {column}"), reason));
        }
        // Fewer than there are bytes.
        let code = self.codes.len() as u32;
        self.codes.insert(text.to_owned(), code);
        Ok(code)
    }

    /// The strings by their codes.
    fn into_words(self) -> Vec<String> {
        let mut words = vec![String::new(); self.codes.len()];
        for (word, code) in self.codes {
            words[code as usize] = word;
        }
        words
    }
}

/// The attributes of vertices or links, from byte `at` of a row on, and where they end.
pub(super) fn attribute_columns(
    fields: &Fields,
    mut at: usize,
) -> Result<(Vec<AttributeColumn>, usize), GeometryError> {
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let column = AttributeColumn::new(field, at)?;
        at += column.size();
        columns.push(column);
    }
    Ok((columns, at))
}

impl AttributeColumn {
    /// The attribute of a field, from byte `at` of a row on.
    pub fn new(field: &Field, at: usize) -> Result<Self, GeometryError> {
        let name = field.name().clone();
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            let reason = "cannot be the name of an array".to_owned();
            return Err(invalid(format!("column {name:?}"), reason));
        }
        let (scalar, values, strings) = match field.data_type() {
            DataType::Dictionary(_, values) if is_text(values) => {
                (Scalar::Uint32, 1, Some(Strings::default()))
            }
            text if is_text(text) => (Scalar::Uint32, 1, Some(Strings::default())),
            DataType::FixedSizeList(item, width) => {
                let width = usize::try_from(*width).unwrap_or(0);
                (number(&name, item.data_type())?, width.max(1), None)
            }
            other => (number(&name, other)?, 1, None),
        };
        Ok(Self { name, scalar, values, at, strings })
    }

    /// The type of its values in a row.
    pub fn scalar(&self) -> Scalar {
        self.scalar
    }

    /// How many values a row has.
    pub fn values(&self) -> usize {
        self.values
    }

    /// Whether it is of strings.
    pub fn is_text(&self) -> bool {
        self.strings.is_some()
    }

    /// Its strings by their codes in rows; `None` if it is of numbers.
    pub fn into_words(self) -> Option<Vec<String>> {
        self.strings.map(Strings::into_words)
    }

    /// Bytes of its values in a row.
    pub fn size(&self) -> usize {
        self.scalar.size() * self.values
    }

    /// Copies its column to its place in rows of `width` bytes.
    pub fn fill(
        &mut self,
        batch: &RecordBatch,
        rows: &mut [u8],
        width: usize,
    ) -> Result<(), GeometryError> {
        self.fill_from(find(batch, &self.name)?, rows, width)
    }

    /// Copies a column to its place in rows of `width` bytes.
    pub fn fill_from(
        &mut self,
        column: &ArrayRef,
        rows: &mut [u8],
        width: usize,
    ) -> Result<(), GeometryError> {
        if let Some(strings) = &mut self.strings {
            let codes = codes(column, strings, &self.name)?;
            for (row, code) in rows.chunks_exact_mut(width).zip(codes) {
                row[self.at..self.at + 4].copy_from_slice(&code.to_le_bytes());
            }
            return Ok(());
        }
        if let Some(list) = column.as_fixed_size_list_opt() {
            check_nulls(column, &self.name)?;
            let start = list.value_offset_at(0);
            let values = list.values().slice(start, list.len() * self.values);
            return put(&values, &self.name, self.scalar, self.values, rows, width, self.at);
        }
        put(column, &self.name, self.scalar, self.values, rows, width, self.at)
    }

    /// What it is in the end, when all rows are known.
    ///
    /// zarr-vectors reads dictionaries of strings for points, and strings of one length for
    /// everything else.
    pub fn finish(self, dictionary: bool) -> Result<FinishedColumn, GeometryError> {
        let Self { name, scalar, values, at, strings } = self;
        let Some(strings) = strings else {
            let channels = match values {
                1 => Vec::new(),
                values => (0..values).map(|channel| format!("ch{channel}")).collect(),
            };
            let width = Some(values);
            let document = AttributeDocument { scalar, width, channels, categories: None };
            let size = scalar.size() * values;
            return Ok(FinishedColumn {
                name,
                at,
                size,
                values: FinishedValues::Numbers(document),
            });
        };
        if !dictionary {
            let text = FixedText::new(strings.into_words(), &name, StoredType::MOST_CHARACTERS)?;
            let size = scalar.size();
            return Ok(FinishedColumn { name, at, size, values: FinishedValues::Text(text) });
        }
        let mut sorted: Vec<(String, u32)> = strings.codes.into_iter().collect();
        sorted.sort_unstable();
        let mut codes = vec![0; sorted.len()];
        for (code, (_, old)) in (0u32..).zip(&sorted) {
            codes[*old as usize] = code;
        }
        let scalar = match (sorted.len(), strings.missing) {
            (0..=127, true) => Scalar::Int8,
            (0..=32_767, true) => Scalar::Int16,
            (_, true) => Scalar::Int32,
            (0..=255, false) => Scalar::Uint8,
            (0..=65_535, false) => Scalar::Uint16,
            (_, false) => Scalar::Uint32,
        };
        let categories = Categories {
            values: sorted.into_iter().map(|(text, _)| text).collect(),
            ordered: false,
            missing: strings.missing.then_some(-1),
        };
        let (width, categories) = (Some(1), Some(categories));
        let document = AttributeDocument { scalar, width, channels: Vec::new(), categories };
        let values = FinishedValues::Codes { document, codes };
        Ok(FinishedColumn { name, at, size: scalar.size(), values })
    }
}

/// An attribute whose values are all known.
#[derive(Debug)]
pub(super) struct FinishedColumn {
    pub name: String,
    /// Where in a gathered row it begins.
    at: usize,
    /// Bytes of a row while cells wait to be written.
    pub size: usize,
    values: FinishedValues,
}

#[derive(Debug)]
enum FinishedValues {
    /// As they were gathered.
    Numbers(AttributeDocument),
    /// Codes of a dictionary, by those that strings had while rows were gathered.
    Codes { document: AttributeDocument, codes: Vec<u32> },
    /// Strings of one length. Cells have their codes until they are written, so that a long string
    /// takes no room for every row.
    Text(FixedText),
}

impl FinishedColumn {
    /// Appends its values of a gathered row, as they wait to be written.
    pub fn copy(&self, row: &[u8], out: &mut Vec<u8>) {
        let FinishedValues::Codes { codes, .. } = &self.values else {
            out.extend_from_slice(&row[self.at..self.at + self.size]);
            return;
        };
        let old = code_at(&row[self.at..]).unwrap_or(MISSING);
        // Also the missing one: -1 in any size.
        let code = codes.get(old as usize).copied().unwrap_or(MISSING);
        out.extend_from_slice(&code.to_le_bytes()[..self.size]);
    }

    /// Bytes of as many stored rows.
    pub fn stored_len(&self, rows: u64) -> u64 {
        let size = match &self.values {
            FinishedValues::Text(text) => text.size(),
            _ => self.size,
        };
        rows.saturating_mul(size as u64)
    }

    /// Makes stored rows of the rows of a cell that waited.
    pub fn store(&self, cell: &mut Vec<u8>) {
        let FinishedValues::Text(text) = &self.values else { return };
        let codes = std::mem::take(cell);
        cell.reserve_exact((codes.len() / self.size.max(1)).saturating_mul(text.size()));
        for code in codes.chunks_exact(self.size) {
            text.push(code_at(code).filter(|code| *code != MISSING), cell);
        }
    }

    /// Adds what it says of its rows to the attributes of an array.
    pub fn describe(&self, attributes: &mut Map<String, Value>) {
        match &self.values {
            FinishedValues::Numbers(document) | FinishedValues::Codes { document, .. } => {
                document.write(attributes);
            }
            FinishedValues::Text(text) => {
                attributes.insert("dtype".to_owned(), text.dtype().into());
                attributes.insert("row_shape".to_owned(), Value::Array(Vec::new()));
            }
        }
    }
}

fn code_at(row: &[u8]) -> Option<u32> {
    row.first_chunk::<4>().map(|code| u32::from_le_bytes(*code))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8)
}

fn number(name: &str, data_type: &DataType) -> Result<Scalar, GeometryError> {
    Scalar::from_arrow(data_type).ok_or_else(|| GeometryError::CannotHold {
        format: super::FORMAT,
        what: format!("column {name}, whose values are {data_type}"),
    })
}

/// The column with a name.
pub(super) fn find<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef, GeometryError> {
    let missing = || invalid(format!("column {name}"), "is missing".to_owned());
    batch.column_by_name(name).ok_or_else(missing)
}

pub(super) fn check_nulls(column: &ArrayRef, name: &str) -> Result<(), GeometryError> {
    let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(()) };
    let row = (0..nulls.len()).find(|row| nulls.is_null(*row)).unwrap_or(0);
    Err(invalid(format!("column {name}"), format!("has no value in row {row} of a batch")))
}

/// Copies numbers to byte `at` of rows of `width` bytes, `values` of them to each.
pub(super) fn put(
    column: &ArrayRef,
    name: &str,
    scalar: Scalar,
    values: usize,
    rows: &mut [u8],
    width: usize,
    at: usize,
) -> Result<(), GeometryError> {
    if Scalar::from_arrow(column.data_type()) != Some(scalar) {
        let reason = format!("has values of type {}, not {}", column.data_type(), scalar.name());
        return Err(invalid(format!("column {name}"), reason));
    }
    if let Some(bits) = column.as_boolean_opt() {
        check_nulls(column, name)?;
        let bits: Vec<u8> = bits.values().iter().map(u8::from).collect();
        strided(&bits, values, rows, width, at);
        return Ok(());
    }
    let size = scalar.size() * values;
    let data = column.to_data();
    let bytes = data.buffers().first().map(|buffer| buffer.as_slice()).unwrap_or_default();
    let start = data.offset() * scalar.size();
    let bytes = bytes.get(start..start + column.len() * scalar.size()).unwrap_or_default();
    match missing_float(scalar) {
        Some(nan) if column.null_count() > 0 => {
            let mut bytes = bytes.to_vec();
            let each = bytes.chunks_exact_mut(scalar.size());
            for (_, value) in each.enumerate().filter(|(row, _)| column.is_null(*row)) {
                value.copy_from_slice(&nan[..scalar.size()]);
            }
            strided(&bytes, size, rows, width, at);
        }
        _ => {
            check_nulls(column, name)?;
            strided(bytes, size, rows, width, at);
        }
    }
    Ok(())
}

/// What stands for a float that is missing: not a number.
fn missing_float(scalar: Scalar) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    match scalar {
        Scalar::Float16 => bytes[..2].copy_from_slice(&[0x00, 0x7e]),
        Scalar::Float32 => bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes()),
        Scalar::Float64 => bytes = f64::NAN.to_le_bytes(),
        _ => return None,
    }
    Some(bytes)
}

fn strided(bytes: &[u8], size: usize, rows: &mut [u8], width: usize, at: usize) {
    fn fixed<const N: usize>(bytes: &[u8], rows: &mut [u8], width: usize, at: usize) {
        for (row, value) in rows.chunks_exact_mut(width).zip(bytes.as_chunks::<N>().0) {
            row[at..at + N].copy_from_slice(value);
        }
    }
    match size {
        4 => fixed::<4>(bytes, rows, width, at),
        8 => fixed::<8>(bytes, rows, width, at),
        _ => {
            for (row, value) in rows.chunks_exact_mut(width).zip(bytes.chunks_exact(size)) {
                row[at..at + size].copy_from_slice(value);
            }
        }
    }
}

/// The code of each string of a column.
fn codes(column: &ArrayRef, strings: &mut Strings, name: &str) -> Result<Vec<u32>, GeometryError> {
    let is_missing = |row: usize| column.is_null(row);
    let mut found = Vec::with_capacity(column.len());
    if let Some(dictionary) = column.as_any_dictionary_opt() {
        let known = texts(dictionary.values(), name)?;
        let mut code_of: Vec<Option<u32>> = vec![None; known.len()];
        if known.is_empty() {
            found.resize(column.len(), MISSING);
        } else {
            for (row, key) in dictionary.normalized_keys().into_iter().enumerate() {
                let code = match (known.get(key).copied().flatten(), code_of.get_mut(key)) {
                    (Some(text), Some(code)) if !is_missing(row) => match code {
                        Some(code) => *code,
                        None => *code.insert(strings.code(text, name)?),
                    },
                    _ => MISSING,
                };
                found.push(code);
            }
        }
    } else {
        for text in texts(column, name)? {
            found.push(match text {
                Some(text) => strings.code(text, name)?,
                None => MISSING,
            });
        }
    }
    strings.missing |= found.contains(&MISSING);
    Ok(found)
}

fn texts<'a>(column: &'a ArrayRef, name: &str) -> Result<Vec<Option<&'a str>>, GeometryError> {
    if let Some(texts) = column.as_string_opt::<i32>() {
        return Ok(texts.iter().collect());
    }
    if let Some(texts) = column.as_string_opt::<i64>() {
        return Ok(texts.iter().collect());
    }
    let reason = format!("has values of type {}, not strings", column.data_type());
    Err(invalid(format!("column {name}"), reason))
}

/// Hands each value of a column of coordinates to `each`, as a float.
pub(super) fn each_coordinate(
    column: &ArrayRef,
    mut each: impl FnMut(usize, f64) -> Result<(), GeometryError>,
) -> Result<(), GeometryError> {
    macro_rules! convert {
        ($($kind:ty),*) => {
            $(if let Some(values) = column.as_primitive_opt::<$kind>() {
                for (row, value) in values.values().iter().enumerate() {
                    each(row, *value as f64)?;
                }
                return Ok(());
            })*
        };
    }
    convert!(
        Float32Type,
        Float64Type,
        Int8Type,
        Int16Type,
        Int32Type,
        Int64Type,
        UInt8Type,
        UInt16Type,
        UInt32Type,
        UInt64Type
    );
    Err(GeometryError::CannotHold {
        format: super::FORMAT,
        what: format!("coordinates of type {}", column.data_type()),
    })
}
