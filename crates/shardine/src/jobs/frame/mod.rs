//! What all jobs have in common: what they run with, and which part of the work is theirs.

mod context;
mod part;

pub use context::{CancelToken, JobContext, JobProgress};
pub use part::Part;
