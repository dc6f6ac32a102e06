//! The implementations that run inside the Rust worker.

mod shardine;
mod zarrs;

use std::path::Path;

use crate::Result;
use crate::block::Block;
use crate::floor::Floor;
use crate::job::Job;
use crate::precomputed::{VolumeEngine, VolumeFloor};

/// An implementation that can be timed.
pub trait Subject {
    /// Name and version of what does the work.
    fn version(&self) -> String;

    /// Goes on with the array at `path`.
    fn open(&mut self, path: &Path) -> Result;

    /// Goes on with a new array at `path`, which is empty or missing.
    fn create(&mut self, path: &Path) -> Result;

    /// Reads a block into memory of its own, in C order.
    fn read_fresh(&mut self, block: &Block) -> Result<Vec<u8>>;

    /// Reads a block into the caller's memory, in the job's order; or into memory of its own, if
    /// that is quicker.
    fn read_into(&mut self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>>;

    /// Writes a block given in C order; durable when it returns.
    fn write(&mut self, block: &Block, elements: &[u8]) -> Result;
}

/// The implementation that a job names, with nothing opened yet.
pub fn new(job: &Job) -> Result<Box<dyn Subject>> {
    Ok(match job.subject.as_str() {
        "floor" => Box::new(Floor::new(job)),
        "shardine" => Box::new(shardine::Shardine::new(job)?),
        "precomputed-floor" => Box::new(VolumeFloor::new(job)),
        "precomputed-shardine" => Box::new(VolumeEngine::new(job)?),
        "zarrs" => Box::new(zarrs::Zarrs::new(job, false)?),
        "zarrs-append" => Box::new(zarrs::Zarrs::new(job, true)?),
        other => return Err(format!("{other} does not run in this worker").into()),
    })
}
