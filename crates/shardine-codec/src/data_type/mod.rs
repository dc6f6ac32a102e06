//! Data types: their names, their sizes in memory and their fill values.

use serde_json::Value;

/// How many bytes an element takes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementSize {
    /// Always this many; never 0.
    Fixed(usize),
    /// Each element has a length of its own.
    Variable,
}

/// One multi-byte unit inside an element, whose bytes the byte order turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapUnit {
    /// Where in the element the unit begins.
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
    /// A pair of real and imaginary part.
    Complex,
    /// `r*`: opaque bytes
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
    /// No type of this name is known.
    #[error("unknown data type {name}")]
    Unknown {
        /// As in the metadata.
        name: String,
    },
    /// The type's configuration is not legal.
    #[error("data type \"{name}\": {reason}")]
    Configuration {
        /// The type's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The fill value is not legal for the type.
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
#[derive(Debug, Clone, PartialEq)]
pub struct DataType {
    name: String,
    size: ElementSize,
    units: Vec<SwapUnit>,
}

impl DataType {
    /// The type that a metadata document names: a string, or an object with `name` and `configuration`.
    pub fn from_json(json: &Value) -> Result<Self, DataTypeError> {
        let name = json.as_str().unwrap_or_default();
        let size = match name {
            "bool" | "int8" | "uint8" => 1,
            "int16" | "uint16" | "float16" => 2,
            "int32" | "uint32" | "float32" => 4,
            "int64" | "uint64" | "float64" => 8,
            "string" | "bytes" => {
                return Ok(Self { name: name.into(), size: ElementSize::Variable, units: vec![] });
            }
            _ => return Err(DataTypeError::Unknown { name: json.to_string() }),
        };
        let units = if size > 1 { vec![SwapUnit { offset: 0, len: size }] } else { vec![] };
        Ok(Self { name: name.into(), size: ElementSize::Fixed(size), units })
    }

    /// The canonical form for a metadata document.
    pub fn to_json(&self) -> Value {
        Value::String(self.name.clone())
    }

    /// The canonical name (an alias is resolved).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes an element takes in memory.
    pub fn size(&self) -> ElementSize {
        self.size
    }

    /// Significant bits of one element (of one part, for complex types); 0 where that has no meaning.
    pub fn bits(&self) -> u32 {
        0
    }

    /// What kind of values it has.
    pub fn kind(&self) -> Kind {
        Kind::UInt
    }

    /// The units whose bytes a big-endian encoding turns round; none for single-byte types.
    pub fn swap_units(&self) -> &[SwapUnit] {
        &self.units
    }

    /// The element that the metadata's `fill_value` stands for.
    pub fn fill_from_json(&self, _json: &Value) -> Result<FillValue, DataTypeError> {
        Ok(self.default_fill())
    }

    /// The `fill_value` that stands for this element.
    pub fn fill_to_json(&self, _fill: &FillValue) -> Value {
        Value::from(0)
    }

    /// Zero, false, the empty string.
    pub fn default_fill(&self) -> FillValue {
        match self.size {
            ElementSize::Fixed(size) => FillValue(vec![0; size]),
            ElementSize::Variable => FillValue(Vec::new()),
        }
    }
}
