use tracing::span::EnteredSpan;

use crate::Location;

/// A span around a whole job, for programs that trace what they do. Costs nothing where nobody does.
pub(super) fn job_span(job: &'static str, at: &Location) -> EnteredSpan {
    tracing::info_span!("job", job, at = %at).entered()
}
