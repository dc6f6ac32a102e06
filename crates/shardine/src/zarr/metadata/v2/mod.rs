//! Documents of Zarr version 2, as the structures of version 3 that decode the same chunks.
//!
//! `.zarray` and `.zattrs` make an [`ArrayMetadata`] whose codecs decode each chunk as it is stored, under the keys that
//! it has; `.zgroup`, `.zattrs` and `.zmetadata` make a [`GroupMetadata`]. What version 3 has no equivalent for is refused.

mod array;
mod codecs;
mod data_type;
mod fill;
mod group;
#[cfg(test)]
mod tests;

pub(crate) use group::{v2_consolidated, v2_names, v2_without};
use serde_json::Value;

use super::document::Document;
use super::{ArrayMetadata, GroupMetadata, MetadataError};
use shardine_codec::shown;

impl ArrayMetadata {
    /// The array that a `.zarray` describes, with the attributes of its `.zattrs`.
    ///
    /// Members that version 2 does not have are ignored, as it says. Names in the attribute `_ARRAY_DIMENSIONS` become the
    /// names of the dimensions; the attribute stays. A fill value of `null` is the one that zarr-python takes: zero, or of times
    /// not a time.
    pub fn parse_v2(zarray: &[u8], zattrs: Option<&[u8]>) -> Result<Self, MetadataError> {
        let attributes = zattrs.map(Document::parse).transpose()?;
        array::from_documents(&Document::parse(zarray)?, attributes.as_ref())
    }
}

impl GroupMetadata {
    /// The group that a `.zgroup` describes, with the attributes of its `.zattrs` and the nodes that its `.zmetadata` tells of.
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

/// The refusal of what version 3 has no equivalent for.
fn unsupported(member: &str, name: impl Into<String>, reason: &str) -> MetadataError {
    MetadataError::Unsupported { member: member.into(), name: name.into(), reason: reason.into() }
}

/// A name in a message, without the quotes of JSON.
fn named(json: &Value) -> String {
    match json {
        Value::String(name) if name.len() <= 60 => name.clone(),
        other => shown(other),
    }
}
