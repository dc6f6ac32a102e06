//! Converts numbers of one type to another, as numpy's `astype` does, but never silently wrong: a
//! value that does not fit is an error.

use std::fmt;

use half::f16;
use shardine_codec::{DataType, Kind};

/// A numeric type, and how its elements are laid out in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    kind: NumberKind,
    /// Bytes of an element.
    bytes: usize,
    /// Bits of the value; fewer than in the element for `int4` and the like.
    bits: u32,
    big_endian: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Bool,
    Int,
    UInt,
    Float,
}

/// A conversion between two numeric types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    pub from: Number,
    pub to: Number,
}

/// A value that the target type does not have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unfit {
    /// The index of the element among those converted.
    pub element: usize,
    /// Its value.
    pub value: Value,
}

/// A number of any type, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    Integer(i128),
    Float(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

impl Number {
    /// The numeric type of an array's elements; `None` if they are not numbers.
    pub fn of(data_type: &DataType) -> Option<Self> {
        let kind = match data_type.kind() {
            Kind::Bool => NumberKind::Bool,
            Kind::Int => NumberKind::Int,
            Kind::UInt => NumberKind::UInt,
            Kind::Float => NumberKind::Float,
            _ => return None,
        };
        let bits = if kind == NumberKind::Bool { 8 } else { data_type.bits() };
        Some(Self { kind, bytes: bits.div_ceil(8) as usize, bits, big_endian: false })
    }

    /// The numeric type that numpy gives this name.
    pub fn from_numpy(name: &str) -> Option<Self> {
        let big_endian = name.starts_with('>');
        let name = name.strip_prefix(['<', '>', '|', '=']).unwrap_or(name);
        let (kind, bytes) = match name {
            "b1" => (NumberKind::Bool, 1),
            "i1" => (NumberKind::Int, 1),
            "i2" => (NumberKind::Int, 2),
            "i4" => (NumberKind::Int, 4),
            "i8" => (NumberKind::Int, 8),
            "u1" => (NumberKind::UInt, 1),
            "u2" => (NumberKind::UInt, 2),
            "u4" => (NumberKind::UInt, 4),
            "u8" => (NumberKind::UInt, 8),
            "f2" => (NumberKind::Float, 2),
            "f4" => (NumberKind::Float, 4),
            "f8" => (NumberKind::Float, 8),
            _ => return None,
        };
        Some(Self { kind, bytes, bits: 8 * bytes as u32, big_endian: big_endian && bytes > 1 })
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    fn load(self, element: &[u8]) -> Value {
        let mut word = [0; 8];
        let word_part = &mut word[..self.bytes];
        word_part.copy_from_slice(element);
        if self.big_endian {
            word_part.reverse();
        }
        let unsigned = u64::from_le_bytes(word);
        match (self.kind, self.bytes) {
            (NumberKind::Bool, _) => Value::Integer(i128::from(unsigned != 0)),
            (NumberKind::UInt, _) => Value::Integer(i128::from(unsigned)),
            (NumberKind::Int, bytes) => {
                let unused = 64 - 8 * bytes as u32;
                // Shifting up and back down extends the sign.
                Value::Integer(i128::from((unsigned << unused).cast_signed() >> unused))
            }
            (NumberKind::Float, 2) => Value::Float(f16::from_bits(unsigned as u16).to_f64()),
            (NumberKind::Float, 4) => Value::Float(f64::from(f32::from_bits(unsigned as u32))),
            (NumberKind::Float, _) => Value::Float(f64::from_bits(unsigned)),
        }
    }

    /// Stores a value, little-endian; `false` if the type does not have it.
    fn store(self, value: Value, element: &mut [u8]) -> bool {
        let word = match (self.kind, value) {
            (NumberKind::Bool, Value::Integer(value)) => u64::from(value != 0),
            // NaN is true, as in Python.
            (NumberKind::Bool, Value::Float(value)) => u64::from(value != 0.0),
            (NumberKind::Int | NumberKind::UInt, value) => match self.integer(value) {
                Some(word) => word,
                None => return false,
            },
            (NumberKind::Float, value) => match self.float(value) {
                Some(word) => word,
                None => return false,
            },
        };
        element.copy_from_slice(&word.to_le_bytes()[..self.bytes]);
        true
    }

    fn integer(self, value: Value) -> Option<u64> {
        let value = match value {
            Value::Integer(value) => value,
            // Fractions are truncated; beyond 2^64 nothing fits anyway, and NaN fails the
            // comparison.
            Value::Float(value) if value.abs() < 1e20 => value as i128,
            Value::Float(_) => return None,
        };
        let (least, most) = match self.kind {
            NumberKind::Int => (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1),
            _ => (0, (1i128 << self.bits) - 1),
        };
        // Two's complement: the low bits are right for negative values too.
        (least..=most).contains(&value).then_some(value as u64)
    }

    fn float(self, value: Value) -> Option<u64> {
        let (word, overflows) = match (self.bytes, value) {
            (2, value) => {
                // Integers that a float64 does not hold exactly are beyond the largest float16.
                let float = f16::from_f64(value.to_f64());
                (u64::from(float.to_bits()), float.is_infinite())
            }
            (4, value) => {
                let float = match value {
                    Value::Integer(value) => value as f32,
                    Value::Float(value) => value as f32,
                };
                (u64::from(float.to_bits()), float.is_infinite())
            }
            (_, value) => (value.to_f64().to_bits(), false),
        };
        let was_infinite = matches!(value, Value::Float(value) if value.is_infinite());
        (was_infinite || !overflows).then_some(word)
    }
}

impl Value {
    fn to_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

impl Cast {
    /// Appends the elements of `from`, converted and little-endian, to `to`.
    pub fn convert(self, from: &[u8], to: &mut Vec<u8>) -> Result<(), Unfit> {
        let start = to.len();
        let count = from.len() / self.from.bytes;
        to.resize(start + count * self.to.bytes, 0);
        let elements = from.chunks_exact(self.from.bytes);
        let targets = to[start..].chunks_exact_mut(self.to.bytes);
        for (element, (bytes, target)) in elements.zip(targets).enumerate() {
            let value = self.from.load(bytes);
            if !self.to.store(value, target) {
                return Err(Unfit { element, value });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str) -> Number {
        Number::from_numpy(name)
            .or_else(|| Number::of(&DataType::parse_name(name).unwrap()))
            .unwrap()
    }

    fn cast(from: &str, to: &str, bytes: &[u8]) -> Result<Vec<u8>, Unfit> {
        let mut out = Vec::new();
        Cast { from: number(from), to: number(to) }.convert(bytes, &mut out).map(|()| out)
    }

    fn refused(from: &str, to: &str, bytes: &[u8]) -> String {
        let unfit = cast(from, to, bytes).unwrap_err();
        format!("{} {}", unfit.element, unfit.value)
    }

    #[test]
    fn integers_keep_their_value_or_are_refused() {
        assert_eq!(cast("|i1", "<i8", &[0xff]), Ok(vec![0xff; 8]));
        assert_eq!(cast("<u2", "|u1", &[255, 0]), Ok(vec![255]));
        assert_eq!(refused("<u2", "|u1", &[1, 0, 0, 1]), "1 256");
        assert_eq!(refused("|i1", "<u8", &[0xff]), "0 -1");
        assert_eq!(refused("<u8", "<i8", &[0xff; 8]), "0 18446744073709551615");
        assert_eq!(cast("|i1", "int4", &[0xf8, 7]), Ok(vec![0xf8, 7]));
        assert_eq!(refused("|i1", "int4", &[8]), "0 8");
        assert_eq!(refused("|i1", "uint2", &[4]), "0 4");
    }

    #[test]
    fn fractions_are_cut_off_and_what_is_no_integer_is_refused() {
        let bytes = |value: f64| value.to_le_bytes();
        assert_eq!(cast("<f8", "|i1", &bytes(-1.9)), Ok(vec![0xff]));
        assert_eq!(cast("<f8", "|u1", &bytes(255.9)), Ok(vec![255]));
        assert_eq!(cast("<f8", "|u1", &bytes(-0.9)), Ok(vec![0]));
        assert_eq!(refused("<f8", "|u1", &bytes(256.0)), "0 256");
        assert_eq!(refused("<f8", "<i8", &bytes(f64::NAN)), "0 NaN");
        assert_eq!(refused("<f8", "<i8", &bytes(f64::INFINITY)), "0 inf");
        assert_eq!(refused("<f8", "<u8", &bytes(2f64.powi(64))), "0 18446744073709552000");
    }

    #[test]
    fn floats_round_and_keep_what_is_not_finite() {
        let bytes = |value: f64| value.to_le_bytes();
        assert_eq!(cast("<f8", "<f4", &bytes(0.1)), Ok(0.1f32.to_le_bytes().to_vec()));
        assert_eq!(cast("<f8", "<f2", &bytes(f64::INFINITY)), Ok(vec![0, 0x7c]));
        assert_eq!(
            refused("<f8", "<f4", &bytes(1e300)),
            "0 1e300".replace("1e300", &format!("{}", 1e300))
        );
        assert_eq!(refused("<u4", "<f2", &65536u32.to_le_bytes()), "0 65536");
        let nan = cast("<f8", "<f4", &bytes(f64::NAN)).unwrap();
        assert!(f32::from_le_bytes(nan.try_into().unwrap()).is_nan());
    }

    #[test]
    fn big_endian_input_is_turned_round() {
        assert_eq!(cast(">u2", "<u4", &[1, 2]), Ok(vec![2, 1, 0, 0]));
        assert_eq!(cast(">f4", "<f4", &1.5f32.to_be_bytes()), Ok(1.5f32.to_le_bytes().to_vec()));
    }

    #[test]
    fn anything_but_zero_is_true() {
        assert_eq!(cast("<i2", "|b1", &[0, 1, 0, 0]), Ok(vec![1, 0]));
        assert_eq!(cast("<f8", "|b1", &f64::NAN.to_le_bytes()), Ok(vec![1]));
        assert_eq!(cast("|b1", "<f4", &[1]), Ok(1f32.to_le_bytes().to_vec()));
    }
}
