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

/// What came of giving a file a name that nothing has.
pub(super) enum Renamed {
    Yes,
    /// An object has the name.
    Exists,
    /// It has to be done under the folder's lock.
    Unknown,
}

/// A folder that is held while an entry of it is checked and switched.
///
/// Everything goes through the descriptor: if the folder is moved meanwhile, the lock, the check and
/// the switch still concern one folder.
#[derive(Debug)]
pub(super) struct Folder {
    disk: Disk,
    file: File,
    path: PathBuf,
}

impl Folder {
    pub fn open(disk: &Disk, path: &Path) -> Result<Self, StoreError> {
        // A file in the place of a folder is told here, and not taken for one.
        let file = disk
            .open(OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECTORY.bits()), path)
            .map_err(|e| failed("open the folder", path, e))?;
        Ok(Self { disk: disk.clone(), file, path: path.to_owned() })
    }

    /// Waits for the exclusive lock, which is given up when the folder is dropped.
    ///
    /// Where there are no locks, only a write without a condition goes on: no other write can have one.
    pub fn lock(&self, condition: &Condition) -> Result<(), StoreError> {
        if is_held_here(&self.file).map_err(|e| failed("examine", &self.path, e))? {
            // The folder of a data set that this process is writing to: the lock would wait for that very write.
            return match condition {
                Condition::None => Ok(()),
                _ => {
                    let store = self.path.display().to_string();
                    let operation = "write on a condition where a link to nowhere, or a file that cannot be \
                                     opened, has the name";
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
                    let operation = "write on a condition: its file system has no locks";
                    return Err(StoreError::Unsupported { store, operation });
                }
                (_, false) => return Err(failed("lock the folder", &self.path, e)),
            }
        }
    }

    /// Gives the lock up before the folder is dropped, so that nobody waits for a sync.
    pub fn unlock(&self) -> Result<(), StoreError> {
        self.file.unlock().map_err(|e| failed("unlock the folder", &self.path, e))
    }

    /// The object of this name, if there is one. A link stands for what it leads to.
    fn find(&self, name: &OsStr) -> Result<Option<Stamp>, StoreError> {
        let found = self.examine(name, AtFlags::empty())?;
        Ok(found.filter(is_file).map(|stat| Stamp::from(&stat)))
    }

    /// What has this name; `None` only if it is known that nothing has it.
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

    /// Fails with [`StoreError::Conflict`] unless the condition holds for `name`. Tells whether the object is there.
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

    /// Gives the file `from` of this folder the name `to`, replacing what has it.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), StoreError> {
        self.ask_rename(from, to)?;
        renameat(&self.file, from, &self.file, to)
            .map_err(|e| failed("rename a file to", &self.path.join(to), e))
    }

    /// The same, if nothing has the name yet.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> Result<Renamed, StoreError> {
        use nix::fcntl::{RenameFlags, renameat2};

        self.ask_rename(from, to)?;
        let flags = RenameFlags::RENAME_NOREPLACE;
        match renameat2(&self.file, from, &self.file, to, flags) {
            Ok(()) => Ok(Renamed::Yes),
            Err(Errno::EEXIST) if self.find(to)?.is_some() => Ok(Renamed::Exists),
            // A link to nowhere has the name, or the file system does not know the flag.
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

    /// The folder of this name inside; `None` if there is none, be it that the name is a link's.
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

    /// Removes the folder of this name if it is one and empty; tells whether it did.
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
