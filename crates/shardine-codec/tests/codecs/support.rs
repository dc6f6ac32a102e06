use std::sync::Arc;

use serde_json::{Value, json};
use shardine_codec::{
    ArraySpec, ArrayToArray, ArrayToBytes, BytesToBytes, Codec, CodecError, CodecSpec, DataType,
    from_spec,
};

pub fn spec(json: &Value) -> CodecSpec {
    CodecSpec {
        name: json["name"].as_str().unwrap().into(),
        configuration: json["configuration"].as_object().cloned().unwrap_or_default(),
        must_understand: true,
    }
}

/// The codec that `name` and `configuration` stand for.
pub fn codec(name: &str, configuration: Value) -> Result<Codec, CodecError> {
    from_spec(&spec(&json!({"name": name, "configuration": configuration})))
}

pub fn array_to_array(name: &str, configuration: Value) -> Arc<dyn ArrayToArray> {
    match codec(name, configuration).unwrap() {
        Codec::ArrayToArray(codec) => codec,
        other => panic!("{other:?} is no array -> array codec"),
    }
}

pub fn array_to_bytes(name: &str, configuration: Value) -> Arc<dyn ArrayToBytes> {
    match codec(name, configuration).unwrap() {
        Codec::ArrayToBytes(codec) => codec,
        other => panic!("{other:?} is no array -> bytes codec"),
    }
}

pub fn bytes_to_bytes(name: &str, configuration: Value) -> Arc<dyn BytesToBytes> {
    match codec(name, configuration).unwrap() {
        Codec::BytesToBytes(codec) => codec,
        other => panic!("{other:?} is no bytes -> bytes codec"),
    }
}

/// A chunk of this type and shape; its fill value is zero.
pub fn chunk(data_type: &str, shape: &[u64]) -> ArraySpec {
    let data_type = DataType::from_json(&json!(data_type)).unwrap();
    ArraySpec { shape: shape.to_vec(), fill: data_type.default_fill(), data_type }
}

/// Every `bytes -> bytes` codec, in configurations that take different paths.
pub fn all_bytes_to_bytes() -> Vec<(String, Arc<dyn BytesToBytes>)> {
    let mut configurations = vec![
        ("zstd", json!({"level": 3})),
        ("zstd", json!({"level": -5, "checksum": true})),
        ("gzip", json!({"level": 0})),
        ("gzip", json!({"level": 5})),
        ("crc32c", json!({})),
        ("numcodecs.crc32c", json!({"location": "start"})),
        ("numcodecs.blosc", json!({})),
        ("crc32", json!({})),
        ("adler32", json!({"location": "end"})),
        ("fletcher32", json!({})),
        ("zlib", json!({"level": 6})),
        ("lz4", json!({})),
        ("wkw.lz4_block", json!({})),
        ("bz2", json!({"level": 1})),
        ("lzma", json!({"preset": 0})),
        ("lzma", json!({"format": 2, "preset": 0})),
        ("lzma", json!({"format": 3, "filters": [{"id": 3, "dist": 2}, {"id": 33, "preset": 0}]})),
        ("shuffle", json!({"elementsize": 2})),
        ("shuffle", json!({"elementsize": 4})),
    ];
    for cname in ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"] {
        for (shuffle, typesize) in [("noshuffle", 1), ("shuffle", 2), ("bitshuffle", 4)] {
            let configuration = json!({
                "cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": typesize,
                "blocksize": if typesize == 4 { 512 } else { 0 },
            });
            configurations.push(("blosc", configuration));
        }
    }
    configurations
        .into_iter()
        .map(|(name, configuration)| {
            let label = format!("{name} {configuration}");
            (label, bytes_to_bytes(name, configuration))
        })
        .collect()
}
