//! What the driver asks of a worker, and what the worker answers. The Python worker speaks the
//! same.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::block::{Block, Triple};

/// What is done with the blocks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// One block is read after the other.
    ReadEach,
    /// All blocks are read at once, each into memory of its own.
    ReadMany,
    /// The volume is written into a new array.
    Write,
}

/// One run of one implementation in one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub subject: String,
    pub action: Action,
    /// `127.0.0.1:PORT` of the S3 server, or of the proxy before it.
    pub server: String,
    pub bucket: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    /// The key of the array that is read, or is written and does not exist yet.
    pub array: String,
    /// Another array, small, to load every library with before the clock starts.
    pub warm_up: String,
    /// The elements: raw, C order.
    pub volume: PathBuf,
    /// The array's `zarr.json`.
    pub metadata: Value,
    pub shape: Triple,
    pub shard: Triple,
    pub chunk: Triple,
    pub blocks: Vec<Block>,
    /// The array's objects and their lengths, for the floor.
    pub objects: Vec<(String, u64)>,
}

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    pub version: String,
    /// Seconds from the first use of the store until the last element has arrived.
    pub wall: f64,
    pub user: f64,
    pub system: f64,
    /// Resident bytes when the clock started, and the most until it stopped.
    pub resident: u64,
    pub peak: u64,
    /// Bytes that the caller holds in the end.
    pub output: u64,
    /// CRC-32 of all that was read, in the order of the blocks.
    #[serde(default)]
    pub crc: Option<u32>,
}
