//! Fills an array with the elements of a file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_codec::VariableElements;
use shardine_codec::strided::Placement;

use super::cells;
use crate::files::{FileError, FoundFile, elements};
use crate::jobs::frame::{Part, stable_hash};
use crate::jobs::rebuild::{AxisMap, Counts};
use crate::jobs::watched::Watched;
use crate::jobs::{JobContext, JobProgress};
use crate::plan::chunk_grid;
use crate::source::{PartOfSource, SourceError};
use crate::{
    Array, Axis, ElementSize, Error, Region, Selection, Source, WriteOptions, WriteReport,
};

/// A file that an array is made from.
pub(in crate::jobs) struct FileOfElements {
    /// Its elements, along its own axes.
    pub source: Box<dyn Source>,
    /// Which axis of the array each of its axes becomes.
    pub axes: AxisMap,
    /// Its path; `None` of a stream, which nothing changes any more.
    pub path: Option<PathBuf>,
    pub name: String,
}

impl FileOfElements {
    /// A number that changes when the file is written to.
    pub fn state(&self) -> Result<u64, Error> {
        let Some(path) = &self.path else { return Ok(state(None)) };
        let metadata = std::fs::metadata(path).map_err(FileError::at(path))?;
        Ok(state(Some(&FoundFile::with(path, &metadata)?)))
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes a part of the array. With `resumed`, existing objects are kept.
    pub fn fill(
        &self,
        context: &JobContext,
        array: &Array,
        resumed: bool,
        part: Option<Part>,
    ) -> Result<Counts, Error> {
        let (written, kept) = fill(context, array, self, resumed, part)?;
        Ok(Counts {
            recoded: written.chunks_encoded,
            absent: written.chunks_empty,
            written: written.objects_written,
            bytes: written.bytes_written,
            kept,
            ..Counts::default()
        })
    }
}

/// A number for a file as it was found.
pub fn state(found: Option<&FoundFile>) -> u64 {
    let Some(FoundFile { name, bytes, modified, .. }) = found else { return 0 };
    stable_hash(format!("{name}\n{bytes}\n{modified}").as_bytes())
}

/// Along the axes of the array.
impl Source for FileOfElements {
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
        let strides = self.axes.to_old(&to.strides, 0).into_iter().collect();
        let to = Placement { start: to.start, strides };
        let (start, shape) = (self.axes.to_old(start, 0), self.axes.to_old(shape, 1));
        self.source.copy_box(&start, &shape, target, &to)
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        match self.axes.is_identity() {
            true => self.source.variable_box(start, shape),
            false => Err("elements that vary in length stay in their order".into()),
        }
    }

    fn together(&self, start: &[u64]) -> Option<Vec<u64>> {
        self.source.together(&self.axes.to_old(start, 0))
    }
}

/// Writes the objects of a part of an array; returns also how many an earlier run had written.
pub fn fill(
    context: &JobContext,
    array: &Array,
    source: &dyn Source,
    resumed: bool,
    part: Option<Part>,
) -> Result<(WriteReport, u64), Error> {
    let boxes = cells::of_part(&chunk_grid(array.shape(), array.cell_shape()), part);
    let kept = if resumed { array.objects()? } else { Vec::new() };
    let mut kept: Vec<Vec<u64>> = kept.into_iter().map(|object| object.cell).collect();
    kept.retain(|cell| boxes.iter().any(|cells| cells::contains(cells, cell)));
    Ok((write(context, array, &boxes, &kept, source)?, kept.len() as u64))
}

/// Writes the cells of some boxes that do not exist yet.
fn write(
    context: &JobContext,
    array: &Array,
    boxes: &[Vec<Range<u64>>],
    kept: &[Vec<u64>],
    source: &dyn Source,
) -> Result<WriteReport, Error> {
    let size = match array.data_type().size() {
        ElementSize::Fixed(size) => size as u64,
        ElementSize::Variable => 0,
    };
    let region = |cells: &Vec<Range<u64>>| {
        let axes = cells.iter().zip(array.cell_shape()).zip(array.shape());
        let axes = axes.map(|((range, &n), &length)| {
            // Inside the array, so nothing overflows.
            let start = range.start * n;
            Axis { start, step: 1, count: (range.end.saturating_mul(n)).min(length) - start }
        });
        Selection { axes: axes.collect() }
    };
    let bytes = |regions: &mut dyn Iterator<Item = Selection>| -> u64 {
        let each = regions.map(|region| elements(&region.shape()).saturating_mul(size));
        each.fold(0, u64::saturating_add)
    };
    let all = bytes(&mut boxes.iter().map(region));
    let regions: Vec<Selection> =
        boxes.iter().flat_map(|cells| cells::without(cells, kept)).map(|c| region(&c)).collect();
    let before = all.saturating_sub(bytes(&mut regions.iter().cloned()));
    let options = WriteOptions::new().progress(counting(context, before, all));
    let watched = Watched { source, context };
    let mut report = WriteReport::default();
    for region in regions {
        let start = region.axes.iter().map(|axis| axis.start).collect();
        let part = PartOfSource { source: &watched, start };
        let more = array.write_from(Region::from(&region), &part, &options);
        context.check()?;
        report.add(&more?);
    }
    Ok(report)
}

/// A callback for a write, called with the bytes it has encoded, that reports the total.
pub(in crate::jobs) fn counting(
    context: &JobContext,
    before: u64,
    total_bytes: u64,
) -> Arc<dyn Fn(u64) + Send + Sync> {
    let (context, done) = (context.clone(), AtomicU64::new(before));
    Arc::new(move |more| {
        let bytes = done.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        context.report(JobProgress { bytes, total_bytes, ..JobProgress::default() });
    })
}
