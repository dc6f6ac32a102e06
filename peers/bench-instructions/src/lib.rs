//! The arrays that the benchmarks in `benches` work on: one shard each, in its own file.

pub mod callgrind;
mod folder;

use std::sync::Arc;
use std::time::Duration;

use shardine::store::FileStore;
use shardine::zarr::metadata::NodeMetadata;
use shardine::{
    ArrayNode, ElementsRef, Engine, EngineOptions, Location, Placement, Region, WriteOptions,
};

use folder::Folder;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Edge of the one shard.
pub const SHARD: u64 = 128;

/// Edge of its chunks, unless set otherwise.
pub const CHUNK: u64 = 32;

/// Bytes of an element.
pub const ELEMENT: usize = 2;

/// What distinguishes one array from another.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The codecs of its chunks after `bytes`, as JSON with a comma in front of each.
    pub codecs: &'static str,
    /// Edge of its chunks.
    pub chunk: u64,
    /// Whether its index is kept once it has been read.
    pub cached: bool,
}

impl Options {
    /// Chunks of the usual size, and an index that is kept.
    pub fn new(codecs: &'static str) -> Self {
        Self { codecs, chunk: CHUNK, cached: true }
    }
}

/// An array of one shard that holds [`elements`].
pub struct Scene {
    // Closed before its folder is removed.
    array: ArrayNode,
    elements: Vec<u8>,
    _folder: Folder,
}

impl Scene {
    /// Creates the array, and reads it to check that it is correct.
    pub fn new(options: Options) -> Result<Self> {
        let folder = Folder::new()?;
        // One thread: the count must not depend on who finds which piece of work first.
        let mut engine = EngineOptions::new().threads(1);
        if !options.cached {
            engine = engine.index_cache(0);
        }
        let NodeMetadata::Array(metadata) = NodeMetadata::parse(document(options).as_bytes())?
        else {
            return Err("the metadata is not an array's".into());
        };
        let location = Location::root(Arc::new(FileStore::new(folder.path())));
        let array = ArrayNode::create(&Engine::new(&engine)?, &location, metadata)?;
        let scene = Self { array, elements: elements(), _folder: folder };
        scene.write();
        let mut found = vec![0; scene.elements.len()];
        scene.array.read_bytes_into(&Region::all(), &mut found)?;
        if found != scene.elements {
            return Err("what was written is not what is read".into());
        }
        Ok(scene)
    }

    /// Rewrites the whole shard.
    pub fn write(&self) {
        let all = ElementsRef::Fixed(&self.elements);
        self.array
            .write_elements(&Region::all(), all, &WriteOptions::new())
            .expect("all of the array");
    }

    /// Writes one chunk in the middle of the shard.
    pub fn update(&self) {
        let region = Region::of_box(&[CHUNK; 3], &[CHUNK; 3]);
        let len = (CHUNK * CHUNK * CHUNK) as usize * ELEMENT;
        let chunk = ElementsRef::Fixed(&self.elements[..len]);
        self.array
            .write_elements(&region, chunk, &WriteOptions::new())
            .expect("a chunk of the array");
    }
}

/// A read that has been made before.
pub struct WarmRead {
    scene: Scene,
    region: Region,
    buffer: Vec<u8>,
    place: Option<Placement>,
}

impl WarmRead {
    /// A read of a box, in C or Fortran order.
    pub fn new(options: Options, start: [u64; 3], shape: [u64; 3], fortran: bool) -> Result<Self> {
        let scene = Scene::new(options)?;
        let buffer = vec![0; shape.iter().product::<u64>() as usize * ELEMENT];
        let place = fortran.then(|| Placement::fortran(&shape, ELEMENT).ok_or("too large"));
        let region = Region::of_box(&start, &shape);
        let mut read = Self { scene, region, buffer, place: place.transpose()? };
        // The first read opens the file and leaves it open, the second finds it open.
        read.run();
        read.run();
        Ok(read)
    }

    /// Makes the read.
    pub fn run(&mut self) {
        let Self { scene, region, buffer, place } = self;
        match place {
            Some(place) => scene.array.read_bytes_placed(&*region, buffer, place),
            None => scene.array.read_bytes_into(&*region, buffer),
        }
        .expect("a region of the array");
    }
}

/// Waits until the engine's worker has gone to sleep, and until the path of an open file was last
/// looked up so long ago that the next read does it in any case. Otherwise both would depend on how
/// busy the machine is.
pub fn settle() {
    std::thread::sleep(Duration::from_millis(200));
}

/// Elements that compress like an image: smooth, with four bits of noise.
fn elements() -> Vec<u8> {
    let mut noise = 7u64;
    let mut out = Vec::with_capacity((SHARD * SHARD * SHARD) as usize * ELEMENT);
    for i in 0..SHARD * SHARD * SHARD {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (z, y, x) = (i / (SHARD * SHARD), i / SHARD % SHARD, i % SHARD);
        let value = 20 * z + 30 * y + 10 * x + (noise >> 60);
        out.extend_from_slice(&(value as u16).to_le_bytes());
    }
    out
}

fn document(options: Options) -> String {
    let Options { codecs, chunk, .. } = options;
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{SHARD}, {SHARD}, {SHARD}], "data_type": "uint16",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{SHARD}, {SHARD}, {SHARD}]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0,
        "codecs": [{{"name": "sharding_indexed", "configuration": {{
            "chunk_shape": [{chunk}, {chunk}, {chunk}],
            "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}{codecs}],
            "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}, {{"name": "crc32c"}}]}}}}]}}"#
    )
}
