//! Detecting that a Zarr array was replaced, and opening its replacement.

use std::sync::Arc;

use super::ArrayNode;
use super::metadata::{ArrayMetadata, NodeMetadata, ZarrFormat};
use crate::array::ArrayFormat;
use crate::{Array, Engine, Error, Location};

/// The format of an array that Zarr documents describe.
#[derive(Debug)]
pub(super) struct ZarrArray;

impl ArrayFormat for ZarrArray {
    fn reopen(&self, engine: &Arc<Engine>, location: &Location) -> Result<Array, Error> {
        ArrayNode::open(engine, location).map(ArrayNode::into_array)
    }
}

/// Whether a document describes an array whose chunks have the same keys and the same meaning.
/// Shape and attributes may differ.
pub(crate) fn has_same_chunks(metadata: &ArrayMetadata, document: &[u8]) -> bool {
    let now = match metadata.zarr_format() {
        ZarrFormat::V3 => match NodeMetadata::parse(document) {
            Ok(NodeMetadata::Array(now)) => now,
            _ => return false,
        },
        ZarrFormat::V2 => match ArrayMetadata::parse_v2(document, None) {
            Ok(now) => now,
            Err(_) => return false,
        },
    };
    let essence = |of: &ArrayMetadata| {
        let (grid, keys) = (of.chunk_shape().to_vec(), *of.key_encoding());
        (grid, keys, of.data_type().clone(), of.fill().clone(), of.codecs().to_vec())
    };
    essence(&now) == essence(metadata)
}
