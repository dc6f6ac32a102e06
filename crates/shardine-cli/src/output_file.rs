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
        HANDLER.call_once(|| {
            // Without a handler the file is left behind, which is no reason not to go on.
            let _ = ctrlc::set_handler(|| {
                for path in unfinished().iter() {
                    let _ = fs::remove_file(path);
                }
                std::process::exit(INTERRUPTED);
            });
        });
        unfinished().push(temporary.clone());
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

    /// Gives the file its name, replacing what had it.
    pub fn finish(mut self) -> Result<(), Failure> {
        fs::rename(&self.temporary, &self.target)
            .map_err(|error| Failure::file(&self.target, &error))?;
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

fn forget(temporary: &Path) {
    unfinished().retain(|path| path != temporary);
}

/// Writes all of `bytes` at an offset, whatever the file's own position.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let (mut bytes, mut offset) = (bytes, offset);
        while !bytes.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[n..];
            offset += n as u64;
        }
        Ok(())
    }
}

/// Fills `bytes` from an offset, whatever the file's own position.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let (mut bytes, mut offset) = (bytes, offset);
        while !bytes.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_read(file, bytes, offset)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = &mut bytes[n..];
            offset += n as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let output = OutputFile::create(&path).unwrap();
        write_all_at(output.file(), b"new", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let output = OutputFile::create(&path).unwrap();
        write_all_at(output.file(), b"w", 2).unwrap();
        write_all_at(output.file(), b"ne", 0).unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
