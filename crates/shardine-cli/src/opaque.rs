//! Arrays that name a codec or a data type which is not supported here.

use std::io::{self, Write};

use serde_json::{Value, json};
use shardine::zarr::metadata::{OpaqueMetadata, codec_specs_from_json};
use shardine::zarr::{OpaqueArray, ZarrFormat};
use shardine::{CodecSpec, DataSet, codec_words};

use crate::info::{
    Stored, chunks_in, describe_stored, format_id, format_name, inner_shard, line, sharding,
    summary, write_attributes, write_codecs, write_packing, write_stored,
};
use crate::units;

/// The codecs of a `zarr.json`, if it has a list of them.
fn codecs(metadata: &OpaqueMetadata) -> Option<Vec<CodecSpec>> {
    codec_specs_from_json(metadata.get("codecs")?).ok()
}

/// The name of the member that holds the data type.
fn type_member(metadata: &OpaqueMetadata) -> &'static str {
    match metadata.zarr_format() {
        ZarrFormat::V2 => "dtype",
        ZarrFormat::V3 => "data_type",
    }
}

/// An array for people.
pub fn write(
    out: &mut dyn Write,
    url: &str,
    array: &OpaqueArray,
    stored: Option<&Stored>,
    attributes: bool,
) -> io::Result<()> {
    let metadata = array.metadata();
    let codecs = codecs(metadata);
    line(out, "array", url)?;
    let sharded = match codecs.as_deref().and_then(sharding) {
        Some(_) => ", sharded",
        None => "",
    };
    line(out, "format", format!("{}{sharded}", format_name(metadata.zarr_format())))?;
    line(out, "unsupported", metadata.reason())?;
    let shown = |member: &str| match metadata.get(member) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "none".to_owned(),
    };
    let shape = metadata.get("shape").and_then(Value::as_array);
    let shape: Option<Vec<u64>> = shape.and_then(|shape| shape.iter().map(Value::as_u64).collect());
    line(out, "shape", shape.map_or_else(|| shown("shape"), |shape| units::shape(&shape)))?;
    line(out, "type", shown(type_member(metadata)))?;
    line(out, "fill value", shown("fill_value"))?;
    match array.listing() {
        Ok(listing) => write_packing(out, listing, None)?,
        Err(_) => line(out, "chunk grid", shown("chunk_grid"))?,
    }
    match (&codecs, metadata.zarr_format()) {
        (Some(codecs), _) => write_codecs(out, codecs)?,
        (None, ZarrFormat::V2) => {
            line(out, "filters", shown("filters"))?;
            line(out, "compressor", shown("compressor"))?;
        }
        (None, ZarrFormat::V3) => line(out, "codecs", shown("codecs"))?,
    }
    if let (Ok(listing), Some(stored)) = (array.listing(), stored) {
        write_stored(out, listing, stored)?;
    }
    line(out, "attributes", summary(metadata.attributes().keys()))?;
    if attributes {
        write_attributes(out, metadata.attributes())?;
    }
    Ok(())
}

/// An array in JSON, with the members that all arrays have.
pub fn describe(array: &OpaqueArray, stored: Option<&Stored>) -> Value {
    let metadata = array.metadata();
    let codecs = codecs(metadata);
    let chunk_codecs = codecs.as_deref().map(|codecs| match sharding(codecs) {
        Some(sharding) => codec_words::show_chain(&sharding.codecs),
        None => codec_words::show_chain(codecs),
    });
    let listing = array.listing().ok();
    let shard = listing.and_then(|listing| listing.shard_shape());
    let unsupported: Vec<Value> = metadata
        .unsupported()
        .iter()
        .map(|what| {
            let message = format!("{what} is not supported");
            json!({
                "kind": what.kind, "name": what.name, "member": what.member, "message": message,
            })
        })
        .collect();
    let mut description = json!({
        "kind": "array",
        "format": format_id(metadata.zarr_format()),
        "url": array.location().to_string(),
        "unsupported": unsupported,
        "message": metadata.reason(),
        "shape": metadata.get("shape"),
        "dtype": metadata.get(type_member(metadata)),
        "dimension_names": metadata.get("dimension_names"),
        "fill_value": metadata.get("fill_value"),
        "chunk_shape": listing.map(|listing| listing.chunk_shape()),
        "shard_shape": shard,
        "chunks_per_shard": listing.zip(shard).map(|(listing, shard)| chunks_in(listing, shard)),
        "inner_shard_shape": listing.and_then(inner_shard),
        "codecs": metadata.get("codecs"),
        "chunk_codecs": chunk_codecs,
        "chunk_grid": metadata.get("chunk_grid"),
        "chunk_key_encoding": metadata.get("chunk_key_encoding"),
        "attributes": metadata.attributes(),
        "metadata": metadata.to_json(),
    });
    if let (Some(listing), Some(stored), Value::Object(members)) =
        (listing, stored, &mut description)
    {
        members.insert("stored".to_owned(), describe_stored(listing, stored));
    }
    description
}
