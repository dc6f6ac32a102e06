//! Fill values: conversion between the JSON of a metadata document and an element's bytes.

use serde_json::{Map, Value};

use super::class::{Class, RawStyle};
use super::float::{FloatFormat, FloatValue};
use super::parse::shown;
use super::{DataType, DataTypeError, ElementSize, FillValue, base64};

const NAT: i64 = i64::MIN;

pub(super) fn from_json(data_type: &DataType, json: &Value) -> Result<FillValue, DataTypeError> {
    let mut bytes = Vec::new();
    write(data_type, json, &mut bytes).map_err(|reason| DataTypeError::Fill {
        name: data_type.name().into(),
        value: shown(json),
        reason,
    })?;
    Ok(FillValue(bytes))
}

pub(super) fn to_json(data_type: &DataType, fill: &FillValue) -> Value {
    match data_type.size() {
        ElementSize::Fixed(size) if fill.0.len() != size => {
            let mut bytes = fill.0.clone();
            bytes.resize(size, 0);
            read(data_type, &bytes)
        }
        _ => read(data_type, &fill.0),
    }
}

pub(super) fn check(data_type: &DataType, fill: &FillValue) -> Result<(), DataTypeError> {
    let refused = |value: String, reason: String| {
        Err(DataTypeError::Fill { name: data_type.name().into(), value, reason })
    };
    let len = fill.0.len();
    if let ElementSize::Fixed(size) = data_type.size()
        && len != size
    {
        return refused(format!("of {len} bytes"), format!("an element has {size} bytes"));
    }
    let json = to_json(data_type, fill);
    match from_json(data_type, &json) {
        Ok(same) if same == *fill => Ok(()),
        _ => refused(shown(&json), "its bytes are not those of any value of the type".into()),
    }
}

/// Appends the element that `json` stands for.
fn write(data_type: &DataType, json: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    if json.is_null() {
        return Err("null is not a value; every array has a fill value of its type".into());
    }
    match &data_type.inner.class {
        Class::Bool => match json {
            Value::Bool(value) => out.push(u8::from(*value)),
            _ => return Err("it must be true or false".into()),
        },
        Class::Int { bits, signed } => write_int(*bits, *signed, json, out)?,
        Class::Float(format) => write_float(format, json, out)?,
        Class::Complex(format) => match json.as_array().map(Vec::as_slice) {
            Some([real, imaginary]) => {
                write_float(format, real, out)?;
                write_float(format, imaginary, out)?;
            }
            _ => return Err("it must be a list of real and imaginary part".into()),
        },
        Class::Raw { len, style } => {
            let mut bytes = bytes_value(json)?;
            if *style == RawStyle::NullTerminated && bytes.len() < *len {
                bytes.resize(*len, 0);
            }
            if bytes.len() != *len {
                return Err(format!("it has {} bytes, but an element has {len}", bytes.len()));
            }
            out.append(&mut bytes);
        }
        Class::Time { .. } => match json {
            Value::String(text) if text == "NaT" => out.extend_from_slice(&NAT.to_le_bytes()),
            _ => write_int(64, true, json, out)
                .map_err(|reason| format!("{reason}, or must be \"NaT\""))?,
        },
        Class::FixedText { chars } => {
            let text = json.as_str().ok_or("it must be a string")?;
            let count = text.chars().count();
            if count > *chars {
                return Err(format!("it has {count} characters, but only {chars} fit"));
            }
            out.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes()));
            out.resize(out.len() + 4 * (chars - count), 0);
        }
        Class::Struct { fields, .. } => match json {
            Value::Object(members) => {
                for field in fields {
                    let at = |reason| format!("field \"{}\": {reason}", field.name);
                    let value = members.get(&field.name).ok_or_else(|| at("is missing".into()))?;
                    write(&field.data_type, value, out).map_err(at)?;
                }
                // If every field is present and names are unique, more members means an unknown
                // one.
                if members.len() != fields.len() {
                    return Err("it has members that are not fields of the struct".into());
                }
            }
            Value::String(_) => {
                let bytes = bytes_value(json)?;
                if data_type.size() != ElementSize::Fixed(bytes.len()) {
                    return Err(format!(
                        "its base64 has {} bytes, which is the wrong length",
                        bytes.len()
                    ));
                }
                out.extend_from_slice(&bytes);
            }
            _ => return Err("it must be an object with a value for every field".into()),
        },
        Class::Text => {
            let text = json.as_str().ok_or("it must be a string")?;
            out.extend_from_slice(text.as_bytes());
        }
        Class::Bytes => out.append(&mut bytes_value(json)?),
    }
    Ok(())
}

fn write_int(bits: u32, signed: bool, json: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    let number = match json {
        Value::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .ok_or("it must be an integer, without fraction or exponent")?,
        _ => return Err("it must be an integer".into()),
    };
    let (least, most) = if signed {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    if !(least..=most).contains(&number) {
        return Err(format!("it must be in {least}..={most}"));
    }
    // In range, so only sign extension is cut off.
    out.extend_from_slice(&number.to_le_bytes()[..bits.div_ceil(8) as usize]);
    Ok(())
}

fn write_float(format: &FloatFormat, json: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    let missing = |what: &str| format!("the type has no {what}");
    let bits = match json {
        Value::Number(number) => {
            let nearest = if let Some(positive) = number.as_u64() {
                format.nearest(false, positive, 0)
            } else if let Some(negative) = number.as_i64() {
                format.nearest(true, negative.unsigned_abs(), 0)
            } else {
                number.as_f64().and_then(|number| format.nearest_to(number))
            };
            nearest.ok_or("it is outside the range of the type, which has no infinity")?
        }
        Value::String(text) => match text.as_str() {
            "NaN" => format.nan().ok_or_else(|| missing("NaN"))?,
            "Infinity" => format.infinity(false).ok_or_else(|| missing("infinity"))?,
            "-Infinity" => format.infinity(true).ok_or_else(|| missing("infinity"))?,
            text => hex(text).filter(|&bits| bits <= format.mask()).ok_or_else(|| {
                let bits = format.bits();
                format!(
                    "a string must be \"NaN\", \"Infinity\", \"-Infinity\" or \"0x\" and the hex \
                     digits of {bits} bits"
                )
            })?,
        },
        _ => return Err("it must be a number or a string".into()),
    };
    out.extend_from_slice(&bits.to_le_bytes()[..format.bytes()]);
    Ok(())
}

fn hex(text: &str) -> Option<u64> {
    // `from_str_radix` would accept a sign.
    let digits = text.strip_prefix("0x")?;
    let legal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if legal { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// Bytes as a list of numbers or as base64.
fn bytes_value(json: &Value) -> Result<Vec<u8>, String> {
    match json {
        Value::String(text) => {
            base64::decode(text).ok_or_else(|| "it is a string but not base64 with padding".into())
        }
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_u64().and_then(|item| u8::try_from(item).ok()))
            .collect::<Option<_>>()
            .ok_or_else(|| "a list must hold integers in 0..=255 and nothing else".into()),
        _ => Err("it must be base64 or a list of integers in 0..=255".into()),
    }
}

/// At most eight bytes, as a number.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// An integer of `bits` bits, ignoring the bits above.
pub(super) fn integer(bits: u32, signed: bool, bytes: &[u8]) -> i128 {
    let high = little_endian(bytes) << (64 - bits);
    if signed { i128::from(high as i64 >> (64 - bits)) } else { i128::from(high >> (64 - bits)) }
}

/// Text without trailing zeros; anything that is not a character becomes U+FFFD.
pub(super) fn fixed_text(bytes: &[u8]) -> String {
    let text: String = bytes
        .chunks(4)
        .map(|unit| {
            let code = u32::try_from(little_endian(unit)).ok();
            code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        })
        .collect();
    text.trim_end_matches('\0').into()
}

/// The bytes without trailing zeros.
pub(super) fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The JSON of an element of the right length.
fn read(data_type: &DataType, bytes: &[u8]) -> Value {
    match &data_type.inner.class {
        Class::Bool => Value::Bool(bytes.iter().any(|&byte| byte != 0)),
        Class::Int { bits, signed } => {
            let number = integer(*bits, *signed, bytes);
            // One of the two always fits.
            i64::try_from(number)
                .map(Value::from)
                .or_else(|_| u64::try_from(number).map(Value::from))
                .unwrap_or_default()
        }
        Class::Float(format) => float_json(format, bytes),
        Class::Complex(format) => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            Value::from(vec![float_json(format, real), float_json(format, imaginary)])
        }
        Class::Raw { style, .. } => match style {
            RawStyle::Bits => Value::from(bytes),
            RawStyle::Bytes => Value::from(base64::encode(bytes)),
            RawStyle::NullTerminated => Value::from(base64::encode(without_zeros(bytes))),
        },
        Class::Time { .. } => match integer(64, true, bytes) as i64 {
            NAT => Value::from("NaT"),
            count => Value::from(count),
        },
        Class::FixedText { .. } => Value::from(fixed_text(bytes)),
        Class::Struct { legacy: true, .. } => Value::from(base64::encode(bytes)),
        Class::Struct { fields, .. } => fields
            .iter()
            .map(|field| {
                let part = bytes.get(field.offset..field.offset + field.len).unwrap_or_default();
                (field.name.clone(), read(&field.data_type, part))
            })
            .collect::<Map<_, _>>()
            .into(),
        Class::Text => Value::from(String::from_utf8_lossy(bytes)),
        Class::Bytes => Value::from(base64::encode(bytes)),
    }
}

pub(super) fn float_json(format: &FloatFormat, bytes: &[u8]) -> Value {
    let bits = little_endian(bytes) & format.mask();
    match format.value(bits) {
        FloatValue::Finite(exact) => Value::from(format.shortest(bits, exact)),
        FloatValue::Infinity { negative: false } => Value::from("Infinity"),
        FloatValue::Infinity { negative: true } => Value::from("-Infinity"),
        FloatValue::Nan if format.nan() == Some(bits) => Value::from("NaN"),
        FloatValue::Nan => Value::from(format!("0x{bits:0width$x}", width = 2 * format.bytes())),
    }
}
