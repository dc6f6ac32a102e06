use serde::{Deserialize, Serialize};
use shardine_codec::DownsampleMethod;

pub use super::output::LevelCounts;
use crate::jobs::frame::Part;
use crate::jobs::rebuild::PartOutcome;
use crate::jobs::repack::CodecChoice;
use crate::jobs::setters::setters;
use crate::plan::Packing;
use crate::selection::Region;
use crate::shard::IndexLocation;

/// How the lower levels of an image are made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PyramidOptions {
    /// How many levels the image has in the end, with the finest; `None` for so many that the
    /// coarsest fits one chunk.
    pub levels: Option<usize>,
    /// By which factors each level is smaller than the one before it: one for each axis of the
    /// array, or one for each axis in space. `None` halves the axes along which voxels are shortest,
    /// until they are as long in all directions.
    pub factors: Option<Vec<u64>>,
    /// How elements are reduced; `None` means the mode for label images, the mean for others.
    pub method: Option<DownsampleMethod>,
    /// How chunks are packed. [`Packing::Keep`] means shards like those of the finest level, no
    /// larger than the level.
    pub packing: Packing,
    /// Where the indexes of shards lie; `None` means where they are in the finest level.
    pub index: Option<IndexLocation>,
    /// The shape of chunks; `None` means that of the finest level.
    pub chunk: Option<Vec<u64>>,
    /// The codecs of chunks; `None` means those of the finest level.
    pub codecs: Option<CodecChoice>,
    /// Rebuild levels that exist. Only for files.
    pub overwrite: bool,
    /// Abandon what an earlier run, even a different one, has left unfinished.
    pub restart: bool,
    /// Take over from a killed process that was making levels in an object store.
    pub take_over: bool,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Make only this part of the levels; other processes make the others.
    pub part: Option<Part>,
    /// Bytes of the finest level that a task reads, about; `None` means 4 GiB. Processes that share
    /// an image in parts or tasks must agree on it. There are at least 64 tasks, if the shards allow
    /// it, unless they are smaller than this.
    pub task_size: Option<u64>,
    /// Renew existing levels where the level before each has changed, instead of making new ones.
    pub update: bool,
    /// With `update`: what has changed, in elements of the finest level. `None` goes by the times at
    /// which objects were changed.
    #[serde(skip)]
    pub region: Option<Region>,
}

impl PyramidOptions {
    /// Levels up to one that fits one chunk, stored like the finest.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets how many levels there are in the end, with the finest.
        levels some usize;
        /// Sets the factors between levels.
        factors slice u64;
        /// Sets how elements are reduced.
        method some DownsampleMethod;
        /// Sets how chunks are packed.
        packing = Packing;
        /// Sets the shape of chunks.
        chunk slice u64;
        /// Sets the codecs of chunks.
        codecs some CodecChoice;
        /// Sets whether levels that exist are rebuilt.
        overwrite = bool;
        /// Sets whether the leftovers of an earlier run are abandoned.
        restart = bool;
        /// Sets whether nothing is written.
        dry_run = bool;
        /// Sets the part of the work that this process does.
        part = Option<Part>;
        /// Sets how much of the finest level a task reads, about, in bytes.
        task_size some u64;
        /// Sets whether existing levels are renewed.
        update = bool;
        /// Sets what has changed.
        region some Region;
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PyramidSummary {
    /// How elements were reduced.
    pub method: DownsampleMethod,
    /// The levels below the finest.
    pub levels: Vec<PyramidLevel>,
    /// Whether this run resumed an earlier one.
    pub resumed: bool,
    /// Whether there was nothing to do.
    pub unchanged: bool,
    /// How many passes over a level are made: one, unless the image is large.
    pub passes: usize,
    /// The state of the job, if it is done in parts.
    pub outcome: PartOutcome,
}

/// A level below the finest.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PyramidLevel {
    /// Its path below the image.
    pub path: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// How many elements of the level before it make one.
    pub factors: Vec<u64>,
    /// The distance between elements, along each axis.
    pub scale: Vec<f64>,
    /// Where the first element's centre is, along each axis.
    pub translation: Vec<f64>,
    /// The shape of its chunks.
    pub chunk_shape: Vec<u64>,
    /// The shape of its shards, if it has shards.
    pub shard_shape: Option<Vec<u64>>,
    /// What was written.
    pub counts: LevelCounts,
}
