//! Columns that do not come from the cells of a chunk: attributes of objects, and the attribute by
//! which chunks are divided.

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use serde_json::Value;
use shardine_codec::{ElementSize, Elements};
use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{AttributeDocument, Categories, Column, Scalar, StoredType};

use super::error::VectorsError;
use super::level::{ValueType, named_children};
use super::query::{AttributeFilter, FilterValue};
use super::store::VectorStore;
use super::told::Told;
use crate::Error;
use crate::zarr::{Child, Node};

/// An attribute of objects, of all of them, as a column of vertices.
#[derive(Debug)]
pub(super) struct ObjectColumn {
    name: String,
    kind: ValueType,
    width: usize,
    values: Vec<u8>,
    /// The value of objects that have none.
    absent: Option<Vec<u8>>,
    column: Column,
    present: Vec<bool>,
}

impl ObjectColumn {
    /// Reads the attributes of the objects of a level. Those whose type has no numbers are left
    /// out, and `notes` names them.
    pub(super) fn read_all(
        store: &VectorStore,
        level: u64,
        told: &mut Told,
    ) -> Result<Vec<Self>, Error> {
        let group = format!("{level}/object_attributes");
        let mut columns = Vec::new();
        for Child { name, node, .. } in named_children(store, &group, "object")? {
            let path = format!("{group}/{name}");
            let Node::Array(array) = node? else {
                let expected = "an array";
                return Err(store.wrong(VectorsError::Node { node: path, expected }));
            };
            let rank = array.shape().len();
            let stored = match (array.data_type().name(), array.data_type().size()) {
                ("fixed_length_utf32", ElementSize::Fixed(size)) if rank == 1 => {
                    StoredType::utf32(size)
                }
                (name, _) => Scalar::parse(name).map(StoredType::of),
            };
            let Some(stored) = stored.filter(|_| rank == 1 || rank == 2) else {
                let data_type = array.data_type().name();
                told.note(format!("{path} is left out: {data_type} with {rank} axes"));
                continue;
            };
            let attributes = array.metadata().attributes();
            let mut said = attributes.clone();
            said.insert("dtype".to_owned(), stored.scalar.name().into());
            let document = AttributeDocument::read(&said).map_err(|source| {
                store.wrong(VectorsError::Document { node: path.clone(), source })
            })?;
            let kind = ValueType { document, stored };
            let needs = array.decoded_len();
            let most = store.engine.memory_in_flight();
            if needs > most {
                return Err(store.wrong(VectorsError::TooLarge { needs, most }));
            }
            let width = array.shape().get(1).map_or(Some(1), |width| usize::try_from(*width).ok());
            let Some(width) = width.filter(|width| *width > 0) else { continue };
            let Some(width) = width.checked_mul(stored.unit) else { continue };
            let said = attributes.get("fill_sentinel_meaning").and_then(Value::as_str);
            let absent = (said == Some("absent")).then(|| array.fill().0.to_vec());
            let (Elements::Fixed(values), ElementSize::Fixed(_)) =
                (array.read_elements(..)?, array.data_type().size())
            else {
                continue;
            };
            let column = Column::new(stored.scalar, width);
            let present = Vec::new();
            columns.push(Self { name, kind, width, values, absent, column, present });
        }
        Ok(columns)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn column_type(&self) -> DataType {
        self.kind.column_type(self.width)
    }

    /// The value of an object, by its row; `None` if it has none.
    fn value(&self, row: u64) -> Option<&[u8]> {
        let size = self.column.row_size();
        let start = usize::try_from(row).ok()?.checked_mul(size)?;
        let value = self.values.get(start..start.checked_add(size)?)?;
        let StoredType { scalar, unit, .. } = self.kind.stored;
        let is_nan = |one: &[u8]| unit == 1 && scalar.number(one).is_nan();
        let is_absent = |one: &[u8]| match &self.absent {
            None => false,
            Some(absent) => one == absent || (is_nan(absent) && is_nan(one)),
        };
        let all_absent = value.chunks_exact(scalar.size() * unit).all(is_absent);
        (!all_absent).then_some(value)
    }

    pub(super) fn push(&mut self, object: Option<u64>, count: usize) {
        let size = self.column.row_size();
        let value = object.and_then(|row| self.value(row)).map(<[u8]>::to_vec);
        self.present.extend(std::iter::repeat_n(value.is_some(), count));
        let value = value.unwrap_or_else(|| vec![0; size]);
        (0..count).for_each(|_| self.column.push(&value));
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef, GeometryError> {
        let nulls = NullBuffer::from(std::mem::take(&mut self.present));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        self.kind.finish(&mut self.column, nulls)
    }

    /// Whether the value of an object passes a filter.
    pub(super) fn passes(&self, filter: &AttributeFilter, row: u64) -> bool {
        self.value(row).is_some_and(|value| passes(&self.kind, filter, value))
    }
}

/// Whether a value of an attribute passes a filter. A row of several values never does.
pub(super) fn passes(kind: &ValueType, filter: &AttributeFilter, value: &[u8]) -> bool {
    let document = &kind.document;
    if kind.stored.is_text() {
        return kind.stored.text(value).is_some_and(|text| filter.passes_text(&text));
    }
    if value.len() != document.scalar.size() {
        return false;
    }
    match &document.categories {
        None => filter.passes_number(document.scalar.number(value)),
        Some(categories) => {
            let code = document.scalar.integer(value);
            let code = code.filter(|code| Some(*code) != categories.missing);
            let name = code.and_then(|code| categories.values.get(usize::try_from(code).ok()?));
            name.is_some_and(|name| filter.passes_text(name))
        }
    }
}

/// The attribute by which chunks are divided: a value for each bin.
#[derive(Debug)]
pub(super) struct BinColumn {
    name: String,
    values: BinValues,
    column: Column,
}

#[derive(Debug)]
enum BinValues {
    Numbers(Vec<i64>),
    Words(Categories),
}

impl BinColumn {
    pub(super) fn new(name: &str, values: &[Value]) -> Self {
        let numbers: Option<Vec<i64>> = values.iter().map(Value::as_i64).collect();
        let (values, scalar) = match numbers {
            Some(numbers) if !numbers.is_empty() => (BinValues::Numbers(numbers), Scalar::Int64),
            _ => {
                let text = |value: &Value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let values = values.iter().map(text).collect();
                let words = Categories { values, ordered: false, missing: Some(-1) };
                (BinValues::Words(words), Scalar::Int64)
            }
        };
        Self { name: name.to_owned(), values, column: Column::new(scalar, 1) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn column_type(&self) -> DataType {
        match &self.values {
            BinValues::Numbers(_) => DataType::Int64,
            BinValues::Words(_) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
        }
    }

    pub(super) fn push(&mut self, bin: i64, count: usize) {
        let at = usize::try_from(bin).ok();
        let value = match &self.values {
            BinValues::Numbers(numbers) => at.and_then(|at| numbers.get(at).copied()).unwrap_or(0),
            BinValues::Words(_) => bin,
        };
        (0..count).for_each(|_| self.column.push(&value.to_le_bytes()));
    }

    /// Whether there is a value for a bin.
    pub(super) fn has(&self, bin: i64) -> bool {
        let len = match &self.values {
            BinValues::Numbers(numbers) => numbers.len(),
            BinValues::Words(words) => words.values.len(),
        };
        usize::try_from(bin).is_ok_and(|bin| bin < len)
    }

    pub(super) fn passes(&self, filter: &AttributeFilter, bin: i64) -> bool {
        let Ok(at) = usize::try_from(bin) else { return false };
        match &self.values {
            BinValues::Numbers(all) => {
                all.get(at).is_some_and(|number| filter.passes_number(*number as f64))
            }
            BinValues::Words(all) => {
                all.values.get(at).is_some_and(|word| filter.passes_text(word))
            }
        }
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef, GeometryError> {
        match &self.values {
            BinValues::Numbers(_) => self.column.finish(None),
            BinValues::Words(words) => self.column.finish(Some(words)),
        }
    }
}

impl AttributeFilter {
    pub(super) fn passes_number(&self, value: f64) -> bool {
        match &self.value {
            FilterValue::Number(number) => self.comparison.holds(value.partial_cmp(number)),
            FilterValue::Text(_) => false,
        }
    }

    pub(super) fn passes_text(&self, value: &str) -> bool {
        self.comparison.holds(Some(value.cmp(self.text.as_str())))
    }
}
