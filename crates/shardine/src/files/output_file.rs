//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::FileError;

/// How many temporary names are tried.
const ATTEMPTS: u32 = 100;

/// What happens if the file already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// It stays, and the new one is refused.
    #[default]
    Refuse,
    /// The new file replaces it.
    Replace,
}

impl IfExists {
    /// Replaces the file if `overwrite`.
    pub fn replaced(overwrite: bool) -> Self {
        if overwrite { Self::Replace } else { Self::Refuse }
    }
}

/// A file under a temporary name, renamed once everything is written.
///
/// Dropping it removes it. A program that ends without dropping it, on a signal, should remove
/// [`temporary`](Self::temporary).
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    target: PathBuf,
    temporary: PathBuf,
    if_exists: IfExists,
    kept: bool,
}

impl OutputFile {
    /// Creates the file; anything at `path` stays until [`finish`](Self::finish).
    pub fn create(path: &Path, if_exists: IfExists) -> Result<Self, FileError> {
        check_free(path, if_exists)?;
        // A link stays a link: its target is replaced.
        let target = match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            found => found.map_err(FileError::at(path))?,
        };
        let shown = || path.display().to_string();
        let name = target.file_name().ok_or_else(|| FileError::NoName { name: shown() })?;
        for attempt in 0..ATTEMPTS {
            let mut temporary_name = OsString::from(".");
            temporary_name.push(name);
            temporary_name.push(format!(".{}-{attempt}.part", std::process::id()));
            let temporary = target.with_file_name(temporary_name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => return Ok(Self { file, target, temporary, if_exists, kept: false }),
                // Another file has this name, perhaps left by a run that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FileError::io(shown(), error)),
            }
        }
        Err(FileError::NoTemporary { name: shown() })
    }

    /// The file that is written to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its final name.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Its name until then.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Renames the file to its final name, replacing what was there, once all its bytes are on
    /// disk.
    ///
    /// A write that fails late, on a full quota or a network file system, is reported here and not
    /// lost.
    pub fn finish(mut self) -> Result<(), FileError> {
        let failed = FileError::at(&self.target);
        self.file.sync_all().map_err(&failed)?;
        if self.if_exists == IfExists::Refuse {
            // Someone may have taken the name meanwhile, which a hard link detects and a rename
            // does not.
            match fs::hard_link(&self.temporary, &self.target) {
                // Dropping this removes the temporary name.
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(exists(&self.target));
                }
                // A file system without hard links.
                Err(_) => check_free(&self.target, IfExists::Refuse)?,
            }
        }
        fs::rename(&self.temporary, &self.target).map_err(failed)?;
        self.kept = true;
        Ok(())
    }
}

fn exists(path: &Path) -> FileError {
    FileError::Exists { name: path.display().to_string() }
}

/// Refuses a path where something exists, unless it may be replaced.
pub fn check_free(path: &Path, if_exists: IfExists) -> Result<(), FileError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Err(FileError::Folder { name: path.display().to_string() }),
        Ok(_) if if_exists == IfExists::Replace => Ok(()),
        Ok(_) => Err(exists(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::at(path)(error)),
    }
}

/// Whether a path is a pipe or device, which is written to and not replaced.
///
/// A path that cannot be inspected is an error: it must not be mistaken for a file that may be
/// replaced.
pub fn is_device(path: &Path) -> Result<bool, FileError> {
    match fs::metadata(path) {
        Ok(found) => Ok(!found.is_file() && !found.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::at(path)(error)),
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.temporary);
        }
    }
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
        let output = OutputFile::create(&path, IfExists::Replace).unwrap();
        output.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let output = OutputFile::create(&path, IfExists::Replace).unwrap();
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
        let mut output = OutputFile::create(&path, IfExists::Replace).unwrap();
        // The null device accepts every byte, but cannot sync them.
        output.file = OpenOptions::new().write(true).open("/dev/null").unwrap();
        output.file().write_all_at(b"new", 0).unwrap();
        let message = output.finish().unwrap_err().to_string();
        assert!(message.contains("out: "), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_there_is_not_replaced_unless_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        OutputFile::create(&path, IfExists::Refuse).unwrap_err();
        fs::remove_file(&path).unwrap();
        // Also if it appears while another one is written.
        let output = OutputFile::create(&path, IfExists::Refuse).unwrap();
        fs::write(&path, "between").unwrap();
        output.finish().unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"between");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        OutputFile::create(&path, IfExists::Refuse).unwrap_err();
        fs::remove_file(&path).unwrap();
        let output = OutputFile::create(&path, IfExists::Refuse).unwrap();
        output.file().write_all_at(b"new", 0).unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
