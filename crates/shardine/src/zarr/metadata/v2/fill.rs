//! `fill_value` of version 2, in the forms that its writers have used.

use serde_json::{Value, json};
use shardine_codec::{FillValue, Kind};

use super::data_type::StoredType;
use crate::zarr::metadata::MetadataError;

/// The element that `json` stands for; of `null` and of no member at all, the default.
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
        // Writers that know no better take 0 for every type.
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

/// A number with a point that is an integer all the same.
fn whole(number: f64) -> Option<i64> {
    // Up to there every integer is a float of its own.
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
