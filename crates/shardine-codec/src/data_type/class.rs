//! A data type once its name and configuration are parsed.

use super::float::{FLOAT16, FLOAT32, FLOAT64, FloatFormat};
use super::{DataType, ElementSize, Kind, SwapUnit};

/// A type's parameters.
#[derive(Debug, PartialEq)]
pub(super) enum Class {
    Bool,
    Int {
        bits: u32,
        signed: bool,
    },
    Float(&'static FloatFormat),
    Complex(&'static FloatFormat),
    /// Opaque bytes whose fill value is written as numbers or as base64.
    Raw {
        len: usize,
        style: RawStyle,
    },
    Time {
        delta: bool,
        unit: TimeUnit,
        scale: u32,
    },
    FixedText {
        chars: usize,
    },
    Struct {
        fields: Vec<Field>,
        /// Read under its old name, under which a fill value is base64.
        legacy: bool,
    },
    Text,
    Bytes,
}

/// Which of the opaque types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawStyle {
    /// `r*`
    Bits,
    /// `raw_bytes`
    Bytes,
    /// `null_terminated_bytes`: trailing zeros are not part of the value
    NullTerminated,
}

/// A field of a `struct`.
#[derive(Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) data_type: DataType,
}

/// The unit of a date or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Generic,
    Year,
    Month,
    /// A fixed length: this many of a fraction of a second.
    Fixed {
        name: &'static str,
        /// How many fit in a second (1 for whole seconds and longer).
        per_second: u64,
        /// How many seconds each has (1 for seconds and shorter).
        seconds: u32,
    },
}

const fn fixed(name: &'static str, per_second: u64, seconds: u32) -> TimeUnit {
    TimeUnit::Fixed { name, per_second, seconds }
}

impl TimeUnit {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "generic" => Self::Generic,
            "Y" => Self::Year,
            "M" => Self::Month,
            "W" => fixed("W", 1, 7 * 86_400),
            "D" => fixed("D", 1, 86_400),
            "h" => fixed("h", 1, 3_600),
            "m" => fixed("m", 1, 60),
            "s" => fixed("s", 1, 1),
            "ms" => fixed("ms", 1_000, 1),
            // The micro sign and the Greek letter look alike, and both are in use.
            "us" | "\u{3bc}s" | "\u{b5}s" => fixed("us", 1_000_000, 1),
            "ns" => fixed("ns", 1_000_000_000, 1),
            "ps" => fixed("ps", 1_000_000_000_000, 1),
            "fs" => fixed("fs", 1_000_000_000_000_000, 1),
            "as" => fixed("as", 1_000_000_000_000_000_000, 1),
            _ => return None,
        })
    }

    /// Its numpy name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Year => "Y",
            Self::Month => "M",
            Self::Fixed { name, .. } => name,
        }
    }
}

impl Class {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::Int { signed: true, .. } => Kind::Int,
            Self::Int { signed: false, .. } => Kind::UInt,
            Self::Float(format) if [&FLOAT16, &FLOAT32, &FLOAT64].contains(format) => Kind::Float,
            Self::Float(_) => Kind::SmallFloat,
            Self::Complex(_) => Kind::Complex,
            Self::Raw { .. } => Kind::Raw,
            Self::Time { delta: false, .. } => Kind::DateTime,
            Self::Time { delta: true, .. } => Kind::TimeDelta,
            Self::FixedText { .. } => Kind::FixedText,
            Self::Struct { .. } => Kind::Struct,
            Self::Text => Kind::Text,
            Self::Bytes => Kind::Bytes,
        }
    }

    pub(super) fn bits(&self) -> u32 {
        match self {
            Self::Bool => 1,
            Self::Int { bits, .. } => *bits,
            Self::Float(format) | Self::Complex(format) => format.bits(),
            // An element is far smaller than 2^29 bytes.
            Self::Raw { len, .. } => (*len as u32).saturating_mul(8),
            Self::Time { .. } => 64,
            Self::FixedText { .. } | Self::Struct { .. } | Self::Text | Self::Bytes => 0,
        }
    }

    pub(super) fn size(&self) -> ElementSize {
        ElementSize::Fixed(match self {
            Self::Bool => 1,
            Self::Int { bits, .. } => bits.div_ceil(8) as usize,
            Self::Float(format) => format.bytes(),
            Self::Complex(format) => 2 * format.bytes(),
            Self::Raw { len, .. } => *len,
            Self::Time { .. } => 8,
            Self::FixedText { chars } => 4 * chars,
            Self::Struct { fields, .. } => fields.iter().map(|field| field.len).sum(),
            Self::Text | Self::Bytes => return ElementSize::Variable,
        })
    }

    pub(super) fn units(&self) -> Vec<SwapUnit> {
        let run = |count: usize, len: usize| -> Vec<SwapUnit> {
            let count = if len > 1 { count } else { 0 };
            (0..count).map(|i| SwapUnit { offset: i * len, len }).collect()
        };
        match self {
            Self::Bool | Self::Raw { .. } | Self::Text | Self::Bytes => Vec::new(),
            Self::Int { bits, .. } => run(1, bits.div_ceil(8) as usize),
            Self::Float(format) => run(1, format.bytes()),
            Self::Complex(format) => run(2, format.bytes()),
            Self::Time { .. } => run(1, 8),
            Self::FixedText { chars } => run(*chars, 4),
            Self::Struct { fields, .. } => fields
                .iter()
                .flat_map(|field| {
                    field
                        .data_type
                        .swap_units()
                        .iter()
                        .map(|unit| SwapUnit { offset: field.offset + unit.offset, len: unit.len })
                })
                .collect(),
        }
    }
}
