//! All access to the disk.
//!
//! Every change that a [`FileStore`](super::FileStore) makes goes through here, so that a test can
//! watch each step, make it fail, kill the process before it, or keep a record from which every
//! state that a power failure could leave is reconstructed. So does every query, so that a test can
//! make any of these calls fail: a failed query must never be mistaken for absence.

use std::fmt::Debug;
use std::fs::{self, DirEntry, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use super::is_missing;

/// A step that changes what is on the disk, or makes it durable.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum DiskStep<'a> {
    /// A new, empty file.
    Create {
        /// Its path.
        path: &'a Path,
    },
    /// Bytes are written to a file.
    Write {
        /// Its path.
        path: &'a Path,
        /// Where they go.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// The length of a file changes.
    Resize {
        /// Its path.
        path: &'a Path,
        /// The new length.
        len: u64,
    },
    /// What was written to a file so far becomes durable.
    SyncFile {
        /// Its path.
        path: &'a Path,
    },
    /// A file is renamed, replacing a file that has the new name.
    Rename {
        /// The old name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
    },
    /// Two folders exchange their names.
    Exchange {
        /// One of them.
        one: &'a Path,
        /// The other.
        other: &'a Path,
    },
    /// A file gets a second name.
    Link {
        /// The existing name.
        from: &'a Path,
        /// The additional name.
        to: &'a Path,
    },
    /// A file is removed.
    Remove {
        /// Its path.
        path: &'a Path,
    },
    /// A new folder.
    CreateFolder {
        /// Its path.
        path: &'a Path,
    },
    /// An empty folder is removed.
    RemoveFolder {
        /// Its path.
        path: &'a Path,
    },
    /// The names in a folder become durable.
    SyncFolder {
        /// Its path.
        path: &'a Path,
    },
}

/// A call that queries the disk without changing it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum DiskLook<'a> {
    /// A file or a folder is opened.
    Open {
        /// Its path.
        path: &'a Path,
    },
    /// The kind, length and times of something are queried, by its path or through a descriptor.
    Examine {
        /// Its path.
        path: &'a Path,
    },
    /// Bytes of a file are read.
    Read {
        /// Its path.
        path: &'a Path,
        /// Where they begin.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// The listing of a folder is begun.
    List {
        /// Its path.
        path: &'a Path,
    },
    /// The next entry of a folder that is being listed.
    Entry {
        /// The path of the folder.
        path: &'a Path,
    },
    /// A link is read, or all links of a path are resolved.
    Resolve {
        /// The path.
        path: &'a Path,
    },
    /// A lock is taken.
    Lock {
        /// The path of the file or folder.
        path: &'a Path,
    },
    /// A probe whether a folder can be renamed.
    Move {
        /// Its path.
        path: &'a Path,
    },
}

/// An observer's decision on a step.
#[derive(Debug)]
pub enum Verdict {
    /// The step takes place.
    Go,
    /// The step fails.
    Fail(io::Error),
    /// This many bytes are written, then the step fails.
    Partly(usize, io::Error),
}

/// Called before each step.
pub trait DiskObserver: Debug + Send + Sync {
    /// Whether the step takes place. Called on the thread that makes it.
    fn before(&self, step: DiskStep<'_>) -> Verdict;

    /// An error makes a call that only queries the disk fail. By default all of them succeed.
    fn before_look(&self, _: DiskLook<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// The disk, with an optional observer.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(pub Option<Arc<dyn DiskObserver>>);

impl Disk {
    /// Whether an observer wants to see every byte.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Asks the observer about a query. Costs only a branch if there is none.
    #[inline]
    pub fn look(&self, look: DiskLook<'_>) -> io::Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(observer) => observer.before_look(look),
        }
    }

    /// Opens a file or a folder.
    pub fn open(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        self.look(DiskLook::Open { path })?;
        options.open(path)
    }

    /// Opens a file for reading. Does not block on something that is not a regular file, such as a
    /// pipe without a writer.
    pub fn open_for_reading(&self, path: &Path) -> io::Result<File> {
        self.open(File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()), path)
    }

    /// What is at a path; links are followed.
    pub fn examine(&self, path: &Path) -> io::Result<Metadata> {
        self.look(DiskLook::Examine { path })?;
        fs::metadata(path)
    }

    /// What is at a path; links are not followed.
    pub fn examine_link(&self, path: &Path) -> io::Result<Metadata> {
        self.look(DiskLook::Examine { path })?;
        fs::symlink_metadata(path)
    }

    /// The same for an open file.
    pub fn examine_open(&self, file: &File, path: &Path) -> io::Result<Metadata> {
        self.look(DiskLook::Examine { path })?;
        file.metadata()
    }

    /// What is at a path; links are followed. `None` only if there is known to be nothing.
    pub fn find(&self, path: &Path) -> io::Result<Option<Metadata>> {
        found(self.examine(path))
    }

    /// The same, but links are not followed.
    pub fn find_link(&self, path: &Path) -> io::Result<Option<Metadata>> {
        found(self.examine_link(path))
    }

    /// Whether a path leads to a folder.
    pub fn is_folder(&self, path: &Path) -> io::Result<bool> {
        Ok(self.find(path)?.is_some_and(|found| found.is_dir()))
    }

    #[inline]
    pub fn read(&self, file: &File, path: &Path, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.look(DiskLook::Read { path, offset, len: into.len() as u64 })?;
        file.read_exact_at(into, offset)
    }

    /// The entries of a folder.
    pub fn list<'a>(
        &'a self,
        path: &'a Path,
    ) -> io::Result<impl Iterator<Item = io::Result<DirEntry>> + 'a> {
        self.look(DiskLook::List { path })?;
        let entries = fs::read_dir(path)?;
        Ok(entries.map(move |entry| {
            self.look(DiskLook::Entry { path })?;
            entry
        }))
    }

    /// The path with links resolved.
    pub fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.look(DiskLook::Resolve { path })?;
        path.canonicalize()
    }

    /// The target of a link.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.look(DiskLook::Resolve { path })?;
        fs::read_link(path)
    }

    /// Waits for the exclusive lock.
    pub fn lock(&self, file: &File, path: &Path) -> io::Result<()> {
        self.look(DiskLook::Lock { path })?;
        file.lock()
    }

    /// Takes the exclusive lock if it is free.
    pub fn try_lock(&self, file: &File, path: &Path) -> Result<(), TryLockError> {
        self.look(DiskLook::Lock { path }).map_err(TryLockError::Error)?;
        file.try_lock()
    }

    /// Asks the observer about a step that takes place whole or not at all.
    pub fn ask(&self, step: DiskStep<'_>) -> io::Result<()> {
        match self.0.as_ref().map(|observer| observer.before(step)) {
            None | Some(Verdict::Go) => Ok(()),
            Some(Verdict::Fail(error) | Verdict::Partly(_, error)) => Err(error),
        }
    }

    pub fn write(&self, file: &File, path: &Path, data: &[u8], offset: u64) -> io::Result<()> {
        let step = DiskStep::Write { path, offset, data };
        match self.0.as_ref().map(|observer| observer.before(step)) {
            None | Some(Verdict::Go) => file.write_all_at(data, offset),
            Some(Verdict::Fail(error)) => Err(error),
            Some(Verdict::Partly(n, error)) => {
                file.write_all_at(&data[..n.min(data.len())], offset)?;
                Err(error)
            }
        }
    }

    pub fn resize(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        self.ask(DiskStep::Resize { path, len })?;
        file.set_len(len)
    }

    /// Makes bytes and length durable.
    pub fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        self.ask(DiskStep::SyncFile { path })?;
        file.sync_data()
    }

    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(DiskStep::Remove { path })?;
        fs::remove_file(path)
    }
}

/// Distinguishes a missing file from a failed query.
fn found(found: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if is_missing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}
