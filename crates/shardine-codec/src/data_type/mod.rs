//! Data types: their names, their sizes in memory and their fill values.
//!
//! Supported are the core types of Zarr v3, the registered extensions, and other names that
//! zarr-python and TensorStore write. A type is parsed from its metadata form and keeps it:
//! [`DataType::to_json`] returns what was read, so that rewriting a document does not change it.

mod base64;
mod class;
mod compare;
mod element;
mod fill;
mod float;
mod numpy;
mod parse;
mod show;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use class::Class;
pub use compare::{Distance, ElementDifferences};
pub use element::{Element, InvalidElement};

/// How many bytes an element takes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementSize {
    /// Always this many; never 0.
    Fixed(usize),
    /// Each element has a length of its own.
    Variable,
}

/// One multi-byte unit inside an element, whose bytes are reversed to change the byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapUnit {
    /// Where in the element the unit starts.
    pub offset: usize,
    /// Its length in bytes, at least 2.
    pub len: usize,
}

/// What kind of values a type has; widths are in [`DataType::bits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// `bool`
    Bool,
    /// `int2` to `int64`
    Int,
    /// `uint2` to `uint64`
    UInt,
    /// `float16`, `float32`, `float64`
    Float,
    /// `bfloat16` and the `float4`, `float6` and `float8` families
    SmallFloat,
    /// A pair of real and imaginary parts.
    Complex,
    /// `r*`, `raw_bytes` and `null_terminated_bytes`: opaque bytes
    Raw,
    /// `numpy.datetime64`
    DateTime,
    /// `numpy.timedelta64`
    TimeDelta,
    /// `fixed_length_utf32`
    FixedText,
    /// `struct`
    Struct,
    /// `string`
    Text,
    /// `bytes`
    Bytes,
}

/// One element's bytes in memory (little-endian), or the bytes of a variable-length element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FillValue(pub Vec<u8>);

/// Why a data type or a fill value is refused.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum DataTypeError {
    /// No type with this name is known.
    #[error("unknown data type {name}")]
    Unknown {
        /// As in the metadata.
        name: String,
    },
    /// The type's configuration is invalid.
    #[error("data type \"{name}\": {reason}")]
    Configuration {
        /// The type's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The fill value is invalid for the type.
    #[error("fill value {value} is not legal for data type \"{name}\": {reason}")]
    Fill {
        /// The type's name.
        name: String,
        /// The value as in the metadata.
        value: String,
        /// What is wrong.
        reason: String,
    },
}

/// A data type; cheap to clone.
///
/// Two are equal if they have the same name and the same parameters, however each was spelled.
/// Serialized in its metadata form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct DataType {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// As read, or as it will be written.
    json: Value,
    name: String,
    class: Class,
    size: ElementSize,
    units: Vec<SwapUnit>,
}

impl PartialEq for DataType {
    fn eq(&self, other: &Self) -> bool {
        self.inner.name == other.inner.name && self.inner.class == other.inner.class
    }
}

impl TryFrom<Value> for DataType {
    type Error = DataTypeError;

    fn try_from(json: Value) -> Result<Self, DataTypeError> {
        Self::from_json(&json)
    }
}

impl TryFrom<&str> for DataType {
    type Error = DataTypeError;

    /// See [`DataType::parse_name`].
    fn try_from(name: &str) -> Result<Self, DataTypeError> {
        Self::parse_name(name)
    }
}

impl TryFrom<String> for DataType {
    type Error = DataTypeError;

    fn try_from(name: String) -> Result<Self, DataTypeError> {
        Self::parse_name(&name)
    }
}

impl From<&DataType> for DataType {
    fn from(data_type: &DataType) -> Self {
        data_type.clone()
    }
}

impl From<Infallible> for DataTypeError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<DataType> for Value {
    fn from(data_type: DataType) -> Self {
        data_type.to_json()
    }
}

impl DataType {
    /// The most bytes that an element of fixed size may have.
    ///
    /// Far above any element in use, and low enough that a short hostile document cannot request
    /// much memory.
    pub const MAX_ELEMENT_BYTES: usize = 16 << 20;

    /// The most [units](Self::swap_units) that an element may have: for example, a text of 1 MiB.
    pub const MAX_SWAP_UNITS: usize = 1 << 18;

    /// How deep a `struct` may be nested.
    pub const MAX_STRUCT_DEPTH: usize = 16;

    /// Parses a type from metadata: a string, or an object with `name` and `configuration`.
    ///
    /// A configuration with members that the type does not have is refused: they could change the
    /// layout. So are elements past [`Self::MAX_ELEMENT_BYTES`], [`Self::MAX_SWAP_UNITS`] or
    /// [`Self::MAX_STRUCT_DEPTH`].
    pub fn from_json(json: &Value) -> Result<Self, DataTypeError> {
        parse::data_type(json, 0)
    }

    /// Parses a type as users name it.
    ///
    /// `uint16`, `r24`, `numpy.datetime64[ns]`, `numpy.timedelta64[10ms]`; or numpy's short names,
    /// `<u2`, `f4`, `M8[ns]`, `U16`, in which numbers count bytes: `i8` is an `int64`; or its names
    /// without a width: `float` is a `float64`, `int` an `int64`. Big-endian names are refused, as the
    /// byte order is up to an array's codecs. Any other type with parameters is given in its metadata
    /// form, as the text of a JSON object.
    pub fn parse_name(text: &str) -> Result<Self, DataTypeError> {
        parse::name(text)
    }

    /// The type with this numpy name, without a byte order: `u2`, `b1`, `M8[10ms]`, `S5`.
    ///
    /// `None` if it is not such a name, or names a type that arrays cannot have.
    pub fn from_numpy(name: &str) -> Option<Self> {
        numpy::data_type(name)
    }

    fn of_class(json: Value, name: &str, class: Class) -> Self {
        let (size, units) = (class.size(), class.units());
        Self { inner: Arc::new(Inner { json, name: name.into(), class, size, units }) }
    }

    /// The form for a metadata document: if it was read from one, exactly what was read.
    pub fn to_json(&self) -> Value {
        self.inner.json.clone()
    }

    /// The canonical name (aliases are resolved).
    ///
    /// `variable_length_bytes` and `binary` are `bytes`, `structured` is `struct`. The names of
    /// complex types are kept, although some of them mean the same.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How many bytes an element takes in memory.
    pub fn size(&self) -> ElementSize {
        self.inner.size
    }

    /// Significant bits of one element (of one part, for complex types); 0 if that is meaningless.
    ///
    /// 1 for `bool`; 0 for text, `struct` and variable-length types.
    pub fn bits(&self) -> u32 {
        self.inner.class.bits()
    }

    /// The kind of its values.
    pub fn kind(&self) -> Kind {
        self.inner.class.kind()
    }

    /// The units whose bytes a big-endian encoding reverses; none for single-byte types.
    ///
    /// In ascending order and without overlap; for a `struct` those of its fields, including nested
    /// ones.
    pub fn swap_units(&self) -> &[SwapUnit] {
        &self.inner.units
    }

    /// The element that the metadata's `fill_value` stands for.
    ///
    /// A number for a floating-point type is rounded to the nearest value, halves to even. `null`
    /// is refused. Base64 for a `struct` is taken as little-endian; a caller that knows otherwise
    /// reverses [`Self::swap_units`].
    pub fn fill_from_json(&self, json: &Value) -> Result<FillValue, DataTypeError> {
        fill::from_json(self, json)
    }

    /// The `fill_value` that stands for this element.
    ///
    /// [`Self::fill_from_json`] returns the element, bit for bit, if [`Self::check_fill`] accepts
    /// it. For any other value it is the nearest valid one: missing bytes are zero, surplus bytes
    /// and bits are ignored.
    pub fn fill_to_json(&self, fill: &FillValue) -> Value {
        fill::to_json(self, fill)
    }

    /// Checks that `fill` is an element of this type: of the right length, and with no bits set
    /// that the type does not have.
    pub fn check_fill(&self, fill: &FillValue) -> Result<(), DataTypeError> {
        fill::check(self, fill)
    }

    /// Zero, false, the empty string.
    ///
    /// All bytes are 0; in `float8_e8m0fnu`, a type without zero, that is the smallest value.
    pub fn default_fill(&self) -> FillValue {
        match self.inner.size {
            ElementSize::Fixed(size) => FillValue(vec![0; size]),
            ElementSize::Variable => FillValue(Vec::new()),
        }
    }

    /// numpy's name for elements as they are in memory, such as `<u2`, `|b1` or `<M8[10ms]`; `None`
    /// for types that numpy does not have.
    ///
    /// For a `struct` it is the text of a Python list, such as `[('x', '<f4'), ('y', '<f4')]`: it
    /// goes into an `.npy` header without quotes.
    pub fn numpy_descr(&self) -> Option<String> {
        show::numpy_descr(self)
    }

    /// Compares two runs of elements of the same length.
    ///
    /// Numbers are compared as numpy's `array_equal` with `equal_nan` does: a NaN is equal to every
    /// NaN, and 0.0 to -0.0. All else is compared by its bytes. Of a variable-length type both are
    /// one element.
    pub fn differences(&self, a: &[u8], b: &[u8]) -> ElementDifferences {
        compare::differences(self, a, b)
    }

    /// A human-readable element: `-3`, `0.1`, `1.0+2.0i`, `"text"`, `2024-02-29T12:00:00`,
    /// `0x00ff`.
    ///
    /// Missing bytes count as zero; long opaque values are truncated.
    pub fn format_element(&self, bytes: &[u8]) -> String {
        show::element(self, bytes)
    }
}
