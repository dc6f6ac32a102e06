mod elements;
mod fills;
mod floats;
mod names;
mod people;
mod round_trip;

use serde_json::{Value, json};

use super::*;

/// One of every type, with a few parameters.
fn every_type() -> Vec<DataType> {
    let mut forms: Vec<Value> = [
        "bool",
        "int2",
        "int4",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint2",
        "uint4",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "complex64",
        "complex128",
        "r8",
        "r24",
        "r128",
        "string",
        "bytes",
        "variable_length_bytes",
        "binary",
    ]
    .map(Value::from)
    .into();
    for format in float::all() {
        forms.push(format.name.into());
        forms.push(format!("complex_{}", format.name).into());
    }
    for unit in ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "as", "generic"] {
        for name in ["numpy.datetime64", "numpy.timedelta64"] {
            forms.push(json!({
                "name": name, "configuration": {"unit": unit, "scale_factor": 10},
            }));
        }
    }
    for name in ["fixed_length_utf32", "raw_bytes", "null_terminated_bytes"] {
        forms.push(json!({"name": name, "configuration": {"length_bytes": 8}}));
    }
    for name in ["struct", "structured"] {
        forms.push(json!({"name": name, "configuration": {"fields": [
            {"name": "a", "data_type": "uint8"},
            {"name": "b", "data_type": {"name": "float32"}},
            {"name": "c", "data_type": {"name": "struct", "configuration": {"fields": [
                {"name": "a", "data_type": "complex64"},
                {"name": "é", "data_type": "int4"},
            ]}}},
        ]}}));
    }
    forms.iter().map(|form| DataType::from_json(form).unwrap()).collect()
}

fn named(name: &str) -> DataType {
    DataType::from_json(&Value::from(name)).unwrap()
}

fn refusal(json: &Value) -> String {
    DataType::from_json(json).unwrap_err().to_string()
}
