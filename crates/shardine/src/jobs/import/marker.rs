//! What says that a file is being converted, so that the same job resumes after a kill and another
//! one is refused.

use std::sync::Arc;

use serde_json::{Value, json};
use shardine_store::{Condition, StoreError, StoreExt};

use super::ImportError;
use crate::files::FoundFile;
use crate::jobs::recover;
use crate::plan::ArrayLayoutError;
use crate::zarr::CONVERT_MARKER as NAME;
use crate::zarr::metadata::{ArrayMetadata, MetadataError};
use crate::{ArrayNode, Engine, Error, Location, Node};

/// A conversion of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    /// The file; `None` is a stream, which cannot be read again.
    source: Option<Value>,
    cast: bool,
    /// The metadata of the array that is made.
    document: Value,
}

/// How a conversion begins.
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
pub enum Start {
    /// In an empty place, or one that has to be emptied.
    Fresh,
    /// Where an earlier run stopped: all objects of the array are what this one would write.
    Resumed(ArrayNode),
}

impl Marker {
    /// Of a file, as it was found, that becomes an array.
    pub fn new(
        found: Option<FoundFile>,
        cast: bool,
        metadata: &ArrayMetadata,
    ) -> Result<Self, ArrayLayoutError> {
        let source = found.map(|found| json!(found));
        let document = serde_json::from_slice(&metadata.to_bytes())
            .map_err(|error| Box::new(MetadataError::NotJson { reason: error.to_string() }))?;
        Ok(Self { source, cast, document })
    }

    fn to_json(&self, clearing: bool) -> Value {
        json!({
            "shardine_convert": 1,
            "source": self.source,
            "cast": self.cast,
            "document": self.document,
            "clearing": clearing,
        })
    }

    /// The marker, and whether what was there before was still being removed.
    fn parse(bytes: &[u8]) -> Option<(Self, bool)> {
        let mut json: Value = serde_json::from_slice(bytes).ok()?;
        if json.get("shardine_convert")? != &json!(1) {
            return None;
        }
        let source = Some(json.get_mut("source")?.take()).filter(|source| !source.is_null());
        let (cast, clearing) = (json.get("cast")?.as_bool()?, json.get("clearing")?.as_bool()?);
        let document = json.get_mut("document")?.take();
        Some((Self { source, cast, document }, clearing))
    }

    fn put(&self, location: &Location, clearing: bool, condition: Condition) -> Result<(), Error> {
        let text = format!("{:#}\n", self.to_json(clearing));
        let key = location.key(NAME)?;
        match location.store.put(&key, text.as_bytes(), condition) {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => {
                Err(ImportError::Begun { at: location.to_string() }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Marks the target, or finds that it is marked; refuses what is neither empty, nor ours, nor
    /// to be overwritten.
    pub fn begin(
        &self,
        location: &Location,
        engine: &Arc<Engine>,
        overwrite: bool,
    ) -> Result<Start, Error> {
        // A job that was killed may have left what is there without its name.
        recover(location)?;
        let found = location.store.get(&location.key(NAME)?)?;
        if let Some(bytes) = &found
            && !overwrite
        {
            let Some((old, clearing)) = Self::parse(bytes) else {
                return Err(ImportError::DamagedMarker { at: location.to_string() }.into());
            };
            if old != *self || self.source.is_none() {
                return Err(other(&old, self, location).into());
            }
            return Ok(match ArrayNode::open(engine, location) {
                // Between the marker and the metadata there may have been nothing but the old
                // array, or nothing.
                Ok(array) if !clearing => Start::Resumed(array),
                Ok(_) | Err(Error::NoNode { .. }) => Start::Fresh,
                Err(error) => return Err(error),
            });
        }
        let listing = location.store.list(location.path.as_ref())?;
        let empty = listing.is_empty();
        if !empty && !overwrite {
            return Err(Error::Exists { at: location.to_string() });
        }
        if !empty {
            match Node::open(engine, location) {
                Ok(Node::Group(_)) => {
                    return Err(Error::GroupExists { at: location.to_string() });
                }
                // A wrong argument must not be taken for something to replace.
                Err(Error::NoNode { .. }) if found.is_none() => {
                    return Err(ImportError::NotEmpty { at: location.to_string() }.into());
                }
                _ => {}
            }
        }
        let condition = if found.is_some() { Condition::None } else { Condition::Absent };
        self.put(location, true, condition)?;
        Ok(Start::Fresh)
    }

    /// What was at the target is gone, and the new metadata there.
    pub fn cleared(&self, location: &Location) -> Result<(), Error> {
        self.put(location, false, Condition::None)
    }
}

fn other(old: &Marker, new: &Marker, location: &Location) -> ImportError {
    let at = location.to_string();
    let Some(source) = &old.source else {
        return ImportError::LeftByStream { at };
    };
    let name = source.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let same = new.source.as_ref().and_then(|source| source.get("name")) == source.get("name");
    match same {
        true => ImportError::OtherOptions { at, name },
        false => ImportError::OtherFile { at, name },
    }
}

/// The array is whole.
pub fn end(location: &Location) -> Result<(), Error> {
    Ok(location.store.delete_last(&location.key(NAME)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        for source in [None, Some(json!({ "name": "a b.npy", "bytes": u64::MAX }))] {
            let marker = Marker { source, cast: true, document: json!({ "shape": [1] }) };
            let bytes = marker.to_json(true).to_string();
            assert_eq!(Marker::parse(bytes.as_bytes()), Some((marker.clone(), true)));
            for member in ["shardine_convert", "cast", "clearing"] {
                let mut json = marker.to_json(false);
                json[member] = json!("x");
                assert_eq!(Marker::parse(json.to_string().as_bytes()), None, "{member}");
            }
        }
        assert_eq!(Marker::parse(b"{"), None);
    }
}
