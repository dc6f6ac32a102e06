//! Files that writers created for themselves and did not remove.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::disk::Disk;
use super::temporary::{job_of, journal_of, kind_of};
use super::tree::LOCK_FILE;
use super::{DiskLook, FileStore, failed, is_missing};
use crate::{Key, Leftover, LeftoverKind, StoreError};

pub(super) fn list(store: &FileStore, prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
    let folder = folder_of(store, prefix);
    let disk = &store.0.disk;
    let entries = match disk.list(&folder) {
        Ok(entries) => entries,
        Err(e) if is_missing(&e) => return Ok(Vec::new()),
        Err(e) => return Err(failed("list", &folder, e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| failed("list", &folder, e))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(of) = job_of(name) {
            let object = prefix.map_or_else(|| Key::new(of), |prefix| prefix.join(of)).ok();
            let in_use = is_locked(disk, &entry.path().join(LOCK_FILE));
            let kind = LeftoverKind::Job;
            found.push(Leftover { name: name.to_owned(), kind, object, len: 0, in_use });
            continue;
        }
        let Some(kind) = kind_of(name) else { continue };
        let metadata = match disk.examine_link(&entry.path()) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => continue,
            Err(e) if is_missing(&e) => continue,
            Err(e) => return Err(failed("examine", &entry.path(), e)),
        };
        let object = journal_of(name)
            .and_then(|of| prefix.map_or_else(|| Key::new(of), |prefix| prefix.join(of)).ok());
        // A journal is in use while the object is locked, a temporary file while it is locked
        // itself.
        let locked = match &object {
            Some(object) => store.path(object),
            None => entry.path(),
        };
        let in_use =
            kind != LeftoverKind::SetAside && is_locked_soon(disk, &locked, metadata.len());
        // Its writer may have renamed it since it was listed, and no longer locks it.
        if !in_use && !is_still(disk, &entry.path(), &metadata)? {
            continue;
        }
        found.push(Leftover { name: name.to_owned(), kind, object, len: metadata.len(), in_use });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

pub(super) fn remove(
    store: &FileStore,
    prefix: Option<&Key>,
    name: &str,
) -> Result<bool, StoreError> {
    let path = folder_of(store, prefix).join(name);
    if name.contains('/') || !matches!(kind_of(name), Some(kind) if kind != LeftoverKind::Journal) {
        let reason = "it is not a leftover that may be removed";
        return Err(StoreError::Key { text: name.to_owned(), reason });
    }
    let disk = &store.0.disk;
    let found = disk.find_link(&path).map_err(|e| failed("examine", &path, e))?;
    if is_locked_soon(disk, &path, found.map_or(0, |metadata| metadata.len())) {
        return Ok(false);
    }
    match disk.remove(&path) {
        Ok(()) => Ok(true),
        Err(e) if is_missing(&e) => Ok(true),
        Err(e) => Err(failed("remove", &path, e)),
    }
}

fn folder_of(store: &FileStore, prefix: Option<&Key>) -> PathBuf {
    prefix.map_or_else(|| store.root().to_owned(), |key| store.path(key))
}

/// How long a writer may take between creating its file and locking it.
const MADE: Duration = Duration::from_millis(20);

/// Whether the lock of a file of `len` bytes is held, or about to be taken: for a moment after its
/// creation the file exists, is empty and not locked yet.
fn is_locked_soon(disk: &Disk, path: &Path, len: u64) -> bool {
    if is_locked(disk, path) {
        return true;
    }
    if len > 0 {
        return false;
    }
    thread::sleep(MADE);
    is_locked(disk, path)
}

/// Whether a name still refers to the same file.
fn is_still(disk: &Disk, path: &Path, before: &fs::Metadata) -> Result<bool, StoreError> {
    let now = disk.find_link(path).map_err(|e| failed("examine", path, e))?;
    Ok(now.is_some_and(|now| (now.dev(), now.ino()) == (before.dev(), before.ino())))
}

/// Whether the lock of a file is held, or may be: if the file cannot be opened or locked, because
/// it belongs to another user or there are no locks, that is unknown.
pub(super) fn is_locked(disk: &Disk, path: &Path) -> bool {
    match disk.open_for_reading(path) {
        Ok(file) => disk.look(DiskLook::Lock { path }).is_err() || file.try_lock_shared().is_err(),
        Err(e) => !is_missing(&e),
    }
}
