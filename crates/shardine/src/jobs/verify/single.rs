//! A single file with metadata, judged on its own.

use serde_json::{Map, Value};
use shardine_store::{Key, StoreExt};

use super::ome::tell_violations;
use crate::jobs::check::{Finding, FindingKind, Run};
use crate::ome::rules::{sure_violations, violations};
use crate::zarr::attribute_name;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::{DOCUMENT, ZarrFormat};
use crate::{Error, Location};

/// Members that say of an object that it is the document of a node.
const OF_NODES: [&str; 2] = ["zarr_format", "node_type"];

impl Run<'_> {
    /// Checks a file that holds a `zarr.json`, a `.zattrs` or the attributes of a group, if only
    /// documents are checked; `false` if there is none.
    pub(super) fn single_file(&self, location: &Location) -> Result<bool, Error> {
        if !self.scope.metadata_only {
            return Ok(false);
        }
        let Some((folder, name)) = location.parent()? else { return Ok(false) };
        let key = folder.key(&name)?;
        let Some(text) = folder.store.get(&key)? else { return Ok(false) };
        let object = location.path.clone().unwrap_or(key);
        match serde_json::from_slice(&text) {
            Ok(Value::Object(members)) => self.document(location, object, &text, &members)?,
            Ok(_) => self.not_metadata(object, "is JSON, but not an object"),
            Err(error) => self.not_metadata(object, &format!("is not JSON: {error}")),
        }
        Ok(true)
    }

    fn not_metadata(&self, object: Key, message: &str) {
        self.note(Finding::new(FindingKind::Metadata, Some(object), message.to_owned()));
    }

    fn document(
        &self,
        location: &Location,
        object: Key,
        text: &[u8],
        members: &Map<String, Value>,
    ) -> Result<(), Error> {
        let name = object.as_str().rsplit('/').next().unwrap_or_default();
        let is_node = name == DOCUMENT || OF_NODES.iter().all(|name| members.contains_key(*name));
        let inner = members.get("attributes").and_then(Value::as_object);
        let (attributes, format) = match (is_node, inner) {
            (true, inner) => {
                match NodeMetadata::parse(text) {
                    Ok(NodeMetadata::Array(_)) => self.sum(|summary| summary.arrays += 1),
                    Ok(NodeMetadata::Group(_)) => self.sum(|summary| summary.groups += 1),
                    Err(error) => self.not_metadata(object.clone(), &error.to_string()),
                }
                (inner, Some(3))
            }
            (false, Some(inner)) if violations(members, None).is_none() => (Some(inner), None),
            _ if name == attribute_name(ZarrFormat::V2) => (Some(members), Some(2)),
            _ => (Some(members), None),
        };
        let found = attributes.and_then(|attributes| match is_node {
            true => violations(attributes, format),
            // Somebody took it for OME-Zarr metadata.
            false => sure_violations(attributes, format),
        });
        if let Some(found) = &found {
            tell_violations(self, &object, found, &[]);
        }
        match found.is_some() || is_node {
            true => Ok(()),
            false => Err(Error::NoMetadata { at: location.to_string() }),
        }
    }
}
