use std::sync::Arc;

use super::config::Config;
use super::output;
use crate::{ArraySpec, ArrayToArray, Codec, CodecError, Context, DataType, FillValue, Kind};

const NAME: &str = "bitround";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    build_with(config, 1)
}

/// The numcodecs variant: it may keep no bits at all.
pub(super) fn build_numcodecs(config: &Config<'_>) -> Result<Codec, CodecError> {
    build_with(config, 0)
}

fn build_with(config: &Config<'_>, least: i64) -> Result<Codec, CodecError> {
    config.only(&["keepbits"])?;
    let keep = config.required_integer("keepbits", least..=i64::from(i32::MAX))?;
    Ok(Codec::ArrayToArray(Arc::new(BitRound { keep: u32::try_from(keep).unwrap_or(u32::MAX) })))
}

/// Rounds numbers to fewer significant bits; decoding does nothing.
#[derive(Debug)]
struct BitRound {
    keep: u32,
}

/// How elements are rounded.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// This many bytes, this many of whose bits are the mantissa.
    Float(usize, u32),
    /// This many bytes, signed or not.
    Integer(usize, bool),
}

fn form(data_type: &DataType) -> Option<Form> {
    let bytes = data_type.bits() as usize / 8;
    let brain = matches!(data_type.name(), "bfloat16" | "complex_bfloat16");
    match (data_type.kind(), data_type.bits()) {
        (Kind::Float | Kind::SmallFloat | Kind::Complex, 16) if brain => Some(Form::Float(2, 7)),
        (Kind::Float | Kind::Complex, 16) => Some(Form::Float(2, 10)),
        (Kind::Float | Kind::Complex, 32) => Some(Form::Float(4, 23)),
        (Kind::Float | Kind::Complex, 64) => Some(Form::Float(8, 52)),
        (Kind::Int, 8 | 16 | 32 | 64) => Some(Form::Integer(bytes, true)),
        (Kind::UInt, 8 | 16 | 32 | 64) => Some(Form::Integer(bytes, false)),
        (Kind::DateTime | Kind::TimeDelta, _) => Some(Form::Integer(8, true)),
        _ => None,
    }
}

/// An unsigned type as wide as the elements.
trait Bits: Copy {
    /// Rounds off the lowest `drop` bits, halves to even; `None` if that carries past the top.
    fn rounded(self, drop: u32) -> Option<Self>;
    fn without(self, drop: u32) -> Self;
    fn float(self, keep: u32, mantissa: u32) -> Self;
    fn integer(self, keep: u32, signed: bool) -> Self;
    fn each(bytes: &mut [u8], round: impl Fn(Self) -> Self);
}

macro_rules! bits {
    ($($type:ty),*) => {$(
        impl Bits for $type {
            fn rounded(self, drop: u32) -> Option<Self> {
                let half = ((1 as $type) << (drop - 1)) - 1;
                let odd = self.unbounded_shr(drop) & 1;
                Some(self.checked_add(half + odd)?.without(drop))
            }

            fn without(self, drop: u32) -> Self {
                // All bits of an integer may be dropped, which is one too many for `>>`.
                self.unbounded_shr(drop).unbounded_shl(drop)
            }

            fn float(self, keep: u32, mantissa: u32) -> Self {
                if keep >= mantissa {
                    return self;
                }
                let drop = mantissa - keep;
                let sign = (1 as $type) << (Self::BITS - 1);
                let exponent = (sign - 1) >> mantissa << mantissa;
                if self & exponent == exponent {
                    // Rounding could turn a NaN into an infinity or a zero, so it only drops bits.
                    let quiet = (1 as $type) << (mantissa - 1);
                    let nan = self & !(exponent | sign) != 0;
                    return self.without(drop) | if nan { quiet } else { 0 };
                }
                self.rounded(drop).unwrap_or(self)
            }

            fn integer(self, keep: u32, signed: bool) -> Self {
                let width = Self::BITS - self.leading_zeros();
                if keep >= width {
                    return self;
                }
                let drop = width - keep;
                // A carry into the sign, or past the top, would produce a different number.
                self.rounded(drop)
                    .filter(|&value| !signed || (value ^ self).leading_zeros() > 0)
                    .unwrap_or_else(|| self.without(drop))
            }

            fn each(bytes: &mut [u8], round: impl Fn(Self) -> Self) {
                for element in bytes.as_chunks_mut().0 {
                    *element = round(Self::from_le_bytes(*element)).to_le_bytes();
                }
            }
        }
    )*};
}

bits! { u8, u16, u32, u64 }

impl BitRound {
    fn round(&self, form: Form, bytes: &mut [u8]) {
        match form {
            Form::Float(2, mantissa) => u16::each(bytes, |bits| bits.float(self.keep, mantissa)),
            Form::Float(4, mantissa) => u32::each(bytes, |bits| bits.float(self.keep, mantissa)),
            Form::Float(_, mantissa) => u64::each(bytes, |bits| bits.float(self.keep, mantissa)),
            Form::Integer(1, signed) => u8::each(bytes, |bits| bits.integer(self.keep, signed)),
            Form::Integer(2, signed) => u16::each(bytes, |bits| bits.integer(self.keep, signed)),
            Form::Integer(4, signed) => u32::each(bytes, |bits| bits.integer(self.keep, signed)),
            Form::Integer(_, signed) => u64::each(bytes, |bits| bits.integer(self.keep, signed)),
        }
    }

    fn form(&self, decoded: &ArraySpec) -> Result<Form, CodecError> {
        form(&decoded.data_type).ok_or_else(|| {
            let reason = format!("the data type is \"{}\"", decoded.data_type.name());
            CodecError::unsupported(NAME, reason)
        })
    }
}

fn copy(decoded: &ArraySpec, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    output::check_size(NAME, decoded.byte_len().unwrap_or(usize::MAX), input.len())?;
    out.clear();
    output::reserve(NAME, out, input.len())?;
    out.extend_from_slice(input);
    Ok(())
}

impl ArrayToArray for BitRound {
    fn encoded_spec(&self, decoded: &ArraySpec) -> Result<ArraySpec, CodecError> {
        let mut fill = decoded.fill.0.clone();
        self.round(self.form(decoded)?, &mut fill);
        Ok(ArraySpec { fill: FillValue(fill), ..decoded.clone() })
    }

    fn encode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        copy(decoded, elements, out)?;
        self.round(self.form(decoded)?, out);
        Ok(())
    }

    fn decode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        copy(decoded, encoded, out)
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}
