//! From a metadata document's `data_type` to a [`DataType`].

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::class::{Class, Field, RawStyle, TimeUnit};
use super::float::{self, FLOAT32, FLOAT64};
use super::{DataType, DataTypeError, ElementSize, numpy};

type Configuration = Map<String, Value>;

/// A JSON value for a message, truncated.
pub(super) fn shown(json: &Value) -> String {
    const MOST: usize = 100;
    let text = json.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn configuration_error(name: &str, reason: impl Into<String>) -> DataTypeError {
    DataTypeError::Configuration { name: name.into(), reason: reason.into() }
}

pub(super) fn data_type(json: &Value, depth: usize) -> Result<DataType, DataTypeError> {
    let empty = Configuration::new();
    let (name, configuration) = match json {
        Value::String(name) => (name.as_str(), &empty),
        Value::Object(members) => {
            let Some(Value::String(name)) = members.get("name") else {
                return Err(DataTypeError::Unknown { name: shown(json) });
            };
            (name.as_str(), object_configuration(name, members)?.unwrap_or(&empty))
        }
        _ => return Err(DataTypeError::Unknown { name: shown(json) }),
    };
    let class = class(name, configuration, depth)?;
    Ok(DataType::of_class(json.clone(), canonical_name(name), class))
}

pub(super) fn name(text: &str) -> Result<DataType, DataTypeError> {
    let text = text.trim();
    if text.starts_with('{') {
        let json = serde_json::from_str(text).map_err(|error| {
            configuration_error(text, format!("looks like a JSON object but is not: {error}"))
        })?;
        return data_type(&json, 0);
    }
    let Some((name, bracket)) = text
        .strip_suffix(']')
        .and_then(|text| text.split_once('['))
        .filter(|(name, _)| name.starts_with("numpy."))
    else {
        return data_type(&Value::from(text), 0).or_else(|error| numpy::by_name(text, error));
    };
    let digits = bracket.bytes().take_while(u8::is_ascii_digit).count();
    let (scale, unit) = bracket.split_at(digits);
    let scale: u64 = if scale.is_empty() {
        1
    } else {
        scale.parse().map_err(|_| configuration_error(name, "its scale factor is too large"))?
    };
    let configuration = json!({ "unit": unit, "scale_factor": scale });
    data_type(&json!({ "name": name, "configuration": configuration }), 0)
}

fn canonical_name(name: &str) -> &str {
    match name {
        "variable_length_bytes" | "binary" => "bytes",
        "structured" => "struct",
        other => other,
    }
}

fn object_configuration<'a>(
    name: &str,
    members: &'a Configuration,
) -> Result<Option<&'a Configuration>, DataTypeError> {
    let mut configuration = None;
    for (member, value) in members {
        match (member.as_str(), value) {
            ("name", _) | ("must_understand", Value::Bool(true)) => {}
            ("configuration", Value::Object(found)) => configuration = Some(found),
            ("configuration", _) => {
                return Err(configuration_error(name, "its configuration must be an object"));
            }
            ("must_understand", _) => {
                return Err(configuration_error(
                    name,
                    "must_understand can only be true, since no reader can do without the data type",
                ));
            }
            _ => return Err(configuration_error(name, format!("unknown member \"{member}\""))),
        }
    }
    Ok(configuration)
}

fn class(name: &str, configuration: &Configuration, depth: usize) -> Result<Class, DataTypeError> {
    if let Some(class) = plain_class(name) {
        members(name, configuration, [])?;
        return Ok(class);
    }
    if let Some(bits) = raw_bits(name) {
        members(name, configuration, [])?;
        return Ok(Class::Raw { len: raw_len(name, bits)?, style: RawStyle::Bits });
    }
    match name {
        "numpy.datetime64" | "numpy.timedelta64" => time(name, configuration),
        "fixed_length_utf32" => {
            let len = length_bytes(name, configuration)?;
            if !len.is_multiple_of(4) {
                return Err(configuration_error(
                    name,
                    format!("length_bytes is {len} but must be a multiple of 4"),
                ));
            }
            let chars = len / 4;
            check_units(name, chars)?;
            Ok(Class::FixedText { chars })
        }
        "raw_bytes" | "null_terminated_bytes" => {
            let style =
                if name == "raw_bytes" { RawStyle::Bytes } else { RawStyle::NullTerminated };
            Ok(Class::Raw { len: length_bytes(name, configuration)?, style })
        }
        "struct" | "structured" => structure(name, configuration, depth),
        _ => Err(DataTypeError::Unknown { name: shown(&Value::from(name)) }),
    }
}

/// A type that has no configuration.
fn plain_class(name: &str) -> Option<Class> {
    let int = |bits, signed| Some(Class::Int { bits, signed });
    match name {
        "bool" => Some(Class::Bool),
        "int2" => int(2, true),
        "int4" => int(4, true),
        "int8" => int(8, true),
        "int16" => int(16, true),
        "int32" => int(32, true),
        "int64" => int(64, true),
        "uint2" => int(2, false),
        "uint4" => int(4, false),
        "uint8" => int(8, false),
        "uint16" => int(16, false),
        "uint32" => int(32, false),
        "uint64" => int(64, false),
        "complex64" => Some(Class::Complex(&FLOAT32)),
        "complex128" => Some(Class::Complex(&FLOAT64)),
        "string" => Some(Class::Text),
        "bytes" | "variable_length_bytes" | "binary" => Some(Class::Bytes),
        _ => match name.strip_prefix("complex_") {
            Some(part) => float::by_name(part).map(Class::Complex),
            None => float::by_name(name).map(Class::Float),
        },
    }
}

/// The digits of `r<bits>`.
fn raw_bits(name: &str) -> Option<&str> {
    name.strip_prefix('r')
        .filter(|bits| !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()))
}

fn raw_len(name: &str, bits: &str) -> Result<usize, DataTypeError> {
    let error = |reason: &str| Err(configuration_error(name, reason));
    // Digits that overflow are past the limit anyway.
    let count: u64 = bits.parse().unwrap_or(u64::MAX);
    if count == 0 {
        return error("an element must have at least 8 bits");
    }
    if bits.starts_with('0') {
        return error("the number of bits has a leading zero");
    }
    if !count.is_multiple_of(8) && count != u64::MAX {
        return error("the number of bits must be a multiple of 8");
    }
    checked_len(name, count / 8)
}

fn checked_len(name: &str, len: u64) -> Result<usize, DataTypeError> {
    usize::try_from(len).ok().filter(|&len| len <= DataType::MAX_ELEMENT_BYTES).ok_or_else(|| {
        let most = DataType::MAX_ELEMENT_BYTES;
        configuration_error(name, format!("an element may have at most {most} bytes"))
    })
}

fn check_units(name: &str, units: usize) -> Result<(), DataTypeError> {
    let most = DataType::MAX_SWAP_UNITS;
    if units > most {
        let reason = format!("an element may have at most {most} characters or numbers");
        return Err(configuration_error(name, reason));
    }
    Ok(())
}

/// The members of a configuration: all of these must be present, and no others.
fn members<'a, const N: usize>(
    name: &str,
    configuration: &'a Configuration,
    wanted: [&str; N],
) -> Result<[&'a Value; N], DataTypeError> {
    if let Some(unknown) = configuration.keys().find(|key| !wanted.contains(&key.as_str())) {
        let reason = format!("its configuration has an unknown member \"{unknown}\"");
        return Err(configuration_error(name, reason));
    }
    let mut found = [&Value::Null; N];
    for (place, member) in found.iter_mut().zip(wanted) {
        *place = configuration.get(member).ok_or_else(|| {
            configuration_error(name, format!("its configuration must have \"{member}\""))
        })?;
    }
    Ok(found)
}

fn length_bytes(name: &str, configuration: &Configuration) -> Result<usize, DataTypeError> {
    let [length] = members(name, configuration, ["length_bytes"])?;
    let len = length.as_u64().filter(|&len| len > 0).ok_or_else(|| {
        let length = shown(length);
        configuration_error(name, format!("length_bytes is {length}, not a positive integer"))
    })?;
    checked_len(name, len)
}

fn time(name: &str, configuration: &Configuration) -> Result<Class, DataTypeError> {
    let [unit, scale] = members(name, configuration, ["unit", "scale_factor"])?;
    let unit = unit.as_str().and_then(TimeUnit::by_name).ok_or_else(|| {
        let reason = format!(
            "unknown unit {}; known are Y, M, W, D, h, m, s, ms, us, ns, ps, fs, as and generic",
            shown(unit),
        );
        configuration_error(name, reason)
    })?;
    let scale = scale
        .as_u64()
        .filter(|scale| (1..=(1 << 31) - 1).contains(scale))
        .and_then(|scale| u32::try_from(scale).ok())
        .ok_or_else(|| {
            let scale = shown(scale);
            configuration_error(name, format!("scale_factor is {scale}, not in 1..=2147483647"))
        })?;
    Ok(Class::Time { delta: name == "numpy.timedelta64", unit, scale })
}

fn structure(
    name: &str,
    configuration: &Configuration,
    depth: usize,
) -> Result<Class, DataTypeError> {
    if depth >= DataType::MAX_STRUCT_DEPTH {
        let most = DataType::MAX_STRUCT_DEPTH;
        return Err(configuration_error(name, format!("nested deeper than {most} levels")));
    }
    let [listed] = members(name, configuration, ["fields"])?;
    let listed = listed.as_array().filter(|fields| !fields.is_empty()).ok_or_else(|| {
        configuration_error(name, "\"fields\" must be a list of at least one field")
    })?;
    let mut names = HashSet::new();
    let mut fields = Vec::new();
    let (mut offset, mut units) = (0, 0);
    for (index, listed) in listed.iter().enumerate() {
        let (field_name, listed_type) = field(listed).ok_or_else(|| {
            let reason = format!(
                "field {index} is {}, not an object with \"name\" and \"data_type\"",
                shown(listed),
            );
            configuration_error(name, reason)
        })?;
        let refused =
            |reason: &str| configuration_error(name, format!("field \"{field_name}\": {reason}"));
        if !names.insert(field_name) {
            return Err(refused("the name occurs twice"));
        }
        let data_type =
            data_type(listed_type, depth + 1).map_err(|error| refused(&error.to_string()))?;
        let ElementSize::Fixed(len) = data_type.size() else {
            return Err(refused("a field must have a fixed size"));
        };
        units += data_type.swap_units().len();
        check_units(name, units)?;
        fields.push(Field { name: field_name.into(), offset, len, data_type });
        offset = checked_len(name, (offset + len) as u64)?;
    }
    Ok(Class::Struct { fields, legacy: name == "structured" })
}

/// A field's name and type; old documents use a pair.
fn field(json: &Value) -> Option<(&str, &Value)> {
    let (name, data_type) = match json {
        Value::Array(pair) => match pair.as_slice() {
            [name, data_type] => (name, data_type),
            _ => return None,
        },
        // Exactly these: another member could move or repeat the field.
        Value::Object(members) if members.len() == 2 => {
            (members.get("name")?, members.get("data_type")?)
        }
        _ => return None,
    };
    Some((name.as_str().filter(|name| !name.is_empty())?, data_type))
}
