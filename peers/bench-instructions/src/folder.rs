use std::io;
use std::path::{Path, PathBuf};

/// A folder for one benchmark, removed with everything in it on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates it in memory if possible: files are kept open on some file systems only, and that of
    /// a container's temporary folder is not among them.
    pub fn new() -> io::Result<Self> {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() };
        // Always the same length, since a longer path takes more instructions.
        let path = parent.join(format!("shardine-instructions-{:010}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
