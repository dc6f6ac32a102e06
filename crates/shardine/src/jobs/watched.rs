use shardine_codec::VariableElements;
use shardine_codec::strided::Placement;

use super::JobContext;
use crate::source::{Source, SourceError};

/// A source that fails once its job is cancelled, so that a write ends before its next chunk.
///
/// The caller checks the context first, and maps the error of the write to
/// [`Cancelled`](crate::Error::Cancelled).
pub(super) struct Watched<'a> {
    pub source: &'a dyn Source,
    pub context: &'a JobContext,
}

impl Source for Watched<'_> {
    fn element_size(&self) -> Option<usize> {
        self.source.element_size()
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        self.context.check()?;
        self.source.copy_box(start, shape, target, to)
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        self.context.check()?;
        self.source.variable_box(start, shape)
    }

    fn together(&self, start: &[u64]) -> Option<Vec<u64>> {
        self.source.together(start)
    }
}
