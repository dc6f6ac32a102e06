//! Whole folders: exchanged in one step, carried over, removed. What a job needs that builds an array anew beside the
//! old one and then puts it into its place.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use nix::errno::Errno;

use super::disk::{Disk, DiskStep};
use super::folder::Folder;
use super::lock::leads_to;
use super::stamp::Stamp;
use super::temporary::{is_job_folder, is_own_file, job_folder, kind_of, lock_name};
use super::{FileStore, Inner, failed, is_missing, open_for_reading};
use crate::{Key, LeftoverKind, StoreError};

/// The name of the file in the folder of a job whose lock says that the job is under way.
pub(super) const LOCK_FILE: &str = "lock";

/// Deeper than any data set.
const MAX_DEPTH: usize = 128;

/// The name that a file has while it is copied because it cannot be linked.
const CARRIED: &str = ".shardine-carried.tmp";

/// What becomes of something in a folder that is carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderPart {
    /// It is left where it is.
    Left,
    /// It is a folder; what is inside is looked at.
    Inside,
    /// It is carried over.
    Carried,
}

/// Keeps a job from being run twice at once, for as long as it lives or its process does.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
}

/// How often a lock is tried that somebody else has, and how long is waited in between: who only looks whether a file is
/// locked holds its lock for a moment.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A lock in a folder, on a file of its own. Dropping it removes the file; a process that dies gives the lock up, and leaves
/// the file for the next one to use.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
    path: PathBuf,
    disk: Disk,
}

impl FolderLock {
    /// Whether the lock is still that of the folder: nobody has removed its file or exchanged the folder.
    pub fn is_held(&self) -> Result<bool, StoreError> {
        is_at(&self.path, &self.file)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Removed before the lock is given up, so that nobody else has it by then. What cannot be removed is used by the next one.
        if self.is_held().unwrap_or(false) {
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Whether a path leads to this open file. That nobody can tell is an error, and not a no.
fn is_at(path: &Path, file: &File) -> Result<bool, StoreError> {
    let held = file.metadata().map_err(|e| failed("examine", path, e))?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
        Err(e) if is_missing(&e) => Ok(false),
        Err(e) => Err(failed("examine", path, e)),
    }
}

impl FileStore {
    /// Takes the lock `name` in a folder that exists; `None` if somebody else has it, in this process or in another one.
    ///
    /// Its file is one that [`is_own_file`] knows, so that listings and copies leave it out.
    /// [`StoreError::Unsupported`] where the file system has no locks.
    pub fn lock_in(
        &self,
        folder: Option<&Key>,
        name: &str,
    ) -> Result<Option<FolderLock>, StoreError> {
        let folder = folder.map_or_else(|| self.root().to_owned(), |key| self.path(key));
        let path = folder.join(lock_name(name));
        let disk = &self.0.disk;
        disk.ask(DiskStep::Create { path: &path }).map_err(|e| failed("create", &path, e))?;
        for attempt in 0..LOCK_TRIES {
            if attempt > 0 {
                thread::sleep(LOCK_PAUSE);
            }
            let made = File::options().create(true).truncate(false).write(true).open(&path);
            let file = match made {
                // The file of another user, who was killed; its lock is as good.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => open_for_reading(&path),
                made => made,
            };
            let file = file.map_err(|e| failed("create", &path, e))?;
            match file.try_lock() {
                Ok(()) if is_at(&path, &file)? => {
                    return Ok(Some(FolderLock { file, path, disk: disk.clone() }));
                }
                // Who had it before has removed the file since it was opened.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(e)) if super::lacks_locks(&e) => {
                    let store = self.root().display().to_string();
                    return Err(StoreError::Unsupported { store, operation: "lock a file" });
                }
                Err(TryLockError::Error(e)) => return Err(failed("lock", &path, e)),
            }
        }
        Ok(None)
    }

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
        Ok((self.with_root(above.to_owned()), Key::new(name)?))
    }

    /// The store of another folder, with the same memory.
    pub(super) fn with_root(&self, root: PathBuf) -> Self {
        Self(Arc::new(Inner {
            root,
            pool: Arc::clone(&self.0.pool),
            local: super::local::LocalSystems::default(),
            disk: self.0.disk.clone(),
            fresh: Mutex::default(),
            sync_handle: Mutex::default(),
            sync_failed: Mutex::new(false),
        }))
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
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            let file = file.map_err(|e| failed("create", &path, e))?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) if !super::lacks_locks(&e) => {
                    return Err(failed("lock", &path, e));
                }
                // Who had it before may have removed the file, and somebody else have made another one.
                Ok(()) | Err(_) if leads_to(&path, &file) => {
                    return Ok(Some(JobLock { _file: file }));
                }
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Lets nobody but its owner into a folder.
    pub fn make_private(&self, folder: &Key) -> Result<(), StoreError> {
        let path = self.path(folder);
        let set = fs::set_permissions(&path, Permissions::from_mode(0o700));
        set.map_err(|e| failed("set the mode of", &path, e))
    }

    /// Gives a folder the mode of another one.
    pub fn copy_mode(&self, from: &Key, to: &Key) -> Result<(), StoreError> {
        let (from, to) = (self.path(from), self.path(to));
        let copied =
            fs::metadata(from).and_then(|found| fs::set_permissions(&to, found.permissions()));
        copied.map_err(|e| failed("set the mode of", &to, e))
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

    /// Gives a folder all that is in another one and is not to be left, by a second name for the same file, or by a copy
    /// where there can be none; and takes away what an earlier call has given it. Durable, but for the folder itself.
    ///
    /// `part` tells by the path below the folder, and whether it is that of a folder, what becomes of it. What has a name that is not
    /// Unicode is carried over. Links are carried over as links.
    pub fn carry_over(
        &self,
        from: &Key,
        to: &Key,
        part: &dyn Fn(&str, bool) -> FolderPart,
    ) -> Result<(), StoreError> {
        let (from, to) = (self.path(from), self.path(to));
        self.each_carried(&to, Path::new(""), part, 0, &mut |path| {
            self.remove_path(&to.join(path))
        })?;
        self.each_carried(&from, Path::new(""), part, 0, &mut |path| {
            let target = to.join(path);
            if let Some(above) = target.parent() {
                self.make_folder(above)?;
            }
            self.carry(&from.join(path), &target, 0)?;
            self.sync_names(&[&target])
        })
    }

    /// Visits what is to be carried over, by its path below `root`.
    fn each_carried(
        &self,
        root: &Path,
        folder: &Path,
        part: &dyn Fn(&str, bool) -> FolderPart,
        depth: usize,
        visit: &mut dyn FnMut(&Path) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let at = root.join(folder);
        check_depth(&at, depth)?;
        let list = |e| failed("list", &at, e);
        let found = match fs::read_dir(&at) {
            Err(e) if is_missing(&e) => return Ok(()),
            found => found.map_err(list)?,
        };
        for entry in found {
            let entry = entry.map_err(list)?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| is_own_file(name) || is_job_folder(name)) {
                continue;
            }
            let path = folder.join(&name);
            let kind = entry.file_type().map_err(|e| failed("examine", &entry.path(), e))?;
            let becomes = match path.to_str() {
                // What is behind a link is not inside; the link itself is carried over.
                Some(text) => match part(text, kind.is_dir()) {
                    FolderPart::Inside if !kind.is_dir() => FolderPart::Carried,
                    becomes => becomes,
                },
                None => FolderPart::Carried,
            };
            match becomes {
                FolderPart::Left => {}
                FolderPart::Inside => self.each_carried(root, &path, part, depth + 1, visit)?,
                FolderPart::Carried => visit(&path)?,
            }
        }
        Ok(())
    }

    fn carry(&self, from: &Path, to: &Path, depth: usize) -> Result<(), StoreError> {
        check_depth(from, depth)?;
        let found = fs::symlink_metadata(from).map_err(|e| failed("examine", from, e))?;
        if found.is_dir() {
            self.make_folder(to)?;
            for name in entries(from)? {
                self.carry(&from.join(&name), &to.join(&name), depth + 1)?;
            }
            return Folder::open(&self.0.disk, to)?.sync();
        }
        let linked = self.0.disk.ask(DiskStep::Link { from, to });
        match linked.and_then(|()| fs::hard_link(from, to)) {
            Ok(()) => Ok(()),
            Err(_) if found.is_file() => {
                let temporary = to.with_file_name(CARRIED);
                let copied = fs::copy(from, &temporary)
                    .and_then(|_| File::open(&temporary)?.sync_all())
                    .and_then(|()| fs::rename(&temporary, to));
                copied.map_err(|e| failed("carry over to", to, e))
            }
            Err(e) => Err(failed("carry over to", to, e)),
        }
    }

    /// A number that is the same as long as nothing in a folder, and in those inside it, is written, renamed or removed.
    ///
    /// One `stat` for each file, and memory for none. Temporary files and journals do not count.
    pub fn fingerprint(&self, folder: &Key) -> Result<u64, StoreError> {
        self.fingerprint_of(&self.path(folder), folder.as_str(), 0)
    }

    fn fingerprint_of(&self, path: &Path, name: &str, depth: usize) -> Result<u64, StoreError> {
        check_depth(path, depth)?;
        let list = |e| failed("list", path, e);
        // A sum does not depend on the order in which a folder lists.
        let mut sum = 0u64;
        for entry in fs::read_dir(path).map_err(list)? {
            let entry = entry.map_err(list)?;
            let file = entry.file_name();
            if file.to_str().is_some_and(|file| is_own_file(file) || is_job_folder(file)) {
                continue;
            }
            let own = match fs::symlink_metadata(entry.path()) {
                Ok(own) => own,
                Err(e) if is_missing(&e) => continue,
                Err(e) => return Err(failed("examine", &entry.path(), e)),
            };
            let found = match fs::metadata(entry.path()) {
                // What is behind a link to a folder is not inside; the links may be a loop.
                Ok(found) if found.is_dir() && own.is_symlink() => own,
                Ok(found) => found,
                // What a link leads to may be on a disk that is not there; it must not be taken for nothing.
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
        check_depth(path, depth)?;
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

    pub(super) fn remove_path(&self, path: &Path) -> Result<(), StoreError> {
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

pub(super) fn check_depth(path: &Path, depth: usize) -> Result<(), StoreError> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    let message = format!("it lies more than {MAX_DEPTH} folders deep");
    Err(failed("list", path, io::Error::other(message)))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into())).collect()
    };
    read().map_err(|e| failed("list", folder, e))
}
