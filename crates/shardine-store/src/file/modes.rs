//! Permissions of files that replace others.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, fchown};
use std::path::Path;

use super::failed;
use crate::StoreError;

/// The modes and owners of the files and folders of a data set, for their replacements.
///
/// If the files have different modes, a new one gets only what all of them allow, so that nobody
/// gains access to what was hidden from them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modes {
    files: Option<Mode>,
    folders: Option<Mode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    bits: u32,
    /// User and group, if all files have the same.
    owner: Option<(u32, u32)>,
}

impl Mode {
    /// What both allow.
    fn common(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
        let owner = one.owner.filter(|_| one.owner == other.owner);
        Some(Self { bits: one.bits & other.bits, owner })
    }
}

impl Modes {
    /// The modes of an open file.
    pub fn of(file: &File) -> Result<Self, StoreError> {
        let mut modes = Self::default();
        let found = file.metadata();
        modes.add(&found.map_err(|e| failed("examine", Path::new("an open file"), e))?);
        Ok(modes)
    }

    /// Takes one more file or folder into account.
    pub(super) fn add(&mut self, found: &Metadata) {
        let (bits, owner) = (found.permissions().mode(), Some((found.uid(), found.gid())));
        let mode = Some(Mode { bits, owner });
        let all = if found.is_dir() { &mut self.folders } else { &mut self.files };
        *all = Mode::common(*all, mode);
    }

    /// Takes everything into account that another one did.
    pub(super) fn join(&mut self, other: &Self) {
        self.files = Mode::common(self.files, other.files);
        self.folders = Mode::common(self.folders, other.folders);
    }

    /// Gives a new file its mode and owner.
    pub(super) fn apply_to_file(&self, file: &File) -> io::Result<()> {
        let Some(mode) = self.files else { return Ok(()) };
        if let Some((user, group)) = mode.owner {
            keep_owner(&file.metadata()?, (user, group), |u, g| fchown(file, u, g))?;
        }
        file.set_permissions(Permissions::from_mode(mode.bits & 0o777))
    }

    /// Gives a new folder its mode and owner.
    pub(super) fn apply_to_folder(&self, path: &Path) -> io::Result<()> {
        let Some(mode) = self.folders else { return Ok(()) };
        if let Some((user, group)) = mode.owner {
            keep_owner(&fs::metadata(path)?, (user, group), |u, g| chown(path, u, g))?;
        }
        fs::set_permissions(path, Permissions::from_mode(mode.bits & 0o7777))
    }
}

/// Sets the owner of a file or folder, as far as this user may.
fn keep_owner(
    found: &Metadata,
    (user, group): (u32, u32),
    set: impl Fn(Option<u32>, Option<u32>) -> io::Result<()>,
) -> io::Result<()> {
    if (found.uid(), found.gid()) == (user, group) {
        return Ok(());
    }
    let denied = |e: &io::Error| e.kind() == io::ErrorKind::PermissionDenied;
    match set(Some(user), Some(group)) {
        Err(e) if denied(&e) => match set(None, Some(group)) {
            Err(e) if denied(&e) => Ok(()),
            set => set,
        },
        set => set,
    }
}
