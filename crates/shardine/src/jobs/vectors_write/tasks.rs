//! How parts share the objects of a store.

use crate::jobs::frame::Part;

/// What the objects of an array count as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) enum Task {
    /// The shards of a grid: those at the same place belong to the same part in all arrays, so that
    /// a part needs the rows of its own places alone.
    Place,
    /// Blocks of a table, each for itself.
    Block,
}

impl Task {
    /// Whether the object at a cell of the array at `path` belongs to a part.
    pub fn is_of(self, part: Option<Part>, path: &str, cell: &[u64]) -> bool {
        part.is_none_or(|part| match self {
            Self::Place => part.takes(format!("{cell:?}").as_bytes()),
            Self::Block => part.takes(format!("{path}/{cell:?}").as_bytes()),
        })
    }
}
