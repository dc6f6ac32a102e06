//! The marker in a target that says a job is under way: the same command resumes it after a kill,
//! and a different one is refused.
//!
//! A process that writes a target alone owns it. On files the owner holds a lock, which dies with
//! its process. Elsewhere the marker names its owner, and only on the owner's machine can it be
//! checked whether it is still alive. Processes that share a job by parts own nothing: what they do
//! is the same in any order and any number of times. Each leaves a report when it has finished, and
//! the last one finishes the job.

use serde_json::{Map, Value, json};
use shardine_store::{
    Condition, FolderLock, Key, LeftoverKind, MAX_SMALL_OBJECT, ReadRange, StoreError, StoreExt,
    Version,
};

use super::command::is_command;
use super::part::MOST as MOST_PARTS;
use super::{JobError, Part, place};
use crate::dataset::is_document;
use crate::jobs::copy::CopyError;
use crate::jobs::whole::check_removable;
use crate::owner::Owner;
use crate::{Error, Location};

/// The lock file of a target on files.
const LOCK: &str = "job";

/// The marker's member that names the command that began the job; only for messages.
const COMMAND: &str = "command";

/// The marker's member that names its owner.
const OWNER: &str = "owner";

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

/// What changes while the job is under way.
#[derive(Debug, Clone, PartialEq, Default)]
struct State {
    /// Whether the target's previous contents are still being removed.
    clearing: bool,
    /// The state of each part of the source when work on it began, by path.
    begun: Map<String, Value>,
    /// The number of parts; `None` for one process.
    parts: Option<u32>,
    /// Whether only the job's leftovers remain to be removed.
    finishing: bool,
    /// Distinguishes this job from earlier and later ones on the same target.
    id: String,
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

/// What remains to be done when a part has finished its own tasks.
#[derive(Debug)]
pub(in crate::jobs) enum PartEnd {
    /// Nothing: another process has finished the job.
    Finished,
    /// Nothing yet: these parts have not finished.
    Waiting(Vec<u32>),
    /// All parts have finished and left these reports: this process finishes the job.
    Last(Vec<Value>),
}

/// A marker as read from the target.
struct StoredMarker {
    bytes: Vec<u8>,
    version: Option<Version>,
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

    fn to_json(&self) -> Value {
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
    fn parse(kind: &JobKind, bytes: &[u8]) -> Option<(String, Value, State, Option<Owner>)> {
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

    fn key(&self, location: &Location) -> Result<Key, Error> {
        location.key(self.kind.marker)
    }

    fn put(&mut self, target: &Location, condition: Condition) -> Result<(), StoreError> {
        let text = format!("{:#}\n", self.to_json());
        let key = match &target.path {
            Some(path) => path.join(self.kind.marker)?,
            None => Key::new(self.kind.marker)?,
        };
        self.version = Some(target.store.put(&key, text.as_bytes(), condition)?);
        Ok(())
    }

    /// Rewrites the marker with the current state, if this process still owns it.
    fn renew(&mut self, target: &Location) -> Result<(), Error> {
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

    fn find(&self, target: &Location) -> Result<Option<StoredMarker>, Error> {
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

    /// Withdraws the report of an earlier run of a part, which is now run again.
    pub fn remove_report(&self, target: &Location, part: Part) -> Result<(), Error> {
        let Part::Of { index, count } = part else { return Ok(()) };
        let key = target.key(&report_name(index, count))?;
        if target.store.get(&key)?.is_some() {
            target.store.delete(&key, &Condition::None)?;
        }
        Ok(())
    }

    /// Whether the job is still under way: its marker exists and says so.
    pub fn is_under_way(&self, target: &Location) -> Result<bool, Error> {
        let found = self.find(target)?;
        let state = found.and_then(|found| Self::parse(self.kind, &found.bytes));
        Ok(state.is_some_and(|(.., state, _)| state.id == self.state.id && !state.finishing))
    }

    /// Ends a part that has finished its own tasks: leaves its report, and returns what comes next.
    ///
    /// Several processes may find that they are the last; finishing the job is idempotent.
    pub fn end_part(
        &self,
        target: &Location,
        part: Part,
        report: &Value,
    ) -> Result<PartEnd, Error> {
        if !self.is_under_way(target)? {
            return Ok(PartEnd::Finished);
        }
        self.put_report(target, part, report)?;
        match self.reports(target)? {
            Ok(reports) => Ok(PartEnd::Last(reports)),
            Err(_) if !self.is_under_way(target)? => {
                self.remove_report(target, part)?;
                Ok(PartEnd::Finished)
            }
            Err(missing) if part == Part::Finish => {
                Err(JobError::PartsMissing { at: target.to_string(), missing }.into())
            }
            Err(missing) => Ok(PartEnd::Waiting(missing)),
        }
    }

    /// Writes the report of a part, for the process that finishes the job.
    fn put_report(&self, target: &Location, part: Part, report: &Value) -> Result<(), Error> {
        let Part::Of { index, count } = part else { return Ok(()) };
        let (part, job) = (part.to_string(), &self.state.id);
        let json = json!({ "shardine_part": part, "job": job, "report": report });
        let key = target.key(&report_name(index, count))?;
        target.store.put(&key, format!("{json:#}\n").as_bytes(), Condition::None)?;
        Ok(())
    }

    /// The reports of all parts, or the numbers of those that have not finished. One read each.
    fn reports(&self, target: &Location) -> Result<Result<Vec<Value>, Vec<u32>>, Error> {
        let count = self.state.parts.unwrap_or(0);
        let (mut reports, mut missing) = (Vec::new(), Vec::new());
        for index in 1..=count {
            let key = target.key(&report_name(index, count))?;
            let Some(bytes) = target.store.get(&key)? else {
                missing.push(index);
                continue;
            };
            let damaged = || JobError::Report { report: key.to_string() };
            let mut json: Value = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
            if json.get("job").and_then(Value::as_str) != Some(&self.state.id) {
                // From another job that was here before.
                missing.push(index);
                continue;
            }
            reports.push(json.get_mut("report").ok_or_else(damaged)?.take());
        }
        Ok(if missing.is_empty() { Ok(reports) } else { Err(missing) })
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

/// The command that a marker names.
fn command_in(bytes: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(bytes).ok()?;
    json.get(COMMAND)?.as_str().filter(|command| is_command(command)).map(str::to_owned)
}

/// The name of a part's report.
fn report_name(index: u32, count: u32) -> String {
    format!(".shardine-part-{index}-of-{count}.json")
}

/// Whether a name is that of a part's report.
pub(in crate::jobs) fn is_report(name: &str) -> bool {
    let rest = name.strip_prefix(".shardine-part-").and_then(|rest| rest.strip_suffix(".json"));
    let numbers = rest.and_then(|rest| rest.split_once("-of-"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(index, count)| is_number(index) && is_number(count))
}

/// Removes temporary files of processes that are gone, in a place and all folders below it. A
/// listing for each folder; nothing for a store without folders.
pub(in crate::jobs) fn remove_leftovers_below(target: &Location) -> Result<(), Error> {
    if !target.store.has_folders() {
        return Ok(());
    }
    let mut folders = vec![target.path.clone()];
    while let Some(folder) = folders.pop() {
        remove_leftovers(target, folder.as_ref())?;
        folders.extend(target.store.list(folder.as_ref())?.folders.into_iter().map(Some));
    }
    Ok(())
}

/// Removes temporary files of dead processes.
pub(in crate::jobs) fn remove_leftovers(
    target: &Location,
    folder: Option<&Key>,
) -> Result<(), Error> {
    for leftover in target.store.leftovers(folder)? {
        if leftover.kind == LeftoverKind::Temporary && !leftover.in_use {
            target.store.remove_leftover(folder, &leftover.name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: JobKind = JobKind { marker: ".shardine-copy.json", member: "shardine_copy" };

    fn marker(request: Value) -> Marker {
        let begun = Map::from_iter([("a/b".to_owned(), json!(u64::MAX))]);
        let id = "1".to_owned();
        let state = State { clearing: true, begun, parts: Some(4), finishing: true, id };
        let source = "s3://b/\"x\"".to_owned();
        let command = Some("shardine copy a b".to_owned());
        let (hold, resumed, version) = (None, false, None);
        Marker { kind: &COPY, source, request, command, state, hold, resumed, version }
    }

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        let parse = |json: Value| Marker::parse(&COPY, json.to_string().as_bytes());
        for request in [Value::Null, json!({ "shard": [1, 2] })] {
            let marker = marker(request);
            assert!(marker.is_begun("a/b", u64::MAX));
            assert!(!marker.is_begun("a/b", 1) && !marker.is_begun("a", u64::MAX));
            let (source, request, state, owner) = parse(marker.to_json()).unwrap();
            assert_eq!(
                (&source, &request, &state),
                (&marker.source, &marker.request, &marker.state)
            );
            assert!(owner.is_none());
            let text = marker.to_json().to_string();
            assert_eq!(command_in(text.as_bytes()), marker.command);
            for member in ["shardine_copy", "source", "clearing", "begun", "parts"] {
                let mut json = marker.to_json();
                json[member] = json!("x");
                assert_eq!(parse(json).is_some(), member == "source", "{member}");
            }
        }
        assert!(Marker::parse(&COPY, b"{").is_none());
    }

    #[test]
    fn reports_of_parts_are_known_by_their_names() {
        assert!(is_report(&report_name(3, 16)));
        for name in ["", ".shardine-part-.json", ".shardine-part-1-of-.json", "part-1-of-2.json"] {
            assert!(!is_report(name), "{name}");
        }
    }
}
