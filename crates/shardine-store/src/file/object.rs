use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bytes::Bytes;

use super::stamp::Stamp;
use super::{FileStore, failed, is_missing};
use crate::{Buffer, Key, Object, ReadRange, StoreError, Version};

/// A file that is open for reading.
#[derive(Debug)]
pub(super) struct FileObject {
    store: FileStore,
    key: Key,
    file: File,
    stamp: Stamp,
}

impl FileObject {
    pub fn open(store: &FileStore, key: &Key) -> Result<Self, StoreError> {
        let path = store.path(key);
        let file = File::open(&path).map_err(|e| {
            if is_missing(&e) { store.not_found(key) } else { failed("open", &path, e) }
        })?;
        let found = file.metadata().map_err(|e| failed("examine", &path, e))?;
        if !found.is_file() {
            return Err(store.not_found(key));
        }
        Ok(Self { store: store.clone(), key: key.clone(), file, stamp: Stamp::from(&found) })
    }

    fn path(&self) -> PathBuf {
        self.store.path(&self.key)
    }

    fn changed(&self) -> StoreError {
        StoreError::Changed { key: self.key.clone() }
    }
}

impl Object for FileObject {
    fn len(&self) -> Option<u64> {
        Some(self.stamp.len)
    }

    fn version(&self) -> Option<Version> {
        Some(self.stamp.version())
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let range = range.resolve(&self.key, self.stamp.len)?;
        if range.is_empty() {
            return Ok(Bytes::new().into());
        }
        let read = usize::try_from(range.end - range.start)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
            .and_then(|len| {
                self.store.0.pool.try_filled(len, |into| self.file.read_exact_at(into, range.start))
            });
        read.map_err(|e| match e.kind() {
            // It was long enough when it was opened.
            io::ErrorKind::UnexpectedEof => self.changed(),
            _ => failed("read", &self.path(), e),
        })
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        let now = self.file.metadata().map_err(|e| failed("examine", &self.path(), e))?;
        if Stamp::from(&now).same_bytes(&self.stamp) { Ok(()) } else { Err(self.changed()) }
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}
