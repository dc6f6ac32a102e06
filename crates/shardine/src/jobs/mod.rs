//! Operations over whole data sets.

mod compact;
mod verify;
mod walk;

pub use compact::{CompactOptions, CompactSummary, Compacted, compact};
pub use verify::{Finding, FindingKind, Severity, VerifyOptions, VerifySummary, verify};
