use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use nix::sys::stat::FileStat;

use crate::Version;

/// What the file system says of a file's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub device: u64,
    inode: u64,
    pub len: u64,
    /// Seconds and nanoseconds of the last change of the bytes.
    modified: (i64, i64),
    /// The same of the last change of bytes, name, links or mode.
    changed: (i64, i64),
}

impl Stamp {
    /// Whether the bytes behind an open descriptor are still those of `earlier`.
    ///
    /// The time of change is left out: it also moves when the file is renamed, linked or replaced.
    pub fn same_bytes(&self, earlier: &Self) -> bool {
        self.len == earlier.len && self.modified == earlier.modified
    }

    pub fn version(&self) -> Version {
        let Self { device, inode, len, modified, changed } = self;
        let text = format!(
            "{device:x}-{inode:x}-{len:x}-{:x}.{:x}-{:x}.{:x}",
            modified.0, modified.1, changed.0, changed.1
        );
        Version(text.into())
    }
}

impl From<&Metadata> for Stamp {
    fn from(m: &Metadata) -> Self {
        Self {
            device: m.dev(),
            inode: m.ino(),
            len: m.len(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        }
    }
}

// The widths of these fields differ between systems.
#[allow(clippy::unnecessary_cast, reason = "the fields have other widths on other systems")]
impl From<&FileStat> for Stamp {
    fn from(s: &FileStat) -> Self {
        Self {
            device: s.st_dev as u64,
            inode: s.st_ino as u64,
            len: s.st_size as u64,
            modified: (s.st_mtime as i64, s.st_mtime_nsec as i64),
            changed: (s.st_ctime as i64, s.st_ctime_nsec as i64),
        }
    }
}
