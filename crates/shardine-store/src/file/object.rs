use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use nix::sys::stat::fstat;

use super::lock::mark_read;
use super::stamp::Stamp;
use super::{DiskLook, FileStore, failed, is_missing};
use crate::{Buffer, Done, Headers, Key, Object, ReadRange, StoreError, Version};

/// For how many milliseconds a path is assumed to still lead to the same file.
pub(super) const TRUST: u64 = 100;

/// A file open for reading.
#[derive(Debug)]
pub(super) struct FileObject {
    store: FileStore,
    key: Key,
    path: PathBuf,
    file: File,
    stamp: Stamp,
    /// Computed on first use.
    version: OnceLock<Version>,
    opened: Instant,
    /// Milliseconds after `opened` until which its path is assumed to lead to it.
    trusted: AtomicU64,
}

impl FileObject {
    pub fn open(store: &FileStore, key: &Key) -> Result<Self, StoreError> {
        let path = store.path(key);
        let disk = &store.0.disk;
        let file = disk.open_for_reading(&path).map_err(|e| {
            if is_missing(&e) { store.not_found(key) } else { failed("open", &path, e) }
        })?;
        let found = disk.examine_open(&file, &path).map_err(|e| failed("examine", &path, e))?;
        if !found.is_file() {
            return Err(store.not_found(key));
        }
        if store.0.local.is_local(&file, found.dev()) {
            mark_read(disk, &file, &path).map_err(|e| failed("lock", &path, e))?;
        }
        Self::from_file(store, key, path, file)
    }

    /// An object for an already open file, for a caller that does not need the reader mark.
    pub fn from_file(
        store: &FileStore,
        key: &Key,
        path: PathBuf,
        file: File,
    ) -> Result<Self, StoreError> {
        let found = store.0.disk.examine_open(&file, &path);
        let found = found.map_err(|e| failed("examine", &path, e))?;
        let stamp = Stamp::from(&found);
        Ok(Self {
            store: store.clone(),
            key: key.clone(),
            path,
            file,
            stamp,
            version: OnceLock::new(),
            opened: Instant::now(),
            // Opening may have waited for a writer. If the file was replaced in the meantime, its
            // times will never say so: they already did.
            trusted: AtomicU64::new(0),
        })
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The version, for a holder of the writer lock: nobody else can create another one with the
    /// same times.
    pub fn known_version(&self) -> Version {
        self.version.get_or_init(|| self.stamp.version()).clone()
    }

    #[inline]
    fn fill(&self, into: &mut [u8], start: u64) -> io::Result<()> {
        self.store.0.disk.read(&self.file, &self.path, into, start)
    }

    /// What a failed read means.
    fn failed(&self, error: io::Error) -> StoreError {
        match error.kind() {
            // It was long enough when it was opened.
            io::ErrorKind::UnexpectedEof => self.changed(),
            _ => failed("read", &self.path, error),
        }
    }

    fn changed(&self) -> StoreError {
        StoreError::Changed { key: self.key.clone() }
    }
}

impl Object for FileObject {
    fn len(&self) -> Option<u64> {
        Some(self.stamp.len)
    }

    /// `None` as long as a change in progress could leave the file with the same times.
    fn version(&self) -> Option<Version> {
        if let Some(version) = self.version.get() {
            return Some(version.clone());
        }
        self.stamp.is_telling(SystemTime::now()).then(|| self.known_version())
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let range = range.resolve(&self.key, self.stamp.len)?;
        if range.is_empty() {
            return Ok(Bytes::new().into());
        }
        let pool = &self.store.0.pool;
        usize::try_from(range.end - range.start)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
            .and_then(|len| pool.filled(len, range.start, |into| self.fill(into, range.start)))
            .map_err(|e| self.failed(e))
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let end = start.saturating_add(into.len() as u64);
        ReadRange::Bounded(start..end).resolve(&self.key, self.stamp.len)?;
        self.fill(into, start).map_err(|e| self.failed(e))
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(self.read(range));
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        let now = self.store.0.disk.examine_open(&self.file, &self.path);
        let now = now.map_err(|e| failed("examine", &self.path, e))?;
        if Stamp::from(&now).same_bytes(&self.stamp) { Ok(()) } else { Err(self.changed()) }
    }

    fn can_be_kept(&self) -> bool {
        self.store.0.local.is_local(&self.file, self.stamp.device)
    }

    /// A file that is replaced, moved or removed gets a new change time, and one that is written to
    /// a new modification time; both show through the open descriptor. What happens to a folder
    /// above it does not, so every [`TRUST`] the path is looked up as well; and always while the
    /// file is so young that its times may not show a change.
    fn is_current(&self) -> Result<bool, StoreError> {
        let disk = &self.store.0.disk;
        let now = disk
            .look(DiskLook::Examine { path: &self.path })
            .and_then(|()| Ok(fstat(&self.file)?))
            .map_err(|e| failed("examine", &self.path, e))?;
        if Stamp::from(&now) != self.stamp {
            return Ok(false);
        }
        let age = self.opened.elapsed().as_millis() as u64;
        if age < self.trusted.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let asked = SystemTime::now();
        match disk.examine(&self.path) {
            // The descriptor keeps the inode from being reused for another file.
            Ok(found) if Stamp::from(&found) == self.stamp => {
                if self.stamp.has_settled(asked) {
                    self.trusted.store(age.saturating_add(TRUST), Ordering::Relaxed);
                }
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(e) if is_missing(&e) => Ok(false),
            Err(e) => Err(failed("examine", &self.path, e)),
        }
    }

    fn headers(&self) -> Headers {
        Headers::default()
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_file_that_was_replaced_while_it_was_opened_is_not_current() {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::new(root.path());
        let (path, key) = (root.path().join("a"), Key::new("a").unwrap());
        fs::write(&path, b"old").unwrap();
        let file = File::open(&path).unwrap();
        fs::write(root.path().join("b"), b"new").unwrap();
        fs::rename(root.path().join("b"), &path).unwrap();
        // Until the times of the old file have settled.
        std::thread::sleep(Duration::from_millis(120));
        let object = FileObject::from_file(&store, &key, path, file).unwrap();
        assert!(!object.is_current().unwrap());
    }

    #[test]
    fn the_times_of_a_young_file_are_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::new(root.path());
        let (here, away) = (root.path().join("here"), root.path().join("away"));
        let key = Key::new("here/a").unwrap();
        for attempt in 0..20 {
            fs::create_dir(&here).unwrap();
            fs::write(here.join("a"), b"one").unwrap();
            let object = store.open(&key, None).unwrap();
            assert!(object.is_current().unwrap());
            // The descriptor cannot show this.
            fs::rename(&here, &away).unwrap();
            let young = fs::metadata(away.join("a")).unwrap().modified().unwrap().elapsed();
            let current = object.is_current().unwrap();
            fs::remove_dir_all(&away).unwrap();
            if young.unwrap() < Duration::from_millis(40) {
                return assert!(!current);
            }
            assert!(attempt < 19, "too slow to test");
        }
    }
}
