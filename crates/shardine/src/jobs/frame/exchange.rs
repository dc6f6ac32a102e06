//! The folder in which a job builds a new data set beside the old one, and how the two are
//! exchanged.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shardine_store::{
    Condition, FileStore, FolderAlone, JobLock, Key, Store, StoreError, StoreExt,
};

use super::command::is_command;
use crate::jobs::repack::RepackError;
use crate::{Error, Location};

/// How long to wait before another attempt to lock a job.
const GLANCE: Duration = Duration::from_millis(1);

/// Attempts to lock a job whose folder other processes keep removing, or whose lock they try.
const ATTEMPTS_TO_LOCK: usize = 100;

/// How long a job waits by default for others to release a data set that is about to be exchanged.
pub(in crate::jobs) const WAIT: Duration = Duration::from_secs(30);

/// The most data sets that are kept beside each other because they changed at the last moment.
const MAX_KEPT: usize = 1000;

/// The marker of a job that replaces a data set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::jobs) struct Replacing {
    #[serde(rename = "shardine_job")]
    version: u32,
    pub request: Value,
    /// By which command it was begun; only for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The documents of the old and of the new data set.
    pub from: String,
    pub to: String,
    /// The fingerprint of the old data set when its chunks were moved.
    pub fingerprint: Option<u64>,
    /// What the new data set holds, once it is complete.
    #[serde(default)]
    pub built: Option<Built>,
}

/// The version of [`Replacing`] that is written and read.
const VERSION: u32 = 1;

/// How much was built. The old data set is only removed if all of it is found in the new one after
/// the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::jobs) struct Built {
    pub objects: u64,
    /// `None` if chunks were re-encoded, or cannot be counted without decoding.
    #[serde(default)]
    pub chunks: Option<u64>,
}

impl Replacing {
    pub fn new(request: Value, from: String, to: String, fingerprint: Option<u64>) -> Self {
        Self { version: VERSION, request, command: None, from, to, fingerprint, built: None }
    }

    /// Begun by this command.
    pub fn begun_by(mut self, command: Option<&str>) -> Self {
        self.command = command.map(str::to_owned);
        self
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let found: Self = serde_json::from_slice(bytes).ok()?;
        let command = found.command.filter(|command| is_command(command));
        (found.version == VERSION).then_some(Self { command, ..found })
    }

    pub fn put(&self, job: &Exchange) -> Result<(), Error> {
        // Strings and numbers always serialize.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        job.beside.put(&job.file, format!("{text}\n").as_bytes(), Condition::None)?;
        Ok(())
    }
}

/// The files and folders of one job.
pub(in crate::jobs) struct Exchange {
    /// The store of the folder that contains the data set.
    pub beside: FileStore,
    /// The array's name in it.
    pub name: Key,
    pub work: Key,
    pub file: Key,
    pub new: Key,
    /// Where the old array waits between two renames, where folders cannot be exchanged in one
    /// step.
    pub old: Key,
    /// The document of the old array while that is being removed.
    replaced: Key,
    pub at: String,
    /// The name of the data set's root document.
    document: &'static str,
}

impl Exchange {
    pub fn of(location: &Location, document: &'static str) -> Result<Self, Error> {
        let at = location.to_string();
        let exchange = location.store.exchange();
        let exchange = exchange.ok_or(RepackError::NeedsTarget { at: at.clone() })?;
        let (beside, name) = exchange.beside(location.path.as_ref())?;
        Self::on(beside, name, at, document)
    }

    /// The job on a folder of a store.
    pub fn on(
        beside: FileStore,
        name: Key,
        at: String,
        document: &'static str,
    ) -> Result<Self, Error> {
        let work = beside.job_folder(&name)?;
        let file = work.join("job.json")?;
        let (new, old, replaced) =
            (work.join("new")?, work.join("old")?, work.join("replaced.json")?);
        Ok(Self { beside, name, work, file, new, old, replaced, at, document })
    }

    /// The document of the array in one of the folders.
    pub fn document(&self, folder: &Key) -> Result<Option<String>, Error> {
        let text = self.beside.get(&folder.join(self.document)?)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    pub fn marker(&self) -> Result<Option<Replacing>, Error> {
        let Some(bytes) = self.beside.get(&self.file)? else { return Ok(None) };
        Replacing::parse(&bytes).map(Some).ok_or_else(|| self.refuse("it cannot be parsed"))
    }

    pub fn refuse(&self, reason: &'static str) -> Error {
        let marker = format!("{}/{}", self.beside.name(), self.file);
        RepackError::Marker { marker, reason }.into()
    }

    /// Takes the job's lock, creating its folder if it does not exist.
    pub fn lock(&self) -> Result<JobLock, Error> {
        for _ in 0..ATTEMPTS_TO_LOCK {
            if !self.beside.has_folder(&self.work)? {
                self.beside.make_folder_at(&self.work)?;
                self.beside.make_private(&self.work)?;
            }
            match self.beside.lock_job(&self.work) {
                Ok(Some(lock)) => return Ok(lock),
                // It may be held only by someone who asks whether the job is running.
                Ok(None) => thread::sleep(GLANCE),
                // The process that had the lock has just finished and removed the folder.
                Err(StoreError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RepackError::Busy { at: self.at.clone() }.into())
    }

    /// Whether its folder holds nothing but what a job creates before it writes its marker, or
    /// leaves after removing it.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(!self.has_data()? && self.beside.get(&self.file)?.is_none())
    }

    /// Whether its folder holds a data set, old or new, or the remains of one.
    pub fn has_data(&self) -> Result<bool, Error> {
        Ok(self.beside.has_folder(&self.new)? || self.beside.has_folder(&self.old)?)
    }

    /// Removes everything the job has made. Its file goes last: it says what the rest is, which
    /// must not be taken for a later job's.
    pub fn clean_up(&self) -> Result<(), Error> {
        self.beside.remove_tree(&self.new)?;
        self.beside.remove_tree(&self.old)?;
        self.beside.remove_tree(&self.replaced)?;
        self.beside.remove_tree(&self.file)?;
        self.beside.remove_tree(&self.work)?;
        Ok(())
    }

    /// Refuses a data set that cannot be locked exclusively for the exchange, unless `exclusive`
    /// promises that nobody else is using it.
    pub fn check_locks(&self, exclusive: bool) -> Result<(), Error> {
        if exclusive || self.beside.can_hold(Some(&self.name))? {
            return Ok(());
        }
        Err(RepackError::NoLocks { at: self.at.clone() }.into())
    }

    /// Waits until nobody else holds the data set, then keeps others out. `None` with `exclusive`.
    pub fn alone(&self, exclusive: bool, wait: Duration) -> Result<Option<FolderAlone>, Error> {
        if exclusive {
            return Ok(None);
        }
        match self.beside.hold_alone(&self.name, &self.new, &self.work, wait)? {
            Some(alone) => Ok(Some(alone)),
            None => {
                let seconds = wait.as_secs();
                Err(RepackError::InUse { at: self.at.clone(), seconds }.into())
            }
        }
    }

    /// Removes the old data set once the new one is in its place, and lets others in. The job
    /// itself stays until [`clean_up`](Self::clean_up).
    ///
    /// If the old one was changed at the last moment, or the new one has less than was built
    /// according to `count`, the old one is renamed instead, and the error says where it is.
    ///
    /// Others are let in when the files of the old one are gone, or when readers that still have
    /// them open no longer trust them: before that, they might not see what is written to the new
    /// one.
    pub fn end_alone(
        &self,
        alone: Option<FolderAlone>,
        marker: &Replacing,
        count: &dyn Fn() -> Result<Built, Error>,
    ) -> Result<(), Error> {
        self.check_exchanged(marker, count)?;
        let (ended, wait) = mpsc::channel();
        thread::scope(|scope| {
            let end = scope.spawn(move || {
                let done = self.remove_old();
                // There may be no receiver left.
                let _ = ended.send(());
                done
            });
            let _ = wait.recv_timeout(FolderAlone::UNNOTICED);
            drop(alone);
            end.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Puts the new array in the place of the old one.
    pub fn exchange(&self) -> Result<(), StoreError> {
        match self.beside.exchange(&self.name, &self.new) {
            Err(StoreError::Unsupported { .. }) => {
                self.beside.rename(&self.name, &self.old)?;
                self.beside.rename(&self.new, &self.name)
            }
            exchanged => exchanged,
        }
    }

    /// Whether the new data set already has the old one's name, whatever its document says by now.
    pub fn is_exchanged(&self, marker: &Replacing) -> Result<bool, Error> {
        let is_old = |folder: &Key| -> Result<bool, Error> {
            Ok(self.document(folder)?.is_some_and(|found| found == marker.from))
        };
        Ok(marker.from != marker.to
            && (is_old(&self.new)?
                || !self.beside.has_folder(&self.new)? && is_old(&self.old)?
                || self.beside.has_name(&self.replaced)?))
    }

    /// Abandons a job that has not put the new data set in place: removes what it has built.
    ///
    /// If the old one waits in the job's folder, because something else has taken its name since,
    /// it is kept, and the error says where.
    pub fn give_up(&self) -> Result<(), Error> {
        if self.document(&self.old)?.is_none() {
            return self.clean_up();
        }
        let kept = self.keep(&self.old)?;
        self.clean_up()?;
        Err(RepackError::Displaced { at: self.at.clone(), kept }.into())
    }

    /// Renames a data set that must not be lost to a free name beside the other one, and returns
    /// where it is.
    fn keep(&self, folder: &Key) -> Result<String, Error> {
        let mut kept = Key::new(&format!("{}.before", self.name))?;
        for n in 1..MAX_KEPT {
            if !self.beside.has_name(&kept)? {
                break;
            }
            kept = Key::new(&format!("{}.before-{n}", self.name))?;
        }
        self.beside.rename(folder, &kept)?;
        Ok(format!("{}/{kept}", self.beside.name()))
    }

    /// Where the old data set is after the exchange.
    fn old_place(&self) -> Result<&Key, Error> {
        Ok(if self.beside.has_folder(&self.old)? { &self.old } else { &self.new })
    }

    fn check_exchanged(
        &self,
        marker: &Replacing,
        count: &dyn Fn() -> Result<Built, Error>,
    ) -> Result<(), Error> {
        let old = self.old_place()?;
        if self.document(old)?.is_none() {
            return Ok(());
        }
        let changed = match marker.fingerprint {
            Some(before) => self.beside.fingerprint_of_moved(old, &self.name)? != before,
            None => false,
        };
        if changed {
            let kept = self.keep(old)?;
            return Err(RepackError::ChangedAtCommit { at: self.at.clone(), kept }.into());
        }
        if let Some(built) = marker.built {
            let found = count()?;
            let (before, after) = match (built.chunks, found.chunks) {
                (Some(before), Some(after)) => (before, after),
                _ => (built.objects, found.objects),
            };
            // More may have been written since.
            if after < before {
                let kept = self.keep(old)?;
                let at = self.at.clone();
                return Err(RepackError::Lost { at, before, after, kept }.into());
            }
        }
        Ok(())
    }

    fn remove_old(&self) -> Result<(), Error> {
        // Its document goes first, so that a half-removed array is taken neither for an array nor
        // for one that was changed. From then on it proves that the new array is in place, whatever
        // happens to the new array's document.
        let document = self.old_place()?.join(self.document)?;
        if self.beside.has_name(&document)? {
            self.beside.rename(&document, &self.replaced)?;
        }
        self.beside.remove_tree(&self.new)?;
        self.beside.remove_tree(&self.old)?;
        Ok(())
    }
}
