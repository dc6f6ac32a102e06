//! What is in a folder: objects, folders that are walked, and everything else.
//!
//! A link to a file is an object. A link to a folder is not walked: it may lead out of the data
//! set, or form a cycle. What is not walked is reported, so that a job does not mistake what it
//! sees for everything.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::disk::Disk;
use super::folder::Folder;
use super::journal::MAGIC;
use super::temporary::{job_of, journal_of, kind_of};
use super::tree::{LOCK_FILE, check_depth};
use super::{FileStore, failed, is_missing};
use crate::{Key, LeftoverKind, Listing, StoreError, Unlisted, UnlistedKind};

/// Identifies a folder among all others on this machine, whatever path leads to it.
pub type FolderId = (u64, u64);

/// The kind of an entry of a folder.
enum Entry {
    /// A file; `None` if its length was not requested.
    Object(Option<u64>),
    Folder,
    /// A file that the store created for itself.
    Own,
    /// Removed since the folder was read.
    Gone,
    Unlisted(UnlistedKind),
}

/// The result of walking a folder and all its subfolders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Everything that is neither an object nor a folder, up to the first
    /// [`Listing::MOST_UNLISTED`].
    pub unlisted: Vec<Unlisted>,
    /// How many more of these there are.
    pub more_unlisted: u64,
    /// The path of the first folder found that is one of those looked for.
    pub met: Option<PathBuf>,
}

pub(super) fn list(store: &FileStore, prefix: Option<&Key>) -> Result<Listing, StoreError> {
    let disk = &store.0.disk;
    refuse_links(store, prefix)?;
    let path = prefix.map_or_else(|| store.root().to_owned(), |key| store.path(key));
    let entries = match disk.list(&path) {
        Ok(entries) => entries,
        Err(e) if is_missing(&e) => return Ok(Listing::default()),
        Err(e) => return Err(failed("list", &path, e)),
    };
    let mut listing = Listing::default();
    for entry in entries {
        let entry = entry.map_err(|e| failed("list", &path, e))?;
        let key = key_of(prefix, &entry.file_name());
        match (classify(disk, &entry, true)?, key) {
            (Entry::Object(len), Some(key)) => {
                listing.objects.push((key, len.unwrap_or_default()));
            }
            (Entry::Folder, Some(key)) => listing.folders.push(key),
            (Entry::Own | Entry::Gone, _) => {}
            (found, key) => listing.add_unlisted(unlisted(prefix, &entry, &found, key)),
        }
    }
    listing.objects.sort();
    listing.folders.sort();
    listing.unlisted.sort();
    Ok(listing)
}

impl FileStore {
    /// Walks a folder and its subfolders without following links, and reports everything that is
    /// neither object nor folder. Stops at the first folder that is one of `unwanted`. Reads only
    /// folders: one `stat` for each, and one for each link.
    pub fn survey(
        &self,
        folder: Option<&Key>,
        unwanted: &HashSet<FolderId>,
    ) -> Result<Survey, StoreError> {
        let disk = &self.0.disk;
        let path = folder.map_or_else(|| self.root().to_owned(), |key| self.path(key));
        // The given folder may be a link, and is resolved once.
        let path = match disk.resolve(&path) {
            Ok(path) => path,
            Err(e) if is_missing(&e) => return Ok(Survey::default()),
            Err(e) => return Err(failed("examine", &path, e)),
        };
        let mut found = Listing::default();
        let met = survey_inside(disk, &path, folder, unwanted, &mut found, 0)?;
        let Listing { mut unlisted, more_unlisted, .. } = found;
        unlisted.sort();
        Ok(Survey { unlisted, more_unlisted, met })
    }

    /// The ids of `folder` and all folders above it, with all links resolved, and whether the
    /// folder exists. If it does not, the ids are those of the existing folders above it.
    pub fn folder_ids(&self, folder: Option<&Key>) -> Result<(Vec<FolderId>, bool), StoreError> {
        let disk = &self.0.disk;
        let path = folder.map_or_else(|| self.root().to_owned(), |key| self.path(key));
        let mut nearest = path.as_path();
        let resolved = loop {
            match nearest.canonicalize() {
                Ok(resolved) => break resolved,
                Err(e) if is_missing(&e) => {}
                Err(e) => return Err(failed("examine", nearest, e)),
            }
            // The target of a link that is broken for now cannot be determined here.
            let found = disk.find_link(nearest).map_err(|e| failed("examine", nearest, e))?;
            if found.is_some_and(|found| found.is_symlink()) {
                let message = "it is a broken link";
                return Err(failed("examine", nearest, io::Error::other(message)));
            }
            match nearest.parent() {
                Some(parent) => nearest = parent,
                None => return Ok((Vec::new(), false)),
            }
        };
        let ids = resolved.ancestors().map(|at| {
            let found = disk.examine(at).map_err(|e| failed("examine", at, e))?;
            Ok((found.dev(), found.ino()))
        });
        Ok((ids.collect::<Result<_, StoreError>>()?, nearest == path))
    }

    /// Another file system, or another part of one, that is mounted inside a folder. What is there
    /// is not part of the folder.
    pub fn mounted_inside(&self, folder: Option<&Key>) -> Result<Option<PathBuf>, StoreError> {
        let disk = &self.0.disk;
        const MOUNTS: &str = "/proc/self/mountinfo";
        let path = folder.map_or_else(|| self.root().to_owned(), |key| self.path(key));
        let path = match disk.resolve(&path) {
            Ok(path) => path,
            Err(e) if is_missing(&e) => return Ok(None),
            Err(e) => return Err(failed("examine", &path, e)),
        };
        // Systems without this file have no mounts of individual folders.
        let mounts = match fs::read(MOUNTS) {
            Ok(mounts) => mounts,
            Err(e) if is_missing(&e) => return Ok(None),
            Err(e) => return Err(failed("read", Path::new(MOUNTS), e)),
        };
        let points = mounts.split(|&byte| byte == b'\n').filter_map(|line| {
            let point = line.split(|&byte| byte == b' ').nth(4)?;
            Some(PathBuf::from(OsStr::from_bytes(&unescaped(point))))
        });
        let mut inside = points.filter(|point| *point != path && point.starts_with(&path));
        Ok(inside.next())
    }

    /// Removes a link, socket, pipe or device; a file or folder stays. Links are removed, not
    /// followed.
    pub fn remove_unlisted_at(&self, key: &Key) -> Result<(), StoreError> {
        let disk = &self.0.disk;
        let path = self.path(key);
        match disk.examine_link(&path) {
            Ok(found) if found.is_file() || found.is_dir() => Ok(()),
            Ok(_) => {
                self.remove_path(&path)?;
                Folder::open(&self.0.disk, path.parent().unwrap_or(&path))?.sync()
            }
            Err(e) if is_missing(&e) => Ok(()),
            Err(e) => Err(failed("examine", &path, e)),
        }
    }

    /// Removes what a listing of a folder reports as unlisted. Links are removed, not followed.
    pub fn remove_unlisted(&self, folder: Option<&Key>) -> Result<(), StoreError> {
        let disk = &self.0.disk;
        let path = folder.map_or_else(|| self.root().to_owned(), |key| self.path(key));
        let entries = match disk.list(&path) {
            Ok(entries) => entries,
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(failed("list", &path, e)),
        };
        let mut removed = false;
        for entry in entries {
            let entry = entry.map_err(|e| failed("list", &path, e))?;
            let key = key_of(folder, &entry.file_name());
            let stays = match classify(disk, &entry, false)? {
                Entry::Own | Entry::Gone => true,
                // The only copy of something is never removed as a side effect.
                Entry::Unlisted(kind) => kind == UnlistedKind::OnlyCopy,
                Entry::Object(_) | Entry::Folder => key.is_some(),
            };
            if !stays {
                self.remove_path(&entry.path())?;
                removed = true;
            }
        }
        if removed { Folder::open(&self.0.disk, &path)?.sync() } else { Ok(()) }
    }
}

/// Refuses a prefix that passes through a link below the root.
fn refuse_links(store: &FileStore, prefix: Option<&Key>) -> Result<(), StoreError> {
    let disk = &store.0.disk;
    let Some(prefix) = prefix else { return Ok(()) };
    let mut path = store.root().to_owned();
    for part in prefix.as_str().split('/') {
        path.push(part);
        match disk.examine_link(&path) {
            Ok(found) if found.is_symlink() => {
                return Err(StoreError::LinkedFolder { folder: prefix.clone() });
            }
            Ok(_) => {}
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(failed("examine", &path, e)),
        }
    }
    Ok(())
}

fn survey_inside(
    disk: &Disk,
    path: &Path,
    prefix: Option<&Key>,
    unwanted: &HashSet<FolderId>,
    found: &mut Listing,
    depth: usize,
) -> Result<Option<PathBuf>, StoreError> {
    check_depth(path, depth)?;
    if !unwanted.is_empty() {
        match disk.examine_link(path) {
            Ok(at) if unwanted.contains(&(at.dev(), at.ino())) => return Ok(Some(path.to_owned())),
            Ok(_) => {}
            Err(e) if is_missing(&e) => return Ok(None),
            Err(e) => return Err(failed("examine", path, e)),
        }
    }
    let entries = match disk.list(path) {
        Ok(entries) => entries,
        Err(e) if is_missing(&e) => return Ok(None),
        Err(e) => return Err(failed("list", path, e)),
    };
    for entry in entries {
        let entry = entry.map_err(|e| failed("list", path, e))?;
        let key = key_of(prefix, &entry.file_name());
        match (classify(disk, &entry, false)?, key) {
            (Entry::Object(_), Some(_)) | (Entry::Own | Entry::Gone, _) => {}
            (Entry::Folder, Some(key)) => {
                let met =
                    survey_inside(disk, &entry.path(), Some(&key), unwanted, found, depth + 1)?;
                if met.is_some() {
                    return Ok(met);
                }
            }
            (other, key) => found.add_unlisted(unlisted(prefix, &entry, &other, key)),
        }
    }
    Ok(None)
}

fn classify(disk: &Disk, entry: &DirEntry, with_len: bool) -> Result<Entry, StoreError> {
    let examine = |e| failed("examine", &entry.path(), e);
    let kind = match entry.file_type() {
        Ok(kind) => kind,
        Err(e) if is_missing(&e) => return Ok(Entry::Gone),
        Err(e) => return Err(examine(e)),
    };
    if let Some(name) = entry.file_name().to_str() {
        if let Some(own) = kind_of(name) {
            let is_own = kind.is_file() && is_own_file(disk, entry, name, own)?;
            return Ok(if is_own { Entry::Own } else { Entry::Unlisted(UnlistedKind::LikeOwn) });
        }
        if let (Some(of), true) = (job_of(name), kind.is_dir()) {
            return job(disk, &entry.path(), of);
        }
    }
    if kind.is_dir() {
        return Ok(Entry::Folder);
    }
    if kind.is_file() && !with_len {
        return Ok(Entry::Object(None));
    }
    // Not the entry's own metadata: for a link, that would describe the link instead of the file
    // behind it.
    match disk.examine(&entry.path()) {
        Ok(found) if found.is_file() => Ok(Entry::Object(Some(found.len()))),
        Ok(found) if found.is_dir() && kind.is_symlink() => {
            Ok(Entry::Unlisted(UnlistedKind::FolderLink))
        }
        // A folder has just replaced a file.
        Ok(found) if found.is_dir() => Ok(Entry::Folder),
        Ok(_) => Ok(Entry::Unlisted(UnlistedKind::Special)),
        Err(e) if is_missing(&e) && !kind.is_symlink() => Ok(Entry::Gone),
        Err(e) if is_missing(&e) || e.raw_os_error() == Some(Errno::ELOOP as i32) => {
            match disk.examine_link(&entry.path()) {
                Ok(_) => Ok(Entry::Unlisted(UnlistedKind::BrokenLink)),
                Err(e) if is_missing(&e) => Ok(Entry::Gone),
                Err(e) => Err(examine(e)),
            }
        }
        Err(e) => Err(examine(e)),
    }
}

/// Whether a file that is named like one of the store's own really is one.
fn is_own_file(
    disk: &Disk,
    entry: &DirEntry,
    name: &str,
    kind: LeftoverKind,
) -> Result<bool, StoreError> {
    let (LeftoverKind::Journal, Some(of)) = (kind, journal_of(name)) else { return Ok(true) };
    match disk.examine_link(&entry.path().with_file_name(of)) {
        Ok(_) => return Ok(true),
        Err(e) if is_missing(&e) => {}
        Err(e) => return Err(failed("examine", &entry.path(), e)),
    }
    // The object may have been removed, which leaves its journal behind for a moment.
    let begins = |file: File| {
        let mut bytes = Vec::new();
        file.take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
        Ok(bytes == MAGIC)
    };
    match disk.open_for_reading(&entry.path()).and_then(begins) {
        Ok(begins) => Ok(begins),
        // It was removed, or only its owner can tell.
        Err(e) if is_missing(&e) || e.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(e) => Err(failed("read", &entry.path(), e)),
    }
}

/// Classifies a folder that is named like the working folder of a job on the folder `of`.
fn job(disk: &Disk, path: &Path, of: &str) -> Result<Entry, StoreError> {
    let there = |path: &Path| match disk.examine_link(path) {
        Ok(_) => Ok(true),
        Err(e) if is_missing(&e) => Ok(false),
        Err(e) => Err(failed("examine", path, e)),
    };
    let mut entries = match disk.list(path) {
        Ok(entries) => entries,
        Err(e) if is_missing(&e) => return Ok(Entry::Gone),
        // Only its owner may look into it.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(Entry::Own),
        Err(e) => return Err(failed("list", path, e)),
    };
    // The job was killed before it took its lock, or after it had removed everything.
    if entries.next().is_none() {
        return Ok(Entry::Own);
    }
    Ok(match (there(&path.join(LOCK_FILE))?, there(&path.with_file_name(of))?) {
        (true, true) => Entry::Own,
        (true, false) => Entry::Unlisted(UnlistedKind::OnlyCopy),
        (false, _) => Entry::Unlisted(UnlistedKind::LikeOwn),
    })
}

fn key_of(prefix: Option<&Key>, name: &OsStr) -> Option<Key> {
    let name = name.to_str()?;
    prefix.map_or_else(|| Key::new(name), |key| key.join(name)).ok()
}

fn unlisted(prefix: Option<&Key>, entry: &DirEntry, found: &Entry, key: Option<Key>) -> Unlisted {
    let kind = match found {
        Entry::Unlisted(kind) => *kind,
        Entry::Folder => UnlistedKind::OddFolder,
        Entry::Object(_) | Entry::Own | Entry::Gone => UnlistedKind::OddName,
    };
    let name = shown(&entry.file_name());
    let name = prefix.map_or_else(|| name.clone(), |prefix| format!("{prefix}/{name}"));
    Unlisted { name, key, kind }
}

/// A name for messages. Distinct names stay distinct.
fn shown(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// A path from the list of mounts, where some characters are escaped as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let octal = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_are_and_bytes_that_are_no_text_as_numbers() {
        assert_eq!(shown(OsStr::from_bytes(b"a\\b")), "a\\b");
        assert_eq!(shown(OsStr::from_bytes(b"\xffa\n")), "\\xffa\\n");
    }

    #[test]
    fn the_paths_of_mounts_are_unescaped() {
        assert_eq!(unescaped(b"/a\\040b\\"), b"/a b\\");
    }
}
