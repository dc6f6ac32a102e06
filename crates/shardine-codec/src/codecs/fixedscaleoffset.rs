use std::sync::Arc;

use half::f16;
use serde_json::Value;

use super::config::Config;
use super::delta::{NumericTypes, check_len, retyped};
use super::numeric::{Number, Numeric, Scalar, with_type};
use super::output;
use crate::{ArraySpec, ArrayToArray, Codec, CodecError, Context};

const NAME: &str = "fixedscaleoffset";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["offset", "scale", "dtype", "astype"])?;
    let codec = FixedScaleOffset {
        offset: parameter(config, "offset")?,
        scale: parameter(config, "scale")?,
        types: NumericTypes::new(config)?,
    };
    Ok(Codec::ArrayToArray(Arc::new(codec)))
}

/// `(x - offset) * scale`, rounded, in another type, as numpy computes it.
#[derive(Debug)]
struct FixedScaleOffset {
    offset: Parameter,
    scale: Parameter,
    types: NumericTypes,
}

/// A Python number: whether it is an integer decides which type numpy computes in.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    integer: Option<i64>,
    float: f64,
}

fn parameter(config: &Config<'_>, member: &str) -> Result<Parameter, CodecError> {
    match config.required(member)? {
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| float.is_finite());
            let float = float.ok_or_else(|| config.wrong(member, "a finite number"))?;
            Ok(Parameter { integer: number.as_i64(), float })
        }
        _ => Err(config.wrong(member, "a number")),
    }
}

impl Parameter {
    /// The parameter as an integer of type `N`, if it is one and fits.
    fn fitting<N: Number>(&self) -> Option<N> {
        let integer = self.integer?;
        let fitted = N::cast(Scalar::Int(integer));
        let same = match fitted.widen() {
            Scalar::Int(value) => value == integer,
            Scalar::UInt(value) => u64::try_from(integer) == Ok(value),
            Scalar::Float(_) => false,
        };
        same.then_some(fitted)
    }
}

/// Rounds to the nearest integer, halves to even, as `numpy.around` does.
fn round(value: f64) -> f64 {
    value.round_ties_even()
}

fn float(value: Scalar) -> f64 {
    match value {
        Scalar::Int(value) => value as f64,
        Scalar::UInt(value) => value as f64,
        Scalar::Float(value) => value,
    }
}

/// A float type: everything is computed in its own precision.
trait Float: Number {
    fn of(value: f64) -> Self;
    fn divided(self, by: Self) -> Self;
}

macro_rules! floats {
    ($($type:ty: $of:expr),*) => {$(
        impl Float for $type {
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn divided(self, by: Self) -> Self {
                self / by
            }
        }
    )*};
}

floats! { f16: f16::from_f64, f32: |value| value as f32, f64: |value| value }

impl FixedScaleOffset {
    fn encode_integer<N: Number, To: Number>(&self, input: &[u8], out: &mut Vec<u8>) {
        let (offset, scale) = (self.offset.fitting::<N>(), self.scale.fitting::<N>());
        for element in input.chunks_exact(size_of::<N>()) {
            let value = N::read(element);
            let moved = match offset {
                Some(offset) => value.sub(offset).widen(),
                None => Scalar::Float(float(value.widen()) - self.offset.float),
            };
            let scaled = match (moved, scale) {
                (Scalar::Int(_) | Scalar::UInt(_), Some(scale)) => {
                    N::cast(moved).mul(scale).widen()
                }
                _ => Scalar::Float(round(float(moved) * self.scale.float)),
            };
            To::cast(scaled).write(out);
        }
    }

    fn encode_float<N: Float, To: Number>(&self, input: &[u8], out: &mut Vec<u8>) {
        let (offset, scale) = (N::of(self.offset.float), N::of(self.scale.float));
        for element in input.chunks_exact(size_of::<N>()) {
            let scaled = N::read(element).sub(offset).mul(scale);
            To::cast(Scalar::Float(round(float(scaled.widen())))).write(out);
        }
    }

    fn decode_integer<N: Number, To: Number>(&self, input: &[u8], out: &mut Vec<u8>) {
        for element in input.chunks_exact(size_of::<N>()) {
            let value = float(N::read(element).widen());
            To::cast(Scalar::Float(value / self.scale.float + self.offset.float)).write(out);
        }
    }

    fn decode_float<N: Float, To: Number>(&self, input: &[u8], out: &mut Vec<u8>) {
        let (offset, scale) = (N::of(self.offset.float), N::of(self.scale.float));
        for element in input.chunks_exact(size_of::<N>()) {
            To::cast(N::read(element).divided(scale).add(offset).widen()).write(out);
        }
    }

    fn encode_all(&self, types: (Numeric, Numeric), input: &[u8], out: &mut Vec<u8>) {
        let (from, to) = types;
        with_type!(to, To => match from {
            Numeric::F16 => self.encode_float::<f16, To>(input, out),
            Numeric::F32 => self.encode_float::<f32, To>(input, out),
            Numeric::F64 => self.encode_float::<f64, To>(input, out),
            _ => with_type!(from, From => self.encode_integer::<From, To>(input, out)),
        });
    }

    fn decode_all(&self, types: (Numeric, Numeric), input: &[u8], out: &mut Vec<u8>) {
        let (to, from) = types;
        with_type!(to, To => match from {
            Numeric::F16 => self.decode_float::<f16, To>(input, out),
            Numeric::F32 => self.decode_float::<f32, To>(input, out),
            Numeric::F64 => self.decode_float::<f64, To>(input, out),
            _ => with_type!(from, From => self.decode_integer::<From, To>(input, out)),
        });
    }
}

impl ArrayToArray for FixedScaleOffset {
    fn encoded_spec(&self, decoded: &ArraySpec) -> Result<ArraySpec, CodecError> {
        let types = self.types.resolve(NAME, decoded)?;
        let mut fill = Vec::new();
        self.encode_all(types, &decoded.fill.0, &mut fill);
        retyped(decoded, types, fill)
    }

    fn encode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let types = self.types.resolve(NAME, decoded)?;
        check_len(NAME, decoded, types.0, elements)?;
        out.clear();
        output::reserve(NAME, out, elements.len() / types.0.size() * types.1.size())?;
        self.encode_all(types, elements, out);
        Ok(())
    }

    fn decode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let types = self.types.resolve(NAME, decoded)?;
        check_len(NAME, decoded, types.1, encoded)?;
        out.clear();
        output::reserve(NAME, out, encoded.len() / types.1.size() * types.0.size())?;
        self.decode_all(types, encoded, out);
        Ok(())
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}
