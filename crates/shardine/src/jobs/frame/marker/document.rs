//! The document that a marker is.

use serde_json::{Map, Value, json};
use shardine_store::{Condition, Key, MAX_SMALL_OBJECT, ReadRange, StoreError, StoreExt, Version};

use super::{Hold, JobKind, Marker};
use crate::jobs::frame::JobError;
use crate::jobs::frame::command::is_command;
use crate::jobs::frame::part::MOST as MOST_PARTS;
use crate::owner::Owner;
use crate::{Error, Location};

/// The member that names the command that began the job; only for messages.
const COMMAND: &str = "command";

/// The member that names the owner.
const OWNER: &str = "owner";

/// What changes while the job is under way.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct State {
    /// Whether the target's previous contents are still being removed.
    pub clearing: bool,
    /// The state of each part of the source when work on it began, by path.
    pub begun: Map<String, Value>,
    /// The number of parts; `None` for one process.
    pub parts: Option<u32>,
    /// Whether only the job's leftovers remain to be removed.
    pub finishing: bool,
    /// Distinguishes this job from earlier and later ones on the same target.
    pub id: String,
}

/// A marker as read from the target.
pub(super) struct StoredMarker {
    pub bytes: Vec<u8>,
    pub version: Option<Version>,
}

impl Marker {
    pub(super) fn to_json(&self) -> Value {
        let State { clearing, begun, parts, finishing, id } = &self.state;
        let mut json = json!({ "source": self.source, "clearing": clearing, "id": id });
        json[self.kind.member] = json!(1);
        if !self.request.is_null() {
            json["request"] = self.request.clone();
        }
        if let Some(command) = &self.command {
            json[COMMAND] = json!(command);
        }
        if !begun.is_empty() {
            json["begun"] = Value::Object(begun.clone());
        }
        if let Some(parts) = parts {
            json["parts"] = json!(parts);
        }
        if *finishing {
            json["finishing"] = json!(true);
        }
        if let Some(Hold::Owner { id, .. }) = &self.hold {
            json[OWNER] = Owner::here(id);
        }
        json
    }

    /// Source, request, state and owner of a marker; `None` if it is invalid.
    pub(super) fn parse(
        kind: &JobKind,
        bytes: &[u8],
    ) -> Option<(String, Value, State, Option<Owner>)> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        if json.get(kind.member)? != &json!(1) {
            return None;
        }
        let state = State {
            clearing: json.get("clearing")?.as_bool()?,
            begun: match json.get("begun") {
                None => Map::new(),
                Some(begun) => begun.as_object()?.clone(),
            },
            parts: match json.get("parts") {
                None => None,
                Some(parts) => {
                    let parts = u32::try_from(parts.as_u64()?).ok()?;
                    Some(Some(parts).filter(|parts| (1..=MOST_PARTS).contains(parts))?)
                }
            },
            id: json.get("id").and_then(Value::as_str).unwrap_or_default().to_owned(),
            finishing: json.get("finishing").is_some_and(|value| *value == json!(true)),
        };
        let source = json.get("source")?.as_str()?.to_owned();
        let request = json.get("request").cloned().unwrap_or_default();
        Some((source, request, state, json.get(OWNER).map(Owner::of)))
    }

    pub(super) fn key(&self, location: &Location) -> Result<Key, Error> {
        location.key(self.kind.marker)
    }

    pub(super) fn put(
        &mut self,
        target: &Location,
        condition: Condition,
    ) -> Result<(), StoreError> {
        let text = format!("{:#}\n", self.to_json());
        let key = match &target.path {
            Some(path) => path.join(self.kind.marker)?,
            None => Key::new(self.kind.marker)?,
        };
        self.version = Some(target.store.put(&key, text.as_bytes(), condition)?);
        Ok(())
    }

    /// Rewrites the marker with the current state, if this process still owns it.
    pub(super) fn renew(&mut self, target: &Location) -> Result<(), Error> {
        let condition = match (&self.hold, &self.version) {
            (Some(Hold::Owner { .. }), Some(version)) => Condition::Unchanged(version.clone()),
            _ => Condition::None,
        };
        match self.put(target, condition) {
            Err(StoreError::Conflict { .. }) => {
                Err(JobError::Busy { at: target.to_string() }.into())
            }
            put => Ok(put?),
        }
    }

    pub(super) fn find(&self, target: &Location) -> Result<Option<StoredMarker>, Error> {
        let key = self.key(target)?;
        let read = target.store.open(&key, None).and_then(|object| {
            let bytes = object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?.to_vec();
            Ok(StoredMarker { bytes, version: object.version() })
        });
        match read {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The command that a marker names.
pub(super) fn command_in(bytes: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(bytes).ok()?;
    json.get(COMMAND)?.as_str().filter(|command| is_command(command)).map(str::to_owned)
}
