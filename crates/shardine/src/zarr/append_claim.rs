//! Who may write beyond the end of an array.
//!
//! Two appends would write to the same places, and the second to commit would overwrite what the
//! first one committed. So an append claims the end of the array before it writes a byte there. On
//! files the claim is a lock, which dies with its process. Elsewhere it is an object with the name
//! of its owner, created on the condition that there is none; whether the owner is still alive can
//! only be determined on the machine where it runs.

use serde_json::{Map, Value, json};
use shardine_store::{Condition, FolderLock, ReadRange, StoreError, StoreExt, Version};

use super::{APPEND_MARKER, ArrayNode};
use crate::owner::Owner;
use crate::{Error, Location};

/// The name of the lock of a file store.
const LOCK: &str = "append";

/// The member of the marker that names its owner.
const OWNER: &str = "owner";

/// The member that identifies a marker.
const MARKER: &str = "shardine_append";

/// What an unfinished append has left for the one that resumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendNote {
    /// What was passed to [`AppendClaim::set_note`].
    Members(Map<String, Value>),
    /// Something that no append has written.
    Damaged(Vec<u8>),
}

/// A claim on the end of an array, held by one append at a time.
///
/// Nobody else gets it while this lives, in this process or another. On files the claim ends with
/// its process, however that ends. In other stores, and on file systems without locks, it is an
/// object, [`APPEND_MARKER`](super::APPEND_MARKER), which a killed process leaves behind: then the
/// next claim is granted if it is made on the same machine, where the process can be seen to be
/// gone, or if the caller says so.
#[derive(Debug)]
pub struct AppendClaim {
    location: Location,
    hold: Hold,
    note: Option<AppendNote>,
    /// Whether the marker object may exist.
    marked: bool,
    /// Whether the claim was given back.
    released: bool,
}

#[derive(Debug)]
enum Hold {
    Lock(FolderLock),
    Marker { id: String },
}

impl AppendClaim {
    /// Claims the end of an array.
    ///
    /// [`Error::AppendUnderWay`] if another append has it, [`Error::AppendOwned`] if it cannot be
    /// determined whether the owner is still alive. Open the array after this: the previous append
    /// may have grown it since it was opened. Costs a lock, or a read and a conditional write.
    pub fn take(array: &ArrayNode) -> Result<Self, Error> {
        Self::claim(array, false)
    }

    /// Claims the end of an array, assuming that an append of unknown state is dead. See
    /// [`take`](Self::take).
    pub fn take_over(array: &ArrayNode) -> Result<Self, Error> {
        Self::claim(array, true)
    }

    pub(crate) fn claim(array: &ArrayNode, take_over: bool) -> Result<Self, Error> {
        array.check_changeable()?;
        Self::at(array.location(), take_over)
    }

    /// Claims the end of the array at a location.
    pub(crate) fn at(location: &Location, take_over: bool) -> Result<Self, Error> {
        let location = location.clone();
        let lock = match location.store.exchange() {
            None => None,
            Some(exchange) => match exchange.lock_in(location.path.as_ref(), LOCK) {
                Ok(Some(lock)) => Some(lock),
                Ok(None) => return Err(Error::AppendUnderWay { at: location.to_string() }),
                Err(StoreError::Unsupported { .. }) => None,
                Err(error) => return Err(error.into()),
            },
        };
        let (found, version) = read(&location)?;
        let note = found.as_ref().and_then(|found| found.note.clone());
        let found_any = found.is_some();
        if let Some(owner) = found.and_then(|found| found.owner)
            && !take_over
            && !owner.is_dead()
        {
            let at = location.to_string();
            // A process that is visible from here and not known to be dead is alive.
            return Err(match owner.is_of_this_system() {
                true => Error::AppendUnderWay { at },
                false => Error::AppendOwned { at, owner: owner.shown },
            });
        }
        if let Some(lock) = lock {
            let hold = Hold::Lock(lock);
            return Ok(Self { location, hold, note, marked: found_any, released: false });
        }
        let id = Owner::claim();
        // From here on, dropping it releases the id again.
        let hold = Hold::Marker { id };
        let claim = Self { location: location.clone(), hold, note, marked: true, released: false };
        let condition = match (found_any, version) {
            (false, _) => Condition::Absent,
            (true, Some(version)) => Condition::Unchanged(version),
            (true, None) => {
                claim.forget();
                let key = location.key(APPEND_MARKER)?;
                return Err(StoreError::Changed { key }.into());
            }
        };
        match claim.put(true, condition) {
            Ok(()) => Ok(claim),
            Err(Error::Store(StoreError::Conflict { .. })) => {
                let at = claim.location.to_string();
                claim.forget();
                Err(Error::AppendUnderWay { at })
            }
            Err(error) => {
                claim.forget();
                Err(error)
            }
        }
    }

    /// What an unfinished append has left, or what this one would leave.
    pub fn note(&self) -> Option<&AppendNote> {
        self.note.as_ref()
    }

    /// Sets what is left behind if this append does not finish: durable when this returns. `None`
    /// removes it.
    pub fn set_note(&mut self, note: Option<Map<String, Value>>) -> Result<(), Error> {
        self.check()?;
        self.note = note.map(AppendNote::Members);
        self.marked = true;
        self.put(matches!(self.hold, Hold::Marker { .. }), Condition::None)
    }

    /// An error if the claim was taken over, or the array was replaced. A `stat`, or a read.
    pub(super) fn check(&self) -> Result<(), Error> {
        let held = match &self.hold {
            Hold::Lock(lock) => lock.is_held()?,
            Hold::Marker { id } => {
                let (found, _) = read(&self.location)?;
                found.and_then(|found| found.owner).is_some_and(|owner| owner.id == *id)
            }
        };
        match held {
            true => Ok(()),
            false => Err(Error::AppendLost { at: self.location.to_string() }),
        }
    }

    /// The append is complete: gives the claim back and leaves nothing behind.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.released = true;
        self.note = None;
        if self.marked {
            self.check()?;
            self.put(false, Condition::None)?;
        }
        Ok(())
    }

    /// Whether it is the claim of the array at this location.
    pub(super) fn is_of(&self, location: &Location) -> bool {
        self.location.path == location.path
            && self.location.store.identity() == location.store.identity()
    }

    /// Writes the marker object, or removes it if there is nothing to record.
    fn put(&self, owned: bool, condition: Condition) -> Result<(), Error> {
        let Self { location, hold, note, .. } = self;
        let key = location.key(APPEND_MARKER)?;
        let mut members = match note {
            Some(AppendNote::Damaged(bytes)) if !owned => {
                location.store.put(&key, bytes, condition)?;
                return Ok(());
            }
            Some(AppendNote::Members(members)) => members.clone(),
            Some(AppendNote::Damaged(_)) | None => Map::new(),
        };
        if members.is_empty() && !owned {
            return Ok(location.store.delete(&key, &condition)?);
        }
        members.insert(MARKER.to_owned(), json!(1));
        if let (true, Hold::Marker { id }) = (owned, hold) {
            members.insert(OWNER.to_owned(), Owner::here(id));
        }
        let text = format!("{:#}\n", Value::Object(members));
        location.store.put(&key, text.as_bytes(), condition)?;
        Ok(())
    }

    /// Drops a claim that was never obtained.
    fn forget(mut self) {
        self.released = true;
    }
}

impl Drop for AppendClaim {
    fn drop(&mut self) {
        if let Hold::Marker { id } = &self.hold {
            Owner::release(id);
            // What an append has left for resuming stays. A failure cannot be reported here, but
            // the next claim is granted all the same, as this one's id is no longer live.
            let ours = || {
                matches!(read(&self.location), Ok((Some(found), _))
                if found.owner.as_ref().is_some_and(|owner| owner.id == *id))
            };
            if !self.released && ours() {
                let _ = self.put(false, Condition::None);
            }
        }
    }
}

/// The contents of the marker.
struct StoredClaim {
    note: Option<AppendNote>,
    owner: Option<Owner>,
}

fn read(location: &Location) -> Result<(Option<StoredClaim>, Option<Version>), Error> {
    let key = location.key(APPEND_MARKER)?;
    let read = location.store.open(&key, None).and_then(|object| {
        let bytes = object.read(ReadRange::All)?;
        Ok((bytes, object.version()))
    });
    let (bytes, version) = match read {
        Ok(read) => read,
        Err(StoreError::NotFound { .. }) => return Ok((None, None)),
        Err(error) => return Err(error.into()),
    };
    let found = match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut members)) if members.get(MARKER) == Some(&json!(1)) => {
            let owner = members.remove(OWNER).map(|owner| Owner::of(&owner));
            members.remove(MARKER);
            let note = (!members.is_empty()).then_some(AppendNote::Members(members));
            StoredClaim { note, owner }
        }
        _ => StoredClaim { note: Some(AppendNote::Damaged(bytes.to_vec())), owner: None },
    };
    Ok((Some(found), version))
}
