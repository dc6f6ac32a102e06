mod arrays;
mod groups;
mod kept;
mod keys;
mod round_trip;

use serde_json::{Map, Value, json};
use shardine_codec::{CodecSpec, DataType, FillValue};

use super::*;

/// The document of a small array, to be corrupted.
fn document() -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 20],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 6]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 7,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    })
}

/// The document with the value at `pointer` replaced or, with null, removed.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = document();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Object(members) if value.is_null() => drop(members.shift_remove(member)),
        Value::Object(members) => drop(members.insert(member.into(), value)),
        Value::Array(items) => items[member.parse::<usize>().unwrap()] = value,
        _ => unreachable!(),
    }
    document
}

fn parse(json: &Value) -> Result<NodeMetadata, MetadataError> {
    NodeMetadata::parse(json.to_string().as_bytes())
}

fn array(json: &Value) -> ArrayMetadata {
    match parse(json) {
        Ok(NodeMetadata::Array(array)) => array,
        other => panic!("{other:?}"),
    }
}

fn group(json: &Value) -> GroupMetadata {
    match parse(json) {
        Ok(NodeMetadata::Group(group)) => group,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refuses(json: &Value, why: &str) {
    let refusal = parse(json).unwrap_err().to_string();
    assert!(refusal.contains(why), "{refusal}");
}

fn codec(name: &str) -> CodecSpec {
    CodecSpec { name: name.into(), configuration: Map::new(), must_understand: true }
}
