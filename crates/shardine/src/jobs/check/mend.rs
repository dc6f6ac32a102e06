//! Documents that `repair` can correct.

use shardine_store::Key;

use crate::ome::rules::corrections::Correction;

/// How a document of OME-Zarr is corrected. It follows from what `verify` read, and is worked out
/// again before anything is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mend {
    /// The path of the node whose document changes.
    pub node: Option<Key>,
    /// That document.
    pub document: Key,
    /// The path of the group whose metadata it follows from.
    pub group: Option<Key>,
    /// A document that states the missing version.
    pub witness: Option<Key>,
    pub correction: Correction,
}
