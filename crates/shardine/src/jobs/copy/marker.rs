//! What says in the target that a job is under way, so that the same one goes on after a kill and another one does not.

use serde_json::{Map, Value, json};
use shardine_store::{Condition, Key, LeftoverKind, StoreError, StoreExt};

use super::keys::is_document;
use super::{CopyError, place};
use crate::jobs::whole::check_removable;
use crate::{Error, Location};

/// The object at the root of a target that says what is being copied there, or was when the program was killed.
pub const COPY_MARKER: &str = ".shardine-copy.json";

/// What kind of job marks a target.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::jobs) struct JobKind {
    /// The name of its marker.
    pub marker: &'static str,
    /// The member that tells its marker from other documents.
    pub member: &'static str,
}

/// Copies.
pub(super) const COPY: JobKind = JobKind { marker: COPY_MARKER, member: "shardine_copy" };

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::jobs) struct Marker {
    kind: &'static JobKind,
    /// What it is made from, without secrets.
    source: String,
    /// What is asked for beside that.
    request: Value,
    /// Whether what was at the target before is still being removed.
    clearing: bool,
    /// What the parts of the source were when they were begun with, by their paths.
    begun: Map<String, Value>,
}

/// How a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) enum Start {
    /// In an empty place.
    Fresh,
    /// Where an earlier run stopped: what is there was made from the same source.
    Resumed,
    /// What is there has to go first.
    Clear,
}

impl Marker {
    /// The job of this kind on a source.
    pub fn new(kind: &'static JobKind, source: &Location, request: Value) -> Result<Self, Error> {
        let source = place::name(source)?;
        Ok(Self { kind, source, request, clearing: false, begun: Map::new() })
    }

    fn to_json(&self) -> Value {
        let mut json = json!({ "source": self.source, "clearing": self.clearing });
        json[self.kind.member] = json!(1);
        if !self.request.is_null() {
            json["request"] = self.request.clone();
        }
        if !self.begun.is_empty() {
            json["begun"] = Value::Object(self.begun.clone());
        }
        json
    }

    fn parse(kind: &'static JobKind, bytes: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        if json.get(kind.member)? != &json!(1) {
            return None;
        }
        Some(Self {
            kind,
            source: json.get("source")?.as_str()?.to_owned(),
            request: json.get("request").cloned().unwrap_or_default(),
            clearing: json.get("clearing")?.as_bool()?,
            begun: match json.get("begun") {
                None => Map::new(),
                Some(begun) => begun.as_object()?.clone(),
            },
        })
    }

    fn key(&self, location: &Location) -> Result<Key, Error> {
        location.key(self.kind.marker)
    }

    fn put(&self, target: &Location, condition: Condition) -> Result<(), Error> {
        let text = format!("{:#}\n", self.to_json());
        match target.store.put(&self.key(target)?, text.as_bytes(), condition) {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => {
                Err(CopyError::JustBegun { at: target.to_string() }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a place is marked.
    pub fn is_at(&self, location: &Location) -> Result<bool, Error> {
        Ok(location.store.get(&self.key(location)?)?.is_some())
    }

    /// Marks the target, or finds that it is marked; refuses what is neither empty, nor ours, nor to be overwritten.
    pub fn begin(
        &mut self,
        source: &Location,
        target: &Location,
        overwrite: bool,
    ) -> Result<Start, Error> {
        // A job that was killed may have left what is there without its name.
        crate::jobs::recover(target)?;
        if self.is_at(source)? {
            return Err(CopyError::UnfinishedSource { at: source.to_string() }.into());
        }
        let key = self.key(target)?;
        let found = target.store.get(&key)?;
        if let Some(bytes) = &found
            && !overwrite
        {
            let Some(old) = Self::parse(self.kind, bytes) else {
                return Err(CopyError::Marker { marker: key }.into());
            };
            if old.source != self.source || old.request != self.request {
                let (at, from) = (target.to_string(), old.source);
                let request = (!old.request.is_null()).then(|| old.request.to_string());
                return Err(CopyError::OtherCopy { at, from, request }.into());
            }
            if old.clearing {
                return Ok(Start::Clear);
            }
            self.begun = old.begun;
            return Ok(Start::Resumed);
        }
        let listing = target.store.list(target.path.as_ref())?;
        if listing.is_empty() && !place::is_object(target)? {
            // A run that was killed before it had said what it was has left nothing but its first file.
            for leftover in target.store.leftovers(target.path.as_ref())? {
                if leftover.kind == LeftoverKind::Temporary && !leftover.in_use {
                    target.store.remove_leftover(target.path.as_ref(), &leftover.name)?;
                }
            }
            self.put(target, Condition::Absent)?;
            self.check_not_seen(source, target)?;
            return Ok(Start::Fresh);
        }
        if !overwrite {
            return Err(Error::Exists { at: target.to_string() });
        }
        // A wrong argument must not empty somebody's home.
        if found.is_none() && !listing.objects.iter().any(|(key, _)| is_document(key)) {
            return Err(CopyError::NotADataSet { at: target.to_string() }.into());
        }
        check_removable(target)?;
        self.clearing = true;
        self.put(target, Condition::None)?;
        self.check_not_seen(source, target)?;
        Ok(Start::Clear)
    }

    /// Refuses a target that turns out to be the source under another name.
    fn check_not_seen(&self, source: &Location, target: &Location) -> Result<(), Error> {
        if !self.is_at(source)? {
            return Ok(());
        }
        self.end(target)?;
        let (from, to) = (source.to_string(), target.to_string());
        Err(CopyError::Overlap { from, to }.into())
    }

    /// What was at the target is gone.
    pub fn cleared(&mut self, target: &Location) -> Result<(), Error> {
        self.clearing = false;
        self.put(target, Condition::None)
    }

    /// Whether a part of the source is still what it was when an earlier run began with it.
    pub fn is_begun(&self, path: &str, state: u64) -> bool {
        self.begun.get(path).is_some_and(|begun| begun.as_u64() == Some(state))
    }

    /// A part of the source is begun with.
    pub fn begin_part(&mut self, target: &Location, path: &str, state: u64) -> Result<(), Error> {
        self.begun.insert(path.to_owned(), state.into());
        self.put(target, Condition::None)
    }

    /// The result is whole, and durable.
    pub fn end(&self, target: &Location) -> Result<(), Error> {
        Ok(target.store.delete_last(&self.key(target)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        let (source, request) = ("s3://b/\"x\"".to_owned(), Value::Null);
        let begun = Map::from_iter([("a/b".to_owned(), json!(u64::MAX))]);
        let marker = Marker { kind: &COPY, source, request, clearing: true, begun };
        assert!(marker.is_begun("a/b", u64::MAX));
        assert!(!marker.is_begun("a/b", 1) && !marker.is_begun("a", u64::MAX));
        let parse = |json: Value| Marker::parse(&COPY, json.to_string().as_bytes());
        assert_eq!(parse(marker.to_json()), Some(marker.clone()));
        let other = Marker { request: json!({ "shard": [1, 2] }), ..marker.clone() };
        assert_eq!(parse(other.to_json()), Some(other));
        for member in ["shardine_copy", "source", "clearing", "begun"] {
            let mut json = marker.to_json();
            json[member] = json!(7);
            assert_eq!(parse(json), None, "{member}");
        }
        assert_eq!(Marker::parse(&COPY, b"{"), None);
    }
}
