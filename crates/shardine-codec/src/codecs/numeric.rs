//! Numbers as numpy computes with them, for the codecs that numcodecs defines in those terms.

use half::f16;
use serde_json::Value;

use crate::{CodecError, DataType, Kind};

/// A type that arithmetic is done in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numeric {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
}

/// The names: numpy's short form without the byte order, and Zarr's.
const NAMES: [(Numeric, &str, &str); 11] = [
    (Numeric::I8, "i1", "int8"),
    (Numeric::I16, "i2", "int16"),
    (Numeric::I32, "i4", "int32"),
    (Numeric::I64, "i8", "int64"),
    (Numeric::U8, "u1", "uint8"),
    (Numeric::U16, "u2", "uint16"),
    (Numeric::U32, "u4", "uint32"),
    (Numeric::U64, "u8", "uint64"),
    (Numeric::F16, "f2", "float16"),
    (Numeric::F32, "f4", "float32"),
    (Numeric::F64, "f8", "float64"),
];

impl Numeric {
    /// The type with this numpy name; a byte order in it is ignored.
    ///
    /// Elements in memory have one byte order here, and the `bytes` codec says which one is stored.
    pub(super) fn from_numpy(name: &str) -> Option<Self> {
        let short = name.strip_prefix(['<', '>', '|', '=']).unwrap_or(name);
        NAMES.iter().find(|(_, numpy, zarr)| short == *numpy || name == *zarr).map(|found| found.0)
    }

    /// The numbers that elements of `data_type` are; for times, their count of units.
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        match data_type.kind() {
            Kind::DateTime | Kind::TimeDelta => Some(Self::I64),
            Kind::Int | Kind::UInt | Kind::Float => Self::from_numpy(data_type.name()),
            _ => None,
        }
    }

    /// The narrowest floating-point type that numpy uses to compute with numbers of this type.
    fn as_float(self) -> Self {
        match self {
            Self::I8 | Self::U8 | Self::F16 => Self::F16,
            Self::I16 | Self::U16 | Self::F32 => Self::F32,
            _ => Self::F64,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// The type in which numpy adds numbers of type `self` to others of type `total`.
    ///
    /// For integers, `total` itself: they wrap, so a wider type would not change the sum.
    pub(super) fn to_sum(self, total: Self) -> Self {
        if !self.is_float() && !total.is_float() {
            return total;
        }
        let (a, b) = (self.as_float(), total.as_float());
        if a.size() > b.size() { a } else { b }
    }

    pub(super) fn data_type(self) -> Result<DataType, CodecError> {
        let name = NAMES.iter().find(|found| found.0 == self).map_or("", |found| found.2);
        Ok(DataType::from_json(&Value::from(name))?)
    }

    pub(super) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// One number of any of the types, without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    Int(i64),
    UInt(u64),
    Float(f64),
}

/// Numbers of one type; the loops below are instantiated for each.
pub(super) trait Number: Copy {
    /// From the bytes of one element; missing bytes count as zero.
    fn read(bytes: &[u8]) -> Self;
    fn write(self, out: &mut Vec<u8>);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn zero() -> Self;
    fn widen(self) -> Scalar;
    /// Like a C cast where that is defined; wrapping between integers.
    fn cast(value: Scalar) -> Self;
}

macro_rules! integer {
    ($($type:ty => $variant:ident as $wide:ty),*) => {$(
        impl Number for $type {
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn zero() -> Self {
                0
            }
            fn widen(self) -> Scalar {
                Scalar::$variant(self as $wide)
            }
            fn cast(value: Scalar) -> Self {
                match value {
                    Scalar::Int(value) => value as Self,
                    Scalar::UInt(value) => value as Self,
                    // Through 64 bits, so that a negative number wraps to an unsigned one.
                    Scalar::Float(value) if value < 9_223_372_036_854_775_808.0 => {
                        value as i64 as Self
                    }
                    Scalar::Float(value) => value as u64 as Self,
                }
            }
        }
    )*};
}

integer! {
    i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64,
    u8 => UInt as u64, u16 => UInt as u64, u32 => UInt as u64, u64 => UInt as u64
}

macro_rules! float {
    ($($type:ty: $from_f64:expr, $from_i64:expr, $from_u64:expr);*) => {$(
        impl Number for $type {
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn zero() -> Self {
                $from_f64(0.0)
            }
            fn widen(self) -> Scalar {
                Scalar::Float(f64::from(self))
            }
            fn cast(value: Scalar) -> Self {
                match value {
                    Scalar::Int(value) => $from_i64(value),
                    Scalar::UInt(value) => $from_u64(value),
                    Scalar::Float(value) => $from_f64(value),
                }
            }
        }
    )*};
}

float! {
    f16: f16::from_f64, |value: i64| f16::from_f64(value as f64),
        |value: u64| f16::from_f64(value as f64);
    f32: |value: f64| value as f32, |value: i64| value as f32, |value: u64| value as f32;
    f64: |value: f64| value, |value: i64| value as f64, |value: u64| value as f64
}

/// Runs `$body` with `$type` standing for the Rust type of `$numeric`.
macro_rules! with_type {
    ($numeric:expr, $type:ident => $body:expr) => {
        match $numeric {
            Numeric::I8 => {
                type $type = i8;
                $body
            }
            Numeric::I16 => {
                type $type = i16;
                $body
            }
            Numeric::I32 => {
                type $type = i32;
                $body
            }
            Numeric::I64 => {
                type $type = i64;
                $body
            }
            Numeric::U8 => {
                type $type = u8;
                $body
            }
            Numeric::U16 => {
                type $type = u16;
                $body
            }
            Numeric::U32 => {
                type $type = u32;
                $body
            }
            Numeric::U64 => {
                type $type = u64;
                $body
            }
            Numeric::F16 => {
                type $type = half::f16;
                $body
            }
            Numeric::F32 => {
                type $type = f32;
                $body
            }
            Numeric::F64 => {
                type $type = f64;
                $body
            }
        }
    };
}

pub(super) use with_type;

/// Appends the numbers of type `from` in `input`, as numbers of type `to`.
pub(super) fn cast(from: Numeric, to: Numeric, input: &[u8], out: &mut Vec<u8>) {
    if from == to {
        out.extend_from_slice(input);
        return;
    }
    with_type!(from, From => with_type!(to, To => cast_each::<From, To>(input, out)));
}

fn cast_each<From: Number, To: Number>(input: &[u8], out: &mut Vec<u8>) {
    for element in input.chunks_exact(size_of::<From>()) {
        To::cast(From::read(element).widen()).write(out);
    }
}
