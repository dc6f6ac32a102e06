//! Makes an array from another one, whatever their formats: encoded chunks are moved wherever their
//! bytes mean the same on both sides.

mod axes;
mod batch;
mod compare;
mod consolidated;
mod finder;
mod in_place;
mod node_keys;
mod objects;
mod out;
mod relation;
mod source;
mod tasks;
mod transfer;
mod walk;

use super::repack::{RepackCheck, RepackError, is_stale};
use serde::{Deserialize, Serialize};

use crate::engine::ObjectCells;

pub(super) use axes::AxisMap;
pub(super) use batch::Batch;
pub(super) use finder::ChunkFinder;
pub use in_place::recover;
pub(super) use in_place::{
    InPlaceOptions, Prepared, Replaced, Replacement, Settled, prepare, recover_missing, replace,
    settle,
};
pub(super) use node_keys::NodeKeys;
pub(super) use objects::is_plain;
pub use out::PartOutcome;
pub(super) use out::{
    Document, Others, OutOptions, OutPlan, Step, StepDone, Work, document_hash, is_complete, make,
};
pub(super) use relation::{codecs_along, has_same_bytes, moves, relates};
pub(super) use source::ArraySource;
pub use tasks::{RebuildJob, RebuildPlan, RebuildTask, TaskReport};
pub(super) use tasks::{SourceRef, TargetRef};
pub(super) use transfer::{Counts, TransferOptions};
pub(super) use walk::extents as stored_extents;

/// Identifies an object that was made.
enum Note {
    /// The one at this cell.
    Cell(Vec<u64>),
    /// One shared by these chunks.
    Shared(ObjectCells),
}

/// What a task makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum TaskObject {
    /// The objects in a box of cells.
    Cells {
        /// The first cell.
        first: Vec<u64>,
        /// Cells along each axis.
        count: Vec<u64>,
    },
    /// An object shared by chunks, at its position in the grid of objects.
    Place(Vec<u64>),
    /// An object shared by chunks that do not form a box: its number, and theirs.
    Shared(u64, Vec<u64>),
}

impl TaskObject {
    /// Whether its positions have this many axes.
    fn has_axes(&self, rank: usize) -> bool {
        match self {
            Self::Cells { first, count } => first.len() == rank && count.len() == rank,
            Self::Place(place) => place.len() == rank,
            Self::Shared(..) => true,
        }
    }
}
