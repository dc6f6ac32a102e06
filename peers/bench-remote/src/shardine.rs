//! The engine under test, with its default options.

use std::sync::atomic::{AtomicUsize, Ordering};

use ::shardine::zarr::metadata::NodeMetadata;
use ::shardine::{
    Array, Elements, ElementsRef, Engine, EngineOptions, Location, Region, StoreOptions,
    WriteOptions,
};

use crate::Result;
use crate::block::Block;
use crate::job::Job;

/// Opens an array of the job's bucket with nothing in any cache.
pub fn open(job: &Job, array: &str) -> Result<Array> {
    Ok(Array::open(&Engine::new(&EngineOptions::new())?, &location(job, array)?)?)
}

/// Makes the job's array.
pub fn create(job: &Job) -> Result<Array> {
    let NodeMetadata::Array(metadata) = NodeMetadata::parse(&serde_json::to_vec(&job.metadata)?)?
    else {
        return Err("the metadata is not an array's".into());
    };
    let engine = Engine::new(&EngineOptions::new())?;
    Ok(Array::create(&engine, &location(job, &job.array)?, metadata, false)?)
}

fn location(job: &Job, array: &str) -> Result<Location> {
    let options = StoreOptions::new()
        .with("aws_endpoint", &format!("http://{}", job.server))
        .with("aws_access_key_id", &job.access_key)
        .with("aws_secret_access_key", &job.secret_key)
        .with("aws_region", &job.region);
    Ok(Location::with_options(&format!("s3://{}/{array}", job.bucket), &options)?)
}

pub fn read(array: &Array, block: &Block) -> Result<Vec<u8>> {
    bytes(array.read(&region(block))?)
}

pub fn write(array: &Array, block: &Block, elements: &[u8]) -> Result {
    array.write(&region(block), ElementsRef::Fixed(elements), &WriteOptions::new())?;
    Ok(())
}

fn region(block: &Block) -> Region {
    Region::of_box(&block.start, &block.shape)
}

fn bytes(elements: Elements) -> Result<Vec<u8>> {
    match elements {
        Elements::Fixed(bytes) => Ok(bytes),
        Elements::Variable(_) => Err("elements of variable length".into()),
    }
}

/// Reads of this many blocks are in flight at once.
const IN_FLIGHT: usize = 64;

/// Reads all blocks at once.
pub fn read_many(array: &Array, blocks: &[Block]) -> Result<Vec<Vec<u8>>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        while let Some((at, block)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            blocks.get(at).map(|block| (at, block))
        } {
            mine.push((at, array.read(&region(block))));
        }
        mine
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|&(at, _)| at);
    all.into_iter().map(|(_, elements)| bytes(elements?)).collect()
}
