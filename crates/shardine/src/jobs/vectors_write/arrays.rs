//! Writes the objects of arrays, those of this process that do not exist yet.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::tasks::Task;
use crate::engine::{FirstError, on_threads};
use crate::jobs::JobProgress;
use crate::jobs::frame::{JobContext, Part};
use crate::jobs::watched::Watched;
use crate::source::Source;
use crate::zarr::DOCUMENT;
use crate::zarr::metadata::{ArrayMetadata, MetadataError};
use crate::{
    Array, ArrayNode, Axis, Error, Location, Selection, Strategy, WriteOptions, WriteReport,
};

/// Bytes from which on an object is written chunk by chunk and not put together in memory.
const LARGE: u64 = 4 << 20;

/// Objects that are handed to the engine together.
const TOGETHER: usize = 2048;

/// Writes objects, and counts them.
pub(in crate::jobs) struct ObjectWriter<'a> {
    pub context: &'a JobContext,
    pub part: Option<Part>,
    /// Whether there may be objects of an earlier run.
    pub resumed: bool,
    /// The path of the array.
    pub path: &'a str,
    /// What its objects count as when parts share them.
    pub task: Task,
    pub progress: &'a Counter,
}

/// How far the job is.
#[derive(Debug, Default)]
pub(in crate::jobs) struct Counter {
    pub done: Mutex<Done>,
    pub total: u64,
}

#[derive(Debug, Default, Clone, Copy)]
pub(in crate::jobs) struct Done {
    pub written: WriteReport,
    pub kept: u64,
    objects: u64,
}

impl Counter {
    /// What was written.
    pub fn written(&self) -> WriteReport {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).written
    }

    fn add(&self, context: &JobContext, path: &str, more: &Done) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.objects += more.objects;
        done.kept += more.kept;
        done.written.add(&more.written);
        let (objects, bytes) = (done.objects, done.written.bytes_written);
        drop(done);
        context.report(JobProgress {
            bytes,
            ..JobProgress::steps(path, objects, self.total.max(objects))
        });
    }
}

impl ObjectWriter<'_> {
    /// Writes the objects at these cells, given with the bytes that go into each.
    pub fn write(
        &self,
        array: &Array,
        objects: impl Iterator<Item = (Vec<u64>, u64)>,
        source: &dyn Source,
    ) -> Result<(), Error> {
        let kept: HashSet<Vec<u64>> = match self.resumed {
            true => array.objects()?.into_iter().map(|object| object.cell).collect(),
            false => HashSet::new(),
        };
        let watched = Watched { source, context: self.context };
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for (cell, bytes) in objects {
            if !self.task.is_of(self.part, self.path, &cell) {
                continue;
            }
            if kept.contains(&cell) {
                let one = Done { kept: 1, objects: 1, ..Done::default() };
                self.progress.add(self.context, self.path, &one);
                continue;
            }
            let list = if bytes > LARGE { &mut large } else { &mut small };
            list.push(region(array, &cell));
            if small.len() == TOGETHER {
                self.write_boxes(array, &small, &watched, Strategy::Auto)?;
                small.clear();
            }
        }
        self.write_boxes(array, &small, &watched, Strategy::Auto)?;
        self.write_large(array, large, &watched)
    }

    fn write_boxes(
        &self,
        array: &Array,
        boxes: &[Selection],
        source: &dyn Source,
        strategy: Strategy,
    ) -> Result<(), Error> {
        if boxes.is_empty() {
            return Ok(());
        }
        let written = array.write_boxes(boxes, source, &WriteOptions::new().strategy(strategy));
        self.context.check()?;
        let done = Done { written: written?, kept: 0, objects: boxes.len() as u64 };
        self.progress.add(self.context, self.path, &done);
        Ok(())
    }

    /// Large objects, one per thread: the chunks of each are written as they are made.
    fn write_large(
        &self,
        array: &Array,
        boxes: Vec<Selection>,
        source: &dyn Source,
    ) -> Result<(), Error> {
        let threads = self.context.engine().threads().min(boxes.len());
        // Chunks that are objects themselves have nothing to be streamed.
        let strategy = match array.shard_shape() {
            Some(_) => Strategy::Append,
            None => Strategy::Auto,
        };
        let (boxes, failed) = (Mutex::new(boxes.into_iter()), FirstError::default());
        on_threads(threads, &|| {
            while !failed.is_set() {
                let next = boxes.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(next) = next else { break };
                if let Err(error) = self.write_boxes(array, &[next], source, strategy) {
                    failed.set(error);
                }
            }
        });
        failed.into_result()
    }
}

/// The elements of an object.
fn region(array: &Array, cell: &[u64]) -> Selection {
    let axes = cell.iter().zip(array.cell_shape()).zip(array.shape());
    let axes = axes.map(|((&at, &length), &end)| {
        let start = at.saturating_mul(length);
        Axis { start, step: 1, count: start.saturating_add(length).min(end).saturating_sub(start) }
    });
    Selection { axes: axes.collect() }
}

/// Opens the arrays of a store that is being made.
#[derive(Clone, Copy)]
pub(in crate::jobs) struct NewNodes<'a> {
    pub context: &'a JobContext,
    pub target: &'a Location,
}

impl NewNodes<'_> {
    /// The metadata of the array at a path, or an error that names its document.
    pub fn metadata(
        &self,
        path: &str,
        metadata: Result<ArrayMetadata, MetadataError>,
    ) -> Result<ArrayMetadata, Error> {
        let object = self.target.key(path)?.join(DOCUMENT)?;
        metadata.map_err(|source| Error::Metadata { object, source: Box::new(source) })
    }

    /// The array at a path, whether or not it has a document yet.
    pub fn array(&self, path: &str, metadata: ArrayMetadata) -> Result<ArrayNode, Error> {
        ArrayNode::from_metadata(self.context.engine(), &self.target.join(path)?, metadata)
    }
}
