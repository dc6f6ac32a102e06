//! Several documents of a hierarchy on files that change in one step.
//!
//! Each document becomes a link that passes through one other link, `current`, which leads first to
//! the old documents and then to the new ones. Replacing `current` changes all of them; before and
//! after that every name leads to the same contents as the file that it had or will have. Then the
//! links are replaced by files. Chunks are not touched, whatever their number.
//!
//! Everything happens in a folder inside the hierarchy's own, named as the job on its root document
//! (`.shardine-zarr.json.job`): the hierarchy can be moved meanwhile, and nothing beside it is
//! needed. `job.json` says which documents may be links, `before` and `after` hold their contents.
//! Whatever state a killed process left, it is enough to replace each link by what it leads to.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shardine_store::{
    Condition, CreateOptions, Edit, FileStore, FolderAlone, FolderHold, JobLock, Key,
    MAX_SMALL_OBJECT, Modes, ReadRange, Staged, Store, StoreError, StoreExt,
};

use super::command::is_command;
use super::{JobContext, JobError};
use crate::jobs::copy::keys::parent;
use crate::jobs::rebuild::Settled;
use crate::zarr::DOCUMENT;
use crate::{Error, Location};

/// Documents that are written, and locked, together.
const BATCH: usize = 128;

/// Attempts to replace links by files, in a file system without locks.
const ATTEMPTS: usize = 4;

/// Attempts to lock a job whose folder other processes keep removing, or whose lock they try.
const ATTEMPTS_TO_LOCK: usize = 100;

/// How long to wait before another attempt.
const GLANCE: Duration = Duration::from_millis(1);

/// The folders of the old and of the new documents.
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// A document that is to change.
#[derive(Debug)]
pub(in crate::jobs) struct DocumentChange {
    /// Its path below the hierarchy.
    pub path: String,
    /// Its contents when the change was planned.
    pub before: Vec<u8>,
    /// Its new contents.
    pub after: Vec<u8>,
}

/// The result of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) enum Switched {
    /// All documents are the new ones.
    Done,
    /// Others have changed a document since its change was planned. None is the new one, or where
    /// they were faster than could be noticed, all but theirs.
    Changed,
}

/// The marker of a switch.
#[derive(Debug, Serialize, Deserialize)]
struct SwitchMarker {
    #[serde(rename = "shardine_switch")]
    version: u32,
    /// By which command it was begun; only for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The documents, by their paths below the hierarchy. The contents of each are in files that
    /// are called by its position here.
    documents: Vec<String>,
}

/// The version of [`SwitchMarker`] that is written and read.
const VERSION: u32 = 1;

/// The files and folders of a switch.
#[derive(Debug)]
pub(in crate::jobs) struct Switch {
    /// The store of the folder that contains the hierarchy.
    store: FileStore,
    /// The hierarchy's name in it.
    root: Key,
    work: Key,
    file: Key,
    /// The link that all documents pass through.
    current: Key,
    /// The name that a link has before it is in its place.
    link: Key,
    at: String,
}

impl Switch {
    /// The switch on a hierarchy; `None` if it is not on files, or is not there.
    pub fn of(location: &Location) -> Result<Option<Self>, Error> {
        let Some(exchange) = location.store.exchange() else { return Ok(None) };
        let (store, root) = match exchange.beside(location.path.as_ref()) {
            Ok(beside) => beside,
            // The root of a file system, or a name that is no text.
            Err(StoreError::Key { .. }) => return Ok(None),
            Err(StoreError::Io { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let work = root.join(store.job_folder(&Key::new(DOCUMENT)?)?.as_str())?;
        let (file, current, link) =
            (work.join("job.json")?, work.join("current")?, work.join("link")?);
        Ok(Some(Self { store, root, work, file, current, link, at: location.to_string() }))
    }

    /// Whether one was begun and has not ended.
    pub fn is_begun(&self) -> Result<bool, Error> {
        Ok(self.store.has_folder(&self.work)?)
    }

    /// Its folder.
    pub fn folder(&self) -> String {
        self.store.root().join(self.work.as_str()).display().to_string()
    }

    /// Whether a process is at work on it, or may be.
    pub fn is_in_use(&self) -> bool {
        self.store.is_job_in_use(&self.work)
    }

    /// The command that began it, if that is known.
    pub fn command(&self) -> Result<Option<String>, Error> {
        match self.marker() {
            Ok(marker) => Ok(marker.and_then(|marker| marker.command)),
            Err(error @ Error::Store(_)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Ends what a killed process has left: if its documents had been switched they stay the new
    /// ones, otherwise the old ones. `None` if there is nothing to end.
    pub fn settle(&self) -> Result<Option<Settled>, Error> {
        if !self.is_begun()? {
            return Ok(None);
        }
        let _lock = self.lock()?;
        self.settle_locked().map(Some)
    }

    /// Changes documents in one step. Durable when this returns.
    ///
    /// A document whose contents are no longer those that its change was planned from is left as it
    /// is, with all others. An error may come before the step or after it; [`settle`](Self::settle)
    /// ends what is left then.
    pub fn run(&self, context: &JobContext, changes: &[DocumentChange]) -> Result<Switched, Error> {
        let _lock = self.lock()?;
        if self.marker()?.is_some() {
            // Another process began one since this was planned, and was killed.
            self.settle_locked()?;
            return Ok(Switched::Changed);
        }
        let switched = self.prepare(context, changes).and_then(|ready| {
            if ready {
                self.lead_to(AFTER)?;
            }
            Ok(ready)
        });
        // Also after an error, which may be gone by now; the next run does it otherwise.
        let settled = self.settle_locked();
        let is_switched = switched?;
        settled?;
        let mut is_done = is_switched;
        for change in changes.iter().filter(|_| is_switched) {
            is_done &= self.stored(&change.path)?.as_ref() == Some(&change.after);
        }
        Ok(if is_done { Switched::Done } else { Switched::Changed })
    }

    /// Makes links of all documents, which lead to their old contents; whether these were still the
    /// planned ones.
    fn prepare(&self, context: &JobContext, changes: &[DocumentChange]) -> Result<bool, Error> {
        self.store.copy_mode(&self.root, &self.work)?;
        let documents = changes.iter().map(|change| change.path.clone()).collect();
        let command = context.begun_by().map(str::to_owned);
        let marker = SwitchMarker { version: VERSION, command, documents };
        // Strings and numbers always serialize.
        let text = serde_json::to_string_pretty(&marker).unwrap_or_default();
        self.store.put(&self.file, format!("{text}\n").as_bytes(), Condition::None)?;
        self.stage(changes)?;
        self.lead_to(BEFORE)?;
        let mut keys = Vec::with_capacity(changes.len());
        for (number, change) in changes.iter().enumerate() {
            let (key, to) = self.name_of(number, &change.path)?;
            let Some((_hold, edit)) = self.edit(&key)? else { return Ok(false) };
            if *edit.object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))? != *change.before {
                return Ok(false);
            }
            self.store.redirect(&key, &to, &self.link)?;
            keys.push((key, to));
        }
        let names: Vec<&Key> = keys.iter().map(|(key, _)| key).collect();
        self.store.sync_redirected(&names)?;
        // A document that someone has put in the place of a link would not change.
        for (key, to) in &keys {
            if !self.store.is_redirected(key, to)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the old and the new contents of all documents, with the modes of the documents.
    fn stage(&self, changes: &[DocumentChange]) -> Result<(), Error> {
        let mut known: Vec<(Modes, FileStore)> = Vec::new();
        for (first, batch) in changes.chunks(BATCH).enumerate() {
            let mut staged = Vec::with_capacity(2 * batch.len());
            for (number, change) in batch.iter().enumerate() {
                let number = (first * BATCH + number).to_string();
                let modes = self.store.modes_of(&self.root.join(&change.path)?)?;
                let store = match known.iter().find(|(found, _)| *found == modes) {
                    Some((_, store)) => store.clone(),
                    None => {
                        let store = self.store.with_modes(modes);
                        known.push((modes, store.clone()));
                        store
                    }
                };
                for (side, contents) in [(BEFORE, &change.before), (AFTER, &change.after)] {
                    let key = self.work.join(side)?.join(&number)?;
                    staged.push(made(&store, &key, contents, Condition::None)?);
                }
            }
            self.store.publish(staged)?;
        }
        Ok(())
    }

    /// Lets all links lead to the documents of one side.
    fn lead_to(&self, side: &str) -> Result<(), Error> {
        self.store.redirect(&self.current, &self.work.join(side)?, &self.link)?;
        Ok(self.store.sync_redirected(&[&self.current])?)
    }

    /// Replaces each link by what it leads to, and removes the switch.
    fn settle_locked(&self) -> Result<Settled, Error> {
        let is_switched = self.store.is_redirected(&self.current, &self.work.join(AFTER)?)?;
        // Without a marker there are no links.
        if let Some(marker) = self.marker()? {
            let mut were_links = false;
            for (first, batch) in marker.documents.chunks(BATCH).enumerate() {
                were_links |= self.replace_links(first * BATCH, batch)?;
            }
            if were_links {
                // Who looked up a link just now may not have followed it yet.
                thread::sleep(FolderAlone::UNNOTICED);
            }
        }
        self.store.remove_tree(&self.work)?;
        Ok(if is_switched { Settled::Finished } else { Settled::Undone })
    }

    /// Replaces the links of some documents by files; whether there were any. A document that is no
    /// link stays as it is.
    fn replace_links(&self, first: usize, paths: &[String]) -> Result<bool, Error> {
        for _ in 0..ATTEMPTS {
            let (mut staged, mut held) = (Vec::new(), Vec::new());
            for (number, path) in paths.iter().enumerate() {
                let (key, to) = self.name_of(first + number, path)?;
                if !self.store.is_redirected(&key, &to)? {
                    continue;
                }
                let Some((hold, edit)) = self.edit(&key)? else { continue };
                // Waiting for the locks may have taken a while.
                if !self.store.is_redirected(&key, &to)? {
                    continue;
                }
                let contents = edit.object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?;
                let condition = match edit.condition() {
                    held @ Condition::Held { .. } => held,
                    // Without locks no write can have a condition.
                    _ => Condition::None,
                };
                staged.push(made(&self.store, &key, &contents, condition)?);
                held.push((hold, edit));
            }
            match self.store.publish(staged) {
                Err(StoreError::Conflict { .. } | StoreError::Changed { .. }) => {}
                published => return Ok(!published?.is_empty()),
            }
        }
        Err(Error::MetadataChanged { at: self.at.clone() })
    }

    /// The name of a document, and what it is a link to during the switch.
    fn name_of(&self, number: usize, path: &str) -> Result<(Key, Key), Error> {
        Ok((self.root.join(path)?, self.current.join(&number.to_string())?))
    }

    /// A document that nobody else can change for now, in a folder that is not exchanged; `None` if
    /// it is gone.
    fn edit(&self, key: &Key) -> Result<Option<(Option<FolderHold>, Edit)>, Error> {
        let held = match self.store.hold(parent(key).as_ref()) {
            Ok(hold) => self.store.edit(key).map(|edit| (hold, edit)),
            Err(error) => Err(error),
        };
        match held {
            Ok(held) => Ok(Some(held)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn stored(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.store.get(&self.root.join(path)?)?.map(|bytes| bytes.to_vec()))
    }

    fn marker(&self) -> Result<Option<SwitchMarker>, Error> {
        let Some(bytes) = self.store.get(&self.file)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&bytes).ok();
        let marker: SwitchMarker =
            parsed.filter(|marker: &SwitchMarker| marker.version == VERSION).ok_or_else(|| {
                let marker = format!("{}/{}", self.store.name(), self.file);
                JobError::Marker { marker }
            })?;
        let command = marker.command.filter(|command| is_command(command));
        Ok(Some(SwitchMarker { command, ..marker }))
    }

    /// Takes the lock, creating the folder if it does not exist.
    fn lock(&self) -> Result<JobLock, Error> {
        for _ in 0..ATTEMPTS_TO_LOCK {
            self.store.make_folder_at(&self.work)?;
            match self.store.lock_job(&self.work) {
                Ok(Some(lock)) => return Ok(lock),
                // It may be held only by someone who asks whether the job is running.
                Ok(None) => thread::sleep(GLANCE),
                // The process that had the lock has just finished and removed the folder.
                Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(JobError::Switching { at: self.at.clone() }.into())
    }
}

/// An object with these contents that is not visible yet.
fn made(
    store: &FileStore,
    key: &Key,
    contents: &[u8],
    condition: Condition,
) -> Result<Staged, StoreError> {
    let writer = store.create(key, CreateOptions { head: 0, condition })?;
    if !contents.is_empty() {
        writer.append(contents)?;
    }
    writer.finish(&[])
}
