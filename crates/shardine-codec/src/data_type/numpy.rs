//! numpy's short names for its types.

use serde_json::{Value, json};

use super::{DataType, DataTypeError};

/// The type with this name, whose byte order does not matter: elements in memory have the
/// machine's. Any other text is `unknown`.
pub(super) fn by_name(text: &str, unknown: DataTypeError) -> Result<DataType, DataTypeError> {
    if let Some(found) = text.strip_prefix('>').and_then(data_type) {
        // The order of one byte says nothing.
        if found.swap_units().is_empty() {
            return Ok(found);
        }
        let reason = format!(
            "a type has no byte order; name it {} and choose the codec \"bytes\" with big endian",
            found.name()
        );
        return Err(DataTypeError::Configuration { name: text.into(), reason });
    }
    let known = WORDS.iter().find(|(word, _)| *word == text);
    if let Some((_, name)) = known {
        return DataType::from_json(&json!(name));
    }
    data_type(text.strip_prefix(['<', '|', '=']).unwrap_or(text)).ok_or(unknown)
}

/// Words that Python and numpy have for types, whose width goes without saying.
const WORDS: [(&str, &str); 9] = [
    ("float", "float64"),
    ("double", "float64"),
    ("single", "float32"),
    ("half", "float16"),
    ("int", "int64"),
    ("uint", "uint64"),
    ("complex", "complex128"),
    ("bool_", "bool"),
    ("str", "string"),
];

/// The type with this numpy name, without a byte order.
pub(super) fn data_type(name: &str) -> Option<DataType> {
    DataType::from_json(&metadata(name)?).ok()
}

fn metadata(name: &str) -> Option<Value> {
    let (kind, rest) = name.split_at_checked(1)?;
    let bytes = || {
        let is_number = rest.bytes().all(|byte| byte.is_ascii_digit()) && !rest.starts_with('0');
        rest.parse::<u64>().ok().filter(|_| is_number)
    };
    let bits = |name: &str| Some(json!(format!("{name}{}", bytes()?.checked_mul(8)?)));
    let fixed = |name: &str, bytes: u64| {
        Some(json!({ "name": name, "configuration": { "length_bytes": bytes } }))
    };
    match kind {
        "b" if rest == "1" => Some(json!("bool")),
        "i" => bits("int"),
        "u" => bits("uint"),
        "f" => bits("float"),
        "c" => bits("complex"),
        "S" => fixed("null_terminated_bytes", bytes()?),
        "U" => fixed("fixed_length_utf32", bytes()?.checked_mul(4)?),
        "V" => fixed("raw_bytes", bytes()?),
        "M" | "m" => {
            let name = if kind == "M" { "numpy.datetime64" } else { "numpy.timedelta64" };
            let unit = rest.strip_prefix('8')?;
            let unit = if unit.is_empty() { "[generic]" } else { unit };
            DataType::parse_name(&format!("{name}{unit}")).ok().map(|found| found.to_json())
        }
        _ => None,
    }
}
