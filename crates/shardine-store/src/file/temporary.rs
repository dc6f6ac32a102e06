use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::disk::{Disk, DiskStep};
use super::lacks_locks;
use crate::LeftoverKind;

const PREFIX: &str = ".shardine-";
const SUFFIX: &str = ".tmp";
const LOCK: &str = "-lock";
const JOURNAL: &str = ".journal";
const ASIDE: &str = ".aside";
const JOB: &str = ".job";

/// The middle of the name that a file has while it is copied because it cannot be linked.
const CARRIED: &str = "carried";

/// Whether this is the name of a file that a [`FileStore`](super::FileStore) creates for itself:
/// `.shardine-` … `.tmp` (an object that was still being written), `.journal` (of a change in
/// place) or `.aside`.
///
/// Listings leave them out and keys cannot name them; [`Store::leftovers`](crate::Store::leftovers)
/// reports them.
pub fn is_own_file(name: &str) -> bool {
    kind_of(name).is_some()
}

/// The kind of one of the store's own files, by its name.
pub(super) fn kind_of(name: &str) -> Option<LeftoverKind> {
    let rest = name.strip_prefix(PREFIX)?;
    let suffixes = [
        (SUFFIX, LeftoverKind::Temporary),
        (JOURNAL, LeftoverKind::Journal),
        (ASIDE, LeftoverKind::SetAside),
    ];
    suffixes.into_iter().find_map(|(suffix, kind)| {
        let middle = rest.strip_suffix(suffix)?;
        let is_own = match kind {
            LeftoverKind::Temporary => {
                middle == CARRIED || middle.ends_with(LOCK) || is_numbers(middle)
            }
            LeftoverKind::SetAside => middle
                .rsplit_once('.')
                .is_some_and(|(of, number)| !of.is_empty() && is_hexadecimal(number)),
            LeftoverKind::Journal | LeftoverKind::Job => !middle.is_empty(),
        };
        is_own.then_some(kind)
    })
}

/// Whether this is the middle of a temporary file's name: three numbers.
fn is_numbers(middle: &str) -> bool {
    middle.split('-').count() == 3 && middle.split('-').all(is_hexadecimal)
}

fn is_hexadecimal(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    !text.is_empty() && text.bytes().all(digit)
}

/// Whether this is the name of a job's working folder: `.shardine-` … `.job`.
pub(super) fn is_job_folder(name: &str) -> bool {
    job_of(name).is_some()
}

/// The name of the folder that a job works on, from the name of its working folder.
pub(super) fn job_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.strip_suffix(JOB).filter(|of| !of.is_empty())
}

/// The name of the working folder of a job on the folder `name`.
pub(super) fn job_folder(name: &str) -> String {
    format!("{PREFIX}{name}{JOB}")
}

/// The name of the file whose lock is the lock `name` of its folder. Like a temporary file, it is
/// in use while it is locked.
pub(super) fn lock_name(name: &str) -> String {
    format!("{PREFIX}{name}{LOCK}{SUFFIX}")
}

/// The name of the journal of the file `name`.
pub(super) fn journal_name(name: &str) -> String {
    format!("{PREFIX}{name}{JOURNAL}")
}

/// The name of the file that a journal belongs to.
pub(super) fn journal_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.strip_suffix(JOURNAL)
}

/// A name for a journal that did not belong to its file; `number` makes it unique.
pub(super) fn aside_name(name: &str, number: u64) -> String {
    format!("{PREFIX}{name}.{number:x}{ASIDE}")
}

/// The name of a temporary file, which is removed on drop unless the file was renamed to its final
/// name.
#[derive(Debug)]
pub(super) struct Temporary {
    disk: Disk,
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    /// Creates a new, unique file in `folder`.
    pub fn create(disk: &Disk, folder: &Path) -> io::Result<(Self, File)> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut attempts = 0;
        loop {
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            // Processes on two machines may share a folder and a process id, but hardly a
            // nanosecond as well.
            let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let name = format!("{PREFIX}{:x}-{count:x}-{nanos:x}{SUFFIX}", process::id());
            let path = folder.join(name);
            disk.ask(DiskStep::Create { path: &path })?;
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let made = Self { disk: disk.clone(), path, kept: false };
                    // Shows others that its writer is alive. Without locks nobody can tell.
                    match disk.lock(&file, &made.path) {
                        Err(e) if !lacks_locks(&e) => return Err(e),
                        _ => return Ok((made, file)),
                    }
                }
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

    /// The file has been renamed.
    pub fn renamed(mut self) {
        self.kept = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // There is nobody to report to, and listings leave the file out in any case.
            let _ = self.disk.remove(&self.path);
        }
    }
}
