//! `.zarray`, `.zgroup`, `.zattrs` and `.zmetadata`: any bytes in; what parses is valid in version
//! 3.

use shardine::zarr::metadata::{ArrayMetadata, GroupMetadata, NodeMetadata};

use crate::{memory, split};

pub fn run(input: &[u8]) {
    memory::bounded(1024 * input.len() + (1 << 20), || check(input));
}

/// The first part is a node's document, the second its attributes, the third consolidated metadata.
fn check(input: &[u8]) {
    let (document, rest) = split(input);
    let (attributes, consolidated) = split(rest);
    let attributes = (!attributes.is_empty()).then_some(attributes);
    let consolidated = (!consolidated.is_empty()).then_some(consolidated);
    if let Ok(array) = ArrayMetadata::parse_v2(document, attributes) {
        same_in_v3(&NodeMetadata::Array(array.into_v3()));
    }
    let Ok(group) = GroupMetadata::parse_v2(document, attributes, consolidated) else { return };
    let known: Vec<(String, NodeMetadata)> = group
        .consolidated()
        .unwrap_or_default()
        .iter()
        .filter_map(|(path, node)| Some((path.clone(), node.as_ref().ok()?.clone())))
        .collect();
    let mut group = group.into_v3();
    if group.set_consolidated(&known).is_ok() {
        same_in_v3(&NodeMetadata::Group(group));
    }
}

/// What is written as `zarr.json` reads back the same.
fn same_in_v3(node: &NodeMetadata) {
    match NodeMetadata::parse(&node.to_bytes()) {
        Ok(again) => assert_eq!(again.to_bytes(), node.to_bytes(), "the document changed"),
        Err(error) => panic!("what was written is refused: {error}"),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    const ARRAYS: [&str; 5] = [
        r#"{"zarr_format":2,"shape":[4,5],"chunks":[2,5],"dtype":">i4","order":"F","fill_value":null,"dimension_separator":"/","filters":[{"id":"delta","dtype":">i4","astype":"<i2"},{"id":"shuffle","elementsize":2}],"compressor":{"id":"blosc","cname":"zstd","clevel":5,"shuffle":-1,"blocksize":0}}"#,
        r#"{"zarr_format":2,"shape":[3],"chunks":[3],"dtype":"|O","order":"C","fill_value":0,"filters":[{"id":"vlen-utf8"}],"compressor":{"id":"zstd","level":3}}"#,
        r#"{"zarr_format":2,"shape":[0],"chunks":[0],"dtype":"<c16","order":"C","fill_value":[NaN,"-Infinity"],"filters":null,"compressor":null}"#,
        r#"{"zarr_format":2,"shape":[7],"chunks":[2],"dtype":"<M8[10ms]","order":"C","fill_value":-5.0,"filters":[],"compressor":{"id":"zlib","level":1}}"#,
        r#"{"zarr_format":2,"shape":[],"chunks":[],"dtype":"|S3","order":"C","fill_value":"YWI=","filters":null,"compressor":{"id":"lzma","format":1,"check":-1,"preset":null,"filters":null}}"#,
    ];
    const ATTRIBUTES: &str =
        r#"{"_ARRAY_DIMENSIONS":["y","x"],"scale":NaN,"n":12345678901234567890123}"#;
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for array in ARRAYS {
        seeds.push(array.as_bytes().to_vec());
        seeds.push(crate::joined(&[array.as_bytes(), ATTRIBUTES.as_bytes()]));
        let consolidated = format!(
            r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{{"zarr_format":2}},"g/.zgroup":{{"zarr_format":2}},"g/a/.zarray":{array},"g/a/.zattrs":{ATTRIBUTES}}}}}"#
        );
        let group: &[u8] = br#"{"zarr_format":2}"#;
        seeds.push(crate::joined(&[group, ATTRIBUTES.as_bytes(), consolidated.as_bytes()]));
    }
    seeds
}
