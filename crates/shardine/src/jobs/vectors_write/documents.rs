//! The documents of arrays.

use serde_json::{Map, Value, json};
use shardine_geometry::zarr_vectors::ObjectArray;

use crate::zarr::metadata::{ArrayMetadata, MetadataError, NodeMetadata, codec_specs_to_json};
use crate::{CodecSpec, codec_words};

/// How all grids of a store are packed.
pub(in crate::jobs) struct Form<'a> {
    pub shape: &'a [u64],
    pub shard: Option<&'a [u64]>,
    pub codecs: &'a [CodecSpec],
}

impl Form<'_> {
    /// The metadata of an array with one string of bytes for each chunk of space.
    pub fn grid(&self, attributes: Map<String, Value>) -> Result<ArrayMetadata, MetadataError> {
        let single = vec![1; self.shape.len()];
        let mut codecs = vec![spec("vlen-bytes", json!({}))];
        codecs.extend_from_slice(self.codecs);
        if self.shard.is_some() {
            codecs =
                vec![codec_words::sharding(&single, &codec_specs_to_json(&codecs), None, "end")];
        }
        let chunk = self.shard.unwrap_or(&single);
        array(self.shape, &json!("variable_length_bytes"), json!(""), chunk, &codecs, attributes)
    }
}

/// The metadata of a list with bytes of any length for each row: manifests, or members of groups.
pub(in crate::jobs) fn byte_rows(
    count: u64,
    block: u64,
    attributes: Map<String, Value>,
) -> Result<ArrayMetadata, MetadataError> {
    // As zarr-vectors has it, whatever the codecs of chunks are.
    let zstd = spec("zstd", json!({"level": 0, "checksum": false}));
    let codecs = [spec("vlen-bytes", json!({})), zstd];
    let chunk = [block.min(count)];
    array(&[count], &json!("variable_length_bytes"), json!(""), &chunk, &codecs, attributes)
}

/// The metadata of an attribute of `count` objects.
pub(super) fn object_values(
    values: &ObjectArray,
    count: u64,
    more: &[CodecSpec],
) -> Result<ArrayMetadata, MetadataError> {
    let mut codecs = vec![spec("bytes", json!({"endian": "little"}))];
    codecs.extend_from_slice(more);
    let axes = |rows: u64| -> Vec<u64> { [rows].into_iter().chain(values.columns).collect() };
    // As zarr-vectors has it, also where there are fewer objects.
    let chunk = axes(ObjectArray::BLOCK);
    let (data_type, fill) = (&values.data_type, values.fill.clone());
    array(&axes(count), data_type, fill, &chunk, &codecs, values.attributes.clone())
}

/// The metadata of the list of ids.
pub(in crate::jobs) fn ids(
    count: u64,
    block: u64,
    more: &[CodecSpec],
) -> Result<ArrayMetadata, MetadataError> {
    let mut codecs = vec![spec("bytes", json!({"endian": "little"}))];
    codecs.extend_from_slice(more);
    array(&[count], &json!("int64"), json!(0), &[block.min(count)], &codecs, Map::new())
}

fn spec(name: &str, configuration: Value) -> CodecSpec {
    let configuration = configuration.as_object().cloned().unwrap_or_default();
    CodecSpec { name: name.to_owned(), configuration, must_understand: true }
}

fn array(
    shape: &[u64],
    data_type: &Value,
    fill: Value,
    chunk: &[u64],
    codecs: &[CodecSpec],
    attributes: Map<String, Value>,
) -> Result<ArrayMetadata, MetadataError> {
    let json = json!({
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codec_specs_to_json(codecs),
        "attributes": attributes,
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    });
    match NodeMetadata::from_json(json)? {
        NodeMetadata::Array(array) => Ok(array),
        NodeMetadata::Group(_) => Err(MetadataError::invalid("node_type", "is not array")),
    }
}
