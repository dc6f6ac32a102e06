//! The codecs that the targets choose from.

use serde_json::{Map, Value};
use shardine_codec::{Codec, CodecSpec, from_spec};

/// Configurations that the targets choose from by one byte: cheap levels, every mode.
pub const CONFIGURATIONS: &[&str] = &[
    r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
    r#"{"name":"bytes","configuration":{"endian":"big"}}"#,
    r#"{"name":"bytes"}"#,
    r#"{"name":"crc32c"}"#,
    r#"{"name":"numcodecs.crc32c","configuration":{"location":"start"}}"#,
    r#"{"name":"crc32","configuration":{"location":"end"}}"#,
    r#"{"name":"adler32"}"#,
    r#"{"name":"fletcher32"}"#,
    r#"{"name":"gzip","configuration":{"level":1}}"#,
    r#"{"name":"numcodecs.gzip","configuration":{"level":1}}"#,
    r#"{"name":"zlib","configuration":{"level":1}}"#,
    r#"{"name":"zstd","configuration":{"level":1,"checksum":false}}"#,
    r#"{"name":"zstd","configuration":{"level":3,"checksum":true}}"#,
    r#"{"name":"numcodecs.zstd","configuration":{"level":1}}"#,
    r#"{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}}"#,
    r#"{"name":"blosc","configuration":{"cname":"zstd","clevel":1,"shuffle":"bitshuffle","typesize":2,"blocksize":0}}"#,
    r#"{"name":"blosc","configuration":{"cname":"zlib","clevel":1,"shuffle":"noshuffle","blocksize":256}}"#,
    r#"{"name":"blosc","configuration":{"cname":"blosclz","clevel":9,"shuffle":"shuffle","typesize":8,"blocksize":0}}"#,
    r#"{"name":"blosc","configuration":{"cname":"lz4hc","clevel":0,"shuffle":"noshuffle","blocksize":0}}"#,
    r#"{"name":"blosc","configuration":{"cname":"snappy","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":512}}"#,
    r#"{"name":"numcodecs.blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":2,"blocksize":0}}"#,
    r#"{"name":"lz4","configuration":{"acceleration":1}}"#,
    r#"{"name":"wkw.lz4_block"}"#,
    r#"{"name":"bz2","configuration":{"level":1}}"#,
    r#"{"name":"lzma","configuration":{"format":1,"check":-1,"preset":0}}"#,
    r#"{"name":"lzma","configuration":{"format":2,"preset":0}}"#,
    r#"{"name":"lzma","configuration":{"format":3,"filters":[{"id":3,"dist":4},{"id":33,"preset":0}]}}"#,
    r#"{"name":"shuffle","configuration":{"elementsize":4}}"#,
    r#"{"name":"transpose","configuration":{"order":[1,0]}}"#,
    r#"{"name":"transpose","configuration":{"order":[2,0,1]}}"#,
    r#"{"name":"vlen-utf8"}"#,
    r#"{"name":"vlen-bytes"}"#,
    r#"{"name":"packbits"}"#,
    r#"{"name":"packbits","configuration":{"padding_encoding":"first_byte"}}"#,
    r#"{"name":"packbits","configuration":{"padding_encoding":"last_byte","first_bit":1,"last_bit":2}}"#,
    r#"{"name":"numcodecs.packbits"}"#,
    r#"{"name":"bitround","configuration":{"keepbits":4}}"#,
    r#"{"name":"numcodecs.bitround","configuration":{"keepbits":0}}"#,
    r#"{"name":"delta","configuration":{"dtype":"<i2","astype":"<i4"}}"#,
    r#"{"name":"delta","configuration":{"dtype":"<f4"}}"#,
    r#"{"name":"fixedscaleoffset","configuration":{"offset":3,"scale":2,"dtype":"<f4","astype":"<u1"}}"#,
    r#"{"name":"fixedscaleoffset","configuration":{"offset":-1.5,"scale":0.5,"dtype":"<f8"}}"#,
    r#"{"name":"neuroglancer_compressed_segmentation","configuration":{"block_size":[8,8,8]}}"#,
    r#"{"name":"neuroglancer_compressed_segmentation","configuration":{"block_size":[3,2,5]}}"#,
    r#"{"name":"neuroglancer_compresso"}"#,
    r#"{"name":"neuroglancer_jpeg","configuration":{"quality":75}}"#,
    r#"{"name":"neuroglancer_png","configuration":{"level":1}}"#,
    r#"{"name":"neuroglancer_jxl"}"#,
];

/// Other names of codecs listed above, apart from those that end in a listed name.
pub const ALIASES: &[&str] = &["endian"];

/// The codec that a `{"name": ..., "configuration": ...}` document names, if it is one.
pub fn parse(json: &[u8]) -> Option<Codec> {
    from_value(&serde_json::from_slice(json).ok()?)
}

/// Like [`parse`], from a parsed document.
pub fn from_value(value: &Value) -> Option<Codec> {
    let name = value.get("name")?.as_str()?.to_owned();
    let configuration = match value.get("configuration") {
        Some(Value::Object(map)) => map.clone(),
        Some(_) => return None,
        None => Map::new(),
    };
    from_spec(&CodecSpec { name, configuration, must_understand: true }).ok()
}

/// Whether the codec of this document changes elements in a round trip.
pub fn is_lossy(json: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(json).ok();
    value.is_some_and(|value| value.get("name").is_some_and(|name| name == "neuroglancer_jpeg"))
}

/// The codec chosen by the first byte of `input`, and the rest.
pub fn choose(input: &[u8]) -> Option<(Codec, &[u8])> {
    let (json, rest) = choose_document(input)?;
    Some((parse(json)?, rest))
}

/// The document chosen by the first byte of `input`, and the rest.
///
/// A choice past the list means that the document is in the input itself, up to a zero byte.
pub fn choose_document(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&choice, rest) = input.split_first()?;
    match CONFIGURATIONS.get(usize::from(choice)) {
        Some(json) => Some((json.as_bytes(), rest)),
        None => Some(crate::split(rest)),
    }
}

/// The bytes that make [`choose`] take configuration `i`.
pub fn choice(i: usize) -> u8 {
    i as u8
}
