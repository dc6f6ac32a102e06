//! Builds the new array: tasks, one for each new object or box of them, which depend on nothing but the old array.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_store::StoreError;

use super::chunks::ChunkFinder;
use super::{RepackCheck, RepackError, RepackOptions, RepackProgress, RepackedArray};
use crate::engine::tuning::JOB_BATCH;
use crate::engine::{Cells, Publisher};
use crate::layout::Layout;
use crate::{Array, EngineError, Error};

/// Chunks along the last axis that are moved by one task where neither array has shards.
const TOGETHER: u64 = 256;

/// A grid of more chunks than these is not gone through: stored objects tell where there is something.
const MANY: u64 = 1 << 26;

/// One array being built.
pub(super) struct Build<'a> {
    pub old: &'a Array,
    pub new: &'a Array,
    pub options: &'a RepackOptions,
    pub check: RepackCheck,
    /// Whether an earlier run has left something in the place of the new one.
    pub resumed: bool,
    /// The path of the array below the place that was named.
    pub path: &'a str,
    counters: Counters,
    pub(super) publisher: Publisher<'a, Vec<u64>>,
}

#[derive(Debug, Default)]
struct Counters {
    moved: AtomicU64,
    recoded: AtomicU64,
    empty: AtomicU64,
    written: AtomicU64,
    bytes: AtomicU64,
    kept: AtomicU64,
    done: AtomicU64,
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Whether an error may come from somebody who writes to the old array meanwhile.
pub(super) fn is_stale(error: &Error) -> bool {
    matches!(
        error,
        Error::Repack(RepackError::Differs { .. } | RepackError::Elements { .. })
            | Error::Store(StoreError::Changed { .. })
            | Error::Engine(EngineError::Unstable { .. })
            | Error::Engine(EngineError::Shard { .. })
            | Error::Engine(EngineError::Decode { .. })
    )
}

/// What became of the chunks of an object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub moved: u64,
    pub recoded: u64,
    pub empty: u64,
}

impl<'a> Build<'a> {
    pub fn new(
        old: &'a Array,
        new: &'a Array,
        options: &'a RepackOptions,
        check: RepackCheck,
        resumed: bool,
        path: &'a str,
    ) -> Self {
        let publisher = Publisher::new(&*new.chunks.store, JOB_BATCH);
        let counters = Counters::default();
        Self { old, new, options, check, resumed, path, counters, publisher }
    }

    /// Builds all objects, and has them checked. They are durable afterwards.
    pub fn run(&self, moves: bool) -> Result<(), Error> {
        if moves {
            self.move_all()?;
        } else {
            self.recode_all()?;
        }
        if self.check == RepackCheck::Elements {
            self.compare_elements()?;
        }
        Ok(())
    }

    fn move_all(&self) -> Result<(), Error> {
        let grid = self.chunk_grid();
        let unit = self.unit(&grid);
        let axes = unit.iter().zip(self.new.chunk_shape());
        let shape: Vec<u64> = axes.map(|(&unit, &n)| unit.saturating_mul(n)).collect();
        let tasks = self.boxes(&shape, false)?;
        let finder = ChunkFinder::new(self.old);
        self.new
            .engine()
            .each_task(tasks, &|task, _| self.move_task(&finder, &task, &unit, &grid))?;
        for cell in self.publisher.finish()? {
            self.check_moved(&finder, &cell)?;
        }
        Ok(())
    }

    /// Chunks of the new array along each axis.
    pub(super) fn chunk_grid(&self) -> Vec<u64> {
        let axes = self.new.shape().iter().zip(self.new.chunk_shape());
        axes.map(|(&len, &n)| len.div_ceil(n)).collect()
    }

    /// Chunks of the new array, or the most that can be counted.
    pub(super) fn chunk_count(&self) -> u64 {
        Cells::new(self.chunk_grid()).count
    }

    /// The boxes of this shape that the array has, in C order: all, or of a grid of very many chunks those that
    /// objects of the old array reach into, and of the new one if they too may hold something.
    pub(super) fn boxes(
        &self,
        shape: &[u64],
        both: bool,
    ) -> Result<Box<dyn Iterator<Item = Vec<u64>> + Send>, Error> {
        let axes = self.new.shape().iter().zip(shape);
        let all = Cells::new(axes.map(|(&len, &n)| len.div_ceil(n)).collect());
        if self.chunk_count() <= MANY {
            return Ok(Box::new(all));
        }
        let mut found = BTreeSet::new();
        for array in [Some(self.old), (both || self.resumed).then_some(self.new)] {
            let Some(array) = array else { continue };
            let objects = match array.possible_objects() {
                Err(Error::UnlistedObjects { .. }) => return Ok(Box::new(all)),
                objects => objects?,
            };
            for object in objects {
                let cells = object.cell.iter().zip(array.cell_shape());
                let axes = cells.zip(shape).zip(self.new.shape());
                let (mut first, mut count) = (Vec::new(), Vec::new());
                for (((&cell, &object), &n), &len) in axes {
                    let start = cell.saturating_mul(object);
                    let end = start.saturating_add(object).min(len).div_ceil(n);
                    first.push(start / n);
                    count.push(end.saturating_sub(start / n));
                }
                let cells = Cells::new(count);
                if cells.count.saturating_add(found.len() as u64) > MANY {
                    let at = self.old.location().to_string();
                    let reason = "there would be too many new objects".to_owned();
                    return Err(RepackError::Layout { at, reason }.into());
                }
                found.extend(cells.map(|inside| -> Vec<u64> {
                    first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
                }));
            }
        }
        Ok(Box::new(found.into_iter()))
    }

    /// How many chunks along each axis make a task.
    fn unit(&self, grid: &[u64]) -> Vec<u64> {
        let per_object = |array: &Array| -> Option<Vec<u64>> {
            let axes = array.shard_shape()?.iter().zip(array.chunk_shape());
            Some(axes.map(|(&shard, &chunk)| (shard / chunk).max(1)).collect())
        };
        // The objects of an array without shards are made from one shard after the other.
        per_object(self.new).or_else(|| per_object(self.old)).unwrap_or_else(|| {
            let mut unit = vec![1; grid.len()];
            if let Some(last) = unit.last_mut() {
                *last = TOGETHER;
            }
            unit
        })
    }

    fn move_task(
        &self,
        finder: &ChunkFinder<'_>,
        task: &[u64],
        unit: &[u64],
        grid: &[u64],
    ) -> Result<(), Error> {
        if let Layout::Shard(shard) = &self.new.chunks.layout {
            return self.move_shard(finder, shard, task, grid);
        }
        let axes = task.iter().zip(unit).zip(grid);
        let start: Vec<u64> = axes.clone().map(|((&i, &unit), _)| i * unit).collect();
        let count = axes.map(|((&i, &unit), &n)| unit.min(n - i * unit)).collect();
        for inside in Cells::new(count) {
            let chunk: Vec<u64> = start.iter().zip(&inside).map(|(&a, &b)| a + b).collect();
            self.move_chunk(finder, &chunk)?;
        }
        Ok(())
    }

    /// Counts what became of an object's chunks, and that they are done.
    pub(super) fn count(&self, tally: Tally) {
        self.add(tally);
        self.advance(tally.moved + tally.recoded + tally.empty);
    }

    /// Counts what became of an object's chunks.
    pub(super) fn add(&self, tally: Tally) {
        let counters = &self.counters;
        add(&counters.moved, tally.moved);
        add(&counters.recoded, tally.recoded);
        add(&counters.empty, tally.empty);
    }

    /// So many more chunks of the grid are done.
    pub(super) fn advance(&self, chunks: u64) {
        let before = self.counters.done.fetch_add(chunks, Ordering::Relaxed);
        if let Some(tell) = &self.options.progress {
            let total = self.chunk_count();
            tell(RepackProgress { array: self.path.to_owned(), done: before + chunks, total });
        }
    }

    pub(super) fn wrote(&self, objects: u64, bytes: u64) {
        add(&self.counters.written, objects);
        add(&self.counters.bytes, bytes);
    }

    pub(super) fn kept(&self) {
        add(&self.counters.kept, 1);
    }

    /// Puts what was counted into the report.
    pub fn report(&self, report: &mut RepackedArray) {
        let counters = &self.counters;
        report.chunks_moved = get(&counters.moved);
        report.chunks_recoded = get(&counters.recoded);
        report.chunks_empty = get(&counters.empty);
        if self.chunk_count() > MANY {
            // Where nothing is stored nobody has looked.
            let stored = report.chunks_moved.saturating_add(report.chunks_recoded);
            report.chunks_empty = self.chunk_count().saturating_sub(stored);
        }
        report.objects_written = get(&counters.written);
        report.bytes_written = get(&counters.bytes);
        report.objects_kept = get(&counters.kept);
        report.check = self.check;
    }
}
