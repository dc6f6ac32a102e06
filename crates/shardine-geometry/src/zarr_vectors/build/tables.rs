//! Attributes of objects: tables with a row for each, in any order.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, RecordBatch, make_array};
use arrow_schema::Fields;
use serde_json::{Map, Value, json};

use super::columns::{AttributeColumn, MISSING, check_nulls, find};
use super::invalid;
use super::objects::{Limits, ObjectRows, join, key_of};
use super::store::ByteStore;
use super::text::FixedText;
use crate::sort::{Sorter, Spool};
use crate::zarr_vectors::Scalar;
use crate::{GeometryError, OBJECT_ID};

/// The most characters of a string: all strings of a column are stored with the length of the
/// longest one, and 65,536 of them in one piece.
const MOST_CHARACTERS: usize = 256;

/// How many values may take the place of the one that means that there is none.
const CANDIDATES: u64 = 64;

/// What several rows for one object mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    /// They are an error.
    Refused,
    /// They say the same.
    Equal,
}

/// Gathers the attributes of objects.
pub(super) struct ObjectTable<'a> {
    columns: Vec<ObjectColumn>,
    width: usize,
    repeats: Repeats,
    sorter: Sorter<'a>,
    /// The last row with its id.
    last: Option<(i64, Vec<u8>)>,
}

/// An attribute as it lies in a row: whether there is a value, and then the value.
struct ObjectColumn {
    at: usize,
    column: AttributeColumn,
    used: Used,
}

/// Which of the first values that could mean "none" are values of objects, a bit for each.
///
/// zarr-vectors takes the smallest of signed and the largest of unsigned numbers. As that may be a
/// value too, the next one that is not takes its place.
#[derive(Debug, Clone, Copy, Default)]
struct Used(u64);

impl<'a> ObjectTable<'a> {
    pub fn new(
        spool: &'a dyn Spool,
        fields: &Fields,
        repeats: Repeats,
        memory: u64,
    ) -> Result<Self, GeometryError> {
        let mut columns = Vec::with_capacity(fields.len());
        let mut width = 0;
        for field in fields {
            let column = AttributeColumn::new(field, width + 1)?;
            let at = width;
            width += 1 + column.size();
            columns.push(ObjectColumn { at, column, used: Used::default() });
        }
        let sorter = Sorter::new(spool, width, memory);
        Ok(Self { columns, width, repeats, sorter, last: None })
    }

    /// The names of the attributes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.column.name.as_str())
    }

    /// Adds rows of a table with the column [`OBJECT_ID`].
    pub fn push_table(&mut self, rows: &RecordBatch) -> Result<(), GeometryError> {
        let ids = id_column(rows, OBJECT_ID)?.as_primitive::<Int64Type>();
        self.push(rows, ids.values().iter().copied())
    }

    /// Adds rows with these ids.
    pub fn push(
        &mut self,
        rows: &RecordBatch,
        ids: impl Iterator<Item = i64>,
    ) -> Result<(), GeometryError> {
        let width = self.width;
        let mut bytes = vec![0; rows.num_rows().saturating_mul(width)];
        for column in &mut self.columns {
            column.fill(rows, &mut bytes, width)?;
        }
        for (id, row) in ids.zip(bytes.chunks_exact(width.max(1))) {
            if self.repeats == Repeats::Equal {
                // Rows of an object mostly follow each other, and one of them is enough.
                match &mut self.last {
                    Some((last, _)) if *last != id => {}
                    Some((_, same)) if *same == row => continue,
                    Some(_) => return Err(different(id)),
                    None => {}
                }
                self.last = Some((id, row.to_vec()));
            }
            self.sorter.push(key_of(id), row)?;
        }
        Ok(())
    }

    /// Sorts the rows by the objects that there are.
    pub fn finish(
        self,
        objects: &ObjectRows,
        limits: &Limits<'_>,
    ) -> Result<ObjectValues, GeometryError> {
        let Self { columns, width, repeats, sorter, .. } = self;
        let mut store = ByteStore::new(limits.memory);
        let mut absent = vec![false; columns.len()];
        let none = vec![0; width];
        join(objects, sorter.merge(), "attributes of objects", limits, &mut |id, rows| {
            let mut rows = rows.chunks_exact(width.max(1));
            let row = rows.next().unwrap_or(&none);
            match repeats {
                Repeats::Refused if rows.len() > 0 => {
                    let reason = format!("has {} rows of attributes", rows.len() + 1);
                    return Err(invalid(format!("object {id}"), reason));
                }
                Repeats::Equal if rows.any(|other| other != row) => return Err(different(id)),
                _ => {}
            }
            for (absent, column) in absent.iter_mut().zip(&columns) {
                *absent |= row.get(column.at) != Some(&1);
            }
            store.append(row, limits.spool)
        })?;
        let columns = columns.into_iter().zip(absent);
        let columns = columns.map(|(column, absent)| column.finish(absent));
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(ObjectValues { columns, width, store, count: objects.len() })
    }
}

fn different(id: i64) -> GeometryError {
    invalid(format!("object {id}"), "has different attributes in its rows")
}

/// A column of ids without gaps.
pub(super) fn id_column<'b>(
    rows: &'b RecordBatch,
    name: &str,
) -> Result<&'b ArrayRef, GeometryError> {
    let column = find(rows, name)?;
    check_nulls(column, name)?;
    match column.as_primitive_opt::<Int64Type>() {
        Some(_) => Ok(column),
        None => Err(invalid(format!("column {name}"), "must be of 64-bit integers")),
    }
}

impl ObjectColumn {
    fn fill(
        &mut self,
        rows: &RecordBatch,
        bytes: &mut [u8],
        width: usize,
    ) -> Result<(), GeometryError> {
        let Self { at, column, used } = self;
        let array = find(rows, &column.name)?;
        column.fill_from(&without_nulls(array, &column.name)?, bytes, width)?;
        let values = *at + 1..*at + 1 + column.size();
        for (number, row) in bytes.chunks_exact_mut(width).enumerate() {
            let value = &mut row[values.clone()];
            // A string may also be missing from the dictionary.
            let missing = column.is_text() && value == MISSING.to_le_bytes();
            if array.is_null(number) || missing {
                value.fill(0);
            } else {
                if !column.is_text() {
                    used.add(column.scalar(), value);
                }
                row[*at] = 1;
            }
        }
        Ok(())
    }

    fn finish(self, absent: bool) -> Result<ObjectValue, GeometryError> {
        let Self { at, column, used } = self;
        let (name, size, values) = (column.name.clone(), column.size(), column.values());
        let scalar = match column.scalar() {
            // Of two values none is left to say that there is none.
            Scalar::Bool => Scalar::Int8,
            scalar => scalar,
        };
        let form = match column.into_words() {
            Some(words) => ValueForm::Text(FixedText::new(words, &name, MOST_CHARACTERS)?),
            None => match used.free(scalar) {
                Some(fill) => ValueForm::Number { scalar, fill, marks: true },
                None if absent => {
                    let reason = format!(
                        "some objects have no value, and {} has none left to say so; use a \
                         wider type",
                        scalar.name()
                    );
                    return Err(invalid(format!("column {name}"), reason));
                }
                None => {
                    let fill = Used::default().free(scalar).unwrap_or_default();
                    ValueForm::Number { scalar, fill, marks: false }
                }
            },
        };
        Ok(ObjectValue { name, at, size, values, form })
    }
}

/// The same values without those that are missing, which are anything then. A list may be missing
/// as a whole; where one of its values is, a float is not a number, and others are an error.
fn without_nulls(array: &ArrayRef, name: &str) -> Result<ArrayRef, GeometryError> {
    if array.as_any_dictionary_opt().is_some() || array.as_string_opt::<i32>().is_some() {
        return Ok(array.clone());
    }
    if let Some(list) = array.as_fixed_size_list_opt() {
        let values = list.values();
        let width = usize::try_from(list.value_length()).unwrap_or(0).max(1);
        let lost = (0..values.len()).find(|&at| values.is_null(at) && list.is_valid(at / width));
        let is_float = values.data_type().is_floating();
        if let Some(at) = lost.filter(|_| !is_float) {
            let reason = format!("lacks a value in row {} of a batch", at / width);
            return Err(invalid(format!("column {name}"), reason));
        }
        let values = match is_float {
            true => values.clone(),
            false => bare(values)?,
        };
        let arrow_schema::DataType::FixedSizeList(field, width) = list.data_type() else {
            return Ok(array.clone());
        };
        let list = FixedSizeListArray::try_new(field.clone(), *width, values, None)?;
        return Ok(std::sync::Arc::new(list));
    }
    bare(array)
}

fn bare(array: &ArrayRef) -> Result<ArrayRef, GeometryError> {
    match array.null_count() {
        0 => Ok(array.clone()),
        _ => Ok(make_array(array.to_data().into_builder().nulls(None).build()?)),
    }
}

impl Used {
    /// Notes the value of an object: one that means "none" if all of its numbers are that.
    fn add(&mut self, scalar: Scalar, value: &[u8]) {
        if !scalar.is_integer() {
            return;
        }
        let mut each = value.chunks_exact(scalar.size()).map(|one| distance(scalar, one));
        let first = each.next().unwrap_or(u64::MAX);
        if first < CANDIDATES && each.all(|other| other == first) {
            self.0 |= 1 << first;
        }
    }

    /// The bytes of a value that no object has.
    fn free(self, scalar: Scalar) -> Option<Vec<u8>> {
        match scalar {
            Scalar::Float16 => Some(vec![0x00, 0x7e]),
            Scalar::Float32 => Some(f32::NAN.to_le_bytes().to_vec()),
            Scalar::Float64 => Some(f64::NAN.to_le_bytes().to_vec()),
            _ => {
                let free = u64::from((!self.0).trailing_zeros());
                // Its own inverse.
                let value = reflected(scalar, free);
                (free < CANDIDATES).then(|| value.to_le_bytes()[..scalar.size()].to_vec())
            }
        }
    }
}

/// How far a whole number is from the smallest of its type, or from the largest if it has no sign.
fn distance(scalar: Scalar, bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
    reflected(scalar, u64::from_le_bytes(wide))
}

fn reflected(scalar: Scalar, bits: u64) -> u64 {
    let all = u64::MAX >> (64 - 8 * scalar.size() as u32);
    match scalar {
        Scalar::Int8 | Scalar::Int16 | Scalar::Int32 | Scalar::Int64 => bits ^ (all / 2 + 1),
        _ => bits ^ all,
    }
}

/// The attributes of all objects, in the order of their ids.
pub(super) struct ObjectValues {
    columns: Vec<ObjectValue>,
    width: usize,
    store: ByteStore,
    count: u64,
}

/// An attribute whose values are all known.
struct ObjectValue {
    name: String,
    /// Where in a row it says whether there is a value, which follows.
    at: usize,
    /// Bytes of its values in a row.
    size: usize,
    /// How many numbers a value has.
    values: usize,
    form: ValueForm,
}

enum ValueForm {
    Number {
        scalar: Scalar,
        /// What stands for no value.
        fill: Vec<u8>,
        /// Whether it stands for nothing else.
        marks: bool,
    },
    Text(FixedText),
}

/// An array with a row for each object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectArray {
    /// Where it is: `0/object_attributes/weight`.
    pub path: String,
    /// Its type, as Zarr names it.
    pub data_type: Value,
    /// The value of objects that have none.
    pub fill: Value,
    /// How many values an object has, if that is an axis of the array.
    pub columns: Option<u64>,
    /// Its attributes.
    pub attributes: Map<String, Value>,
    /// Bytes of an element.
    pub element: usize,
    pub(super) table: usize,
    pub(super) column: usize,
}

impl ObjectArray {
    /// Rows that are stored together.
    pub const BLOCK: u64 = 65_536;

    /// Elements of a row.
    pub fn elements(&self) -> u64 {
        self.columns.unwrap_or(1)
    }
}

impl ObjectValues {
    /// The arrays of this table, which has this number among all.
    pub fn arrays(&self, table: usize) -> impl Iterator<Item = ObjectArray> + '_ {
        self.columns.iter().enumerate().map(move |(column, value)| {
            let (data_type, dtype, fill, marks, element) = match &value.form {
                ValueForm::Number { scalar, fill, marks } => {
                    let name = scalar.name();
                    let fill = match scalar.is_integer() {
                        true => integer(*scalar, fill),
                        false => json!("NaN"),
                    };
                    (json!(name), name.to_owned(), fill, *marks, scalar.size())
                }
                ValueForm::Text(text) => {
                    let bytes = text.size();
                    let data_type = json!({
                        "name": "fixed_length_utf32", "configuration": {"length_bytes": bytes},
                    });
                    (data_type, text.dtype(), json!(""), true, bytes)
                }
            };
            let columns = (value.values > 1).then_some(value.values as u64);
            let shape: Vec<u64> = [self.count].into_iter().chain(columns).collect();
            let mut attributes = json!({
                "zv_array": "object_attribute", "name": value.name, "dtype": dtype, "shape": shape,
            });
            if marks {
                attributes["fill_sentinel_meaning"] = "absent".into();
            }
            let attributes = attributes.as_object().cloned().unwrap_or_default();
            let path = format!("0/object_attributes/{}", value.name);
            ObjectArray { path, data_type, fill, columns, attributes, element, table, column }
        })
    }

    /// Replaces the contents of `out` with the values of objects from `start` on.
    pub fn read(
        &self,
        column: usize,
        start: u64,
        count: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), GeometryError> {
        let mut rows = Vec::new();
        let width = self.width as u64;
        self.store.read(start.saturating_mul(width), count.saturating_mul(width), &mut rows)?;
        out.clear();
        let Some(ObjectValue { at, size, values, form, .. }) = self.columns.get(column) else {
            return Ok(());
        };
        for row in rows.chunks_exact(self.width.max(1)) {
            let value = (row[*at] == 1).then(|| &row[at + 1..at + 1 + size]);
            match (form, value) {
                (ValueForm::Number { .. }, Some(value)) => out.extend_from_slice(value),
                (ValueForm::Number { fill, .. }, None) => {
                    (0..*values).for_each(|_| out.extend_from_slice(fill));
                }
                (ValueForm::Text(text), value) => {
                    let code = value.and_then(|value| value.first_chunk::<4>());
                    text.push(code.map(|code| u32::from_le_bytes(*code)), out);
                }
            }
        }
        Ok(())
    }
}

/// A whole number as JSON has it.
fn integer(scalar: Scalar, bytes: &[u8]) -> Value {
    match scalar.integer(bytes) {
        Some(value) => value.into(),
        None => {
            let bytes = bytes.first_chunk::<8>().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
            bytes.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_no_value_is_what_zarr_vectors_takes_unless_it_is_a_value() {
        let mut used = Used::default();
        assert_eq!(used.free(Scalar::Int16).unwrap(), i16::MIN.to_le_bytes());
        assert_eq!(used.free(Scalar::Uint64).unwrap(), u64::MAX.to_le_bytes());
        assert_eq!(used.free(Scalar::Int64).unwrap(), i64::MIN.to_le_bytes());
        used.add(Scalar::Uint8, &[255, 255, 254]);
        assert_eq!(used.free(Scalar::Uint8).unwrap(), [255]);
        used.add(Scalar::Uint8, &[255, 255, 255]);
        used.add(Scalar::Uint8, &[253]);
        assert_eq!(used.free(Scalar::Uint8).unwrap(), [254]);
        (0..=255).for_each(|value| used.add(Scalar::Uint8, &[value]));
        assert_eq!(used.free(Scalar::Uint8), None);
    }
}
