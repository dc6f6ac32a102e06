//! Files for rows that memory has no room for.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use shardine_geometry::{Spool, SpoolFile};

use crate::jobs::frame::place;
use crate::{Error, Location};

/// Files without names in a folder: the system removes them with the process, however that ends.
pub(in crate::jobs) struct FolderSpool {
    pub folder: PathBuf,
}

impl FolderSpool {
    /// In this folder; by default with the target, on the disk that has room for it, or where
    /// temporary files go if the target is not on a disk.
    pub fn new(folder: Option<PathBuf>, target: &Location) -> Result<Self, Error> {
        let folder = match folder {
            Some(folder) => folder,
            None if target.store.folders().is_some() => PathBuf::from(place::name(target)?),
            None => std::env::temp_dir(),
        };
        Ok(Self { folder })
    }
}

impl Spool for FolderSpool {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        Ok(Box::new(UnnamedFile(tempfile::tempfile_in(&self.folder)?)))
    }
}

struct UnnamedFile(File);

impl SpoolFile for UnnamedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, out, offset)
    }
}
