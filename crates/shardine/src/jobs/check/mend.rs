//! Documents that `repair` can correct.

use std::fmt;

use serde_json::{Map, Value};
use shardine_geometry::zarr_vectors::rules as vectors;
use shardine_store::Key;

use crate::ome::rules::{Violation, corrections as ome};

/// How a document is corrected. It follows from what `verify` read, and is worked out again before
/// anything is written.
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
    pub correction: DocumentCorrection,
}

/// A change of one document, by the rules of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DocumentCorrection {
    /// Of OME-Zarr: it follows from other documents.
    Ome(ome::Correction),
    /// Of Zarr Vectors: it follows from what is stored.
    Vectors(vectors::Correction),
}

impl DocumentCorrection {
    /// Whether the document no longer breaks a rule of OME-Zarr, once corrected.
    pub fn mends(&self, violation: &Violation) -> bool {
        matches!(self, Self::Ome(correction) if correction.mends(violation))
    }

    /// Whether it takes more than documents to see that it follows.
    pub fn follows_from_cells(&self) -> bool {
        matches!(self, Self::Vectors(_))
    }

    /// Whether something that the document says is replaced or removed.
    pub fn removes(&self) -> bool {
        match self {
            Self::Ome(correction) => correction.removes(),
            Self::Vectors(correction) => correction.removes(),
        }
    }

    /// Changes the attributes of a node; `false`, and nothing is changed, if they are not those
    /// that it was planned from.
    pub fn apply(&self, attributes: &mut Map<String, Value>) -> bool {
        match self {
            Self::Ome(correction) => correction.apply(attributes),
            Self::Vectors(correction) => correction.apply(attributes),
        }
    }
}

impl fmt::Display for DocumentCorrection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ome(correction) => correction.fmt(f),
            Self::Vectors(correction) => correction.fmt(f),
        }
    }
}
