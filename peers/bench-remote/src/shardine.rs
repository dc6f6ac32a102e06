//! The engine under test, with its default options.

use ::shardine::zarr::metadata::NodeMetadata;
use ::shardine::{
    ArrayNode, Elements, ElementsRef, Engine, EngineOptions, Location, Region, StoreOptions,
    WriteOptions,
};

use crate::Result;
use crate::block::Block;
use crate::job::Job;

/// Opens an array of the job's bucket with nothing in any cache.
pub fn open(job: &Job, array: &str) -> Result<ArrayNode> {
    Ok(ArrayNode::open(&Engine::new(&EngineOptions::new())?, &location(job, array)?)?)
}

/// Makes the job's array.
pub fn create(job: &Job) -> Result<ArrayNode> {
    let NodeMetadata::Array(metadata) = NodeMetadata::parse(&serde_json::to_vec(&job.metadata)?)?
    else {
        return Err("the metadata is not an array's".into());
    };
    let engine = Engine::new(&EngineOptions::new())?;
    Ok(ArrayNode::create(&engine, &location(job, &job.array)?, metadata)?)
}

fn location(job: &Job, array: &str) -> Result<Location> {
    let options = StoreOptions::new()
        .with("aws_endpoint", &format!("http://{}", job.server))
        .with("aws_access_key_id", &job.access_key)
        .with("aws_secret_access_key", &job.secret_key)
        .with("aws_region", &job.region);
    Ok(Location::with_options(&format!("s3://{}/{array}", job.bucket), &options)?)
}

pub fn read(array: &ArrayNode, block: &Block) -> Result<Vec<u8>> {
    bytes(array.read_elements(&region(block))?)
}

pub fn write(array: &ArrayNode, block: &Block, elements: &[u8]) -> Result {
    array.write_elements(&region(block), ElementsRef::Fixed(elements), &WriteOptions::new())?;
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

/// Reads all blocks at once.
pub fn read_many(array: &ArrayNode, blocks: &[Block]) -> Result<Vec<Vec<u8>>> {
    let regions: Vec<Region> = blocks.iter().map(region).collect();
    array.read_many_elements(&regions)?.into_iter().map(bytes).collect()
}
