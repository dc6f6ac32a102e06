//! What is asked for, and what was done.

use super::plan::Plan;
use crate::ome::OmeVersion;
use crate::zarr::metadata::NodeMetadata;

/// How to migrate a hierarchy.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// Remove the version 2 documents once those of version 3 exist and say the same. `None`: if
    /// there is OME-Zarr metadata.
    pub remove_v2: Option<bool>,
    /// The version that OME-Zarr metadata gets, 0.5 or later. `None`: 0.5, or the newest that there
    /// is.
    pub ome_version: Option<OmeVersion>,
    /// Leave OME-Zarr metadata as it is, as if it were other attributes.
    pub leave_ome: bool,
}

impl MigrateOptions {
    /// Writes, and removes the version 2 documents only of a hierarchy with OME-Zarr metadata.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to change nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets whether to remove the version 2 documents.
    pub fn remove_v2(mut self, remove_v2: bool) -> Self {
        self.remove_v2 = Some(remove_v2);
        self
    }

    /// Sets the version that OME-Zarr metadata gets.
    pub fn ome_version(mut self, version: impl Into<OmeVersion>) -> Self {
        self.ome_version = Some(version.into());
        self
    }

    /// Sets whether OME-Zarr metadata stays as it is.
    pub fn leave_ome(mut self, leave_ome: bool) -> Self {
        self.leave_ome = leave_ome;
        self
    }
}

/// A document that was written or removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// Its key.
    pub object: String,
    /// What became of it.
    pub change: MigratedChange,
}

/// What became of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MigratedChange {
    /// It was written where there was none.
    Written,
    /// It took the place of another one.
    Replaced,
    /// It was removed.
    Removed,
}

/// The result of a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrateSummary {
    /// Arrays of the hierarchy.
    pub arrays: u64,
    /// Groups of the hierarchy.
    pub groups: u64,
    /// Version 3 documents that were written where there were none, or would be.
    pub written: u64,
    /// Version 3 documents that were replaced, or would be.
    pub replaced: u64,
    /// Version 2 documents that were removed, or would be.
    pub removed: u64,
    /// Groups with OME-Zarr metadata.
    pub ome: u64,
    /// Those of them whose metadata got, or would get, the form of another version.
    pub converted: u64,
    /// Arrays that got, or would get, the names of their image's axes.
    pub named: u64,
    /// The version of all OME-Zarr metadata; `None` if there is none, or it stays as it is.
    pub ome_version: Option<OmeVersion>,
    /// Whether an earlier migration was interrupted, and this one has finished it.
    pub resumed: bool,
    /// Nodes whose version 2 documents were looked at.
    pub(super) visited: u64,
}

impl MigrateSummary {
    /// Counts what there is, and what changes.
    pub(super) fn describe(&mut self, plan: &Plan) {
        let is_array = |metadata: &NodeMetadata| matches!(metadata, NodeMetadata::Array(_));
        let all = plan.nodes.len() as u64;
        self.arrays = plan.nodes.iter().filter(|node| is_array(&node.target)).count() as u64;
        self.groups = all - self.arrays;
        self.ome = plan.ome;
        // Another attempt finds less to do.
        self.converted = self.converted.max(plan.converted);
        self.named = self.named.max(plan.named);
        self.ome_version = plan.version.clone();
    }
}
