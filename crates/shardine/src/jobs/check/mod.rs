//! What `verify` and `repair` share: one walk over objects, one way to check an object that others
//! may be changing, and tolerant surveys of damaged shards.

mod attempts;
mod finding;
pub(in crate::jobs) mod indexed;
mod info_set;
pub(in crate::jobs) mod keyed;
mod mend;
mod ranges;
mod run;
mod summary;
pub(in crate::jobs) mod vectors;

pub(in crate::jobs) use attempts::{Settled, settled};
pub(in crate::jobs) use finding::{Correction, Limit, Origin};
pub use finding::{Finding, FindingKind, Severity, Untold};
pub(in crate::jobs) use info_set::{
    InfoSet, Place, beside, is_known_in_volume, scale_folder, scale_place, value_places,
};
pub(crate) use mend::{DocumentCorrection, Mend};
pub(in crate::jobs) use ranges::{covered, gaps, overlapping, together};
pub(in crate::jobs) use run::{BATCH, Run, Scope, Sizes};
pub use summary::VerifySummary;
