//! Zarr version 2 documents, as the version 3 structures that decode the same chunks.
//!
//! `.zarray` and `.zattrs` make an [`ArrayMetadata`] whose codecs decode each chunk as it is
//! stored, under its existing key; `.zgroup`, `.zattrs` and `.zmetadata` make a [`GroupMetadata`].
//! Anything without an equivalent in version 3 is refused. `write` goes the other way.

mod array;
mod codecs;
mod data_type;
mod fill;
mod group;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use group::{v2_consolidated, v2_names, v2_without};
use serde_json::Value;
pub(crate) use write::V2Array;

use super::document::Document;
use super::{ArrayMetadata, GroupMetadata, MetadataError};
use shardine_codec::shown;

impl ArrayMetadata {
    /// The array that a `.zarray` describes, with the attributes of its `.zattrs`.
    ///
    /// Members that version 2 does not define are ignored, as its specification says. Names in the
    /// attribute `_ARRAY_DIMENSIONS` become the names of the dimensions; the attribute stays. A
    /// fill value of `null` is the one that zarr-python uses: zero, or not-a-time for times.
    pub fn parse_v2(zarray: &[u8], zattrs: Option<&[u8]>) -> Result<Self, MetadataError> {
        let attributes = zattrs.map(Document::parse).transpose()?;
        array::from_documents(&Document::parse(zarray)?, attributes.as_ref())
    }
}

impl GroupMetadata {
    /// The group that a `.zgroup` describes, with the attributes of its `.zattrs` and the nodes in
    /// its `.zmetadata`.
    pub fn parse_v2(
        zgroup: &[u8],
        zattrs: Option<&[u8]>,
        zmetadata: Option<&[u8]>,
    ) -> Result<Self, MetadataError> {
        check_format(&Document::parse(zgroup)?)?;
        let attributes = zattrs.map(Document::parse).transpose()?;
        let consolidated = match zmetadata {
            Some(bytes) => Some(group::consolidated(&Document::parse(bytes)?)?),
            None => None,
        };
        Self::new_v2(attributes.as_ref(), consolidated)
    }
}

/// Refuses a document of another version.
fn check_format(document: &Document) -> Result<(), MetadataError> {
    let format = document.required("zarr_format")?;
    match format.as_u64() {
        Some(2) => Ok(()),
        _ => {
            let reason = format!("is {}, but must be 2 in this document", shown(format));
            Err(MetadataError::invalid("zarr_format", reason))
        }
    }
}

/// The error for anything without an equivalent in version 3.
fn unsupported(member: &str, name: impl Into<String>, reason: &str) -> MetadataError {
    MetadataError::Unsupported { member: member.into(), name: name.into(), reason: reason.into() }
}

/// A name for a message, without JSON quotes.
fn named(json: &Value) -> String {
    match json {
        Value::String(name) if name.len() <= 60 => name.clone(),
        other => shown(other),
    }
}
