use super::{FindingKind, Severity, Untold};

/// What a verification has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifySummary {
    /// Arrays that were checked.
    pub arrays: u64,
    /// Groups that were checked.
    pub groups: u64,
    /// Objects of grids that were checked.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Chunks that the indexes refer to, or objects that are chunks.
    pub chunks: u64,
    /// Chunks that were decoded, whether that went well or not.
    pub chunks_decoded: u64,
    /// Bytes of shards that nothing refers to.
    pub gap_bytes: u64,
    /// Chunks that `repair` could not save, and that are still not there.
    pub lost_chunks: u64,
    /// Chunks that are as an older index had them.
    pub unproved_chunks: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that are not.
    pub notices: u64,
    /// Findings that were only counted.
    pub untold: Untold,
    /// Whether the store could not list: nodes were looked for by what consolidated metadata names,
    /// objects by asking for each that the grid has room for. What neither leads to was not looked
    /// for.
    pub unlisted: bool,
    /// Folders that a part other than the first could not list; part 1 reports why.
    pub unread_folders: u64,
}

impl VerifySummary {
    /// Whether no damage was found in what was looked at, and all of that could be listed.
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
