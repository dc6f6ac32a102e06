//! Operations over whole data sets.

mod verify;

pub use verify::{Finding, FindingKind, Severity, VerifyOptions, VerifySummary, verify};
