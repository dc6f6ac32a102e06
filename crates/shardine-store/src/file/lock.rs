//! Who may write a file, and who reads it.
//!
//! Two locks of the kernel on one file, so that a process that dies gives both up. The *writer's lock* (`flock`) is
//! held by who changes the object, from reading it to switching it, be it in place or by a rename. The *reader's mark*
//! is a lock on one byte far past the end: shared by all who have the file open for reading, and taken alone by a
//! writer who is about to overwrite bytes that an older index referred to.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{failed, is_missing};
use crate::StoreError;

/// The writer's lock of a file that has its name still.
#[derive(Debug)]
pub(super) struct WriterLock {
    pub file: File,
    pub path: PathBuf,
    /// Whether the file may be written to.
    pub writable: bool,
}

/// What came of trying to lock a file at once.
pub(super) enum Tried {
    Locked(WriterLock),
    /// Somebody else has the lock.
    Busy,
    /// There is no such file.
    Missing,
    /// This file system has no locks, or the file cannot be opened.
    Impossible,
}

impl WriterLock {
    /// Waits for the lock. `None` if there is no such file.
    pub fn wait(path: &Path) -> Result<Option<Self>, StoreError> {
        loop {
            let (file, writable) = match open(path) {
                Ok(opened) => opened,
                Err(e) if is_missing(&e) => return Ok(None),
                Err(e) => return Err(failed("open", path, e)),
            };
            match file.lock() {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed("lock", path, e)),
            }
            if leads_to(path, &file) {
                return Ok(Some(Self { file, path: path.to_owned(), writable }));
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn attempt(path: &Path) -> Tried {
        loop {
            let (file, writable) = match open(path) {
                Ok(opened) => opened,
                Err(e) if is_missing(&e) => return Tried::Missing,
                Err(_) => return Tried::Impossible,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Tried::Busy,
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(TryLockError::Error(_)) => return Tried::Impossible,
            }
            if leads_to(path, &file) {
                return Tried::Locked(Self { file, path: path.to_owned(), writable });
            }
        }
    }

    /// Whether this is the lock of the file that `path` leads to now.
    pub fn is_of(&self, path: &Path) -> bool {
        leads_to(path, &self.file)
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // The object that was opened with it may share the descriptor and live on.
        let _ = self.file.unlock();
    }
}

/// Opens a file for writing if that may be, else for reading.
fn open(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok((super::open_for_reading(path)?, false))
        }
        Err(e) => Err(e),
    }
}

/// Whether a path leads to this open file.
pub(super) fn leads_to(path: &Path, file: &File) -> bool {
    match (fs::metadata(path), file.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Says that the file is being read, for as long as it is open. Waits for a writer who overwrites what was freed.
#[cfg(target_os = "linux")]
pub(super) fn mark_read(file: &File) -> io::Result<()> {
    use nix::fcntl::FcntlArg;
    use nix::libc;

    loop {
        match nix::fcntl::fcntl(file, FcntlArg::F_OFD_SETLKW(&mark(libc::F_RDLCK))) {
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Takes the mark alone, if nobody else has the file open for reading. No reader can open it until it is given back.
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

    // Closing the file would do it too, so there is nothing to be told.
    let _ = nix::fcntl::fcntl(file, FcntlArg::F_OFD_SETLK(&mark(libc::F_UNLCK)));
}

/// The last byte that a file could have.
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

/// Elsewhere nobody is ever sure to be alone, and nothing that was freed is overwritten.
#[cfg(not(target_os = "linux"))]
pub(super) fn mark_read(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn shut_out_readers(_: &File) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn let_readers_in(_: &File) {}
