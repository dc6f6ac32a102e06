//! What says in the target that a copy is under way, so that the same copy goes on after a kill and another one does not.

use serde_json::{Value, json};
use shardine_store::{Condition, StoreError, StoreExt};

use super::keys::is_document;
use super::{CopyError, place};
use crate::{Error, Location};

/// The object at the root of a target that says what is being copied there, or was when the program was killed.
pub const COPY_MARKER: &str = ".shardine-copy.json";

/// A copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    /// What is copied, without secrets.
    source: String,
    /// Whether what was at the target before is still being removed.
    clearing: bool,
}

/// How a copy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// In an empty place.
    Fresh,
    /// Where an earlier run stopped: what is there was copied from the same source.
    Resumed,
    /// What is there has to go first.
    Clear,
}

impl Marker {
    fn to_json(&self) -> Value {
        json!({ "shardine_copy": 1, "source": self.source, "clearing": self.clearing })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        if json.get("shardine_copy")? != &json!(1) {
            return None;
        }
        Some(Self {
            source: json.get("source")?.as_str()?.to_owned(),
            clearing: json.get("clearing")?.as_bool()?,
        })
    }

    fn put(&self, target: &Location, condition: Condition) -> Result<(), Error> {
        let text = format!("{:#}\n", self.to_json());
        match target.store.put(&target.key(COPY_MARKER)?, text.as_bytes(), condition) {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => {
                Err(CopyError::JustBegun { at: target.to_string() }.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether there is a marker.
fn is_marked(location: &Location) -> Result<bool, Error> {
    Ok(location.store.get(&location.key(COPY_MARKER)?)?.is_some())
}

/// Marks the target, or finds that it is marked; refuses what is neither empty, nor ours, nor to be overwritten.
pub(super) fn begin(source: &Location, target: &Location, overwrite: bool) -> Result<Start, Error> {
    if is_marked(source)? {
        return Err(CopyError::UnfinishedSource { at: source.to_string() }.into());
    }
    let key = target.key(COPY_MARKER)?;
    let mut marker = Marker { source: place::name(source), clearing: false };
    let found = target.store.get(&key)?;
    if let Some(bytes) = &found
        && !overwrite
    {
        let Some(old) = Marker::parse(bytes) else {
            return Err(CopyError::Marker { marker: key }.into());
        };
        if old.source != marker.source {
            let at = target.to_string();
            return Err(CopyError::OtherCopy { at, from: old.source }.into());
        }
        return Ok(if old.clearing { Start::Clear } else { Start::Resumed });
    }
    let listing = target.store.list(target.path.as_ref())?;
    let empty = listing.objects.is_empty() && listing.folders.is_empty();
    if empty && !place::is_object(target) {
        marker.put(target, Condition::Absent)?;
        check_not_seen(source, target)?;
        return Ok(Start::Fresh);
    }
    if !overwrite {
        return Err(Error::Exists { at: target.to_string() });
    }
    // A wrong argument must not empty somebody's home.
    if found.is_none() && !listing.objects.iter().any(|(key, _)| is_document(key)) {
        return Err(CopyError::NotADataSet { at: target.to_string() }.into());
    }
    marker.clearing = true;
    marker.put(target, Condition::None)?;
    check_not_seen(source, target)?;
    Ok(Start::Clear)
}

/// Refuses a target that turns out to be the source under another name.
fn check_not_seen(source: &Location, target: &Location) -> Result<(), Error> {
    if !is_marked(source)? {
        return Ok(());
    }
    end(target)?;
    let (from, to) = (source.to_string(), target.to_string());
    Err(CopyError::Overlap { from, to }.into())
}

/// What was at the target is gone.
pub(super) fn cleared(source: &Location, target: &Location) -> Result<(), Error> {
    Marker { source: place::name(source), clearing: false }.put(target, Condition::None)
}

/// The copy is whole.
pub(super) fn end(target: &Location) -> Result<(), Error> {
    Ok(target.store.delete(&target.key(COPY_MARKER)?, &Condition::None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        let marker = Marker { source: "s3://b/\"x\"".to_owned(), clearing: true };
        assert_eq!(Marker::parse(marker.to_json().to_string().as_bytes()), Some(marker.clone()));
        for member in ["shardine_copy", "source", "clearing"] {
            let mut json = marker.to_json();
            json[member] = json!(7);
            assert_eq!(Marker::parse(json.to_string().as_bytes()), None, "{member}");
        }
        assert_eq!(Marker::parse(b"{"), None);
    }
}
