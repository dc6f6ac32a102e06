//! Operations over whole data sets.

mod compact;
mod repair;
mod verify;
mod walk;

pub use compact::{CompactOptions, CompactSummary, Compacted, compact};
pub use repair::{Repair, RepairKind, RepairOptions, RepairSummary, repair};
pub use verify::{Finding, FindingKind, Severity, VerifyOptions, VerifySummary, verify};
