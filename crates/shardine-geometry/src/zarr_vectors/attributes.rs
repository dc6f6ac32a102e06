//! Types of values, rows of values as columns, and dictionaries.

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array as _, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, FixedSizeListArray,
    Int32Array, PrimitiveArray, StringArray,
};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use serde_json::{Map, Value};

use super::error::{DocumentError, PayloadError, PayloadResult};
use crate::GeometryError;

/// A type of numbers, as `dtype` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Float32,
    Float64,
}

const SCALARS: [(Scalar, &str, &str, usize, DataType); 12] = [
    (Scalar::Bool, "bool", "b1", 1, DataType::Boolean),
    (Scalar::Int8, "int8", "i1", 1, DataType::Int8),
    (Scalar::Int16, "int16", "i2", 2, DataType::Int16),
    (Scalar::Int32, "int32", "i4", 4, DataType::Int32),
    (Scalar::Int64, "int64", "i8", 8, DataType::Int64),
    (Scalar::Uint8, "uint8", "u1", 1, DataType::UInt8),
    (Scalar::Uint16, "uint16", "u2", 2, DataType::UInt16),
    (Scalar::Uint32, "uint32", "u4", 4, DataType::UInt32),
    (Scalar::Uint64, "uint64", "u8", 8, DataType::UInt64),
    (Scalar::Float16, "float16", "f2", 2, DataType::Float16),
    (Scalar::Float32, "float32", "f4", 4, DataType::Float32),
    (Scalar::Float64, "float64", "f8", 8, DataType::Float64),
];

impl Scalar {
    /// Reads the name that numpy has for a type: `float32`, `<f4`.
    ///
    /// Values are always stored with their lowest byte first, so a type of the other byte order is
    /// unknown.
    pub fn parse(name: &str) -> Option<Self> {
        let short = name.strip_prefix(['<', '|', '=']).unwrap_or(name);
        SCALARS.iter().find(|row| row.1 == name || row.2 == short).map(|row| row.0)
    }

    /// The type of a column of Arrow's; `None` if it has no counterpart.
    pub fn from_arrow(data_type: &DataType) -> Option<Self> {
        SCALARS.iter().find(|row| row.4 == *data_type).map(|row| row.0)
    }

    fn row(self) -> &'static (Scalar, &'static str, &'static str, usize, DataType) {
        const { &SCALARS }.iter().find(|row| row.0 == self).unwrap_or(const { &SCALARS[0] })
    }

    /// Its name: `float32`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// How many bytes a value has.
    pub fn size(self) -> usize {
        self.row().3
    }

    /// The type of a column with such values.
    pub fn arrow(self) -> DataType {
        self.row().4.clone()
    }

    /// Whether it is of whole numbers.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::Bool | Self::Float16 | Self::Float32 | Self::Float64)
    }

    /// The whole number in `bytes`; `None` if it is none, or is above 2^63.
    pub fn integer(self, bytes: &[u8]) -> Option<i64> {
        let signed = matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64);
        if !self.is_integer() || bytes.len() != self.size() {
            return None;
        }
        let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
        let value = i64::from_le_bytes(wide);
        (signed || value >= 0).then_some(value)
    }
}

impl Scalar {
    /// The number in `bytes`, of which there are [`size`](Self::size); NaN if there are not. Whole
    /// numbers above 2^53 lose their last digits.
    #[inline]
    pub fn number(self, bytes: &[u8]) -> f64 {
        fn of<const N: usize>(bytes: &[u8], value: impl FnOnce([u8; N]) -> f64) -> f64 {
            bytes.first_chunk::<N>().map_or(f64::NAN, |bytes| value(*bytes))
        }
        match self {
            Self::Bool => of(bytes, |[byte]| f64::from(u8::from(byte != 0))),
            Self::Int8 => of(bytes, |bytes| i8::from_le_bytes(bytes).into()),
            Self::Int16 => of(bytes, |bytes| i16::from_le_bytes(bytes).into()),
            Self::Int32 => of(bytes, |bytes| i32::from_le_bytes(bytes).into()),
            Self::Int64 => of(bytes, |bytes| i64::from_le_bytes(bytes) as f64),
            Self::Uint8 => of(bytes, |[byte]| byte.into()),
            Self::Uint16 => of(bytes, |bytes| u16::from_le_bytes(bytes).into()),
            Self::Uint32 => of(bytes, |bytes| u32::from_le_bytes(bytes).into()),
            Self::Uint64 => of(bytes, |bytes| u64::from_le_bytes(bytes) as f64),
            Self::Float16 => of(bytes, |bytes| half::f16::from_le_bytes(bytes).into()),
            Self::Float32 => of(bytes, |bytes| f32::from_le_bytes(bytes).into()),
            Self::Float64 => of(bytes, f64::from_le_bytes),
        }
    }
}

/// What an integer of a dictionary stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Categories {
    /// The values, by code.
    pub values: Vec<String>,
    /// Whether their order has a meaning.
    pub ordered: bool,
    /// The code that means that there is no value.
    pub missing: Option<i64>,
}

/// What the attributes of an array of values say of its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeDocument {
    /// The type of a value.
    pub scalar: Scalar,
    /// How many values a row has, as far as the document says.
    ///
    /// zarr-vectors says nothing of the columns of graphs, meshes and paths, so the length of a
    /// cell decides.
    pub width: Option<usize>,
    /// The names of the values of a row.
    pub channels: Vec<String>,
    /// What its integers stand for.
    pub categories: Option<Categories>,
}

impl AttributeDocument {
    /// Reads the attributes of an array.
    pub fn read(attributes: &Map<String, Value>) -> Result<Self, DocumentError> {
        let dtype = match attributes.get("dtype") {
            None => "float32",
            Some(dtype) => dtype.as_str().unwrap_or_default(),
        };
        let scalar = Scalar::parse(dtype).ok_or_else(|| {
            DocumentError::new("dtype", format!("{dtype:?} is no type of numbers that is known"))
        })?;
        let channels: Vec<String> = match attributes.get("channel_names") {
            Some(Value::Array(names)) => {
                names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        let width = match attributes.get("row_shape") {
            Some(Value::Array(shape)) if !shape.is_empty() => {
                let width = shape.iter().try_fold(1usize, |width, len| {
                    width.checked_mul(usize::try_from(len.as_u64()?).ok()?)
                });
                let wrong = || DocumentError::new("row_shape", "must be a list of lengths");
                Some(width.filter(|width| *width > 0).ok_or_else(wrong)?)
            }
            _ if channels.len() > 1 => Some(channels.len()),
            _ => None,
        };
        let categories = read_categories(attributes, scalar)?;
        Ok(Self { scalar, width, channels, categories })
    }

    /// Adds what it says to the attributes of an array.
    pub fn write(&self, attributes: &mut Map<String, Value>) {
        attributes.insert("dtype".to_owned(), self.scalar.name().into());
        if !self.channels.is_empty() {
            attributes.insert("channel_names".to_owned(), self.channels.clone().into());
        }
        let shape: Vec<usize> = self.width.filter(|width| *width > 1).into_iter().collect();
        attributes.insert("row_shape".to_owned(), shape.into());
        if let Some(categories) = &self.categories {
            attributes.insert("encoding".to_owned(), "dictionary".into());
            attributes.insert("categories".to_owned(), categories.values.clone().into());
            attributes.insert("ordered".to_owned(), categories.ordered.into());
            if let Some(missing) = categories.missing {
                attributes.insert("_FillValue".to_owned(), missing.into());
            }
        }
    }

    /// The type of the column that rows of `width` values form.
    pub fn column_type(&self, width: usize) -> DataType {
        if self.categories.is_some() && width == 1 {
            return DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        }
        list_type(self.scalar.arrow(), width)
    }
}

fn read_categories(
    attributes: &Map<String, Value>,
    scalar: Scalar,
) -> Result<Option<Categories>, DocumentError> {
    if attributes.get("encoding").and_then(Value::as_str) != Some("dictionary") {
        return Ok(None);
    }
    let Some(Value::Array(values)) = attributes.get("categories") else {
        return Err(DocumentError::new("categories", "must be a list, as the codes mean them"));
    };
    if !scalar.is_integer() {
        let reason = format!("codes of a dictionary cannot be {}", scalar.name());
        return Err(DocumentError::new("dtype", reason));
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(Some(Categories {
        values: values.iter().map(text).collect(),
        ordered: attributes.get("ordered").and_then(Value::as_bool).unwrap_or(false),
        missing: attributes.get("_FillValue").and_then(Value::as_i64),
    }))
}

fn list_type(values: DataType, width: usize) -> DataType {
    if width == 1 {
        return values;
    }
    let width = i32::try_from(width).unwrap_or(i32::MAX);
    DataType::FixedSizeList(Arc::new(Field::new("item", values, false)), width)
}

/// Rows of values that become a column.
#[derive(Debug)]
pub struct Column {
    scalar: Scalar,
    width: usize,
    bytes: MutableBuffer,
}

/// Bytes of a cell as rows of values.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    bytes: &'a [u8],
    row: usize,
}

impl<'a> Values<'a> {
    /// Takes `bytes` as rows of `row` bytes.
    pub fn new(bytes: &'a [u8], row: usize) -> PayloadResult<Self> {
        if row == 0 || !bytes.len().is_multiple_of(row) {
            let (row, actual) = (row as u64, bytes.len() as u64);
            return Err(PayloadError::PartialRow { row, actual });
        }
        Ok(Self { bytes, row })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.row
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// `count` rows from `start` on; none of them if there are fewer.
    pub fn rows(&self, start: usize, count: usize) -> &'a [u8] {
        let range = start.checked_mul(self.row).zip(start.checked_add(count));
        range
            .and_then(|(from, end)| self.bytes.get(from..end.checked_mul(self.row)?))
            .unwrap_or_default()
    }
}

impl Column {
    /// A column of rows of `width` values.
    pub fn new(scalar: Scalar, width: usize) -> Self {
        Self { scalar, width, bytes: MutableBuffer::new(0) }
    }

    /// How many bytes a row has.
    pub fn row_size(&self) -> usize {
        self.scalar.size() * self.width
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.bytes.len().checked_div(self.row_size()).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends whole rows.
    pub fn push(&mut self, rows: &[u8]) {
        self.bytes.extend_from_slice(rows);
    }

    /// Appends one value of each of `rows`, which are `stride` bytes long, from byte `at` on.
    pub fn push_strided(&mut self, rows: &[u8], stride: usize, at: usize) {
        match self.row_size() {
            1 => self.strided::<1>(rows, stride, at),
            2 => self.strided::<2>(rows, stride, at),
            4 => self.strided::<4>(rows, stride, at),
            8 => self.strided::<8>(rows, stride, at),
            size => {
                for row in rows.chunks_exact(stride.max(1)) {
                    self.bytes.extend_from_slice(row.get(at..at + size).unwrap_or_default());
                }
            }
        }
    }

    fn strided<const N: usize>(&mut self, rows: &[u8], stride: usize, at: usize) {
        self.bytes.reserve(rows.len().checked_div(stride).unwrap_or(0) * N);
        for row in rows.chunks_exact(stride.max(1)) {
            if let Some(value) = row.get(at..).and_then(|row| row.first_chunk::<N>()) {
                self.bytes.extend_from_slice(value);
            }
        }
    }

    /// Takes the rows so far out as a column of Arrow's.
    ///
    /// With `categories`, its integers are codes of a dictionary.
    pub fn finish(&mut self, categories: Option<&Categories>) -> Result<ArrayRef, GeometryError> {
        self.finish_with(categories, None)
    }

    /// The same, with rows that have no value.
    pub fn finish_with(
        &mut self,
        categories: Option<&Categories>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, GeometryError> {
        let rows = self.len();
        let mut bytes = std::mem::replace(&mut self.bytes, MutableBuffer::new(0));
        if let (Some(categories), 1) = (categories, self.width) {
            return dictionary(self.scalar, &bytes, categories);
        }
        let (own, outer) = if self.width == 1 { (nulls, None) } else { (None, nulls) };
        let values: ArrayRef = if self.scalar == Scalar::Bool {
            let mut bits = BooleanBufferBuilder::new(bytes.len());
            bytes.iter().for_each(|byte| bits.append(*byte != 0));
            Arc::new(BooleanArray::new(bits.finish(), own))
        } else {
            if cfg!(target_endian = "big") {
                bytes.chunks_exact_mut(self.scalar.size()).for_each(<[u8]>::reverse);
            }
            primitive(self.scalar, Buffer::from(bytes), rows * self.width, own)?
        };
        if self.width == 1 {
            return Ok(values);
        }
        let list = list_type(values.data_type().clone(), self.width);
        let DataType::FixedSizeList(field, width) = list else { return Ok(values) };
        Ok(Arc::new(FixedSizeListArray::try_new(field, width, values, outer)?))
    }
}

/// The buffer of a column is aligned to any number.
fn primitive(
    scalar: Scalar,
    values: Buffer,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, GeometryError> {
    fn of<T: ArrowPrimitiveType>(
        values: Buffer,
        len: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, GeometryError> {
        let values = ScalarBuffer::new(values, 0, len);
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?))
    }
    match scalar {
        Scalar::Int8 => of::<Int8Type>(values, len, nulls),
        Scalar::Int16 => of::<Int16Type>(values, len, nulls),
        Scalar::Int32 => of::<Int32Type>(values, len, nulls),
        Scalar::Int64 => of::<Int64Type>(values, len, nulls),
        Scalar::Bool | Scalar::Uint8 => of::<UInt8Type>(values, len, nulls),
        Scalar::Uint16 => of::<UInt16Type>(values, len, nulls),
        Scalar::Uint32 => of::<UInt32Type>(values, len, nulls),
        Scalar::Uint64 => of::<UInt64Type>(values, len, nulls),
        Scalar::Float16 => of::<Float16Type>(values, len, nulls),
        Scalar::Float32 => of::<Float32Type>(values, len, nulls),
        Scalar::Float64 => of::<Float64Type>(values, len, nulls),
    }
}

fn dictionary(
    scalar: Scalar,
    bytes: &[u8],
    categories: &Categories,
) -> Result<ArrayRef, GeometryError> {
    let rows = bytes.len() / scalar.size();
    let mut keys = Vec::with_capacity(rows);
    let mut present = BooleanBufferBuilder::new(rows);
    for (row, code) in bytes.chunks_exact(scalar.size()).enumerate() {
        let code = scalar.integer(code);
        let missing = code.is_some() && code == categories.missing;
        let known = code.and_then(|code| usize::try_from(code).ok());
        let known = known.filter(|code| *code < categories.values.len());
        let key = known.and_then(|code| i32::try_from(code).ok());
        if key.is_none() && !missing {
            return Err(GeometryError::Invalid {
                format: "Zarr Vectors",
                place: format!("row {row} of a dictionary"),
                reason: format!(
                    "its code {} is none of {} categories",
                    code.map_or_else(|| "above 2^63".to_owned(), |code| code.to_string()),
                    categories.values.len()
                ),
            });
        }
        present.append(!missing);
        keys.push(if missing { 0 } else { key.unwrap_or(0) });
    }
    let nulls = NullBuffer::new(present.finish());
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    let keys = Int32Array::new(keys.into(), nulls);
    let values = Arc::new(StringArray::from_iter_values(&categories.values));
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}
