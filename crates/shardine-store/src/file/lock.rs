//! Who may write a file, and who reads it.
//!
//! Two kernel locks on one file, both released when their process dies. The *writer lock* (`flock`)
//! is held while the object is changed, from reading it to switching it, whether in place or by a
//! rename. The *reader mark* is a lock on one byte far past the end: shared by everyone who has the
//! file open for reading, and taken exclusively by a writer that is about to overwrite bytes that
//! an older index referred to.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::disk::Disk;
#[cfg(target_os = "linux")]
use super::{DiskLook, lacks_locks};
use super::{failed, is_missing};
use crate::StoreError;

/// The writer lock of a file that still has its name.
#[derive(Debug)]
pub(super) struct WriterLock {
    pub file: File,
    pub path: PathBuf,
    /// Whether the file may be written to.
    pub writable: bool,
}

/// The outcome of trying to lock a file without waiting.
pub(super) enum Tried {
    Locked(WriterLock),
    /// Someone else has the lock.
    Busy,
    /// There is no such file.
    Missing,
    /// This file system has no locks, or the file cannot be opened.
    Impossible,
}

impl WriterLock {
    /// Waits for the lock. `None` if there is no such file.
    pub fn wait(disk: &Disk, path: &Path) -> Result<Option<Self>, StoreError> {
        loop {
            let (file, writable) = match open(disk, path) {
                Ok(opened) => opened,
                Err(e) if is_missing(&e) => return Ok(None),
                Err(e) => return Err(failed("open", path, e)),
            };
            match disk.lock(&file, path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed("lock", path, e)),
            }
            // An error here must not look like another file: waiting for its lock would deadlock,
            // since this process holds it.
            if leads_to(disk, path, &file).map_err(|e| failed("examine", path, e))? {
                return Ok(Some(Self { file, path: path.to_owned(), writable }));
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn attempt(disk: &Disk, path: &Path) -> Tried {
        loop {
            let (file, writable) = match open(disk, path) {
                Ok(opened) => opened,
                Err(e) if is_missing(&e) => return Tried::Missing,
                Err(_) => return Tried::Impossible,
            };
            match disk.try_lock(&file, path) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Tried::Busy,
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(TryLockError::Error(_)) => return Tried::Impossible,
            }
            match leads_to(disk, path, &file) {
                Ok(true) => {
                    return Tried::Locked(Self { file, path: path.to_owned(), writable });
                }
                Ok(false) => {}
                Err(_) => return Tried::Impossible,
            }
        }
    }

    /// Whether this is the lock of the file that `path` now leads to.
    pub fn is_of(&self, disk: &Disk, path: &Path) -> Result<bool, StoreError> {
        leads_to(disk, path, &self.file).map_err(|e| failed("examine", path, e))
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // The object that was opened with it may share the descriptor and outlive the lock.
        let _ = self.file.unlock();
    }
}

/// Opens a file for writing if that is permitted, otherwise for reading.
fn open(disk: &Disk, path: &Path) -> io::Result<(File, bool)> {
    match disk.open(OpenOptions::new().read(true).write(true), path) {
        Ok(file) => Ok((file, true)),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok((disk.open_for_reading(path)?, false))
        }
        Err(e) => Err(e),
    }
}

/// Whether a path leads to this open file.
pub(super) fn leads_to(disk: &Disk, path: &Path, file: &File) -> io::Result<bool> {
    let Some(found) = disk.find(path)? else { return Ok(false) };
    let open = disk.examine_open(file, path)?;
    Ok((found.dev(), found.ino()) == (open.dev(), open.ino()))
}

/// Marks the file as being read, for as long as it is open. Waits for a writer that is overwriting
/// freed bytes.
///
/// Where there are no such locks nobody overwrites anything, so that is not an error. Any other
/// failure is: a file that is read without the mark may change under its reader.
#[cfg(target_os = "linux")]
pub(super) fn mark_read(disk: &Disk, file: &File, path: &Path) -> io::Result<()> {
    use nix::errno::Errno;
    use nix::fcntl::FcntlArg;
    use nix::libc;

    disk.look(DiskLook::Lock { path })?;
    loop {
        match nix::fcntl::fcntl(file, FcntlArg::F_OFD_SETLKW(&mark(libc::F_RDLCK))) {
            Ok(_) | Err(Errno::EINVAL) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(e) if lacks_locks(&e.into()) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Takes the mark exclusively, if nobody else has the file open for reading. No reader can open it
/// until the mark is released.
#[cfg(target_os = "linux")]
pub(super) fn shut_out_readers(file: &File) -> bool {
    use nix::fcntl::FcntlArg;
    use nix::libc;

    nix::fcntl::fcntl(file, FcntlArg::F_OFD_SETLK(&mark(libc::F_WRLCK))).is_ok()
}

/// Lets readers in again.
#[cfg(target_os = "linux")]
pub(super) fn let_readers_in(file: &File) {
    use nix::fcntl::FcntlArg;
    use nix::libc;

    // Closing the file would do it too, so there is nothing to report.
    let _ = nix::fcntl::fcntl(file, FcntlArg::F_OFD_SETLK(&mark(libc::F_UNLCK)));
}

/// A lock on the last byte that a file could have.
#[cfg(target_os = "linux")]
fn mark(kind: i32) -> nix::libc::flock {
    nix::libc::flock {
        l_type: kind as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: i64::MAX - 1,
        l_len: 1,
        l_pid: 0,
    }
}

/// On other systems nobody can be sure to be alone, and nothing that was freed is overwritten.
#[cfg(not(target_os = "linux"))]
pub(super) fn mark_read(_: &Disk, _: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn shut_out_readers(_: &File) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn let_readers_in(_: &File) {}
