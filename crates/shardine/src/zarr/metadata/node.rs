//! What the metadata of arrays and groups have in common.

use serde_json::{Map, Value};

use super::document::Document;
use super::{ArrayMetadata, GroupMetadata, MetadataError, ZarrFormat};
use shardine_codec::shown;

/// A `zarr.json`, whatever it describes.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeMetadata {
    /// An array.
    Array(ArrayMetadata),
    /// A group.
    Group(GroupMetadata),
}

impl NodeMetadata {
    /// Reads a document of at most [`MAX_DOCUMENT_BYTES`](super::MAX_DOCUMENT_BYTES).
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        Self::from_document(Document::parse(bytes)?)
    }

    /// Reads a document that is already parsed as JSON.
    pub fn from_json(json: Value) -> Result<Self, MetadataError> {
        match json {
            Value::Object(members) => Self::from_document(Document::new(members)),
            _ => Err(MetadataError::NotJson { reason: "it is another JSON value".into() }),
        }
    }

    fn from_document(document: Document) -> Result<Self, MetadataError> {
        check_format(&document)?;
        let node_type = document.required("node_type")?;
        match node_type.as_str() {
            Some("array") => ArrayMetadata::from_document(document).map(Self::Array),
            Some("group") => GroupMetadata::from_document(document).map(Self::Group),
            _ => Err(MetadataError::invalid(
                "node_type",
                format!("is {}, but must be \"array\" or \"group\"", shown(node_type)),
            )),
        }
    }

    /// The version of the documents that it was read from.
    pub fn zarr_format(&self) -> ZarrFormat {
        match self {
            Self::Array(array) => array.zarr_format(),
            Self::Group(group) => group.zarr_format(),
        }
    }

    pub(super) fn document(&self) -> &Document {
        match self {
            Self::Array(array) => array.document(),
            Self::Group(group) => group.document(),
        }
    }

    /// The user's attributes; empty if there are none.
    pub fn attributes(&self) -> &Map<String, Value> {
        match self {
            Self::Array(array) => array.attributes(),
            Self::Group(group) => group.attributes(),
        }
    }

    /// Harmless deviations of the document from the specification, one sentence each.
    pub fn deviations(&self) -> &[String] {
        match self {
            Self::Array(array) => array.deviations(),
            Self::Group(group) => group.deviations(),
        }
    }

    /// The whole document in its order, including members that are not understood.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Array(array) => array.to_json(),
            Self::Group(group) => group.to_json(),
        }
    }

    /// The document's text, indented.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Array(array) => array.to_bytes(),
            Self::Group(group) => group.to_bytes(),
        }
    }
}

fn check_format(document: &Document) -> Result<(), MetadataError> {
    let format = document.required("zarr_format")?;
    match format.as_u64() {
        Some(3) => Ok(()),
        Some(2) => Err(MetadataError::ZarrV2),
        _ => Err(MetadataError::UnknownFormat { found: shown(format) }),
    }
}

/// Refuses a document of another version or another kind.
pub(super) fn check_node(document: &Document, node_type: &str) -> Result<(), MetadataError> {
    check_format(document)?;
    if document.required("node_type")?.as_str() != Some(node_type) {
        return Err(MetadataError::invalid("node_type", format!("must be \"{node_type}\"")));
    }
    Ok(())
}

/// Checks that a node may have this name: a single part of a path, not the whole path.
///
/// Names that would leave the hierarchy or hide what belongs to Zarr are refused.
pub fn check_node_name(name: &str) -> Result<(), MetadataError> {
    let reason = if name.is_empty() {
        "is empty"
    } else if name.contains('/') {
        "has a \"/\" in it"
    } else if name.bytes().all(|byte| byte == b'.') {
        "consists only of periods"
    } else if name.starts_with("__") {
        "begins with \"__\", which is reserved"
    } else if name == "zarr.json" {
        "is reserved for metadata documents"
    } else {
        return Ok(());
    };
    Err(MetadataError::invalid(format!("node name \"{}\"", name.escape_debug()), reason))
}
