//! What is asked for, and what was done.

use std::path::PathBuf;

use crate::WriteReport;
use crate::jobs::frame::Part;
use crate::jobs::rebuild::PartOutcome;
use crate::jobs::setters::setters;

/// How the coarser levels of a Zarr Vectors store are made.
///
/// The lists have a number for each level, the one above the finest first; the last number stands
/// for all further levels.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PyramidVectorsOptions {
    /// How many levels the store has in the end, with the finest. `None` means as many as the
    /// longest list has numbers for; if none has more than one, so many that the coarsest has at
    /// most 8 bins along every axis.
    pub levels: Option<usize>,
    /// How many times as long as in the level before the edges of bins are: at least 1.
    pub coarsen: Vec<f64>,
    /// How many objects of the level before there are for each one that is kept: at least 1.
    pub sparsity: Vec<f64>,
    /// How many times as long as in the level before the edges of chunks are.
    pub chunk_scale: Vec<u32>,
    /// What the objects that are kept are drawn by.
    pub seed: u64,
    /// Bytes of memory for vertices while they are sorted, beside what the engine uses.
    pub memory: u64,
    /// Where vertices are kept that memory has no room for. By default with the store, if that is on
    /// a disk, and otherwise where temporary files go.
    pub spool: Option<PathBuf>,
    /// Replace levels that exist.
    pub overwrite: bool,
    /// Abandon what an earlier run, even a different one, has left unfinished.
    pub restart: bool,
    /// Take over from a killed process that was making levels in an object store.
    pub take_over: bool,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Make only this part; other processes make the others.
    pub part: Option<Part>,
}

impl Default for PyramidVectorsOptions {
    fn default() -> Self {
        Self {
            levels: None,
            coarsen: vec![2.0],
            sparsity: vec![1.0],
            chunk_scale: vec![1],
            seed: 0,
            memory: 256 << 20,
            spool: None,
            overwrite: false,
            restart: false,
            take_over: false,
            dry_run: false,
            part: None,
        }
    }
}

impl PyramidVectorsOptions {
    /// Levels with bins twice as long each, and all objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the factors of each level: how much longer bins are, and how many objects there are for
    /// each one that is kept.
    pub fn factors(mut self, factors: &[(f64, f64)]) -> Self {
        self.levels = Some(factors.len() + 1);
        self.coarsen = factors.iter().map(|(coarsen, _)| *coarsen).collect();
        self.sparsity = factors.iter().map(|(_, sparsity)| *sparsity).collect();
        self
    }

    setters! {
        /// Sets how many levels there are in the end, with the finest.
        levels some usize;
        /// Sets what objects are drawn by.
        seed = u64;
        /// Sets the memory for vertices.
        memory = u64;
        /// Sets whether levels that exist are replaced.
        overwrite = bool;
        /// Sets whether the leftovers of an earlier run are abandoned.
        restart = bool;
        /// Sets whether nothing is written.
        dry_run = bool;
        /// Makes only this part.
        part some Part;
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct PyramidVectorsReport {
    /// The levels above the finest.
    pub levels: Vec<PyramidVectorsLevel>,
    /// Whether this run resumed an earlier one.
    pub resumed: bool,
    /// Whether there was nothing to do.
    pub unchanged: bool,
    /// What of the finest level the others do not have: `vertex attributes`, `links`.
    pub left_out: Vec<String>,
    /// What this run has written.
    pub written: WriteReport,
    /// Whether the levels are complete.
    pub outcome: PartOutcome,
}

/// A level above the finest.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct PyramidVectorsLevel {
    /// Its number.
    pub level: u64,
    /// The edges of its bins.
    pub bin: Vec<f64>,
    /// The edges of its chunks.
    pub chunk: Vec<f64>,
    /// How many objects of the level before there are for each one that is kept.
    pub sparsity: f64,
    /// How many vertices it has; 0 in a dry run.
    pub vertices: u64,
    /// How many objects have vertices in it; `None` if there are no objects.
    pub objects: Option<u64>,
    /// How many chunks have vertices.
    pub chunks: u64,
    /// Whether an earlier run had made it.
    pub kept: bool,
}
