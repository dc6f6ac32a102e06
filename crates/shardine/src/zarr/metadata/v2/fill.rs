//! `fill_value` of version 2, in the forms that its writers have used.

use serde_json::{Value, json};
use shardine_codec::{DataType, FillValue, Kind};

use super::data_type::StoredType;
use crate::zarr::metadata::MetadataError;

/// The element that `json` stands for; for `null` or a missing member, the default.
pub(super) fn from_json(
    stored: &StoredType,
    json: Option<&Value>,
) -> Result<FillValue, MetadataError> {
    let data_type = &stored.data_type;
    let parse = |json: &Value| {
        data_type
            .fill_from_json(json)
            .map_err(|reason| MetadataError::DataType { member: "fill_value".into(), reason })
    };
    let json = json.unwrap_or(&Value::Null);
    let zero = json.as_f64() == Some(0.0) || *json == Value::Bool(false);
    match (data_type.kind(), json) {
        (Kind::DateTime | Kind::TimeDelta, Value::Null) => parse(&json!("NaT")),
        (_, Value::Null) => Ok(data_type.default_fill()),
        // Naive writers use 0 for every type.
        (Kind::Raw | Kind::FixedText | Kind::Text | Kind::Bytes, _) if zero => {
            Ok(data_type.default_fill())
        }
        (Kind::Raw, Value::String(text)) if text.is_empty() => Ok(data_type.default_fill()),
        (Kind::Bool, Value::Number(_)) if zero => parse(&json!(false)),
        (Kind::Bool, Value::Number(number)) if number.as_f64() == Some(1.0) => parse(&json!(true)),
        (Kind::Int | Kind::UInt | Kind::DateTime | Kind::TimeDelta, Value::Number(number)) => {
            match number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                Some(whole) => parse(&json!(whole)),
                None => parse(json),
            }
        }
        (Kind::Complex, Value::Number(_)) => parse(&json!([json, 0])),
        (Kind::Complex, Value::String(text)) => match text.as_str() {
            "NaN" | "Infinity" | "-Infinity" => parse(&json!([text, 0])),
            _ => complex_bytes(stored, json),
        },
        _ => parse(json),
    }
}

/// A number with a decimal point that is an integer all the same.
fn whole(number: f64) -> Option<i64> {
    // Up to here a float represents every integer exactly.
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

/// Base64 of a complex number as it is stored.
fn complex_bytes(stored: &StoredType, json: &Value) -> Result<FillValue, MetadataError> {
    let data_type = &stored.data_type;
    let refused = || {
        let reason = "must be a number, a list of real and imaginary part, or base64 of an element";
        MetadataError::invalid("fill_value", reason)
    };
    let size = stored.numpy.map_or(0, |numpy| numpy.size);
    let raw = json!({ "name": "raw_bytes", "configuration": { "length_bytes": size } });
    let raw = shardine_codec::DataType::from_json(&raw).map_err(|_| refused())?;
    let mut fill = raw.fill_from_json(json).map_err(|_| refused())?;
    if stored.numpy.is_some_and(|numpy| numpy.big_endian) {
        for unit in data_type.swap_units() {
            if let Some(bytes) = fill.0.get_mut(unit.offset..unit.offset + unit.len) {
                bytes.reverse();
            }
        }
    }
    Ok(fill)
}

/// A fill value as the attribute with which xarray marks the missing value in version 3; `None` for
/// types for which xarray does not read such an attribute.
pub(super) fn missing(data_type: &DataType, fill: &FillValue) -> Option<Value> {
    let json = data_type.fill_to_json(fill);
    match data_type.kind() {
        Kind::Bool | Kind::Int | Kind::UInt => Some(json),
        Kind::Float => Some(double(&fill.0, &json)?.into()),
        Kind::Complex => {
            let (real, imaginary) = fill.0.split_at_checked(fill.0.len() / 2)?;
            Some(json!([double(real, &Value::Null)?, double(imaginary, &Value::Null)?]))
        }
        _ => None,
    }
}

/// Base64 of a float as the eight bytes of a double; `json` is the same number.
fn double(bytes: &[u8], json: &Value) -> Option<String> {
    let number = match (bytes, json) {
        (&[a, b, c, d], _) => f32::from_le_bytes([a, b, c, d]).into(),
        ([_, _], Value::Number(number)) => number.as_f64()?,
        ([_, _], Value::String(text)) => match text.as_str() {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => f64::NAN,
        },
        _ => f64::from_le_bytes(bytes.try_into().ok()?),
    };
    Some(base64(&number.to_le_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let at = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= three.len() { char::from(DIGITS[at]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_written_as_xarray_does() {
        let of = |name: &str, fill: Value| {
            let data_type = DataType::from_json(&json!(name)).unwrap();
            let fill = data_type.fill_from_json(&fill).unwrap();
            missing(&data_type, &fill)
        };
        assert_eq!(of("float32", json!("NaN")), Some(json!("AAAAAAAA+H8=")));
        assert_eq!(of("float64", json!(-9999.0)), Some(json!("AAAAAICHw8A=")));
        assert_eq!(of("float16", json!(1.5)), Some(json!("AAAAAAAA+D8=")));
        assert_eq!(of("int16", json!(-99)), Some(json!(-99)));
        assert_eq!(of("uint64", json!(u64::MAX)), Some(json!(u64::MAX)));
        assert_eq!(of("bool", json!(true)), Some(json!(true)));
        let complex = of("complex64", json!([1.5, "NaN"]));
        assert_eq!(complex, Some(json!(["AAAAAAAA+D8=", "AAAAAAAA+H8="])));
        assert_eq!(of("string", json!("")), None);
    }
}
