//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use crate::failure::Failure;

/// A file under a temporary name, which gets its own when all is written.
///
/// Dropping it removes it, and so does Ctrl-C.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    target: PathBuf,
    temporary: PathBuf,
    kept: bool,
}

/// What Ctrl-C removes.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static HANDLER: Once = Once::new();

/// The exit status of a program that SIGINT has ended, as shells report it.
const INTERRUPTED: i32 = 130;

/// How often it is tried to remove a folder that is still written to.
const ATTEMPTS: usize = 100;

impl OutputFile {
    /// Begins the file; what is at `path` stays until [`finish`](Self::finish).
    pub fn create(path: &Path) -> Result<Self, Failure> {
        // A link stays one: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = target.file_name().ok_or_else(|| {
            Failure::new(format!("{}: is not the name of a file", path.display()))
        })?;
        let mut temporary_name = OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}.part", std::process::id()));
        let temporary = target.with_file_name(temporary_name);
        remove_on_interrupt(&temporary);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary);
        let file = file.map_err(|error| {
            forget(&temporary);
            Failure::file(path, &error)
        })?;
        Ok(Self { file, target, temporary, kept: false })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, replacing what had it, once the system has all its bytes in safety.
    ///
    /// A write that fails late, on a full quota or a network file system, is told here and not lost.
    pub fn finish(mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::file(&self.target, &error);
        self.file.sync_all().map_err(failed)?;
        fs::rename(&self.temporary, &self.target).map_err(failed)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.temporary);
        }
        forget(&self.temporary);
    }
}

fn unfinished() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on Ctrl-C removes this file, or this folder with all that is in it.
pub fn remove_on_interrupt(path: &Path) {
    HANDLER.call_once(|| {
        // Without a handler it is left behind, which is no reason not to go on.
        let _ = ctrlc::set_handler(|| {
            // Kept to the end: a verb that fails because its files are gone waits for it in `forget`,
            // and does not get to say so.
            let paths = unfinished();
            for path in paths.iter() {
                remove(path);
            }
            std::process::exit(INTERRUPTED);
        });
    });
    unfinished().push(path.to_owned());
}

fn remove(path: &Path) {
    if !path.is_dir() {
        let _ = fs::remove_file(path);
        return;
    }
    // Workers go on until the end and may put something into a folder that was just found empty.
    for _ in 0..ATTEMPTS {
        if fs::remove_dir_all(path).is_ok() {
            return;
        }
    }
}

/// Ctrl-C no longer removes it.
pub fn forget(temporary: &Path) {
    unfinished().retain(|path| path != temporary);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let output = OutputFile::create(&path).unwrap();
        output.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let output = OutputFile::create(&path).unwrap();
        output.file().write_all_at(b"w", 2).unwrap();
        output.file().write_all_at(b"ne", 0).unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_write_that_fails_late_is_told_and_the_old_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut output = OutputFile::create(&path).unwrap();
        // The null device takes every byte, and cannot put them in safety.
        output.file = OpenOptions::new().write(true).open("/dev/null").unwrap();
        output.file().write_all_at(b"new", 0).unwrap();
        let Err(Failure::Told { message, .. }) = output.finish() else {
            panic!("it is told");
        };
        assert!(message.contains("out: "), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
