//! Files that writers made for themselves and did not take away.

use std::fs;
use std::path::PathBuf;

use super::temporary::{journal_of, kind_of};
use super::{FileStore, failed, is_missing, open_for_reading};
use crate::{Key, Leftover, LeftoverKind, StoreError};

pub(super) fn list(store: &FileStore, prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
    let folder = folder_of(store, prefix);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(e) if is_missing(&e) => return Ok(Vec::new()),
        Err(e) => return Err(failed("list", &folder, e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| failed("list", &folder, e))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(kind) = kind_of(name) else { continue };
        let metadata = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => continue,
            Err(e) if is_missing(&e) => continue,
            Err(e) => return Err(failed("examine", &entry.path(), e)),
        };
        let object = journal_of(name)
            .and_then(|of| prefix.map_or_else(|| Key::new(of), |prefix| prefix.join(of)).ok());
        // A journal is in use as long as the object is locked, a temporary file as long as it is locked itself.
        let locked = match &object {
            Some(object) => store.path(object),
            None => entry.path(),
        };
        let in_use = kind != LeftoverKind::SetAside && is_locked(&locked);
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
        let reason = "it is no leftover that may be removed";
        return Err(StoreError::Key { text: name.to_owned(), reason });
    }
    if is_locked(&path) {
        return Ok(false);
    }
    match store.0.disk.remove(&path) {
        Ok(()) => Ok(true),
        Err(e) if is_missing(&e) => Ok(true),
        Err(e) => Err(failed("remove", &path, e)),
    }
}

fn folder_of(store: &FileStore, prefix: Option<&Key>) -> PathBuf {
    prefix.map_or_else(|| store.root().to_owned(), |key| store.path(key))
}

/// Whether somebody holds the lock of a file, or may hold it: what cannot be opened or locked, as the file of another
/// user or one where there are no locks, does not tell.
fn is_locked(path: &std::path::Path) -> bool {
    match open_for_reading(path) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(e) => !is_missing(&e),
    }
}
