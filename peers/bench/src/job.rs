//! What the driver asks of a worker, and what the worker answers. The Python workers speak the
//! same.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::block::{Block, Triple};

/// What is done with the blocks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Each block is written into a new array and made durable.
    Write,
    /// Each block is read into memory that the implementation allocates.
    ReadFresh,
    /// Each block is read into one buffer that has been used before.
    ReadInto,
    /// Each block, an inner chunk, is overwritten in a copy of the array and made durable.
    Update,
    /// The whole array is read and compared with the volume; nothing is timed.
    Verify,
}

/// The C codec behind the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compressor {
    Zstd,
    BloscLz4,
    Gzip,
    None,
}

/// How the elements of a block lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The last axis is the densest.
    C,
    /// The first axis is the densest.
    Fortran,
}

/// One run of one implementation in one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub subject: String,
    pub action: Action,
    /// The array that is read, and that updates begin from.
    pub array: PathBuf,
    /// Where writes and updates go; made anew before each iteration.
    pub scratch: PathBuf,
    /// The elements as they must be read: raw, C order.
    pub volume: PathBuf,
    /// The array's `zarr.json`.
    pub metadata: Value,
    pub shape: Triple,
    pub shard: Triple,
    pub chunk: Triple,
    /// Bytes of one element.
    pub element: usize,
    pub compressor: Compressor,
    /// Whether the chunks are stored with their axes reversed.
    pub transposed: bool,
    /// How blocks lie in the caller's buffer; everywhere else they lie in C order.
    pub order: Order,
    pub threads: usize,
    /// Whether indexes may be kept from one read to the next.
    pub index_cache: bool,
    /// Whether each block is timed by itself.
    pub latency: bool,
    pub blocks: Vec<Block>,
    /// How many blocks are done before the clock starts.
    pub warm_up: usize,
    /// Iterations go on until this much time is measured.
    pub min_seconds: f64,
    /// But never beyond this number of them; 0 warms up only.
    pub max_iterations: usize,
}

/// What was measured: one number per iteration, in seconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Measured {
    pub version: String,
    pub wall: Vec<f64>,
    pub user: Vec<f64>,
    pub system: Vec<f64>,
    /// Bytes by which resident memory grew at its peak.
    pub peak_growth: u64,
    /// Latency of each block in microseconds, if asked for.
    #[serde(default)]
    pub p50: Option<f64>,
    #[serde(default)]
    pub p99: Option<f64>,
    /// How many blocks were compared with the volume.
    pub verified: usize,
}
