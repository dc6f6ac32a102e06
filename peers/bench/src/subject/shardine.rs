//! The engine under test, with its default options but for the threads.

use std::path::Path;
use std::sync::Arc;

use shardine::zarr::metadata::NodeMetadata;
use shardine::{
    ArrayNode, Elements, ElementsRef, Engine, EngineOptions, Location, Placement, Region, Strategy,
    WriteOptions,
};

use super::Subject;
use crate::Result;
use crate::block::Block;
use crate::job::{Job, Order};

pub struct Shardine {
    engine: Arc<Engine>,
    metadata: Vec<u8>,
    element: usize,
    order: Order,
    array: Option<ArrayNode>,
}

impl Shardine {
    pub fn new(job: &Job) -> Result<Self> {
        let mut options = EngineOptions::new().threads(job.threads);
        if !job.index_cache {
            options = options.index_cache(0);
        }
        let metadata = serde_json::to_vec(&job.metadata)?;
        let engine = Engine::new(&options)?;
        Ok(Self { engine, metadata, element: job.element, order: job.order, array: None })
    }

    fn array(&self) -> Result<&ArrayNode> {
        Ok(self.array.as_ref().ok_or("no array is open")?)
    }
}

fn location(path: &Path) -> Result<Location> {
    Ok(Location::parse(path.to_str().ok_or("the path is not Unicode")?)?)
}

fn region(block: &Block) -> Region {
    Region::of_box(&block.start, &block.shape)
}

impl Subject for Shardine {
    fn version(&self) -> String {
        "shardine".to_owned()
    }

    fn open(&mut self, path: &Path) -> Result {
        self.array = Some(ArrayNode::open(&self.engine, &location(path)?)?);
        Ok(())
    }

    fn create(&mut self, path: &Path) -> Result {
        let NodeMetadata::Array(metadata) = NodeMetadata::parse(&self.metadata)? else {
            return Err("the metadata is not an array's".into());
        };
        self.array = Some(ArrayNode::create(&self.engine, &location(path)?, metadata)?);
        Ok(())
    }

    fn read_fresh(&mut self, block: &Block) -> Result<Vec<u8>> {
        match self.array()?.read_elements(&region(block))? {
            Elements::Fixed(bytes) => Ok(bytes),
            Elements::Variable(_) => Err("elements of variable length".into()),
        }
    }

    fn read_into(&mut self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>> {
        match self.order {
            Order::C => self.array()?.read_bytes_into(&region(block), out)?,
            Order::Fortran => {
                let place = Placement::fortran(&block.shape, self.element).ok_or("too large")?;
                self.array()?.read_bytes_placed(&region(block), out, &place)?;
            }
        }
        Ok(None)
    }

    fn write(&mut self, block: &Block, elements: &[u8]) -> Result {
        let elements = ElementsRef::Fixed(elements);
        // Of a shard that is written whole there is nothing to be changed in place.
        let options = WriteOptions::new().strategy(Strategy::InPlace);
        self.array()?.write_elements(&region(block), elements, &options)?;
        Ok(())
    }
}
