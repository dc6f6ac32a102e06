//! What all jobs share: the context they run with, the part of the work a process does, what they
//! leave in a target while under way, and how one data set replaces another.

mod carry;
mod command;
mod context;
mod error;
mod exchange;
pub(super) mod marker;
mod part;
pub(super) mod place;
pub(super) mod source_state;
pub(super) mod switch;

pub use crate::engine::CancelToken;
pub(super) use carry::carry_over;
pub use context::{JobContext, JobProgress};
pub use error::JobError;
pub(super) use exchange::{Built, Exchange, Replacing, WAIT};
pub(super) use marker::{
    Beginning, JobKind, Marker, PartEnd, Start, remove_leftovers, remove_leftovers_below,
};
pub use part::Part;
pub(super) use part::stable_hash;
