//! Makes an array from another one, whatever their formats: encoded chunks are moved as they are
//! wherever their bytes mean the same on both sides.

mod axes;
mod compare;
mod finder;
mod objects;
mod relation;
mod source;
mod transfer;
mod walk;

use super::repack::{RepackCheck, RepackError};
use crate::engine::ObjectCells;

pub(super) use axes::AxisMap;
pub(super) use finder::ChunkFinder;
pub(super) use relation::{moves, relates};
pub(super) use transfer::{Counts, Sides, Transfer, TransferOptions};

/// Which object was made.
enum Note {
    /// The one at this cell.
    Cell(Vec<u64>),
    /// One that these chunks share.
    Shared(ObjectCells),
}
