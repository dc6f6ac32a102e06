//! Operations over whole data sets.

mod compact;
mod walk;

pub use compact::{CompactOptions, CompactSummary, Compacted, compact};
