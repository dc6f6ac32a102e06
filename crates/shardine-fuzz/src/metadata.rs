//! `zarr.json`: any bytes in; what parses is written with the same meaning.

use shardine::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, NodeMetadata, codec_specs_from_json, codec_specs_to_json,
};

use crate::memory;

pub fn run(input: &[u8]) {
    memory::bounded(1024 * input.len() + (1 << 20), || check(input));
}

fn check(input: &[u8]) {
    let Ok(node) = NodeMetadata::parse(input) else { return };
    let text = node.to_bytes();
    match NodeMetadata::parse(&text) {
        Ok(again) => {
            assert_eq!(again, node, "the document changed");
            assert_eq!(again.to_bytes(), text, "writing it again gives another text");
        }
        Err(error) => panic!("what was written is refused: {error}"),
    }
    if let NodeMetadata::Array(array) = &node {
        check_array(array);
    }
}

fn check_array(array: &ArrayMetadata) {
    assert_eq!(array.chunk_shape().len(), array.shape().len());
    assert!(array.shape().len() <= ArrayMetadata::MAX_RANK);
    let codecs = codec_specs_from_json(&codec_specs_to_json(array.codecs()));
    assert_eq!(codecs.as_deref().ok(), Some(array.codecs()), "the codecs changed");
    check_keys(array.key_encoding(), array.shape().len());
    let mut smaller = array.clone();
    let shape = vec![1; array.shape().len()];
    if smaller.set_shape(&shape).is_ok() {
        assert_eq!(smaller.shape(), shape);
    }
}

/// A key leads back to its cell.
fn check_keys(encoding: &ChunkKeyEncoding, rank: usize) {
    for first in [0, 7, u64::MAX] {
        let cell: Vec<u64> = (0..rank as u64).map(|axis| first.wrapping_mul(axis + 1)).collect();
        let key = encoding.key(&cell);
        assert_eq!(encoding.parse(&key, rank), Some(cell), "{key}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let more = [
        r#"{"zarr_format":3,"node_type":"group","attributes":{"a":[1,NaN,-Infinity,1e400]},"extra":{"must_understand":false,"x":12345678901234567890123}}"#,
        r#"{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{"a":{"zarr_format":3,"node_type":"group"}}}}"#,
    ];
    let documents = crate::read_array::DOCUMENTS.iter().chain(&more);
    documents.map(|text| text.as_bytes().to_vec()).collect()
}
