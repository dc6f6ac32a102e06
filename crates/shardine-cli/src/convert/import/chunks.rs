//! Chunks of a source, before there is an array for them.

use std::sync::Arc;

use shardine::store::MemoryStore;
use shardine::zarr::metadata::ArrayMetadata;
use shardine::{
    Array, ArrayNode, Axis, Engine, Location, Placement, Region, Selection, Source, SourceError,
    VariableElements, WriteOptions,
};

use crate::failure::Failure;

/// A source from some place on.
pub struct Part<'a> {
    pub source: &'a dyn Source,
    pub start: Vec<u64>,
}

impl Part<'_> {
    fn place(&self, start: &[u64]) -> Vec<u64> {
        start.iter().zip(&self.start).map(|(&at, &start)| at.saturating_add(start)).collect()
    }
}

impl Source for Part<'_> {
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
}

/// An array that nobody sees.
pub fn in_memory(engine: &Arc<Engine>, metadata: ArrayMetadata) -> Result<ArrayNode, Failure> {
    let location = Location::root(Arc::new(MemoryStore::new()));
    Ok(ArrayNode::create(engine, &location, metadata, false)?)
}

/// Chunks that are encoded to see what they take.
const MEASURED: u64 = 16;

/// Bytes that a chunk of a source takes on average when it is encoded, by some that lie far apart.
///
/// The array is one that nobody sees; the chunks stay in it.
pub fn encoded_bytes(array: &Array, source: &dyn Source) -> Result<u64, Failure> {
    let chunk = array.cell_shape();
    let grid: Vec<u64> =
        array.shape().iter().zip(chunk).map(|(&length, &n)| length.div_ceil(n)).collect();
    let count = grid.iter().fold(1u64, |n, &m| n.saturating_mul(m));
    let (mut total, mut measured) = (0u64, 0u64);
    let mut last = None;
    for i in 0..MEASURED.min(count) {
        // The middle of each of as many parts.
        let parts = u128::from(MEASURED.min(count));
        let mut at = ((2 * u128::from(i) + 1) * u128::from(count) / (2 * parts)) as u64;
        if last.replace(at) == Some(at) {
            continue;
        }
        let mut cell = vec![0; grid.len()];
        for (place, &n) in cell.iter_mut().zip(&grid).rev() {
            *place = at % n.max(1);
            at /= n.max(1);
        }
        let axes = cell.iter().zip(chunk).zip(array.shape()).map(|((&i, &n), &length)| {
            let start = i * n;
            Axis { start, step: 1, count: n.min(length - start) }
        });
        let selection = Selection { axes: axes.collect() };
        let part = Part { source, start: selection.axes.iter().map(|axis| axis.start).collect() };
        let options = WriteOptions::new().store_empty(true);
        let report = array.write_from(&Region::from(&selection), &part, &options)?;
        total = total.saturating_add(report.bytes_written);
        measured += 1;
    }
    Ok(total.checked_div(measured).unwrap_or(0))
}
