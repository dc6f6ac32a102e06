//! Makes an array from another one, whatever their formats: encoded chunks are moved as they are
//! wherever their bytes mean the same on both sides.

mod axes;
mod compare;
pub(super) mod consolidated;
mod finder;
mod in_place;
mod objects;
mod out;
mod relation;
mod source;
mod transfer;
mod walk;

use super::repack::{RepackCheck, RepackError, is_stale};
use crate::engine::ObjectCells;

pub(super) use axes::AxisMap;
pub(super) use finder::ChunkFinder;
pub use in_place::recover;
pub(super) use in_place::{InPlaceOptions, Replaced, Replacement, recover_missing, replace};
pub use out::PartOutcome;
pub(super) use out::{Document, OutOptions, OutPlan, Step, StepDone, Work, make};
pub(super) use relation::{moves, relates};
pub(super) use transfer::{Counts, TransferOptions};

/// Which object was made.
enum Note {
    /// The one at this cell.
    Cell(Vec<u64>),
    /// One that these chunks share.
    Shared(ObjectCells),
}
