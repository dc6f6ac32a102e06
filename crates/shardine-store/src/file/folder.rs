use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::dataset::is_held_here;
use super::disk::{Disk, DiskLook, DiskStep};
use super::stamp::Stamp;
use super::{failed, lacks_locks};
use crate::{Condition, Key, StoreError};

/// The outcome of renaming a file to an unused name.
pub(super) enum Renamed {
    Yes,
    /// An object has the name.
    Exists,
    /// The rename has to be done under the folder's lock.
    Unknown,
}

/// A folder that is kept open while one of its entries is checked and switched.
///
/// Everything goes through the descriptor: if the folder is moved in the meantime, the lock, the
/// check and the switch still apply to the same folder.
#[derive(Debug)]
pub(super) struct Folder {
    disk: Disk,
    file: File,
    path: PathBuf,
}

impl Folder {
    pub fn open(disk: &Disk, path: &Path) -> Result<Self, StoreError> {
        // Fails if a file is in the place of the folder.
        let file = disk
            .open(OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECTORY.bits()), path)
            .map_err(|e| failed("open the folder", path, e))?;
        Ok(Self { disk: disk.clone(), file, path: path.to_owned() })
    }

    /// Waits for the exclusive lock, which is released when the folder is dropped.
    ///
    /// Where there are no locks, only an unconditional write may proceed: no other write can have a
    /// condition.
    pub fn lock(&self, condition: &Condition) -> Result<(), StoreError> {
        if is_held_here(&self.file).map_err(|e| failed("examine", &self.path, e))? {
            // The folder of a data set that this process is writing to: the lock would wait for
            // that very write.
            return match condition {
                Condition::None => Ok(()),
                _ => {
                    let store = self.path.display().to_string();
                    let operation = "write conditionally where a broken link, or a file that \
                                     cannot be opened, has the name";
                    Err(StoreError::Unsupported { store, operation })
                }
            };
        }
        loop {
            let Err(e) = self.disk.lock(&self.file, &self.path) else { return Ok(()) };
            match (condition, lacks_locks(&e)) {
                _ if e.kind() == io::ErrorKind::Interrupted => {}
                (Condition::None, true) => return Ok(()),
                (_, true) => {
                    let store = self.path.display().to_string();
                    let operation = "write conditionally: its file system has no locks";
                    return Err(StoreError::Unsupported { store, operation });
                }
                (_, false) => return Err(failed("lock the folder", &self.path, e)),
            }
        }
    }

    /// Releases the lock before the folder is dropped, so that nobody waits for a sync.
    pub fn unlock(&self) -> Result<(), StoreError> {
        self.file.unlock().map_err(|e| failed("unlock the folder", &self.path, e))
    }

    /// The object with this name, if there is one. Links are followed.
    fn find(&self, name: &OsStr) -> Result<Option<Stamp>, StoreError> {
        let found = self.examine(name, AtFlags::empty())?;
        Ok(found.filter(is_file).map(|stat| Stamp::from(&stat)))
    }

    /// What has this name; `None` only if there is known to be nothing.
    fn examine(&self, name: &OsStr, flags: AtFlags) -> Result<Option<FileStat>, StoreError> {
        let path = self.path.join(name);
        let wrong = |e: io::Error| failed("examine", &path, e);
        self.disk.look(DiskLook::Examine { path: &path }).map_err(wrong)?;
        match fstatat(&self.file, name, flags) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT) => Ok(None),
            Err(e) => Err(wrong(e.into())),
        }
    }

    /// Fails with [`StoreError::Conflict`] unless the condition holds for `name`. Returns whether
    /// the object exists.
    pub fn check(
        &self,
        name: &OsStr,
        key: &Key,
        condition: &Condition,
    ) -> Result<bool, StoreError> {
        let found = self.find(name)?;
        let holds = match condition {
            Condition::None => true,
            Condition::Absent => found.is_none(),
            Condition::Unchanged(expected) | Condition::Held { version: expected, .. } => {
                found.is_some_and(|s| s.version() == *expected)
            }
        };
        if holds { Ok(found.is_some()) } else { Err(StoreError::Conflict { key: key.clone() }) }
    }

    /// Renames the file `from` of this folder to `to`, replacing what has that name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), StoreError> {
        self.ask_rename(from, to)?;
        renameat(&self.file, from, &self.file, to)
            .map_err(|e| failed("rename a file to", &self.path.join(to), e))
    }

    /// The same, but only if nothing has the name yet.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> Result<Renamed, StoreError> {
        use nix::fcntl::{RenameFlags, renameat2};

        self.ask_rename(from, to)?;
        let flags = RenameFlags::RENAME_NOREPLACE;
        match renameat2(&self.file, from, &self.file, to, flags) {
            Ok(()) => Ok(Renamed::Yes),
            Err(Errno::EEXIST) if self.find(to)?.is_some() => Ok(Renamed::Exists),
            // A broken link has the name, or the file system does not support the flag.
            Err(Errno::EEXIST | Errno::EINVAL | Errno::ENOSYS) => Ok(Renamed::Unknown),
            Err(e) => Err(failed("rename a file to", &self.path.join(to), e)),
        }
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub fn rename_new(&self, _: &OsStr, _: &OsStr) -> Result<Renamed, StoreError> {
        Ok(Renamed::Unknown)
    }

    fn ask_rename(&self, from: &OsStr, to: &OsStr) -> Result<(), StoreError> {
        let (from, to) = (self.path.join(from), self.path.join(to));
        self.disk
            .ask(DiskStep::Rename { from: &from, to: &to })
            .map_err(|e| failed("rename a file to", &to, e))
    }

    pub fn remove(&self, name: &OsStr) -> Result<(), StoreError> {
        let path = self.path.join(name);
        self.disk.ask(DiskStep::Remove { path: &path }).map_err(|e| failed("remove", &path, e))?;
        unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir)
            .map_err(|e| failed("remove", &self.path.join(name), e))
    }

    /// Whether anything but a folder has this name.
    pub fn has(&self, name: &OsStr) -> Result<bool, StoreError> {
        let found = self.examine(name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        Ok(found.is_some_and(|stat| kind(&stat) != SFlag::S_IFDIR))
    }

    /// The folder with this name inside this one; `None` if there is none, or the name is that of a
    /// link.
    pub fn inside(&self, name: &OsStr) -> Result<Option<Self>, StoreError> {
        let path = self.path.join(name);
        self.disk
            .look(DiskLook::Open { path: &path })
            .map_err(|e| failed("open the folder", &path, e))?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat(&self.file, name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(Self { disk: self.disk.clone(), file: file.into(), path })),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
            Err(e) => Err(failed("open the folder", &path, e)),
        }
    }

    /// Removes the folder with this name if it is a folder and empty; returns whether it did.
    pub fn remove_folder(&self, name: &OsStr) -> Result<bool, StoreError> {
        let path = self.path.join(name);
        self.disk
            .ask(DiskStep::RemoveFolder { path: &path })
            .map_err(|e| failed("remove the folder", &path, e))?;
        match unlinkat(&self.file, name, UnlinkatFlags::RemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOENT | Errno::ENOTDIR) => Ok(false),
            Err(e) => Err(failed("remove the folder", &self.path.join(name), e)),
        }
    }

    /// Makes renames and removals durable.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.disk
            .ask(DiskStep::SyncFolder { path: &self.path })
            .and_then(|()| self.file.sync_all())
            .map_err(|e| failed("sync the folder", &self.path, e))
    }
}

fn is_file(stat: &FileStat) -> bool {
    kind(stat) == SFlag::S_IFREG
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}
