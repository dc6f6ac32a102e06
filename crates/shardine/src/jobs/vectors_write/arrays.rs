//! Writes the objects of arrays, those of this process that do not exist yet.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use shardine_codec::VariableElements;
use shardine_codec::strided::Placement;
use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{
    BuiltGroups, BuiltObjects, BuiltStore, GridArray, ObjectArray,
};

use crate::engine::{FirstError, on_threads};
use crate::jobs::JobProgress;
use crate::jobs::frame::{JobContext, Part};
use crate::jobs::watched::Watched;
use crate::source::{GeneratorSource, Source, SourceError};
use crate::{Array, Axis, Error, Selection, Strategy, WriteOptions, WriteReport};

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
    /// The path of the array, for names of tasks.
    pub path: &'a str,
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
            if !self.is_ours(&cell) {
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

    fn is_ours(&self, cell: &[u64]) -> bool {
        self.part.is_none_or(|part| part.takes(format!("{}/{cell:?}", self.path).as_bytes()))
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

/// The objects that the chunks of a grid lie in, with the bytes of their cells.
pub(super) fn grid_objects(
    store: &BuiltStore,
    array: &GridArray,
    shard: Option<&[u64]>,
) -> BTreeMap<Vec<u64>, u64> {
    let mut objects = BTreeMap::new();
    for chunk in store.chunks(array) {
        let cell = store.cell(&chunk);
        let bytes = store.cell_len(array, &cell);
        let object = match shard {
            Some(shard) => cell.iter().zip(shard).map(|(at, length)| at / length).collect(),
            None => cell,
        };
        *objects.entry(object).or_insert(0u64) += bytes;
    }
    objects
}

/// The cells of a grid.
pub(super) struct GridSource<'a> {
    pub store: &'a BuiltStore,
    pub array: &'a GridArray,
}

impl Source for GridSource<'_> {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err(NOT_NUMBERS.into())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let mut elements = VariableElements::new();
        let mut bytes = Vec::new();
        let mut cell = start.to_vec();
        let count = shape.iter().product::<u64>();
        for number in 0..count {
            let mut rest = number;
            for axis in (0..shape.len()).rev() {
                cell[axis] = start[axis] + rest % shape[axis];
                rest /= shape[axis];
            }
            self.store.read_cell(self.array, &cell, &mut bytes)?;
            elements.push(&bytes);
        }
        Ok(elements)
    }
}

const NOT_NUMBERS: &str = "the array does not hold numbers";

/// Hands the rows of a block to a function.
type ReadBlock<'a> =
    dyn Fn(u64, &mut dyn FnMut(&[u8])) -> Result<(), GeometryError> + Send + Sync + 'a;

/// Rows of any length, which come in blocks: manifests, or members of groups.
pub(super) struct RowSource<'a> {
    pub block: u64,
    pub read: Box<ReadBlock<'a>>,
}

impl<'a> RowSource<'a> {
    pub fn manifests(objects: BuiltObjects<'a>) -> Self {
        let read = move |block, each: &mut dyn FnMut(&[u8])| objects.read_manifests(block, each);
        Self { block: BuiltObjects::BLOCK, read: Box::new(read) }
    }

    pub fn members(groups: BuiltGroups<'a>) -> Self {
        let read = move |block, each: &mut dyn FnMut(&[u8])| groups.read_members(block, each);
        Self { block: BuiltGroups::BLOCK, read: Box::new(read) }
    }
}

impl Source for RowSource<'_> {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err(NOT_NUMBERS.into())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let first = start.first().copied().unwrap_or(0);
        let count = shape.first().copied().unwrap_or(0);
        let mut elements = VariableElements::new();
        let mut block = first / self.block;
        let mut number = block * self.block;
        let end = first.saturating_add(count);
        while number < end {
            (self.read)(block, &mut |row| {
                if (first..end).contains(&number) {
                    elements.push(row);
                }
                number += 1;
            })?;
            block += 1;
            // Also if there are fewer than were asked for.
            number = number.max(block * self.block);
        }
        Ok(elements)
    }
}

/// An attribute of objects.
pub(super) fn value_source<'a>(store: &'a BuiltStore, array: &'a ObjectArray) -> impl Source + 'a {
    let element = array.element;
    GeneratorSource::new(element, move |start: &[u64], shape: &[u64], out: &mut [u8]| {
        let (first, rows) = (start.first().copied(), shape.first().copied());
        let (column, columns) = (start.get(1).copied(), shape.get(1).copied());
        let mut values = Vec::new();
        store.read_object_rows(array, first.unwrap_or(0), rows.unwrap_or(0), &mut values)?;
        // Chunks have all columns, but a part of them may be asked for.
        let row = array.elements() as usize * element;
        let begin = column.unwrap_or(0) as usize * element;
        let end = begin + columns.unwrap_or(1) as usize * element;
        let wanted = values.chunks_exact(row.max(1)).filter_map(|row| row.get(begin..end));
        let mut places = out.chunks_exact_mut((end - begin).max(1));
        for (place, value) in places.by_ref().zip(wanted) {
            place.copy_from_slice(value);
        }
        match (places.next(), places.into_remainder()) {
            (None, []) => Ok(()),
            _ => Err(Box::new(GeometryError::Spool(std::io::ErrorKind::UnexpectedEof.into()))),
        }
    })
}

/// The ids of objects.
pub(super) fn id_source(objects: BuiltObjects<'_>) -> impl Source + '_ {
    GeneratorSource::new(8, move |start: &[u64], shape: &[u64], out: &mut [u8]| {
        let (start, count) = (start.first().copied(), shape.first().copied());
        let mut ids = Vec::new();
        objects.read_ids(start.unwrap_or(0), count.unwrap_or(0), &mut ids)?;
        if ids.len() != out.len() {
            return Err(Box::new(GeometryError::Spool(std::io::ErrorKind::UnexpectedEof.into())));
        }
        out.copy_from_slice(&ids);
        Ok(())
    })
}
