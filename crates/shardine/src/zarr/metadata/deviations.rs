//! Deviations from the specification that occur in practice and can only mean one thing.
//!
//! They are corrected in the document when it is parsed, so that what is written is correct. What
//! could mean two things is left for the parser to refuse: a fill value of `null` is NaN to one
//! writer and 0 to another.

use serde_json::{Value, json};
use shardine_codec::{DataType, Kind, shown};

use super::document::Document;

/// Integers that every reader of floats tells apart.
const MOST_EXACT: f64 = 9e15;

/// As deep as codecs are looked into; shards in shards are rarely two deep.
const MAX_DEPTH: usize = 8;

/// Corrects deviations in the document of any node; returns one sentence for each.
pub(super) fn correct_node(document: &mut Document) -> Vec<String> {
    let mut found = Vec::new();
    if document.get("attributes") == Some(&Value::Null) {
        document.set("attributes", Some(json!({})));
        found.push("\"attributes\" is null, and should be left out or be an object".to_owned());
    }
    found
}

/// The same for an array.
pub(super) fn correct_array(document: &mut Document) -> Vec<String> {
    let mut found = correct_node(document);
    for member in ["storage_transformers", "dimension_names"] {
        if document.get(member) == Some(&Value::Null) {
            document.set(member, None);
            found.push(format!("\"{member}\" is null, and should be left out"));
        }
    }
    for member in ["shape", "chunk_grid", "codecs"] {
        let Some(value) = document.get(member) else { continue };
        let mut value = value.clone();
        let changed = match member {
            "shape" => whole_numbers(&mut value),
            "chunk_grid" => match value.pointer_mut("/configuration/chunk_shape") {
                Some(shape) => whole_numbers(shape),
                None => false,
            },
            _ => chunk_shapes(&mut value, 0),
        };
        if changed {
            document.set(member, Some(value));
            found.push(format!("lengths in \"{member}\" are written with a fraction, as in 64.0"));
        }
    }
    found.extend(correct_fill(document));
    found
}

/// Numbers such as 64.0 become integers; whether there were any.
fn whole_numbers(json: &mut Value) -> bool {
    let mut changed = false;
    for number in json.as_array_mut().into_iter().flatten() {
        if number.is_f64()
            && let Some(whole) = number.as_f64().and_then(whole)
        {
            *number = json!(whole);
            changed = true;
        }
    }
    changed
}

/// The same of the chunk shapes of shards.
fn chunk_shapes(codecs: &mut Value, depth: usize) -> bool {
    let mut changed = false;
    for codec in codecs.as_array_mut().into_iter().flatten() {
        if codec.get("name") != Some(&Value::from(super::super::flat_codecs::SHARDING)) {
            continue;
        }
        let Some(configuration) = codec.get_mut("configuration") else { continue };
        if let Some(shape) = configuration.get_mut("chunk_shape") {
            changed |= whole_numbers(shape);
        }
        if let Some(inner) = configuration.get_mut("codecs").filter(|_| depth < MAX_DEPTH) {
            changed |= chunk_shapes(inner, depth + 1);
        }
    }
    changed
}

/// A number with a fraction that is an integer all the same.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < MOST_EXACT).then_some(number as i64)
}

fn correct_fill(document: &mut Document) -> Option<String> {
    const MEMBER: &str = "fill_value";
    let data_type = DataType::from_json(document.get("data_type")?).ok()?;
    let now = document.get(MEMBER)?.clone();
    let is_float = matches!(data_type.kind(), Kind::Float | Kind::SmallFloat | Kind::Complex);
    let bare = is_float && document.quote(MEMBER);
    let corrected = corrected(&data_type, &now);
    if corrected.is_none() && !bare {
        return None;
    }
    let better = corrected.unwrap_or_else(|| now.clone());
    document.set(MEMBER, Some(better.clone()));
    let was = if bare { "NaN or infinity without quotes".to_owned() } else { shown(&now) };
    let name = data_type.name();
    Some(format!("the fill value is {was}, which for {name} should be {}", shown(&better)))
}

/// What a fill value should be; `None` if it is that, or nothing else can be meant.
fn corrected(data_type: &DataType, json: &Value) -> Option<Value> {
    match data_type.kind() {
        Kind::Bool => match json.as_f64()? {
            0.0 => Some(json!(false)),
            1.0 => Some(json!(true)),
            _ => None,
        },
        Kind::Int | Kind::UInt => integer(json),
        Kind::Float | Kind::SmallFloat => float(json),
        Kind::Complex => {
            let parts = json.as_array().filter(|parts| parts.len() == 2)?;
            let better: Vec<Option<Value>> = parts.iter().map(float).collect();
            if better.iter().all(Option::is_none) {
                return None;
            }
            Some(parts.iter().zip(better).map(|(was, now)| now.unwrap_or(was.clone())).collect())
        }
        _ => None,
    }
}

/// A number with a fraction of nothing, or the digits of one in a string.
fn integer(json: &Value) -> Option<Value> {
    match json {
        Value::Number(number) if number.is_f64() => whole(number.as_f64()?).map(Value::from),
        Value::String(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if !plain {
                // As of a float, "0.0".
                let is_number = |c: char| c.is_ascii_digit() || c == '-' || c == '.';
                let number = text.parse().ok().filter(|_| text.chars().all(is_number));
                return number.and_then(whole).map(Value::from);
            }
            text.parse::<i64>()
                .map(Value::from)
                .or_else(|_| text.parse::<u64>().map(Value::from))
                .ok()
        }
        _ => None,
    }
}

/// Other words for what is no number, or a number in a string.
fn float(json: &Value) -> Option<Value> {
    let text = json.as_str()?;
    let known = match text.to_ascii_lowercase().as_str() {
        "nan" => "NaN",
        "inf" | "+inf" | "infinity" | "+infinity" => "Infinity",
        "-inf" | "-infinity" => "-Infinity",
        _ => {
            let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
            let number = text.parse::<f64>().ok().filter(|_| text.chars().all(is_number))?;
            return number.is_finite().then(|| json!(number));
        }
    };
    (known != text).then(|| Value::from(known))
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::zarr::metadata::{ArrayMetadata, MetadataError, NodeMetadata};

    fn document() -> Map<String, Value> {
        let json = json!({
            "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": [4] } },
            "chunk_key_encoding": { "name": "default" }, "fill_value": 0, "codecs": ["bytes"],
        });
        json.as_object().unwrap().clone()
    }

    fn parse(change: &[(&str, Value)]) -> Result<ArrayMetadata, MetadataError> {
        let mut json = document();
        for (member, value) in change {
            json.insert((*member).to_owned(), value.clone());
        }
        match NodeMetadata::parse(Value::Object(json).to_string().as_bytes())? {
            NodeMetadata::Array(array) => Ok(array),
            NodeMetadata::Group(_) => panic!("an array"),
        }
    }

    #[test]
    fn what_can_mean_one_thing_only_is_read_told_and_written_as_it_should_be() {
        for (data_type, fill, better) in [
            ("bool", json!(0), json!(false)),
            ("bool", json!(1), json!(true)),
            ("bool", json!(0.0), json!(false)),
            ("uint8", json!(0.0), json!(0)),
            ("uint8", json!("7"), json!(7)),
            ("int16", json!("-3"), json!(-3)),
            ("int16", json!("0.0"), json!(0)),
            ("uint64", json!("18446744073709551615"), json!(u64::MAX)),
            ("float32", json!("nan"), json!("NaN")),
            ("float32", json!("inf"), json!("Infinity")),
            ("float64", json!("-inf"), json!("-Infinity")),
            ("float64", json!("0.5"), json!(0.5)),
            ("float64", json!("1e-3"), json!(0.001)),
            ("complex64", json!(["nan", 0]), json!(["NaN", 0])),
        ] {
            let changed = [("data_type", json!(data_type)), ("fill_value", fill.clone())];
            let array = parse(&changed).unwrap();
            assert_eq!(array.deviations().len(), 1, "{data_type} {fill}");
            let written: Value = serde_json::from_slice(&array.to_bytes()).unwrap();
            assert_eq!(written["fill_value"], better, "{data_type} {fill}");
            let right = parse(&[("data_type", json!(data_type)), ("fill_value", better)]).unwrap();
            assert_eq!(array.fill(), right.fill(), "{data_type} {fill}");
            assert!(right.deviations().is_empty(), "{data_type}");
        }
    }

    #[test]
    fn what_could_mean_another_thing_is_refused() {
        for (data_type, fill) in [
            ("bool", json!(2)),
            ("bool", json!("0")),
            ("bool", json!("true")),
            ("uint8", json!(0.5)),
            ("uint8", json!("0x10")),
            ("uint8", json!("256")),
            ("uint8", json!("")),
            ("uint8", json!(" 1")),
            ("uint8", json!("1e1")),
            ("uint64", json!(1.8446744073709552e19)),
            ("float32", json!("none")),
            ("float32", json!("")),
            ("float32", json!(null)),
            ("float32", json!(true)),
        ] {
            let changed = [("data_type", json!(data_type)), ("fill_value", fill.clone())];
            assert!(parse(&changed).is_err(), "{data_type} {fill}");
        }
        for (member, value) in [
            ("shape", json!([8.5])),
            ("shape", json!([-8.0])),
            ("attributes", json!([])),
            ("storage_transformers", json!({})),
            ("secret", json!({ "name": "x" })),
            ("secret", json!(null)),
        ] {
            assert!(parse(&[(member, value.clone())]).is_err(), "{member} {value}");
        }
    }

    #[test]
    fn other_members_are_corrected_too() {
        let sharding = json!([{ "name": "sharding_indexed", "configuration": {
            "chunk_shape": [2.0], "codecs": ["bytes"], "index_codecs": ["bytes"],
        } }]);
        let grid = json!({ "name": "regular", "configuration": { "chunk_shape": [4.0] } });
        let array = parse(&[
            ("shape", json!([8.0])),
            ("chunk_grid", grid),
            ("codecs", sharding),
            ("attributes", json!(null)),
            ("dimension_names", json!(null)),
            ("storage_transformers", json!(null)),
        ])
        .unwrap();
        assert_eq!(array.deviations().len(), 6, "{:?}", array.deviations());
        assert_eq!((array.shape(), array.chunk_shape()), (&[8][..], &[4][..]));
        let written: Value = serde_json::from_slice(&array.to_bytes()).unwrap();
        assert_eq!(written["shape"], json!([8]));
        assert_eq!(written["attributes"], json!({}));
        assert_eq!(written["codecs"][0]["configuration"]["chunk_shape"], json!([2]));
        assert!(written.get("dimension_names").is_none());
        // What is written is read without a word.
        let NodeMetadata::Array(again) = NodeMetadata::parse(&array.to_bytes()).unwrap() else {
            panic!("an array")
        };
        assert!(again.deviations().is_empty());
        let group = json!({ "zarr_format": 3, "node_type": "group", "attributes": null });
        let group = NodeMetadata::from_json(group).unwrap();
        assert_eq!((group.deviations().len(), group.attributes().len()), (1, 0));
    }

    #[test]
    fn nan_without_quotes_gets_them() {
        for (text, fill) in [("NaN", "NaN"), ("Infinity", "Infinity"), ("-Infinity", "-Infinity")] {
            let mut json = document();
            json.insert("data_type".to_owned(), json!("float32"));
            json.insert("fill_value".to_owned(), json!("?"));
            json.insert("attributes".to_owned(), json!({ "missing": "?" }));
            let json = Value::Object(json).to_string().replace("\"?\"", text);
            let NodeMetadata::Array(array) = NodeMetadata::parse(json.as_bytes()).unwrap() else {
                panic!("an array")
            };
            assert_eq!(array.deviations().len(), 1);
            let written = String::from_utf8(array.to_bytes()).unwrap();
            assert!(written.contains(&format!("\"fill_value\": \"{fill}\"")), "{written}");
            // What the user keeps there stays as it is.
            assert!(written.contains(&format!("\"missing\": {text}")), "{written}");
        }
    }
}
