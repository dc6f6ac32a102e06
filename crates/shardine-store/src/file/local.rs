use std::fs::File;
use std::sync::{Mutex, PoisonError};

/// Which devices hold file systems where an open descriptor shows immediately that its file was
/// replaced.
///
/// A network file system answers from its cache, and asks its server only when a file is opened.
#[derive(Debug, Default)]
pub(super) struct LocalSystems {
    known: Mutex<Vec<(u64, bool)>>,
}

impl LocalSystems {
    /// Whether the file is on one of these. One `fstatfs` per device.
    pub fn is_local(&self, file: &File, device: u64) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(_, local)) = known.iter().find(|(known, _)| *known == device) {
            return local;
        }
        let local = is_local(file);
        known.push((device, local));
        local
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_local(file: &File) -> bool {
    use nix::sys::statfs::{
        BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC,
        fstatfs,
    };

    let local = [
        BTRFS_SUPER_MAGIC,
        // Also the number of ext2 and ext3.
        EXT4_SUPER_MAGIC,
        F2FS_SUPER_MAGIC,
        TMPFS_MAGIC,
        XFS_SUPER_MAGIC,
    ];
    fstatfs(file).is_ok_and(|found| local.contains(&found.filesystem_type()))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_local(_: &File) -> bool {
    false
}

/// Whether the file system of this file is known never to rename a folder onto a non-empty one.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn keeps_full_folders(file: &File) -> bool {
    use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, fstatfs};

    is_local(file)
        || fstatfs(file).is_ok_and(|found| found.filesystem_type() == OVERLAYFS_SUPER_MAGIC)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn keeps_full_folders(_: &File) -> bool {
    false
}
