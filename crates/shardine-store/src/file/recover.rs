//! Recovery from an interrupted change in place.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::disk::Disk;
use super::journal::{Journal, Switch, digest, max_len};
use super::lock::{Tried, WriterLock};
use super::object::FileObject;
use super::temporary::{aside_name, journal_name};
use super::{FileStore, failed, is_missing};
use crate::{Buffer, Done, Headers, Key, Object, ReadRange, Recovery, StoreError, Version};

/// The state of a file relative to its journal.
#[derive(Debug, PartialEq, Eq)]
enum JournalState {
    /// The state before the change, except for bytes past the old end.
    Before,
    /// The state after the change.
    After,
    /// The switch was begun.
    Between,
    /// Something else has been written since: the journal is meaningless.
    Foreign,
}

/// Recovers an object that makes no sense. Never waits.
pub(super) fn recover(store: &FileStore, key: &Key) -> Result<Recovery, StoreError> {
    let path = store.path(key);
    let disk = &store.0.disk;
    if !has_journal(disk, &path)? {
        return Ok(Recovery::Nothing);
    }
    match WriterLock::attempt(disk, &path) {
        Tried::Locked(lock) if lock.writable => match under_lock(store, &lock) {
            Ok(true) => Ok(Recovery::Done),
            Ok(false) => Ok(Recovery::Nothing),
            // The folder is not writable, or the disk is full or broken: the next attempt may have
            // more luck.
            Err(_) => before(store, key),
        },
        // Nobody needs the journal of a missing object; but one that has just been created again
        // may be changing right now.
        Tried::Missing => match journal_path(&path) {
            Some(journal) if is_old(disk, &journal)? => {
                set_aside(store, &path, &journal).map(|()| Recovery::Nothing)
            }
            _ => Ok(Recovery::Nothing),
        },
        Tried::Locked(_) | Tried::Busy | Tried::Impossible => before(store, key),
    }
}

/// Shows an object without an interrupted change, which stays as it is. Never waits.
pub(super) fn before_change(store: &FileStore, key: &Key) -> Result<Recovery, StoreError> {
    match has_journal(&store.0.disk, &store.path(key))? {
        true => before(store, key),
        false => Ok(Recovery::Nothing),
    }
}

/// Whether a file has not been changed for far longer than a change in place takes.
fn is_old(disk: &Disk, path: &Path) -> Result<bool, StoreError> {
    let wrong = |e| failed("examine", path, e);
    let Some(found) = disk.find(path).map_err(wrong)? else { return Ok(false) };
    let modified = found.modified().map_err(wrong)?;
    // A time in the future is not old.
    Ok(modified.elapsed().is_ok_and(|age| age > Duration::from_secs(60)))
}

fn has_journal(disk: &Disk, path: &Path) -> Result<bool, StoreError> {
    let Some(journal) = journal_path(path) else { return Ok(false) };
    let found = disk.find(&journal).map_err(|e| failed("examine", &journal, e))?;
    Ok(found.is_some())
}

fn journal_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    Some(path.parent()?.join(journal_name(name)))
}

/// Finishes or undoes an interrupted change of a file whose lock is held. Returns whether there was
/// one.
pub(super) fn under_lock(store: &FileStore, lock: &WriterLock) -> Result<bool, StoreError> {
    let Some(at) = journal_path(&lock.path) else { return Ok(false) };
    let (disk, path) = (&store.0.disk, lock.path.as_path());
    let wrong = |e| failed("recover", path, e);
    let len = disk.examine_open(&lock.file, path).map_err(wrong)?.len();
    let Some(bytes) = read_journal(disk, &at, len)? else { return Ok(false) };
    let journal = Journal::parse(&bytes);
    let found = match &journal {
        Some(journal) => examine(disk, &lock.file, path, journal).map_err(wrong)?,
        None => JournalState::Foreign,
    };
    match (found, &journal) {
        (JournalState::Before, Some(journal)) => {
            if len > journal.intent.old_len {
                disk.resize(&lock.file, path, journal.intent.old_len).map_err(wrong)?;
            }
        }
        (JournalState::Between, Some(Journal { switch: Some(switch), .. })) => {
            for run in &switch.runs {
                let offset = switch.range.start + run.start as u64;
                disk.write(&lock.file, path, &run.new, offset).map_err(wrong)?;
            }
        }
        (JournalState::After, Some(Journal { switch: Some(switch), .. })) => {
            // After a failed sync the kernel considers bytes written that are not. Writing them
            // again makes the next sync try again.
            if let Some(bytes) = read(disk, &lock.file, path, &switch.range, len).map_err(wrong)? {
                disk.write(&lock.file, path, &bytes, switch.range.start).map_err(wrong)?;
            }
        }
        _ => {
            set_aside(store, path, &at)?;
            return Ok(false);
        }
    }
    // What was found may not be durable yet, and so far only the journal protects it.
    disk.sync(&lock.file, path).map_err(wrong)?;
    let times = fs::FileTimes::new().set_modified(SystemTime::now());
    match lock.file.set_times(times) {
        // Only the owner may do this. The content means the same as before, so no version is
        // mistaken for another.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
        set => set.map_err(wrong)?,
    }
    match disk.remove(&at) {
        Err(e) if !is_missing(&e) => Err(failed("remove the journal", &at, e)),
        _ => Ok(true),
    }
}

/// Renames a journal that does not belong to its file. It is kept for later inspection.
fn set_aside(store: &FileStore, path: &Path, journal: &Path) -> Result<(), StoreError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let to = journal.with_file_name(aside_name(name, number));
    let wrong = |e| failed("set the journal aside", journal, e);
    store.0.disk.ask(super::DiskStep::Rename { from: journal, to: &to }).map_err(wrong)?;
    match fs::rename(journal, &to) {
        // The process that removed the object has removed the journal, too.
        Err(e) if is_missing(&e) => Ok(()),
        renamed => renamed.map_err(wrong),
    }
}

/// The bytes of a journal; `None` if it is not the journal of a file of `len` bytes.
fn read_journal(disk: &Disk, path: &Path, len: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let wrong = |e| failed("read the journal", path, e);
    match disk.find(path).map_err(wrong)? {
        Some(found) if found.is_file() && found.size() <= max_len(len) => {}
        Some(_) => return Ok(Some(Vec::new())),
        None => return Ok(None),
    }
    let file = match disk.open_for_reading(path) {
        Ok(file) => file,
        Err(e) if is_missing(&e) => return Ok(None),
        Err(e) => return Err(wrong(e)),
    };
    // It may have become longer since, but what was there stays.
    let len = disk.examine_open(&file, path).map_err(wrong)?.len().min(max_len(len));
    read(disk, &file, path, &(0..len), len).map_err(wrong)
}

/// Which of the states of a journal a file is in.
fn examine(disk: &Disk, file: &File, path: &Path, journal: &Journal) -> io::Result<JournalState> {
    let len = disk.examine_open(file, path)?.len();
    let intent = &journal.intent;
    if let Some(switch) = &journal.switch {
        if len > switch.new_len {
            // The writer of the journal never writes past that.
            return Ok(JournalState::Foreign);
        }
        let bytes = read(disk, file, path, &switch.range, len)?;
        let is_new = bytes.as_deref().is_some_and(|b| digest(b) == switch.switched);
        if is_new {
            // With another length, it was changed again by someone who knew nothing of the journal.
            return Ok(if len == switch.new_len {
                JournalState::After
            } else {
                JournalState::Foreign
            });
        }
        if let Some(bytes) = &bytes
            && switch.range == intent.guard
            && digest(bytes) != intent.guarded
        {
            let between = len == switch.new_len && switch.is_between(bytes);
            return Ok(if between { JournalState::Between } else { JournalState::Foreign });
        }
    }
    if len > intent.old_len && intent.guard.end == intent.old_len {
        // The guarded bytes were at the end. If the file now ends in a valid index, the writer of
        // the journal did not put it there: that writer leaves zeros at the end, or a part of the
        // new bytes.
        let tail = len - (intent.guard.end - intent.guard.start)..len;
        if read(disk, file, path, &tail, len)?.is_some_and(|tail| ends_in_its_checksum(&tail)) {
            return Ok(JournalState::Foreign);
        }
    }
    let guarded = read(disk, file, path, &intent.guard, len)?;
    let intact = guarded.is_some_and(|bytes| digest(&bytes) == intent.guarded);
    Ok(if intact && len >= intent.old_len { JournalState::Before } else { JournalState::Foreign })
}

/// Whether the last four bytes are the crc32c of the others, as in an index.
fn ends_in_its_checksum(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk::<4>()
        .is_some_and(|(bytes, checksum)| crc32c::crc32c(bytes).to_le_bytes() == *checksum)
}

/// Bytes of a file of `len` bytes; `None` if the range is out of bounds.
fn read(
    disk: &Disk,
    file: &File,
    path: &Path,
    range: &Range<u64>,
    len: u64,
) -> io::Result<Option<Vec<u8>>> {
    if range.start > range.end || range.end > len {
        return Ok(None);
    }
    let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(io::Error::other)?;
    bytes.resize(len, 0);
    disk.read(file, path, &mut bytes, range.start)?;
    Ok(Some(bytes))
}

/// The object as it was before a change that is in progress, or that cannot be undone here.
fn before(store: &FileStore, key: &Key) -> Result<Recovery, StoreError> {
    let path = store.path(key);
    let object = match FileObject::open(store, key) {
        Ok(object) => object,
        Err(StoreError::NotFound { .. }) => return Ok(Recovery::Nothing),
        Err(error) => return Err(error),
    };
    let bytes = match journal_path(&path) {
        Some(at) => read_journal(&store.0.disk, &at, object.len().unwrap_or(0))?,
        None => None,
    };
    // Removed in the meantime: the change is over.
    let Some(bytes) = bytes else { return Ok(Recovery::Done) };
    let Some(journal) = Journal::parse(&bytes) else { return Ok(Recovery::Nothing) };
    let Some(file) = object.file() else { return Ok(Recovery::Nothing) };
    // Opened before another writer, whose journal this is, made it longer.
    if object.len().is_none_or(|len| len < journal.intent.old_len) {
        return Ok(Recovery::Done);
    }
    let switch = match examine(&store.0.disk, file, &path, &journal)
        .map_err(|e| failed("read", &path, e))?
    {
        JournalState::Before => None,
        JournalState::Between => journal.switch,
        JournalState::After => return Ok(Recovery::Done),
        JournalState::Foreign => return Ok(Recovery::Nothing),
    };
    Ok(Recovery::Before(Arc::new(ObjectBefore {
        inner: object,
        len: journal.intent.old_len,
        switch,
    })))
}

/// A file viewed without an interrupted change.
#[derive(Debug)]
struct ObjectBefore {
    inner: FileObject,
    len: u64,
    /// A switch that was begun: its old bytes are the valid ones.
    switch: Option<Switch>,
}

impl ObjectBefore {
    /// Replaces switched bytes by the old ones.
    fn restore(&self, start: u64, bytes: &mut [u8]) {
        let Some(switch) = &self.switch else { return };
        for run in &switch.runs {
            for (i, &old) in run.old.iter().enumerate() {
                let at = switch.range.start + (run.start + i) as u64;
                let place = at.checked_sub(start).and_then(|i| usize::try_from(i).ok());
                if let Some(byte) = place.and_then(|i| bytes.get_mut(i)) {
                    *byte = old;
                }
            }
        }
    }
}

impl Object for ObjectBefore {
    fn len(&self) -> Option<u64> {
        Some(self.len)
    }

    fn version(&self) -> Option<Version> {
        let version = self.inner.version()?;
        Some(Version(format!("{}-before-{:x}", version.0, self.len).into()))
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let range = range.resolve(self.inner.key(), self.len)?;
        let bytes = self.inner.read(ReadRange::Bounded(range.clone()))?;
        let mut bytes = bytes.to_vec();
        self.restore(range.start, &mut bytes);
        Ok(Bytes::from(bytes).into())
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let end = start.saturating_add(into.len() as u64);
        ReadRange::Bounded(start..end).resolve(self.inner.key(), self.len)?;
        self.inner.read_into(start, into)?;
        self.restore(start, into);
        Ok(())
    }

    /// Nothing that was there before is overwritten while this is open for reading, and switched
    /// bytes are not read from the file. A switch that begins after this was created shows in the
    /// guarded bytes, which every reader of them checks.
    fn check_unchanged(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(self.read(range));
    }

    /// The change may end at any time.
    fn can_be_kept(&self) -> bool {
        false
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn headers(&self) -> Headers {
        Headers::default()
    }

    /// The file has different bytes.
    fn file(&self) -> Option<&File> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::Intent;
    use super::*;
    use crate::{Store, StoreExt};

    fn index(byte: u8) -> Vec<u8> {
        let mut bytes = vec![byte; 60];
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn what_another_program_appended_is_not_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        let key = Key::new("a").unwrap();
        let old = [&[1; 100][..], &index(2)].concat();
        let intent = Intent::new(old.len() as u64, 100, &index(2));
        let ours = [&old[..], &[3; 50], &[0; 64]].concat();
        let theirs = [&old[..], &[4; 50], &index(5)].concat();
        for (found, expected) in [(&ours, &old), (&theirs, &theirs)] {
            fs::write(folder.path().join("a"), found).unwrap();
            fs::write(folder.path().join(journal_name("a")), intent.to_bytes()).unwrap();
            drop(store.edit(&key).unwrap());
            assert_eq!(store.get(&key).unwrap().unwrap().to_vec(), *expected);
            assert!(!folder.path().join(journal_name("a")).exists());
        }
    }
}
