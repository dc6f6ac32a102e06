use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const PREFIX: &str = ".shardine-";
const SUFFIX: &str = ".tmp";

/// Whether a file of this name is an object that was still being written: `.shardine-` … `.tmp`.
///
/// Listings leave them out and keys cannot name them. One that is older than any running program is the
/// leftover of a killed one and may be removed.
pub fn is_temporary(name: &str) -> bool {
    name.len() > PREFIX.len() + SUFFIX.len() && name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// The name of a temporary file, which is removed on drop unless it was given its final name.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    /// Makes a new file in `folder` that nobody else has.
    pub fn create(folder: &Path) -> io::Result<(Self, File)> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut attempts = 0;
        loop {
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            // Processes on two machines may share a folder and a process id, hardly also a nanosecond.
            let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let name = format!("{PREFIX}{:x}-{count:x}-{nanos:x}{SUFFIX}", process::id());
            let path = folder.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((Self { path, kept: false }, file)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempts < 16 => {
                    attempts += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file has another name now.
    pub fn renamed(mut self) {
        self.kept = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // Nobody is left to tell, and listings leave the file out in any case.
            let _ = fs::remove_file(&self.path);
        }
    }
}
