//! Capabilities that only file stores have.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{
    DocumentStamp, FileStore, FolderHold, FolderId, FolderIdentity, FolderLock, Key, ObjectTimes,
    Store, StoreError, Survey,
};

/// Objects are files in folders on this machine, with paths, links and mounts.
///
/// A data set may then be reachable by several paths, and lie next to things that are not objects.
/// See [`Store::folders`].
pub trait Folders: Debug + Send + Sync {
    /// The path of a key; `None` is the root. Does not touch the disk.
    fn path_of(&self, key: Option<&Key>) -> PathBuf;

    /// A path with links resolved, as far as it exists.
    fn resolved(&self, path: &Path) -> Result<PathBuf, StoreError>;

    /// Whether there is a file where the root should be.
    fn root_is_file(&self) -> Result<bool, StoreError>;

    /// The ids of `folder` and all folders above it, with all links resolved, and whether the
    /// folder exists. If it does not, the ids are those of the existing folders above it.
    fn folder_ids(&self, folder: Option<&Key>) -> Result<(Vec<FolderId>, bool), StoreError>;

    /// Walks a folder and its subfolders without following links, and reports everything that is
    /// neither object nor folder. Stops at the first folder that is one of `unwanted`. Reads only
    /// folders: one `stat` for each, and one for each link.
    fn survey(
        &self,
        folder: Option<&Key>,
        unwanted: &HashSet<FolderId>,
    ) -> Result<Survey, StoreError>;

    /// A mount point inside a folder, if there is one. What is mounted there is not part of the
    /// folder.
    fn mounted_inside(&self, folder: Option<&Key>) -> Result<Option<PathBuf>, StoreError>;

    /// Removes what a listing of a folder reports as unlisted. Links are removed, not followed.
    fn remove_unlisted(&self, folder: Option<&Key>) -> Result<(), StoreError>;

    /// Removes a link, socket, pipe or device; a file or folder stays. Links are removed, not
    /// followed.
    fn remove_unlisted_at(&self, key: &Key) -> Result<(), StoreError>;

    /// When an object was changed; `None` if there is none. One `stat`.
    fn times(&self, key: &Key) -> Result<Option<ObjectTimes>, StoreError>;

    /// The same store, except that new files get the mode and owner of an open file instead of the
    /// process's defaults.
    fn with_modes_of(&self, file: &File) -> Result<Arc<dyn Store>, StoreError>;
}

/// The folder of a data set can be exchanged for another one, or held in its place.
///
/// A job in place exchanges the whole folder, after which all keys below it mean something else. A
/// reader therefore checks that the data set is still the one it opened, and a writer holds the
/// folder. See [`Store::exchange`].
///
/// The jobs themselves work on the disk, in a folder next to the data set's: they link, move and
/// lock folders and set their modes. No other kind of store can do that, so this is the only place
/// where a store exposes a concrete [`FileStore`] ([`beside`](Self::beside),
/// [`beside_missing`](Self::beside_missing)).
pub trait FolderExchange: Debug + Send + Sync {
    /// The state of a document; `None` if there is none. One `stat`.
    fn document_stamp(&self, key: &Key) -> Result<Option<DocumentStamp>, StoreError>;

    /// The identity of the folder that is now in this place; `None` if there is none.
    fn folder_identity(&self, folder: Option<&Key>) -> Result<Option<FolderIdentity>, StoreError>;

    /// Keeps the folder of a data set in its place until the hold is dropped. Waits for a job that
    /// is exchanging it.
    ///
    /// `None` if there are no reliable locks, or the folder may not be opened. [`StoreError::Io`]
    /// with `NotFound` if there is no folder.
    fn hold(&self, folder: Option<&Key>) -> Result<Option<FolderHold>, StoreError>;

    /// Takes the lock `name` in an existing folder; `None` if it is taken, by this process or
    /// another one. [`StoreError::Unsupported`] if the file system has no locks.
    fn lock_in(&self, folder: Option<&Key>, name: &str) -> Result<Option<FolderLock>, StoreError>;

    /// A number that changes when any program writes to anything in a folder. One `stat` for each
    /// file.
    fn fingerprint(&self, folder: Option<&Key>) -> Result<u64, StoreError>;

    /// The store of the parent of a folder, and the folder's key in it.
    ///
    /// Links are resolved first: what is next to a link to a folder is not next to the folder.
    fn beside(&self, folder: Option<&Key>) -> Result<(FileStore, Key), StoreError>;

    /// The same by the path alone, for a folder that may be missing. `None` if its name cannot be a
    /// key, in which case there is no job on it. Does not touch the disk.
    fn beside_missing(&self, folder: Option<&Key>) -> Option<(FileStore, Key)>;
}

// The functions of `FileStore` with the same names do the work.

impl Folders for FileStore {
    fn path_of(&self, key: Option<&Key>) -> PathBuf {
        self.folder_path(key)
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf, StoreError> {
        Self::resolved(self, path)
    }

    fn root_is_file(&self) -> Result<bool, StoreError> {
        Self::root_is_file(self)
    }

    fn folder_ids(&self, folder: Option<&Key>) -> Result<(Vec<FolderId>, bool), StoreError> {
        Self::folder_ids(self, folder)
    }

    fn survey(
        &self,
        folder: Option<&Key>,
        unwanted: &HashSet<FolderId>,
    ) -> Result<Survey, StoreError> {
        Self::survey(self, folder, unwanted)
    }

    fn mounted_inside(&self, folder: Option<&Key>) -> Result<Option<PathBuf>, StoreError> {
        Self::mounted_inside(self, folder)
    }

    fn remove_unlisted(&self, folder: Option<&Key>) -> Result<(), StoreError> {
        Self::remove_unlisted(self, folder)
    }

    fn remove_unlisted_at(&self, key: &Key) -> Result<(), StoreError> {
        Self::remove_unlisted_at(self, key)
    }

    fn times(&self, key: &Key) -> Result<Option<ObjectTimes>, StoreError> {
        Self::times(self, key)
    }

    fn with_modes_of(&self, file: &File) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.with_modes(crate::Modes::of(file)?)))
    }
}

impl FolderExchange for FileStore {
    fn document_stamp(&self, key: &Key) -> Result<Option<DocumentStamp>, StoreError> {
        Self::document_stamp(self, key)
    }

    fn folder_identity(&self, folder: Option<&Key>) -> Result<Option<FolderIdentity>, StoreError> {
        Self::folder_identity(self, folder)
    }

    fn hold(&self, folder: Option<&Key>) -> Result<Option<FolderHold>, StoreError> {
        Self::hold(self, folder)
    }

    fn lock_in(&self, folder: Option<&Key>, name: &str) -> Result<Option<FolderLock>, StoreError> {
        Self::lock_in(self, folder, name)
    }

    fn fingerprint(&self, folder: Option<&Key>) -> Result<u64, StoreError> {
        let (beside, name) = Self::beside(self, folder)?;
        Self::fingerprint(&beside, &name)
    }

    fn beside(&self, folder: Option<&Key>) -> Result<(FileStore, Key), StoreError> {
        Self::beside(self, folder)
    }

    fn beside_missing(&self, folder: Option<&Key>) -> Option<(FileStore, Key)> {
        let path = self.folder_path(folder);
        let name = path.file_name().and_then(OsStr::to_str)?;
        Some((self.elsewhere(path.parent()?), Key::new(name).ok()?))
    }
}
