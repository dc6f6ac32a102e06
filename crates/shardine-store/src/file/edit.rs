//! Changing a file under its writer lock: by replacing it, or in place with a journal.

use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::disk::Disk;
use super::folder::Folder;
use super::journal::{Intent, Switch};
use super::lock::{WriterLock, let_readers_in, shut_out_readers};
use super::object::FileObject;
use super::stamp::Stamp;
use super::temporary::{Temporary, journal_name};
use super::{FileStore, failed, recover};
use crate::{Edit, Held, InPlace, Key, StoreError, Version};

/// What is held while a file is being changed.
#[derive(Debug)]
pub(super) struct FileHold {
    pub lock: WriterLock,
    store: FileStore,
    key: Key,
}

pub(super) fn edit(store: &FileStore, key: &Key) -> Result<Edit, StoreError> {
    let path = store.path(key);
    let lock = match WriterLock::wait(&store.0.disk, &path) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Err(store.not_found(key)),
        // A folder is not an object.
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::IsADirectory => {
            return Err(store.not_found(key));
        }
        Err(StoreError::Io { source, .. }) if super::lacks_locks(&source) => {
            let object = FileObject::open(store, key)?;
            let version = object.known_version();
            return Ok(Edit::unlocked(Arc::new(object), version));
        }
        Err(error) => return Err(error),
    };
    recover::under_lock(store, &lock)?;
    let file = lock.file.try_clone().map_err(|e| failed("open", &path, e))?;
    let object = FileObject::from_file(store, key, path, file)?;
    let version = object.known_version();
    let held = FileHold { lock, store: store.clone(), key: key.clone() };
    Ok(Edit::locked(Arc::new(object), version, Arc::new(held)))
}

impl Held for FileHold {
    fn in_place(self: Arc<Self>, guard: Range<u64>) -> Result<Box<dyn InPlace>, StoreError> {
        let path = &self.lock.path;
        let unsupported = |operation| {
            let store = path.display().to_string();
            Err(StoreError::Unsupported { store, operation })
        };
        if !self.lock.writable {
            return unsupported("be changed in place: it is not writable");
        }
        let disk = &self.store.0.disk;
        let found = disk.examine_open(&self.lock.file, path);
        let found = found.map_err(|e| failed("examine", path, e))?;
        let named = disk.examine_link(path).map_err(|e| failed("examine", path, e))?;
        if named.is_symlink() || found.nlink() > 1 {
            return unsupported("be changed in place: the file has more than one name");
        }
        // Its version would not be distinguishable from others without an explicitly set time,
        // which only the owner may set.
        let user = nix::unistd::geteuid();
        if !user.is_root() && user.as_raw() != found.uid() {
            return unsupported("be changed in place: it belongs to another user");
        }
        let stamp = Stamp::from(&found);
        if !self.store.0.local.is_local(&self.lock.file, stamp.device) {
            return unsupported(
                "be changed in place: only local file systems are known to keep readers and writers apart",
            );
        }
        let mut guarded = Vec::new();
        let len = guard.end.saturating_sub(guard.start);
        if guard.end > stamp.len {
            let key = self.key.clone();
            let (start, end, len) = (guard.start, guard.end, stamp.len);
            return Err(StoreError::OutOfRange { key, start, end, len });
        }
        // No longer than the file, whose length is real.
        guarded.resize(len as usize, 0);
        disk.read(&self.lock.file, path, &mut guarded, guard.start)
            .map_err(|e| failed("read", path, e))?;
        let folder = path.parent().unwrap_or(path);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let journal = folder.join(journal_name(name));
        let change = Change {
            disk: self.store.0.disk.clone(),
            journal,
            at_end: guard.end == stamp.len,
            intent: Intent::new(stamp.len, guard.start, &guarded),
            guarded,
            end: stamp.len,
            state: State::Fresh,
            journaled: false,
            readers_out: false,
            hold: self,
        };
        Ok(Box::new(change))
    }
}

/// The progress of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has been written to the disk.
    Fresh,
    /// Something has, and the journal says so if it must.
    Begun,
    /// The journal of the switch is durable: from now on only recovery may decide.
    Switching,
    Done,
}

/// A change of a file in place.
#[derive(Debug)]
struct Change {
    hold: Arc<FileHold>,
    disk: Disk,
    journal: PathBuf,
    /// Whether the guarded bytes are at the end of the file and have to stay there to be found.
    at_end: bool,
    intent: Intent,
    guarded: Vec<u8>,
    /// Where the next bytes go.
    end: u64,
    state: State,
    /// Whether there is, or may be, a journal.
    journaled: bool,
    readers_out: bool,
}

impl Change {
    fn file(&self) -> &File {
        &self.hold.lock.file
    }

    fn path(&self) -> &Path {
        &self.hold.lock.path
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), StoreError> {
        self.disk
            .write(self.file(), self.path(), data, offset)
            .map_err(|e| failed("write", self.path(), e))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.disk.sync(self.file(), self.path()).map_err(|e| failed("sync", self.path(), e))
    }

    /// Makes the complete journal durable under its name in one step.
    fn write_journal(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.journaled = true;
        let journal = &self.journal;
        let wrong = |e| failed("write the journal", journal, e);
        let path = journal.parent().unwrap_or(journal);
        let (temporary, file) = Temporary::create(&self.disk, path).map_err(wrong)?;
        // Everyone who may read the file may have to read the journal.
        let found = self.disk.examine_open(self.file(), self.path()).map_err(wrong)?;
        let mode = found.permissions().mode() & 0o777;
        file.set_permissions(Permissions::from_mode(mode)).map_err(wrong)?;
        self.disk.write(&file, temporary.path(), bytes, 0).map_err(wrong)?;
        self.disk.sync(&file, temporary.path()).map_err(wrong)?;
        let folder = Folder::open(&self.disk, path)?;
        let from = temporary.path().file_name().unwrap_or_default();
        folder.rename(from, journal.file_name().unwrap_or_default())?;
        temporary.renamed();
        folder.sync()
    }

    /// Adds the switch to a journal that already has the intent.
    fn extend_journal(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let journal = &self.journal;
        let wrong = |e| failed("write the journal", journal, e);
        let file = self.disk.open(File::options().write(true), journal).map_err(wrong)?;
        let at = self.intent.to_bytes().len() as u64;
        self.disk.write(&file, journal, bytes, at).map_err(wrong)?;
        self.disk.sync(&file, journal).map_err(wrong)
    }

    /// Extends the file before anything is written past its end, if the guarded bytes are located
    /// by the end of the file: data may end in bytes that look like an index (an inner shard does),
    /// and must not be mistaken for one.
    fn lengthen(&self, len: u64) -> Result<(), StoreError> {
        self.disk.resize(self.file(), self.path(), len).map_err(|e| failed("write", self.path(), e))
    }

    /// Sets a modification time that no earlier state of the file had. The kernel's own clock may
    /// tick too slowly to distinguish two states.
    fn stamp(&self) -> Result<Version, StoreError> {
        let times = FileTimes::new().set_modified(SystemTime::now());
        let stamped = self.file().set_times(times);
        let stamped = stamped.and_then(|()| self.disk.examine_open(self.file(), self.path()));
        let found = stamped.map_err(|e| failed("set the time of", self.path(), e))?;
        Ok(Stamp::from(&found).version())
    }

    /// Undoes what was written before the switch.
    fn undo(&mut self) -> Result<(), StoreError> {
        let wrong = |e| failed("undo a change of", self.path(), e);
        let len = self.disk.examine_open(self.file(), self.path()).map_err(wrong)?.len();
        if len > self.intent.old_len {
            self.disk.resize(self.file(), self.path(), self.intent.old_len).map_err(wrong)?;
        }
        if self.journaled {
            self.sync()?;
            self.forget_journal()?;
        }
        self.stamp()?;
        self.state = State::Done;
        Ok(())
    }

    fn forget_journal(&self) -> Result<(), StoreError> {
        match self.disk.remove(&self.journal) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove the journal", &self.journal, e))
            }
            _ => Ok(()),
        }
    }
}

impl InPlace for Change {
    fn shut_out_readers(&mut self) -> bool {
        self.readers_out = self.readers_out || shut_out_readers(self.file());
        self.readers_out
    }

    fn append(&mut self, data: &[u8]) -> Result<u64, StoreError> {
        let at = self.end;
        let end = at.checked_add(data.len() as u64).filter(|&end| i64::try_from(end).is_ok());
        self.end = end.ok_or_else(|| {
            failed("append to", self.path(), io::Error::from(io::ErrorKind::FileTooLarge))
        })?;
        // If the index is located by the end of the file, nothing may be written past it without a
        // journal that says so.
        if self.state == State::Fresh && self.at_end {
            self.write_journal(&self.intent.to_bytes())?;
        }
        self.state = State::Begun;
        if self.at_end {
            // A reader now finds zeros there, which fail any checksum.
            self.lengthen(self.end.saturating_add(self.guarded.len() as u64))?;
        }
        self.write(data, at)?;
        Ok(at)
    }

    fn switch(
        mut self: Box<Self>,
        last: &[(u64, &[u8])],
        at: u64,
        new: &[u8],
        len: u64,
    ) -> Result<Version, StoreError> {
        let in_place = at == self.intent.guard.start && new.len() == self.guarded.len();
        let past = at >= self.intent.old_len;
        let longer = len >= at.saturating_add(new.len() as u64) && len >= self.intent.old_len;
        if !((in_place || past) && longer) {
            let error = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(failed("switch", self.path(), error));
        }
        let old: &[u8] = if in_place { &self.guarded } else { &[] };
        let switch = Switch::new(at, old, new, len);
        if self.state == State::Begun && self.at_end {
            self.extend_journal(&switch.to_bytes())?;
        } else {
            let mut bytes = self.intent.to_bytes();
            bytes.extend(switch.to_bytes());
            self.write_journal(&bytes)?;
        }
        // If the whole file is guarded, the guarded bytes may belong at its start: then the room
        // reserved for an index located by the end is too much.
        if self.at_end && (past || self.state == State::Begun) {
            self.lengthen(len)?;
        }
        self.state = State::Begun;
        for (offset, data) in last {
            self.write(data, *offset)?;
        }
        self.sync()?;
        self.state = State::Switching;
        let changed = if in_place { switch.changed() } else { 0..new.len() };
        self.write(&new[changed.clone()], at + changed.start as u64)?;
        self.sync()?;
        let version = self.stamp()?;
        self.state = State::Done;
        // The switch is durable. A journal left behind says the same.
        self.forget_journal()?;
        Ok(version)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // A failure here leaves the journal, and the next one to open the file repeats this.
        match self.state {
            State::Begun => {
                let _ = self.undo();
            }
            // The journal could not be made durable, but it may be there.
            State::Fresh if self.journaled => {
                let _ = self.undo();
            }
            State::Switching => {
                let _ = recover::under_lock(&self.hold.store, &self.hold.lock);
            }
            State::Fresh | State::Done => {}
        }
        if self.readers_out {
            let_readers_in(self.file());
        }
    }
}
