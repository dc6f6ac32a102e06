//! Whole folders: exchanged in one step, carried over, removed. For jobs that rebuild an array next
//! to the old one and then put it in its place.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use nix::errno::Errno;

use siphasher::sip::SipHasher13;

use super::disk::{Disk, DiskLook, DiskStep};
use super::folder::Folder;
use super::helpers::Helpers;
use super::lock::leads_to;
use super::modes::Modes;
use super::stamp::Stamp;
use super::temporary::{is_job_folder, is_own_file, job_folder, kind_of, lock_name};
use super::{FileStore, Inner, failed, is_missing};
use crate::{COPY_PIECE, Key, LeftoverKind, StoreError};

/// The file in a job's folder whose lock shows that the job is running.
pub(super) const LOCK_FILE: &str = "lock";

/// Deeper than any data set.
const MAX_DEPTH: usize = 128;

/// The name that a file has while it is copied because it cannot be linked.
const CARRIED: &str = ".shardine-carried.tmp";

/// The subfolder of a job's folder onto which another folder is renamed as a test.
const PROBE: &str = "probe";

/// What happens to something in a folder that is carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderPart {
    /// It stays where it is.
    Left,
    /// It is a folder whose content is decided on individually.
    Inside,
    /// It is carried over.
    Carried,
}

/// Totals over all files in a folder and its subfolders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FolderState {
    /// See [`FileStore::fingerprint`].
    pub fingerprint: u64,
    /// The permissions of what is inside.
    pub modes: Modes,
    /// How many files there are.
    pub files: u64,
    /// Their total length.
    pub bytes: u64,
}

impl FolderState {
    /// Takes what is in another folder into account.
    fn add(&mut self, other: &Self) {
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
        self.modes.join(&other.modes);
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Keeps a job from being run twice at the same time, until this is dropped or its process dies.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
}

/// How often to try a lock that someone else has, and how long to wait in between: someone who only
/// checks whether a file is locked holds its lock for a moment.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A lock in a folder, on a file of its own. Dropping it removes the file; a process that dies
/// releases the lock, and leaves the file for the next one to use.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
    path: PathBuf,
    disk: Disk,
}

impl FolderLock {
    /// Whether the lock is still the folder's: nobody has removed its file or exchanged the folder.
    pub fn is_held(&self) -> Result<bool, StoreError> {
        is_at(&self.disk, &self.path, &self.file)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Removed before the lock is released, so that nobody else has it by then. There is no one
        // to report a failure to, so it is tried twice; if the file stays, the next one uses it.
        let remove = || match self.is_held() {
            Ok(true) => self.disk.remove(&self.path).is_ok(),
            Ok(false) => true,
            Err(_) => false,
        };
        let _ = remove() || remove();
    }
}

/// Whether a path leads to this open file. If that cannot be determined, it is an error, not
/// `false`.
fn is_at(disk: &Disk, path: &Path, file: &File) -> Result<bool, StoreError> {
    let wrong = |e| failed("examine", path, e);
    let held = disk.examine_open(file, path).map_err(wrong)?;
    let found = disk.find_link(path).map_err(wrong)?;
    Ok(found.is_some_and(|found| (found.dev(), found.ino()) == (held.dev(), held.ino())))
}

impl FileStore {
    /// Takes the lock `name` in an existing folder; `None` if it is taken, in this process or
    /// another one.
    ///
    /// Its file is one that [`is_own_file`] knows, so that listings and copies leave it out.
    /// [`StoreError::Unsupported`] if the file system has no locks.
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
                // The file of another user's killed process; its lock is just as good.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    disk.open_for_reading(&path)
                }
                made => made,
            };
            let file = file.map_err(|e| failed("create", &path, e))?;
            match disk.try_lock(&file, &path) {
                Ok(()) if is_at(disk, &path, &file)? => {
                    return Ok(Some(FolderLock { file, path, disk: disk.clone() }));
                }
                // The previous holder has removed the file since it was opened.
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

    /// The store of the parent of the folder at `path`, and the folder's key in it.
    ///
    /// Links are resolved first: what is next to a link to a folder is not next to the folder.
    pub fn beside(&self, path: Option<&Key>) -> Result<(Self, Key), StoreError> {
        let folder = path.map_or_else(|| self.root().to_owned(), |key| self.path(key));
        let found = self.0.disk.resolve(&folder).map_err(|e| failed("examine", &folder, e))?;
        let name = found.file_name().and_then(OsStr::to_str);
        let (Some(above), Some(name)) = (found.parent(), name) else {
            let (text, reason) = (found.display().to_string(), "nothing can be stored next to it");
            return Err(StoreError::Key { text, reason });
        };
        Ok((self.with_root(above.to_owned()), Key::new(name)?))
    }

    /// Whether a process works on the job in this folder, or may do so.
    pub fn is_job_in_use(&self, work: &Key) -> bool {
        super::leftover::is_locked(&self.0.disk, &self.path(work).join(LOCK_FILE))
    }

    /// The store of another folder, with the same memory.
    pub(super) fn with_root(&self, root: PathBuf) -> Self {
        Self(Arc::new(self.sibling(root)))
    }

    fn sibling(&self, root: PathBuf) -> Inner {
        Inner {
            root,
            pool: Arc::clone(&self.0.pool),
            local: super::local::LocalSystems::default(),
            disk: self.0.disk.clone(),
            modes: Modes::default(),
            fresh: Arc::default(),
            sync_handle: Mutex::default(),
            sync_failed: Mutex::new(false),
        }
    }

    /// The key of the working folder of a job on the folder `name` of this store.
    ///
    /// Listings leave it out, and [`leftovers`](crate::Store::leftovers) reports it.
    pub fn job_folder(&self, name: &Key) -> Result<Key, StoreError> {
        Key::new(&job_folder(name.as_str()))
    }

    /// Creates a folder and its parents; they become durable when something is published in it.
    pub fn make_folder_at(&self, folder: &Key) -> Result<(), StoreError> {
        self.make_folder(&self.path(folder))
    }

    /// Takes the lock of the job that works in an existing folder; `None` if another process has
    /// it.
    ///
    /// Where a file system has no locks, nobody is kept out.
    pub fn lock_job(&self, folder: &Key) -> Result<Option<JobLock>, StoreError> {
        let path = self.path(&folder.join(LOCK_FILE)?);
        let disk = &self.0.disk;
        disk.ask(DiskStep::Create { path: &path }).map_err(|e| failed("create", &path, e))?;
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            let file = file.map_err(|e| failed("create", &path, e))?;
            match disk.try_lock(&file, &path) {
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) if !super::lacks_locks(&e) => {
                    return Err(failed("lock", &path, e));
                }
                Ok(()) | Err(_) => {}
            }
            // The previous holder may have removed the file, and someone else created another one.
            if leads_to(disk, &path, &file).map_err(|e| failed("examine", &path, e))? {
                return Ok(Some(JobLock { _file: file }));
            }
        }
    }

    /// Makes a folder accessible only to its owner.
    pub fn make_private(&self, folder: &Key) -> Result<(), StoreError> {
        let path = self.path(folder);
        let set = fs::set_permissions(&path, Permissions::from_mode(0o700));
        set.map_err(|e| failed("set the mode of", &path, e))
    }

    /// Gives a folder the mode and owner of another one.
    pub fn copy_mode(&self, from: &Key, to: &Key) -> Result<(), StoreError> {
        let to = self.path(to);
        let copied = self.modes_of(from)?.apply_to_folder(&to);
        copied.map_err(|e| failed("set the mode of", &to, e))
    }

    /// The mode and owner of a file or folder.
    pub fn modes_of(&self, key: &Key) -> Result<Modes, StoreError> {
        let path = self.path(key);
        let mut modes = Modes::default();
        modes.add(&self.0.disk.examine(&path).map_err(|e| failed("examine", &path, e))?);
        Ok(modes)
    }

    /// The same store, except that new files and folders get these modes instead of the process's
    /// defaults.
    pub fn with_modes(&self, modes: Modes) -> Self {
        let mut inner = self.sibling(self.root().to_owned());
        inner.modes = modes;
        inner.fresh = Arc::clone(&self.0.fresh);
        Self(Arc::new(inner))
    }

    /// Whether there is a folder. A link to one counts.
    pub fn has_folder(&self, folder: &Key) -> Result<bool, StoreError> {
        let path = self.path(folder);
        self.0.disk.is_folder(&path).map_err(|e| failed("examine", &path, e))
    }

    /// Whether anything has this name, even a broken link.
    pub fn has_name(&self, key: &Key) -> Result<bool, StoreError> {
        let path = self.path(key);
        let found = self.0.disk.find_link(&path).map_err(|e| failed("examine", &path, e))?;
        Ok(found.is_some())
    }

    /// Fails if a folder cannot be renamed, such as a mount point or a folder of a lower layer of
    /// an overlay file system. Changes nothing; `work` is a folder next to it where this can be
    /// tried.
    ///
    /// Tries to rename the folder onto a non-empty one. That always fails, but anything that
    /// prevents the folder from being renamed at all is reported first. Only tried where the file
    /// system is known to behave like that.
    pub fn check_movable(&self, folder: &Key, work: &Key) -> Result<(), StoreError> {
        let (path, disk) = (self.path(folder), &self.0.disk);
        let wrong = |e: io::Error| failed("move the folder", &path, e);
        let open = disk.open(File::options().read(true), &path).map_err(wrong)?;
        if !super::local::keeps_full_folders(&open) {
            return Ok(());
        }
        drop(open);
        let (probe, full) = (work.join(PROBE)?, work.join(PROBE)?.join("full")?);
        self.make_folder_at(&full)?;
        let tried = disk
            .look(DiskLook::Move { path: &path })
            .and_then(|()| fs::rename(&path, self.path(&probe)));
        let found = match tried {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                Ok(())
            }
            // Should never happen. Rename it back.
            Ok(()) => fs::rename(self.path(&probe), &path).map_err(wrong),
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
                let operation = "be replaced: its folder is in a lower layer of an overlay file \
                                 system and cannot be renamed; choose another location for the \
                                 result";
                Err(StoreError::Unsupported { store: path.display().to_string(), operation })
            }
            Err(e) => Err(wrong(e)),
        };
        self.remove_path(&self.path(&probe))?;
        found
    }

    /// Exchanges the names of two folders, in one step that is durable when this returns.
    ///
    /// [`StoreError::Unsupported`] if the kernel or the file system cannot do that.
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

    /// Exchanges the names of two folders, in one step that is durable when this returns.
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub fn exchange(&self, _: &Key, _: &Key) -> Result<(), StoreError> {
        let store = self.root().display().to_string();
        Err(StoreError::Unsupported { store, operation: "exchange two folders" })
    }

    /// Renames a folder or file to an unused name. Durable when this returns.
    pub fn rename(&self, from: &Key, to: &Key) -> Result<(), StoreError> {
        let (from, to) = (self.path(from), self.path(to));
        let operation = "rename something to";
        if self.0.disk.find_link(&to).map_err(|e| failed("examine", &to, e))?.is_some() {
            return Err(failed(operation, &to, io::ErrorKind::AlreadyExists));
        }
        let asked = self.0.disk.ask(DiskStep::Rename { from: &from, to: &to });
        asked.and_then(|()| fs::rename(&from, &to)).map_err(|e| failed(operation, &to, e))?;
        self.sync_names(&[&from, &to])
    }

    /// A path with links resolved, as far as it exists.
    pub fn resolved(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let path = std::path::absolute(path).map_err(|e| failed("name", path, e))?;
        for above in path.ancestors() {
            match self.0.disk.resolve(above) {
                Ok(found) => {
                    // Joining an empty rest would add a trailing slash.
                    let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
                    let is_all = rest.as_os_str().is_empty();
                    return Ok(if is_all { found } else { found.join(rest) });
                }
                Err(e) if is_missing(&e) => {}
                Err(e) => return Err(failed("examine", above, e)),
            }
        }
        Ok(path)
    }

    /// Whether there is a file where the root should be.
    pub fn root_is_file(&self) -> Result<bool, StoreError> {
        let found = self.0.disk.find(self.root());
        Ok(found.map_err(|e| failed("examine", self.root(), e))?.is_some_and(|f| f.is_file()))
    }

    /// Removes an object without waiting for the removal to become durable.
    ///
    /// For the marker of a job whose result is complete and durable: after a kill, either the job
    /// is done or the marker is still there and the rest is repeated. If this had to wait, there
    /// would be a moment in which the marker is gone and the job not done.
    pub(crate) fn remove_last(&self, key: &Key) -> Result<(), StoreError> {
        let path = self.path(key);
        match self.0.disk.remove(&path) {
            Err(e) if !is_missing(&e) => Err(failed("remove", &path, e)),
            _ => Ok(()),
        }
    }

    /// Makes the names in the parent folders of these paths durable.
    fn sync_names(&self, paths: &[&Path]) -> Result<(), StoreError> {
        let mut folders: Vec<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        folders.dedup();
        folders.into_iter().try_for_each(|folder| Folder::open(&self.0.disk, folder)?.sync())
    }

    /// Carries everything in one folder that is not to be left over to another, by a second name
    /// for the same file, or by a copy where there can be none; and removes what an earlier call
    /// put there. Durable, except for the folder itself.
    ///
    /// `part` decides by the path below the folder, and whether that is a folder, what happens to
    /// it. Names that are not Unicode are carried over. Links are carried over as links.
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

    /// Visits everything to be carried over, by its path below `root`.
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
        let disk = &self.0.disk;
        let found = match disk.list(&at) {
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
                // What is behind a link is not inside the folder; the link itself is carried over.
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
        let disk = &self.0.disk;
        let found = disk.examine_link(from).map_err(|e| failed("examine", from, e))?;
        if found.is_dir() {
            self.make_folder(to)?;
            let mut modes = Modes::default();
            modes.add(&found);
            modes.apply_to_folder(to).map_err(|e| failed("set the mode of", to, e))?;
            for name in self.entries(from)? {
                self.carry(&from.join(&name), &to.join(&name), depth + 1)?;
            }
            return Folder::open(disk, to)?.sync();
        }
        let linked = disk.ask(DiskStep::Link { from, to });
        match linked.and_then(|()| fs::hard_link(from, to)) {
            Ok(()) => Ok(()),
            Err(_) if found.is_file() => {
                let copied = self.copy_file(from, to, &found);
                copied.map_err(|e| failed("carry over to", to, e))
            }
            Err(e) => Err(failed("carry over to", to, e)),
        }
    }

    /// Copies a file that cannot be linked. Durable, except for its name.
    fn copy_file(&self, from: &Path, to: &Path, found: &Metadata) -> io::Result<()> {
        let disk = &self.0.disk;
        let temporary = to.with_file_name(CARRIED);
        let source = disk.open_for_reading(from)?;
        disk.ask(DiskStep::Create { path: &temporary })?;
        let target = File::options().write(true).create(true).truncate(true).open(&temporary)?;
        let (mut at, len) = (0, disk.examine_open(&source, from)?.len());
        let mut piece = vec![0; COPY_PIECE as usize];
        while at < len {
            let n = COPY_PIECE.min(len - at) as usize;
            disk.read(&source, from, &mut piece[..n], at)?;
            disk.write(&target, &temporary, &piece[..n], at)?;
            at += n as u64;
        }
        let mut modes = Modes::default();
        modes.add(found);
        modes.apply_to_file(&target)?;
        disk.sync(&target, &temporary)?;
        disk.ask(DiskStep::Rename { from: &temporary, to })?;
        fs::rename(&temporary, to)
    }

    /// A number that stays the same as long as nothing in a folder and its subfolders is written,
    /// renamed or removed.
    ///
    /// One `stat` for each file, in constant memory. Temporary files and journals do not count.
    pub fn fingerprint(&self, folder: &Key) -> Result<u64, StoreError> {
        Ok(self.state_of(folder)?.fingerprint)
    }

    /// The same for a folder that was at `home` before. Links that lead out of it are resolved from
    /// there.
    pub fn fingerprint_of_moved(&self, folder: &Key, home: &Key) -> Result<u64, StoreError> {
        let (path, home) = (self.path(folder), self.path(home));
        Ok(self.state_inside(&path, Some(&home), folder.as_str(), 0, &Helpers::new())?.fingerprint)
    }

    /// The fingerprint, and the other totals collected by the same pass over all files.
    pub fn state_of(&self, folder: &Key) -> Result<FolderState, StoreError> {
        self.state_inside(&self.path(folder), None, folder.as_str(), 0, &Helpers::new())
    }

    fn state_inside(
        &self,
        path: &Path,
        home: Option<&Path>,
        name: &str,
        depth: usize,
        helpers: &Helpers,
    ) -> Result<FolderState, StoreError> {
        check_depth(path, depth)?;
        let disk = &self.0.disk;
        let list = |e| failed("list", path, e);
        let mut state = FolderState::default();
        let mut folders = Vec::new();
        for entry in disk.list(path).map_err(list)? {
            let entry = entry.map_err(list)?;
            let file = entry.file_name();
            if file.to_str().is_some_and(|file| is_own_file(file) || is_job_folder(file)) {
                continue;
            }
            let wrong = |e| failed("examine", &entry.path(), e);
            let Some(own) = disk.find_link(&entry.path()).map_err(wrong)? else { continue };
            let found = if own.is_symlink() {
                let mut at = entry.path();
                if let Some(home) = home {
                    let text = disk.read_link(&at).map_err(wrong)?;
                    at = outside(home, depth, &text).unwrap_or(at);
                }
                let mut found = disk.examine(&at);
                if let (Err(e), Some(home)) = (&found, home)
                    && is_missing(e)
                {
                    // A link to another link that leads out of the folder: both were carried over.
                    found = disk.examine(&home.join(&file));
                }
                // The target of a link may be on a disk that is not mounted; that must not be taken
                // for nothing.
                let found = found.map_err(wrong)?;
                // What is behind a link to a folder is not inside; links may form a cycle.
                if found.is_dir() { own } else { found }
            } else {
                own
            };
            state.modes.add(&found);
            if found.is_dir() {
                folders.push(file);
                continue;
            }
            state.files += 1;
            state.bytes = state.bytes.saturating_add(found.len());
            // The same on every machine and in every release, since it is stored in markers.
            let mut hasher = SipHasher13::new();
            hasher.write(path_inside(name, depth, &file).as_bytes());
            hasher.write(&Stamp::from(&found).of_bytes());
            // A sum does not depend on the order in which a folder is listed.
            state.fingerprint = state.fingerprint.wrapping_add(hasher.finish());
        }
        let state = Mutex::new(state);
        helpers.each(folders, &|folder| {
            let home = home.map(|home| home.join(&folder));
            let inside = path_inside(name, depth, &folder);
            let path = path.join(&folder);
            let found = self.state_inside(&path, home.as_deref(), &inside, depth + 1, helpers)?;
            state.lock().unwrap_or_else(PoisonError::into_inner).add(&found);
            Ok(())
        })?;
        Ok(state.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes temporary files that writers left in a folder and its subfolders. For a caller that
    /// knows that nobody is writing there.
    pub fn remove_temporaries(&self, folder: &Key) -> Result<(), StoreError> {
        self.remove_temporaries_in(&self.path(folder), 0)
    }

    fn remove_temporaries_in(&self, path: &Path, depth: usize) -> Result<(), StoreError> {
        check_depth(path, depth)?;
        for name in self.entries(path)? {
            let inside = path.join(&name);
            if name.to_str().and_then(kind_of) == Some(LeftoverKind::Temporary) {
                self.remove_path(&inside)?;
                continue;
            }
            let found = self.0.disk.find_link(&inside);
            let found = found.map_err(|e| failed("examine", &inside, e))?;
            if found.is_some_and(|found| found.is_dir()) {
                self.remove_temporaries_in(&inside, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Removes a folder and everything in it, if it exists. Links are removed, not followed.
    pub fn remove_tree(&self, folder: &Key) -> Result<(), StoreError> {
        let path = self.path(folder);
        self.remove_path(&path)?;
        self.sync_names(&[&path])
    }

    pub(super) fn remove_path(&self, path: &Path) -> Result<(), StoreError> {
        let found = self.0.disk.find_link(path).map_err(|e| failed("examine", path, e))?;
        let Some(found) = found else { return Ok(()) };
        self.remove_found(path, found.is_dir(), &Helpers::new())
    }

    /// Removes a folder with everything in it, or a file. What disappears meanwhile is removed.
    fn remove_found(
        &self,
        path: &Path,
        is_folder: bool,
        helpers: &Helpers,
    ) -> Result<(), StoreError> {
        let disk = &self.0.disk;
        let removed = if is_folder {
            // The listing says what is a folder, which saves examining each file.
            let inside = || -> io::Result<Vec<_>> {
                let each = |entry: io::Result<fs::DirEntry>| {
                    let entry = entry?;
                    Ok((entry.path(), entry.file_type()?.is_dir()))
                };
                disk.list(path)?.map(each).collect()
            };
            match inside() {
                Err(e) if is_missing(&e) => return Ok(()),
                Err(e) => return Err(failed("list", path, e)),
                Ok(inside) => helpers.each(inside, &|(path, is_folder)| {
                    self.remove_found(&path, is_folder, helpers)
                })?,
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

    /// The names in a folder.
    fn entries(&self, folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let read = || -> io::Result<Vec<PathBuf>> {
            self.0.disk.list(folder)?.map(|entry| Ok(entry?.file_name().into())).collect()
        };
        read().map_err(|e| failed("list", folder, e))
    }
}

/// The path of something below the folder in which a walk began, which may be renamed in the
/// meantime.
fn path_inside(name: &str, depth: usize, file: &OsStr) -> String {
    format!("{}/{}", if depth == 0 { "" } else { name }, file.display())
}

/// Where a link at this depth in a folder leads, if it leads out of the folder: `home` is the path
/// that the folder around the link had when the link was created. `None` if the target of the link
/// does not depend on that.
fn outside(home: &Path, depth: usize, text: &Path) -> Option<PathBuf> {
    let (mut level, mut leaves) = (depth, text.is_relative());
    let mut at = home.to_owned();
    if leaves {
        leaves = false;
        for part in text.components() {
            match part {
                Component::ParentDir if !leaves => {
                    at.pop();
                    match level.checked_sub(1) {
                        Some(above) => level = above,
                        None => leaves = true,
                    }
                }
                Component::CurDir => {}
                Component::Normal(_) if !leaves => {
                    level += 1;
                    at.push(part);
                }
                // From here on the kernel resolves it.
                part => at.push(part),
            }
        }
    }
    leaves.then_some(at)
}

/// Whether an error means that the kernel or the file system does not support this step.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn cannot_exchange(error: &io::Error) -> bool {
    let lacking = [Errno::EINVAL, Errno::ENOSYS, Errno::EOPNOTSUPP].map(|e| Some(e as i32));
    error.kind() == io::ErrorKind::Unsupported || lacking.contains(&error.raw_os_error())
}

pub(super) fn check_depth(path: &Path, depth: usize) -> Result<(), StoreError> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    let message = format!("it is nested more than {MAX_DEPTH} folders deep");
    Err(failed("list", path, io::Error::other(message)))
}
