//! `.zmetadata`: the documents of a hierarchy in one.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{array, check_format};
use crate::zarr::metadata::document::Document;
use crate::zarr::metadata::group::Gathered;
use crate::zarr::metadata::{ConsolidatedEntry, GroupMetadata, MetadataError, NodeMetadata};
use shardine_codec::shown;

const MEMBER: &str = "metadata";
const FORMAT: &str = "zarr_consolidated_format";

/// The documents of one node.
#[derive(Debug, Default)]
struct Parts<'a> {
    zarray: Option<&'a Value>,
    zgroup: Option<&'a Value>,
    zattrs: Option<&'a Value>,
}

/// The nodes below the group, in order of their paths.
pub(super) fn consolidated(document: &Document) -> Result<Vec<ConsolidatedEntry>, MetadataError> {
    let format = document.required(FORMAT)?;
    if format.as_u64() != Some(1) {
        let reason = format!("is {}, but must be 1", shown(format));
        return Err(MetadataError::invalid(FORMAT, reason));
    }
    let Value::Object(documents) = document.required(MEMBER)? else {
        return Err(MetadataError::invalid(MEMBER, "must be an object"));
    };
    let mut nodes: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
    for (key, part) in documents {
        // The documents of the group itself have no folder.
        let Some((path, name)) = key.rsplit_once('/') else { continue };
        match name {
            ".zarray" => nodes.entry(path).or_default().zarray = Some(part),
            ".zgroup" => nodes.entry(path).or_default().zgroup = Some(part),
            ".zattrs" => nodes.entry(path).or_default().zattrs = Some(part),
            _ => {}
        }
    }
    let mut gathered = Gathered::default();
    for (path, parts) in &nodes {
        // Attributes alone do not make a node.
        if parts.zarray.is_some() || parts.zgroup.is_some() {
            gathered.push(MEMBER, path, || node(parts));
        }
    }
    Ok(gathered.entries)
}

/// A `.zmetadata` with these documents, by key.
pub(crate) fn v2_consolidated(documents: &[(String, Vec<u8>)]) -> Result<Vec<u8>, MetadataError> {
    let mut all = Document::new(Map::new());
    all.set(MEMBER, Some(Value::Object(Map::new())));
    for (key, text) in documents {
        all.embed(&[MEMBER, key], &Document::parse(text)?)?;
    }
    all.set(FORMAT, Some(1.into()));
    Ok(all.to_bytes())
}

/// The keys of the documents in a `.zmetadata`.
pub(crate) fn v2_names(text: &[u8]) -> Result<Vec<String>, MetadataError> {
    match Document::parse(text)?.get(MEMBER) {
        Some(Value::Object(documents)) => Ok(documents.keys().cloned().collect()),
        _ => Err(MetadataError::invalid(MEMBER, "must be an object")),
    }
}

/// A `.zmetadata` without some of its documents.
pub(crate) fn v2_without(text: &[u8], names: &[String]) -> Result<Vec<u8>, MetadataError> {
    let mut all = Document::parse(text)?;
    let mut member = all.get(MEMBER).cloned().unwrap_or_default();
    if let Value::Object(documents) = &mut member {
        names.iter().for_each(|name| drop(documents.shift_remove(name)));
    }
    all.set(MEMBER, Some(member));
    Ok(all.to_bytes())
}

fn node(parts: &Parts<'_>) -> Result<NodeMetadata, MetadataError> {
    let attributes = parts.zattrs.map(part).transpose()?;
    match (parts.zarray, parts.zgroup) {
        (Some(zarray), _) => {
            array::from_documents(&part(zarray)?, attributes.as_ref()).map(NodeMetadata::Array)
        }
        (None, zgroup) => {
            check_format(&part(zgroup.unwrap_or(&Value::Null))?)?;
            GroupMetadata::new_v2(attributes.as_ref(), None).map(NodeMetadata::Group)
        }
    }
}

fn part(json: &Value) -> Result<Document, MetadataError> {
    let members: &Map<String, Value> = json
        .as_object()
        .ok_or_else(|| MetadataError::NotJson { reason: "it is another JSON value".into() })?;
    Ok(Document::new(members.clone()))
}
