//! The marker in a target that says a job is under way: the same command resumes it after a kill,
//! and a different one is refused.
//!
//! A process that writes a target alone owns it. On files the owner holds a lock, which dies with
//! its process. Elsewhere the marker names its owner, and only on the owner's machine can it be
//! checked whether it is still alive. Processes that share a job by parts own nothing: what they do
//! is the same in any order and any number of times. Each leaves a report when it has finished, and
//! the last one finishes the job.

mod document;
mod leftovers;
mod reports;
#[cfg(test)]
mod tests;

use serde_json::Value;
use shardine_store::{Condition, FolderLock, StoreError, StoreExt, Version};

use super::{JobError, Part, place};
use crate::dataset::is_document;
use crate::jobs::copy::CopyError;
use crate::jobs::whole::check_removable;
use crate::owner::Owner;
use crate::{Error, Location};
use document::{State, StoredMarker, command_in};
use reports::report_name;

pub(in crate::jobs) use leftovers::{remove_leftovers, remove_leftovers_below};
pub(in crate::jobs) use reports::{PartEnd, is_report};

/// The lock file of a target on files.
const LOCK: &str = "job";

/// Attempts to begin on a target whose marker other processes keep changing.
const ATTEMPTS: usize = 16;

/// A kind of job that marks its target.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::jobs) struct JobKind {
    /// The name of its marker.
    pub marker: &'static str,
    /// The member that distinguishes its marker from other documents.
    pub member: &'static str,
}

/// How a job begins on its target.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::jobs) struct Beginning {
    /// Remove the data set at the target.
    pub overwrite: bool,
    /// Assume that the process that owns the target is dead.
    pub take_over: bool,
    /// Which part of the job this process does.
    pub part: Option<Part>,
    /// The target is a data set that stays, and gets something added. The caller checks that nothing
    /// is in the way, and that it is not there already.
    pub within: bool,
}

/// A job on a target.
#[derive(Debug)]
pub(in crate::jobs) struct Marker {
    kind: &'static JobKind,
    /// What the target is made from, without secrets.
    source: String,
    /// What else was requested.
    request: Value,
    /// By which command it was begun.
    command: Option<String>,
    state: State,
    hold: Option<Hold>,
    /// Whether an earlier run, or another part, has been here.
    resumed: bool,
    /// The version of the marker as this process wrote it.
    version: Option<Version>,
}

#[derive(Debug)]
enum Hold {
    Lock { _lock: FolderLock },
    Owner { id: String, target: Location },
}

/// How a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) enum Start {
    /// In an empty location.
    Fresh,
    /// Where an earlier run stopped: the target's contents were made from the same source.
    Resumed,
    /// The target's contents have to be removed first.
    Clear,
    /// A data set is there already. Only for parts: another one may have finished the job.
    Exists,
}

impl Marker {
    /// A job of this kind on a data set.
    pub fn new(kind: &'static JobKind, source: &Location, request: Value) -> Result<Self, Error> {
        Ok(Self::of_named(kind, place::name(source)?, request))
    }

    /// A job of this kind on a source with this name, which is the same in every run and holds no
    /// secrets.
    pub fn of_named(kind: &'static JobKind, source: String, request: Value) -> Self {
        let state = State { id: Owner::fresh_id(), ..State::default() };
        let (command, hold, resumed, version) = (None, None, false, None);
        Self { kind, source, request, command, state, hold, resumed, version }
    }

    /// Begun by this command.
    pub fn begun_by(mut self, command: Option<&str>) -> Self {
        self.command = command.map(str::to_owned);
        self
    }

    /// What the target is made from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a location is marked.
    pub fn is_at(&self, location: &Location) -> Result<bool, Error> {
        Ok(location.store.get(&self.key(location)?)?.is_some())
    }

    /// Marks the target, or finds it marked; refuses one that is neither empty, nor ours, nor to be
    /// overwritten, nor free. `source` must not be the target, nor itself unfinished.
    pub fn begin(
        &mut self,
        source: Option<&Location>,
        target: &Location,
        how: Beginning,
    ) -> Result<Start, Error> {
        self.state.parts = match how.part {
            Some(Part::Of { count, .. }) => Some(count),
            Some(Part::Finish) | None => None,
        };
        for _ in 0..ATTEMPTS {
            // A killed job may have left the data set there without its name.
            crate::jobs::recover(target)?;
            if let Some(source) = source
                && self.is_at(source)?
            {
                return Err(CopyError::UnfinishedSource { at: source.to_string() }.into());
            }
            let begun = match self.find(target)? {
                Some(found) if how.overwrite => self.seize(target, &found, how)?,
                Some(found) => self.resume(target, &found, how)?,
                None => self.start(source, target, how)?,
            };
            if let Some(start) = begun {
                return Ok(start);
            }
        }
        Err(CopyError::JustBegun { at: target.to_string() }.into())
    }

    /// Resumes where an earlier run stopped, or joins other parts. `None` if another process has
    /// changed the marker meanwhile.
    fn resume(
        &mut self,
        target: &Location,
        found: &StoredMarker,
        how: Beginning,
    ) -> Result<Option<Start>, Error> {
        let at = || target.to_string();
        let Some((source, request, state, owner)) = Self::parse(self.kind, &found.bytes) else {
            return Err(CopyError::Marker { marker: self.key(target)? }.into());
        };
        let other = |source, request: &Value| -> Error {
            let request = (!request.is_null()).then(|| request.to_string());
            let command = command_in(&found.bytes);
            CopyError::OtherCopy { at: at(), from: source, request, command }.into()
        };
        if source != self.source {
            return Err(other(source, &request));
        }
        let same = match how.part {
            Some(Part::Finish) => state.parts.is_some(),
            _ => state.parts == self.state.parts,
        };
        if !same {
            return Err(JobError::OtherParts { at: at(), parts: state.parts }.into());
        }
        if request != self.request {
            return Err(other(source, &request));
        }
        self.state = state;
        self.resumed = true;
        if how.part.is_none() && !self.claim(target, Some(found), owner, how)? {
            return Ok(None);
        }
        Ok(Some(if self.state.clearing { Start::Clear } else { Start::Resumed }))
    }

    /// Takes over a target that another job has marked.
    fn seize(
        &mut self,
        target: &Location,
        found: &StoredMarker,
        how: Beginning,
    ) -> Result<Option<Start>, Error> {
        let owner = Self::parse(self.kind, &found.bytes).and_then(|(.., owner)| owner);
        if !how.within {
            check_removable(target)?;
        }
        self.state.clearing = true;
        if !self.claim(target, Some(found), owner, how)? {
            return Ok(None);
        }
        self.put(target, Condition::None)?;
        Ok(Some(Start::Clear))
    }

    /// Begins in a location without a marker.
    fn start(
        &mut self,
        source: Option<&Location>,
        target: &Location,
        how: Beginning,
    ) -> Result<Option<Start>, Error> {
        if how.part == Some(Part::Finish) {
            return match how.within || target.store.list(target.path.as_ref())?.is_empty() {
                true => Err(JobError::NothingBegun { at: target.to_string() }.into()),
                false if self.is_at(target)? => Ok(None),
                false => Ok(Some(Start::Exists)),
            };
        }
        let listing = target.store.list(target.path.as_ref())?;
        let empty = how.within || listing.is_empty() && !place::is_object(target)?;
        if !empty && self.is_at(target)? {
            // Another process has begun since the marker was looked for.
            return Ok(None);
        }
        if empty {
            // A run killed before it wrote its marker leaves only its first file.
            remove_leftovers(target, target.path.as_ref())?;
        } else if how.part.is_some() {
            return Ok(Some(Start::Exists));
        } else if !how.overwrite {
            // A run killed after it removed its marker leaves the file of its lock. If that cannot
            // be removed, the answer is the same.
            let _ = remove_leftovers(target, target.path.as_ref());
            return Err(Error::Exists { at: target.to_string() });
        } else if !listing.objects.iter().any(|(key, _)| is_document(key)) {
            // A wrong argument must not empty someone's home directory.
            return Err(CopyError::NotADataSet { at: target.to_string() }.into());
        } else {
            check_removable(target)?;
            self.state.clearing = true;
        }
        if how.part.is_some() {
            match self.put(target, Condition::Absent) {
                // Another part began at the same time.
                Err(StoreError::Conflict { .. }) => return Ok(None),
                put => put?,
            }
        } else if !self.claim(target, None, None, how)? {
            return Err(CopyError::JustBegun { at: target.to_string() }.into());
        }
        if let Some(source) = source {
            self.check_not_seen(source, target)?;
        }
        Ok(Some(if empty { Start::Fresh } else { Start::Clear }))
    }

    /// Takes ownership of the target and puts the marker there. `false` if another process has
    /// changed the marker meanwhile.
    fn claim(
        &mut self,
        target: &Location,
        found: Option<&StoredMarker>,
        owner: Option<Owner>,
        how: Beginning,
    ) -> Result<bool, Error> {
        let at = || target.to_string();
        if let Some(owner) = owner
            && !how.take_over
            && !owner.is_dead()
        {
            // On this machine, an owner that is not dead is alive.
            return Err(match owner.is_of_this_system() {
                true => JobError::Busy { at: at() },
                false => JobError::Owned { at: at(), owner: owner.shown },
            }
            .into());
        }
        if let Some(exchange) = target.store.exchange() {
            if found.is_none() {
                // Creates the folder that the lock lies in.
                match self.put(target, Condition::Absent) {
                    Err(StoreError::Conflict { .. }) => return Ok(false),
                    put => put?,
                }
            }
            match exchange.lock_in(target.path.as_ref(), LOCK) {
                Ok(Some(lock)) => {
                    self.hold = Some(Hold::Lock { _lock: lock });
                    // The previous holder may have finished the job.
                    let now = self.find(target)?;
                    let same =
                        |found: &StoredMarker| now.as_ref().is_some_and(|n| n.bytes == found.bytes);
                    let unchanged = found.map_or(now.is_some(), same);
                    if !unchanged {
                        self.hold = None;
                    }
                    return Ok(unchanged);
                }
                Ok(None) => return Err(JobError::Busy { at: at() }.into()),
                Err(StoreError::Unsupported { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let now = self.find(target)?;
        let condition = match (found, now.and_then(|now| now.version)) {
            (None, None) => Condition::Absent,
            (None, Some(version)) => Condition::Unchanged(version),
            (Some(StoredMarker { version: Some(version), .. }), _) => {
                Condition::Unchanged(version.clone())
            }
            (Some(_), _) => Condition::None,
        };
        self.hold = Some(Hold::Owner { id: Owner::claim(), target: target.clone() });
        match self.put(target, condition) {
            Ok(()) => Ok(true),
            Err(error) => {
                // Nothing was written, so there is nothing to undo.
                if let Some(Hold::Owner { id, .. }) = self.hold.take() {
                    Owner::release(&id);
                }
                match error {
                    StoreError::Conflict { .. } => Ok(false),
                    error => Err(error.into()),
                }
            }
        }
    }

    /// Refuses a target that turns out to be the source under another name.
    fn check_not_seen(&mut self, source: &Location, target: &Location) -> Result<(), Error> {
        if !self.is_at(source)? {
            return Ok(());
        }
        self.remove(target)?;
        let (from, to) = (source.to_string(), target.to_string());
        Err(CopyError::Overlap { from, to }.into())
    }

    /// Records that the target's previous contents are removed.
    pub fn cleared(&mut self, target: &Location) -> Result<(), Error> {
        self.state.clearing = false;
        self.renew(target)
    }

    /// Whether a part of the source is still as it was when an earlier run began on it.
    pub fn is_begun(&self, path: &str, state: u64) -> bool {
        self.begun(path) == Some(state)
    }

    /// The state of a part of the source when an earlier run, or another process, began on it.
    pub fn begun(&self, path: &str) -> Option<u64> {
        self.state.begun.get(path).and_then(Value::as_u64)
    }

    /// Sets the expected state of a part of the source before the job begins. A state recorded by
    /// an earlier run takes precedence.
    pub fn expect_source(&mut self, path: &str, state: u64) {
        self.state.begun.insert(path.to_owned(), state.into());
    }

    /// Records the states of parts of the source as work on them begins again.
    pub fn record_sources<'p>(
        &mut self,
        target: &Location,
        states: impl IntoIterator<Item = (&'p str, u64)>,
    ) -> Result<(), Error> {
        let states = states.into_iter().map(|(path, state)| (path.to_owned(), state.into()));
        self.state.begun.extend(states);
        self.renew(target)
    }

    /// Whether the result is complete, and only the job's leftovers are still there.
    pub fn is_finishing(&self) -> bool {
        self.state.finishing
    }

    /// Ends the job once the result is complete and durable: removes the job's leftovers, the
    /// marker last.
    pub fn end(mut self, target: &Location) -> Result<(), Error> {
        if self.resumed || self.state.parts.is_some() {
            // Killed processes leave temporary files. The result is complete in any case, and
            // `verify` reports what could not be removed.
            let _ = remove_leftovers_below(target);
        }
        if let Some(count) = self.state.parts {
            if !self.state.finishing {
                self.state.finishing = true;
                // Another process may have finished the job, and the marker must not come back.
                let Some(StoredMarker { version, .. }) = self.find(target)? else { return Ok(()) };
                let condition = version.map_or(Condition::None, Condition::Unchanged);
                match self.put(target, condition) {
                    Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {}
                    put => put?,
                }
            }
            for index in 1..=count {
                let key = target.key(&report_name(index, count))?;
                target.store.delete(&key, &Condition::None)?;
            }
        }
        self.remove(target)
    }

    /// Gives a job up that has written nothing yet, and that no other process shares.
    pub fn withdraw(mut self, target: &Location) -> Result<(), Error> {
        self.remove(target)
    }

    fn remove(&mut self, target: &Location) -> Result<(), Error> {
        target.store.delete_last(&self.key(target)?)?;
        if let Some(Hold::Owner { id, .. }) = self.hold.take() {
            Owner::release(&id);
        }
        Ok(())
    }
}

impl Drop for Marker {
    /// If the job has not ended, the marker stays for the run that resumes it, but no longer needs
    /// an owner.
    fn drop(&mut self) {
        let Some(Hold::Owner { id, target }) = self.hold.take() else { return };
        Owner::release(&id);
        let ours = |found: StoredMarker| {
            let owner = Self::parse(self.kind, &found.bytes).and_then(|(.., owner)| owner);
            owner.is_some_and(|owner| owner.id == id)
        };
        // If this fails there is no one to report to, and on this machine a claim is granted
        // anyway, as this process no longer holds one.
        if let Ok(Some(found)) = self.find(&target)
            && let Some(version) = found.version.clone()
            && ours(found)
        {
            let _ = self.put(&target, Condition::Unchanged(version));
        }
    }
}
