//! Reading and changing the attributes of an array or a group.

use serde_json::{Map, Value};
use shardine_store::{Condition, MAX_SMALL_OBJECT, ReadRange, StoreError, StoreExt};

use super::consolidated::{StaleCopy, format_of, renew_consolidated_above, renew_v2_copies};
use super::metadata::{MetadataError, ZarrFormat, attributes_in, with_attributes};
use super::node::{DOCUMENT, V2_ATTRIBUTES};
use crate::{Error, Location};

/// How often a document is read again after another writer has changed it.
const ATTEMPTS: usize = 16;

/// The attributes of the array or group at a location.
///
/// Only the document is read, so this also works for an array with unknown codecs or data type.
/// [`Error::NoNode`] if there is none.
pub fn attributes(location: &Location) -> Result<Map<String, Value>, Error> {
    let (name, is_v3) = attribute_document(location)?;
    let key = location.key(name)?;
    let wrong = |source| Error::Metadata { object: key.clone(), source: Box::new(source) };
    match location.store.get(&key)? {
        Some(text) => attributes_in(&text, is_v3).map_err(wrong),
        None => Ok(Map::new()),
    }
}

/// Changes the attributes of the array or group at a location; returns the groups above whose
/// consolidated metadata could not be updated.
///
/// Everything else in the document is preserved. If another writer changes the document meanwhile,
/// `change` is called again with the new attributes, so it must be deterministic. Nothing is
/// written if it changes nothing. Costs a read and a small conditional write, and what
/// [`renew_consolidated_above`] costs.
///
/// ```
/// use std::sync::Arc;
/// use shardine::zarr::{attributes, change_attributes};
/// use shardine::store::{Condition, Key, MemoryStore, StoreExt};
/// use shardine::{Error, Location};
///
/// let store = MemoryStore::new();
/// let document = br#"{"zarr_format": 3, "node_type": "group"}"#;
/// store.put(&Key::new("zarr.json")?, document, Condition::None)?;
/// let group = Location::root(Arc::new(store));
/// change_attributes(&group, &|attributes| {
///     attributes.insert("microscope".to_owned(), "lattice light-sheet".into());
/// })?;
/// assert_eq!(attributes(&group)?["microscope"], "lattice light-sheet");
/// # Ok::<(), Error>(())
/// ```
pub fn change_attributes(
    location: &Location,
    change: &dyn Fn(&mut Map<String, Value>),
) -> Result<Vec<StaleCopy>, Error> {
    let _hold = location.hold()?;
    let (name, is_v3) = attribute_document(location)?;
    let key = location.key(name)?;
    let wrong =
        |source: MetadataError| Error::Metadata { object: key.clone(), source: Box::new(source) };
    for _ in 0..ATTEMPTS {
        let edit = match location.store.edit(&key) {
            Ok(edit) => Some(edit),
            // Version 2 attributes have a document of their own, which need not exist.
            Err(StoreError::NotFound { .. }) if !is_v3 => None,
            Err(error) => return Err(error.into()),
        };
        let text = match &edit {
            Some(edit) => edit.object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?.to_vec(),
            None => b"{}".to_vec(),
        };
        let Some(changed) = with_attributes(&text, is_v3, change).map_err(wrong)? else {
            return Ok(Vec::new());
        };
        let condition = edit.as_ref().map_or(Condition::Absent, |edit| edit.condition());
        match location.store.put(&key, &changed, condition) {
            Ok(_) => {
                drop(edit);
                return Ok(match is_v3 {
                    true => renew_consolidated_above(location),
                    false => renew_v2_copies(location),
                });
            }
            Err(StoreError::Conflict { .. } | StoreError::Changed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::MetadataChanged { at: location.to_string() })
}

/// The document that holds the attributes of a node, and whether it is a version 3 document.
fn attribute_document(location: &Location) -> Result<(&'static str, bool), Error> {
    Ok(match format_of(location)? {
        ZarrFormat::V3 => (DOCUMENT, true),
        ZarrFormat::V2 => (V2_ATTRIBUTES, false),
    })
}
