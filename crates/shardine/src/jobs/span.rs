use tracing::span::EnteredSpan;

use crate::Location;

/// A tracing span around a whole job. Costs nothing without a subscriber.
pub(super) fn job_span(job: &'static str, at: &Location) -> EnteredSpan {
    tracing::info_span!("job", job, at = %at).entered()
}
