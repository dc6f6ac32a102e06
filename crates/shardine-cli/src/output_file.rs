//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::interrupt;

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

impl OutputFile {
    /// Begins the file; what is at `path` stays until [`finish`](Self::finish).
    pub fn create(path: &Path) -> Result<Self, Failure> {
        // A link stays one: what it points to is replaced.
        let target = match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            found => found.map_err(|error| Failure::file(path, &error))?,
        };
        let name = target.file_name().ok_or_else(|| {
            Failure::new(format!("{}: is not the name of a file", path.display()))
        })?;
        let mut temporary_name = OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}.part", std::process::id()));
        let temporary = target.with_file_name(temporary_name);
        interrupt::will_remove(&temporary);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary);
        let file = file.map_err(|error| {
            interrupt::forget(&temporary);
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
        interrupt::forget(&self.temporary);
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
