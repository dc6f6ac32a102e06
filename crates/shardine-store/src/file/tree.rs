//! Whole folders: exchanged in one step, carried over, removed. What a job needs that builds an array anew beside the
//! old one and then puts it into its place.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use nix::errno::Errno;

use super::disk::DiskStep;
use super::folder::Folder;
use super::stamp::Stamp;
use super::temporary::{is_job_folder, is_own_file, job_folder, kind_of};
use super::{FileStore, Inner, failed, is_missing};
use crate::{Key, LeftoverKind, StoreError};

/// The name of the file in the folder of a job whose lock says that the job is under way.
pub(super) const LOCK_FILE: &str = "lock";

/// Deeper than any data set that is not a loop of links.
const MAX_DEPTH: usize = 128;

/// Keeps a job from being run twice at once, for as long as it lives or its process does.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
}

impl FileStore {
    /// The store of the folder in which the folder at `path` lies, and the key of that folder in it.
    ///
    /// Links are resolved first: what is beside a link to a folder is not beside the folder.
    pub fn beside(&self, path: Option<&Key>) -> Result<(Self, Key), StoreError> {
        let folder = path.map_or_else(|| self.root().to_owned(), |key| self.path(key));
        let found = folder.canonicalize().map_err(|e| failed("examine", &folder, e))?;
        let name = found.file_name().and_then(OsStr::to_str);
        let (Some(above), Some(name)) = (found.parent(), name) else {
            let (text, reason) = (found.display().to_string(), "nothing can lie beside it");
            return Err(StoreError::Key { text, reason });
        };
        let inner = Inner {
            root: above.to_owned(),
            pool: Arc::clone(&self.0.pool),
            local: super::local::LocalSystems::default(),
            disk: self.0.disk.clone(),
            fresh: Mutex::default(),
            sync_handle: OnceLock::new(),
        };
        Ok((Self(Arc::new(inner)), Key::new(name)?))
    }

    /// The key of the folder in which a job on the folder `name` of this store works.
    ///
    /// Listings leave it out, and [`leftovers`](crate::Store::leftovers) tells it.
    pub fn job_folder(&self, name: &Key) -> Result<Key, StoreError> {
        Key::new(&job_folder(name.as_str()))
    }

    /// Makes a folder, and those above it; durable with what is published in it.
    pub fn make_folder_at(&self, folder: &Key) -> Result<(), StoreError> {
        self.make_folder(&self.path(folder))
    }

    /// Takes the lock of the job that works in a folder, which has to be there; `None` if another process has it.
    ///
    /// Where a file system has no locks, nobody is kept out.
    pub fn lock_job(&self, folder: &Key) -> Result<Option<JobLock>, StoreError> {
        let path = self.path(&folder.join(LOCK_FILE)?);
        self.0
            .disk
            .ask(DiskStep::Create { path: &path })
            .map_err(|e| failed("create", &path, e))?;
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|e| failed("create", &path, e))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Ok(()) => Ok(Some(JobLock { _file: file })),
            Err(TryLockError::Error(e)) if super::lacks_locks(&e) => {
                Ok(Some(JobLock { _file: file }))
            }
            Err(TryLockError::Error(e)) => Err(failed("lock", &path, e)),
        }
    }

    /// Whether there is a folder. A link to one counts.
    pub fn has_folder(&self, folder: &Key) -> bool {
        self.path(folder).is_dir()
    }

    /// Lets two folders exchange their names, in one step that is durable when this returns.
    ///
    /// [`StoreError::Unsupported`] where the kernel or the file system cannot.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn exchange(&self, one: &Key, other: &Key) -> Result<(), StoreError> {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

        let (one, other) = (self.path(one), self.path(other));
        let asked = self.0.disk.ask(DiskStep::Exchange { one: &one, other: &other });
        let exchanged = asked.and_then(|()| {
            let flags = RenameFlags::RENAME_EXCHANGE;
            Ok(renameat2(AT_FDCWD, &other, AT_FDCWD, &one, flags)?)
        });
        match exchanged {
            Ok(()) => self.sync_names(&[&one, &other]),
            Err(e) if cannot_exchange(&e) => {
                let store = self.root().display().to_string();
                Err(StoreError::Unsupported { store, operation: "exchange two folders" })
            }
            Err(e) => Err(failed("exchange folders with", &one, e)),
        }
    }

    /// Lets two folders exchange their names, in one step that is durable when this returns.
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub fn exchange(&self, _: &Key, _: &Key) -> Result<(), StoreError> {
        let store = self.root().display().to_string();
        Err(StoreError::Unsupported { store, operation: "exchange two folders" })
    }

    /// Gives a folder another name, which nothing has. Durable when this returns.
    pub fn move_folder(&self, from: &Key, to: &Key) -> Result<(), StoreError> {
        let (from, to) = (self.path(from), self.path(to));
        let operation = "move a folder to";
        if fs::symlink_metadata(&to).is_ok() {
            return Err(failed(operation, &to, io::ErrorKind::AlreadyExists));
        }
        let asked = self.0.disk.ask(DiskStep::Rename { from: &from, to: &to });
        asked.and_then(|()| fs::rename(&from, &to)).map_err(|e| failed(operation, &to, e))?;
        self.sync_names(&[&from, &to])
    }

    /// Makes the names in the folders of these paths durable.
    fn sync_names(&self, paths: &[&Path]) -> Result<(), StoreError> {
        let mut folders: Vec<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        folders.dedup();
        folders.into_iter().try_for_each(|folder| Folder::open(&self.0.disk, folder)?.sync())
    }

    /// Gives what is at `from`, a file or a folder with all that is in it, a second name: the same file, by a link, or a copy
    /// where links cannot be made. What is there already stays. Not durable before something is published in the same folder.
    pub fn carry(&self, from: &Key, to: &Key) -> Result<(), StoreError> {
        self.carry_path(&self.path(from), &self.path(to))
    }

    fn carry_path(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let found = fs::symlink_metadata(from).map_err(|e| failed("examine", from, e))?;
        if found.is_dir() {
            self.make_folder(to)?;
            return entries(from)?
                .iter()
                .try_for_each(|name| self.carry_path(&from.join(name), &to.join(name)));
        }
        if fs::symlink_metadata(to).is_ok() {
            return Ok(());
        }
        let linked = self.0.disk.ask(DiskStep::Link { from, to });
        match linked.and_then(|()| fs::hard_link(from, to)) {
            Ok(()) => Ok(()),
            Err(_) if found.is_file() => {
                let copied = fs::copy(from, to).and_then(|_| File::open(to)?.sync_all());
                copied.map_err(|e| failed("carry over to", to, e))
            }
            Err(e) => Err(failed("carry over to", to, e)),
        }
    }

    /// Visits the names in a folder, in any order, without holding all of them: each with whether it is that of a folder.
    ///
    /// Files that the store itself makes are left out, and so are names that are not Unicode.
    pub fn each_name(
        &self,
        folder: &Key,
        visit: &mut dyn FnMut(&str, bool) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let path = self.path(folder);
        let list = |e| failed("list", &path, e);
        for entry in fs::read_dir(&path).map_err(list)? {
            let entry = entry.map_err(list)?;
            let name = entry.file_name();
            let own = |name: &str| is_own_file(name) || is_job_folder(name);
            if let Some(name) = name.to_str().filter(|name| !own(name)) {
                visit(name, entry.path().is_dir())?;
            }
        }
        Ok(())
    }

    /// A number that is the same as long as nothing in a folder, and in those inside it, is written, renamed or removed.
    ///
    /// One `stat` for each file, and memory for none. Temporary files and journals do not count.
    pub fn fingerprint(&self, folder: &Key) -> Result<u64, StoreError> {
        self.fingerprint_of(&self.path(folder), folder.as_str(), 0)
    }

    fn fingerprint_of(&self, path: &Path, name: &str, depth: usize) -> Result<u64, StoreError> {
        if depth > MAX_DEPTH {
            return Err(failed("list", path, io::ErrorKind::QuotaExceeded));
        }
        let list = |e| failed("list", path, e);
        // A sum does not depend on the order in which a folder lists.
        let mut sum = 0u64;
        for entry in fs::read_dir(path).map_err(list)? {
            let entry = entry.map_err(list)?;
            let file = entry.file_name();
            if file.to_str().is_some_and(|file| is_own_file(file) || is_job_folder(file)) {
                continue;
            }
            let found = match fs::metadata(entry.path()) {
                Ok(found) => found,
                Err(e) if is_missing(&e) => continue,
                Err(e) => return Err(failed("examine", &entry.path(), e)),
            };
            // By the place below the folder, which may be renamed meanwhile.
            let inside = format!("{}/{}", if depth == 0 { "" } else { name }, file.display());
            if found.is_dir() {
                let of = self.fingerprint_of(&entry.path(), &inside, depth + 1)?;
                sum = sum.wrapping_add(of);
                continue;
            }
            let mut hasher = DefaultHasher::new();
            (inside, Stamp::from(&found).of_bytes()).hash(&mut hasher);
            sum = sum.wrapping_add(hasher.finish());
        }
        Ok(sum)
    }

    /// Removes temporary files that writers left in a folder and in those inside it. For who knows that nobody writes there.
    pub fn remove_temporaries(&self, folder: &Key) -> Result<(), StoreError> {
        self.remove_temporaries_in(&self.path(folder), 0)
    }

    fn remove_temporaries_in(&self, path: &Path, depth: usize) -> Result<(), StoreError> {
        if depth > MAX_DEPTH {
            return Err(failed("list", path, io::ErrorKind::QuotaExceeded));
        }
        for name in entries(path)? {
            let inside = path.join(&name);
            if name.to_str().and_then(kind_of) == Some(LeftoverKind::Temporary) {
                self.remove_path(&inside)?;
            } else if fs::symlink_metadata(&inside).is_ok_and(|found| found.is_dir()) {
                self.remove_temporaries_in(&inside, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Removes a folder with all that is in it, if it is there. Links are removed, not followed.
    pub fn remove_tree(&self, folder: &Key) -> Result<(), StoreError> {
        let path = self.path(folder);
        self.remove_path(&path)?;
        self.sync_names(&[&path])
    }

    fn remove_path(&self, path: &Path) -> Result<(), StoreError> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(failed("examine", path, e)),
        };
        let disk = &self.0.disk;
        let removed = if found.is_dir() {
            for name in entries(path)? {
                self.remove_path(&path.join(name))?;
            }
            disk.ask(DiskStep::RemoveFolder { path }).and_then(|()| fs::remove_dir(path))
        } else {
            disk.remove(path)
        };
        match removed {
            Err(e) if !is_missing(&e) => Err(failed("remove", path, e)),
            _ => Ok(()),
        }
    }
}

/// Whether an error says that the kernel or the file system has no such step.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn cannot_exchange(error: &io::Error) -> bool {
    let lacking = [Errno::EINVAL, Errno::ENOSYS, Errno::EOPNOTSUPP].map(|e| Some(e as i32));
    error.kind() == io::ErrorKind::Unsupported || lacking.contains(&error.raw_os_error())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into())).collect()
    };
    read().map_err(|e| failed("list", folder, e))
}
