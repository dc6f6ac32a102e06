use shardine_codec::VariableElements;
use shardine_codec::strided::Placement;

use crate::source::{Source, SourceError};

/// A source from some place on.
pub(crate) struct PartOfSource<'a> {
    pub source: &'a dyn Source,
    /// Where the part begins in the source.
    pub start: Vec<u64>,
}

impl PartOfSource<'_> {
    fn place(&self, start: &[u64]) -> Vec<u64> {
        start.iter().zip(&self.start).map(|(&at, &start)| at.saturating_add(start)).collect()
    }
}

impl Source for PartOfSource<'_> {
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
        self.source.copy_box(&self.place(start), shape, target, to)
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        self.source.variable_box(&self.place(start), shape)
    }

    fn together(&self, start: &[u64]) -> Option<Vec<u64>> {
        self.source.together(&self.place(start))
    }
}
