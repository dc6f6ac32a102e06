//! numpy's names of data types, such as `<u2` or `|S8`.

use serde_json::{Value, json};
use shardine_codec::DataType;

use super::codecs::Step;
use super::{named, unsupported};
use crate::zarr::metadata::MetadataError;

const MEMBER: &str = "dtype";

/// A fixed-size type as numpy names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumpyType {
    /// numpy's letter for the kind.
    pub kind: char,
    /// Bytes of an element.
    pub size: u64,
    /// Whether its bytes are in big-endian order; false where there is no order.
    pub big_endian: bool,
}

impl NumpyType {
    /// Parses what a codec says about the elements that enter or leave it: a number without a unit.
    ///
    /// Without a byte order it has that of the machine that wrote it, and no machine in use is
    /// big-endian.
    pub fn of_numbers(text: &str) -> Option<Self> {
        let (order, rest) = match text.strip_prefix(['<', '>', '|', '=']) {
            Some(rest) => (text.chars().next(), rest),
            None => (None, text),
        };
        let (kind, digits) = rest.split_at_checked(1)?;
        let kind = kind.chars().next().filter(|kind| "biuf".contains(*kind))?;
        let size = decimal(digits).filter(|size| [1, 2, 4, 8].contains(size))?;
        Some(Self { kind, size, big_endian: order == Some('>') && size > 1 })
    }

    /// Whether elements have a byte order.
    pub fn has_order(self) -> bool {
        match self.kind {
            'S' | 'V' => false,
            _ => self.size > 1,
        }
    }
}

/// The type of an array's elements, including what version 3 states elsewhere.
#[derive(Debug)]
pub(super) struct StoredType {
    pub data_type: DataType,
    /// `None` for variable-length elements.
    pub numpy: Option<NumpyType>,
}

impl StoredType {
    /// The type that `dtype` names; for objects, the codec that encodes them determines it.
    pub fn from_json(json: &Value, steps: &[Step<'_>]) -> Result<Self, MetadataError> {
        let Value::String(text) = json else {
            let reason = "a structured type is not read from version 2; store each of its fields as an array of its own";
            return Err(unsupported(MEMBER, named(json), reason));
        };
        if text == "|O" {
            return Self::objects(steps);
        }
        let unknown = || {
            let reason = "it is not a version 2 type with an equivalent in version 3";
            unsupported(MEMBER, named(json), reason)
        };
        let order = text.chars().next().filter(|order| "<>|".contains(*order));
        let order = order.ok_or_else(|| {
            let reason = "a type starts with its byte order: \"<\", \">\" or \"|\"";
            unsupported(MEMBER, named(json), reason)
        })?;
        let (kind, rest) =
            text.get(1..).and_then(|rest| rest.split_at_checked(1)).ok_or_else(unknown)?;
        let kind = kind.chars().next().ok_or_else(unknown)?;
        let (digits, unit) = match rest.split_once('[') {
            Some((digits, unit)) if "Mm".contains(kind) => {
                (digits, Some(unit.strip_suffix(']').ok_or_else(unknown)?))
            }
            Some(_) => return Err(unknown()),
            None => (rest, None),
        };
        let count = decimal(digits).ok_or_else(unknown)?;
        let name = match (kind, count) {
            ('b', 1) => json!("bool"),
            ('i', 1 | 2 | 4 | 8) => json!(format!("int{}", count * 8)),
            ('u', 1 | 2 | 4 | 8) => json!(format!("uint{}", count * 8)),
            ('f', 2 | 4 | 8) => json!(format!("float{}", count * 8)),
            ('c', 8 | 16) => json!(format!("complex{}", count * 8)),
            ('S', _) => sized("null_terminated_bytes", count),
            ('V', _) => sized("raw_bytes", count),
            ('U', _) => sized("fixed_length_utf32", count.checked_mul(4).ok_or_else(unknown)?),
            ('M', 8) => time("numpy.datetime64", unit).ok_or_else(unknown)?,
            ('m', 8) => time("numpy.timedelta64", unit).ok_or_else(unknown)?,
            _ => return Err(unknown()),
        };
        let size = if kind == 'U' { count.saturating_mul(4) } else { count };
        let mut numpy = NumpyType { kind, size, big_endian: order == '>' };
        numpy.big_endian &= numpy.has_order();
        if order == '|' && numpy.has_order() {
            let reason = "elements of several bytes need a byte order, \"<\" or \">\"";
            return Err(unsupported(MEMBER, named(json), reason));
        }
        Ok(Self { data_type: data_type(&name)?, numpy: Some(numpy) })
    }

    fn objects(steps: &[Step<'_>]) -> Result<Self, MetadataError> {
        let name = match steps.first().map(|step| step.id) {
            Some("vlen-utf8") => "string",
            Some("vlen-bytes") => "variable_length_bytes",
            _ => {
                let reason = "objects have an equivalent in version 3 only if the first filter is \
                              \"vlen-utf8\" or \"vlen-bytes\"; rewrite the array with one of them";
                return Err(unsupported(MEMBER, "|O", reason));
            }
        };
        Ok(Self { data_type: data_type(&json!(name))?, numpy: None })
    }
}

fn data_type(json: &Value) -> Result<DataType, MetadataError> {
    DataType::from_json(json)
        .map_err(|reason| MetadataError::DataType { member: MEMBER.into(), reason })
}

fn sized(name: &str, bytes: u64) -> Value {
    json!({ "name": name, "configuration": { "length_bytes": bytes } })
}

/// A time type; `10ms` is a count and a unit.
fn time(name: &str, unit: Option<&str>) -> Option<Value> {
    let unit = unit.unwrap_or("generic");
    let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
    let (scale, unit) = unit.split_at_checked(digits)?;
    let scale = if scale.is_empty() { 1 } else { decimal(scale)? };
    Some(json!({ "name": name, "configuration": { "unit": unit, "scale_factor": scale } }))
}

/// Digits and nothing else.
fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}
