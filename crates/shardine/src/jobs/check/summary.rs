use super::{FindingKind, Severity, Untold};

/// What a verification has checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifySummary {
    /// Arrays checked.
    pub arrays: u64,
    /// Groups checked.
    pub groups: u64,
    /// Grid objects checked.
    pub objects: u64,
    /// Their total bytes.
    pub bytes: u64,
    /// Chunks that the indexes refer to, or objects that are chunks.
    pub chunks: u64,
    /// Chunks decoded, successfully or not.
    pub chunks_decoded: u64,
    /// Bytes of shards that nothing refers to.
    pub gap_bytes: u64,
    /// Chunks that `repair` could not save, and that are still missing.
    pub lost_chunks: u64,
    /// Chunks restored from an older index.
    pub unproved_chunks: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that are notices.
    pub notices: u64,
    /// Findings that were only counted.
    pub untold: Untold,
    /// Whether the store could not list: nodes were found by consolidated metadata, objects by
    /// requesting each that the grid has room for. Anything else was not checked.
    pub unlisted: bool,
    /// Folders that a part other than the first could not list; part 1 reports why.
    pub unread_folders: u64,
}

impl VerifySummary {
    /// Whether no damage was found, and all folders to be checked could be listed.
    pub fn is_ok(&self) -> bool {
        self.damage == 0 && self.unread_folders == 0
    }

    pub(super) fn count(&mut self, kind: FindingKind, count: u64) {
        match kind.severity() {
            Severity::Damage => self.damage += count,
            Severity::Notice => self.notices += count,
        }
    }
}
