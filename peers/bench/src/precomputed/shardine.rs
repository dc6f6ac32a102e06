//! The engine under test, on a volume.

use std::path::Path;
use std::sync::Arc;

use shardine::precomputed::{Volume, VolumeInfo};
use shardine::{
    Array, Engine, EngineOptions, Location, Placement, Region, Source, SourceError,
    VariableElements, WriteOptions,
};
use shardine_codec::strided;

use crate::Result;
use crate::block::{Block, Triple, strides};
use crate::job::{Job, Order};
use crate::subject::Subject;

pub struct VolumeEngine {
    engine: Arc<Engine>,
    info: Vec<u8>,
    level: u8,
    element: usize,
    order: Order,
    array: Option<Array>,
}

impl VolumeEngine {
    pub fn new(job: &Job) -> Result<Self> {
        let engine = Engine::new(&EngineOptions::new().threads(job.threads))?;
        Ok(Self {
            engine,
            info: serde_json::to_vec(&job.metadata["info"])?,
            level: u8::try_from(job.metadata["gzip_level"].as_u64().unwrap_or(6))?,
            element: job.element,
            order: job.order,
            array: None,
        })
    }

    fn array(&self) -> Result<&Array> {
        Ok(self.array.as_ref().ok_or("no volume is open")?)
    }

    /// Reads a block to where it belongs, in Fortran order.
    fn read_fortran(&self, block: &Block, out: &mut [u8]) -> Result {
        let place = Placement::fortran(&turned(block.shape, 1), self.element).ok_or("too large")?;
        Ok(self.array()?.read_bytes_placed(&region(block), out, &place)?)
    }
}

fn location(path: &Path) -> Result<Location> {
    Ok(Location::parse(path.to_str().ok_or("the path is not Unicode")?)?)
}

/// z, y, x as x, y, z, channel.
fn turned([z, y, x]: Triple, channel: u64) -> [u64; 4] {
    [x, y, z, channel]
}

fn region(block: &Block) -> Region {
    Region::of_box(&turned(block.start, 0), &turned(block.shape, 1))
}

impl Subject for VolumeEngine {
    fn version(&self) -> String {
        "shardine".to_owned()
    }

    fn open(&mut self, path: &Path) -> Result {
        let volume = Volume::open(&self.engine, &location(path)?)?.gzip_level(self.level);
        self.array = Some(volume.array(0)?);
        Ok(())
    }

    fn create(&mut self, path: &Path) -> Result {
        std::fs::create_dir_all(path)?;
        let info = VolumeInfo::parse(&self.info)?;
        let volume = Volume::create(&self.engine, &location(path)?, info)?;
        self.array = Some(volume.gzip_level(self.level).array(0)?);
        Ok(())
    }

    fn read_fresh(&mut self, block: &Block) -> Result<Vec<u8>> {
        let mut out = vec![0; block.elements() * self.element];
        self.read_fortran(block, &mut out)?;
        Ok(out)
    }

    fn read_into(&mut self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>> {
        match self.order {
            Order::C => self.read_fortran(block, out)?,
            // Fortran order of z, y, x is C order of x, y, z.
            Order::Fortran => self.array()?.read_bytes_into(&region(block), out)?,
        }
        Ok(None)
    }

    fn write(&mut self, block: &Block, elements: &[u8]) -> Result {
        let source = Fortran { elements, shape: block.shape, element: self.element };
        self.array()?.write_from(&region(block), &source, &WriteOptions::new())?;
        Ok(())
    }
}

/// Voxels in Fortran order, as whoever has a volume in memory has them.
struct Fortran<'a> {
    elements: &'a [u8],
    shape: Triple,
    element: usize,
}

impl Source for Fortran<'_> {
    fn element_size(&self) -> Option<usize> {
        Some(self.element)
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> std::result::Result<(), SourceError> {
        let [z, y, x] = strides(self.shape, self.element, Order::C);
        let strides = [x, y, z, self.elements.len()];
        let at = start.iter().zip(strides).map(|(&i, stride)| i as usize * stride).sum();
        let from = Placement { start: at, strides: strides.into_iter().collect() };
        let extents: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        strided::copy(&extents, self.element, self.elements, &from, target, to)?;
        Ok(())
    }

    fn variable_box(
        &self,
        _: &[u64],
        _: &[u64],
    ) -> std::result::Result<VariableElements, SourceError> {
        Err("voxels have a fixed size".into())
    }
}
