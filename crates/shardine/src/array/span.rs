//! Spans around reads and writes, for programs that trace.

use tracing::span::EnteredSpan;
use tracing::{Level, debug_span, enabled};

use super::Array;

/// What is traced.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    Read,
    Write,
}

impl Array {
    /// A span around a call, unless a worker makes it as part of another one: a job that reads
    /// chunk by chunk has a single span, its own. Costs one load where nobody listens.
    #[inline]
    pub(super) fn call_span(&self, call: Call, regions: usize) -> Option<EnteredSpan> {
        if !enabled!(Level::DEBUG) {
            return None;
        }
        self.enabled_span(call, regions)
    }

    #[cold]
    fn enabled_span(&self, call: Call, regions: usize) -> Option<EnteredSpan> {
        if self.engine().on_worker() {
            return None;
        }
        let array = &self.location;
        let span = match call {
            Call::Read => debug_span!("read", %array, regions),
            Call::Write => debug_span!("write", %array, regions),
        };
        Some(span.entered())
    }
}
