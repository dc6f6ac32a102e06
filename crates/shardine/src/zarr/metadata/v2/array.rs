//! `.zarray`, member by member.

use serde_json::{Map, Value, json};
use shardine_codec::CodecSpec;

use super::codecs::{self, Codecs};
use super::data_type::StoredType;
use super::{check_format, fill};
use crate::zarr::metadata::document::Document;
use crate::zarr::metadata::integers::integers;
use crate::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, DIMENSIONS, MetadataError, NewArray, Separator,
};
use shardine_codec::shown;

pub(super) fn from_documents(
    zarray: &Document,
    zattrs: Option<&Document>,
) -> Result<ArrayMetadata, MetadataError> {
    check_format(zarray)?;
    let shape = integers(zarray.required("shape")?, "shape", 0)?;
    if shape.len() > ArrayMetadata::MAX_RANK {
        let most = ArrayMetadata::MAX_RANK;
        let reason = format!("has {} dimensions; at most {most} are supported", shape.len());
        return Err(MetadataError::invalid("shape", reason));
    }
    let chunk_shape = chunk_shape(zarray.required("chunks")?, &shape)?;
    let steps = codecs::steps(zarray.get("filters"), zarray.get("compressor"))?;
    let stored = StoredType::from_json(zarray.required("dtype")?, &steps)?;
    let fill = fill::from_json(&stored, zarray.get("fill_value"))?;
    let mut chain = Vec::new();
    if is_fortran(zarray.get("order"))? && shape.len() > 1 {
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        chain.push(codec("transpose", json!({ "order": order })));
    }
    chain.extend(Codecs::new(&stored).all(&steps)?);
    let no_attributes = Map::new();
    let attributes = zattrs.map_or(&no_attributes, Document::members);
    let dimension_names = dimension_names(attributes, shape.len());
    // Without a fill value xarray treats nothing as missing; nor does it read one of a type that it
    // has no form for.
    let told = zarray.get("fill_value").is_some_and(|told| !told.is_null());
    let mask =
        fill::missing(&stored.data_type, &fill).filter(|_| told && dimension_names.is_some());
    let array = NewArray {
        dimension_names,
        shape,
        chunk_shape,
        data_type: stored.data_type,
        fill: Some(fill),
        codecs: chain,
        key_encoding: ChunkKeyEncoding::V2 {
            separator: separator(zarray.get("dimension_separator"))?,
        },
        attributes: Map::new(),
    };
    ArrayMetadata::new_v2(array, zattrs, mask)
}

/// A codec with the members of `configuration`.
pub(super) fn codec(name: &str, configuration: Value) -> CodecSpec {
    let configuration = match configuration {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    CodecSpec { name: name.into(), configuration, must_understand: true }
}

/// The lengths of a chunk; along an axis without elements, 0 means any and is read as 1.
fn chunk_shape(json: &Value, shape: &[u64]) -> Result<Vec<u64>, MetadataError> {
    let mut chunks = integers(json, "chunks", 0)?;
    if chunks.len() != shape.len() {
        let reason = format!("has {} lengths, but shape has {}", chunks.len(), shape.len());
        return Err(MetadataError::invalid("chunks", reason));
    }
    for (axis, (length, &elements)) in chunks.iter_mut().zip(shape).enumerate() {
        if *length == 0 {
            if elements > 0 {
                let reason = "is 0, but must be an integer of at least 1";
                return Err(MetadataError::invalid(format!("chunks[{axis}]"), reason));
            }
            *length = 1;
        }
    }
    Ok(chunks)
}

fn is_fortran(json: Option<&Value>) -> Result<bool, MetadataError> {
    match json {
        None => Err(MetadataError::missing("order")),
        Some(Value::String(order)) if order == "C" => Ok(false),
        Some(Value::String(order)) if order == "F" => Ok(true),
        Some(other) => {
            let reason = format!("is {}, but must be \"C\" or \"F\"", shown(other));
            Err(MetadataError::invalid("order", reason))
        }
    }
}

fn separator(json: Option<&Value>) -> Result<Separator, MetadataError> {
    match json {
        None | Some(Value::Null) => Ok(Separator::Dot),
        Some(Value::String(text)) if text == "." => Ok(Separator::Dot),
        Some(Value::String(text)) if text == "/" => Ok(Separator::Slash),
        Some(other) => {
            let reason = format!("is {}, but must be \"/\" or \".\"", shown(other));
            Err(MetadataError::invalid("dimension_separator", reason))
        }
    }
}

/// The names that xarray has given; anything it would not have written is an ordinary attribute.
fn dimension_names(attributes: &Map<String, Value>, rank: usize) -> Option<Vec<Option<String>>> {
    let listed = attributes.get(DIMENSIONS)?.as_array().filter(|listed| listed.len() == rank)?;
    listed.iter().map(|name| name.as_str().map(|name| Some(name.to_owned()))).collect()
}
