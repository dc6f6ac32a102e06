//! The one door to what changes on the disk.
//!
//! Everything that a [`FileStore`](super::FileStore) changes goes through here, so that a test can watch each step, let
//! it fail, kill the process before it, or keep a record from which every state that a power failure could leave is made.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A step that changes what is on the disk, or makes it durable.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum DiskStep<'a> {
    /// A new, empty file.
    Create {
        /// Its path.
        path: &'a Path,
    },
    /// Bytes of a file.
    Write {
        /// Its path.
        path: &'a Path,
        /// Where they go.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// Another length of a file.
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
    /// A file gets another name, in place of the one that had it.
    Rename {
        /// The name that it had.
        from: &'a Path,
        /// The name that it gets.
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
        /// The name that it has.
        from: &'a Path,
        /// The one that it gets too.
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

/// Whether a step takes place.
#[derive(Debug)]
pub enum Verdict {
    /// It does.
    Go,
    /// It fails.
    Fail(io::Error),
    /// So many of the bytes are written, then it fails.
    Partly(usize, io::Error),
}

/// Somebody who is asked before each step.
pub trait DiskObserver: Debug + Send + Sync {
    /// Whether the step takes place. Called on the thread that makes it.
    fn before(&self, step: DiskStep<'_>) -> Verdict;
}

/// The disk, and who watches it.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(pub Option<Arc<dyn DiskObserver>>);

impl Disk {
    /// Whether somebody wants to see every byte.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Asks for a step that takes place whole or not at all.
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
        std::fs::remove_file(path)
    }
}
