//! The arrays that are written to.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use shardine::store::{FileStore, Store};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{
    Array, ArrayNode, ElementsRef, Engine, EngineOptions, Location, Region, Strategy, WriteOptions,
};

use crate::Result;

/// How an array is written, and what its shards look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    pub strategy: Strategy,
    pub index_at_end: bool,
    pub zstd: bool,
}

impl Setup {
    pub fn all() -> Vec<Self> {
        let strategies = [Strategy::Rewrite, Strategy::InPlace, Strategy::Append, Strategy::Auto];
        let mut all = Vec::new();
        for strategy in strategies {
            for index_at_end in [false, true] {
                for zstd in [false, true] {
                    all.push(Self { strategy, index_at_end, zstd });
                }
            }
        }
        all
    }

    /// Whether every implementation can read every shard correctly at all times, even after a kill.
    pub fn is_always_readable(&self) -> bool {
        !self.index_at_end || matches!(self.strategy, Strategy::Rewrite | Strategy::Auto)
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = if self.index_at_end { "end" } else { "start" };
        let codec = if self.zstd { "zstd" } else { "none" };
        write!(f, "{},{index},{codec}", self.strategy)
    }
}

impl FromStr for Setup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(',').collect();
        match words[..] {
            [strategy, index @ ("start" | "end"), codec @ ("none" | "zstd")] => Ok(Self {
                strategy: strategy.parse()?,
                index_at_end: index == "end",
                zstd: codec == "zstd",
            }),
            _ => Err(format!("\"{text}\" is not STRATEGY,start|end,none|zstd")),
        }
    }
}

/// The sizes of an array with one axis, in elements of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub chunk: usize,
    pub chunks: usize,
    pub shards: usize,
}

impl Shape {
    pub fn shard(&self) -> usize {
        self.chunk * self.chunks
    }

    pub fn len(&self) -> usize {
        self.shard() * self.shards
    }

    fn document(&self, setup: &Setup, len: usize) -> String {
        let codec = match setup.zstd {
            true => r#", {"name": "zstd", "configuration": {"level": 1, "checksum": false}}"#,
            false => "",
        };
        let index = if setup.index_at_end { "end" } else { "start" };
        let (shard, chunk) = (self.shard(), self.chunk);
        let bytes = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;
        format!(
            r#"{{"zarr_format": 3, "node_type": "array", "shape": [{len}], "data_type": "uint32",
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{shard}]}}}},
            "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0, "attributes": {{}},
            "codecs": [{{"name": "sharding_indexed", "configuration": {{
                "chunk_shape": [{chunk}], "codecs": [{bytes}{codec}], "index_location": "{index}",
                "index_codecs": [{bytes}, {{"name": "crc32c"}}]}}}}]}}"#
        )
    }
}

/// Creates a new array of `len` elements in a folder.
pub fn create(folder: &Path, shape: &Shape, setup: &Setup, len: usize) -> Result {
    let document = shape.document(setup, len);
    let metadata = match NodeMetadata::parse(document.as_bytes()) {
        Ok(NodeMetadata::Array(metadata)) => metadata,
        Ok(NodeMetadata::Group(_)) => return Err("the document is of a group".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let engine = engine(1)?;
    let location = Location::root(Arc::new(FileStore::new(folder)));
    ArrayNode::create(&engine, &location, metadata).map_err(|e| e.to_string())?;
    Ok(())
}

pub fn engine(threads: usize) -> Result<Arc<Engine>> {
    Engine::new(&EngineOptions::new().threads(threads)).map_err(|e| e.to_string())
}

/// Opens an array with an engine of its own, as a fresh process would.
pub fn open(folder: &Path, threads: usize) -> Result<ArrayNode> {
    open_in(Arc::new(FileStore::new(folder)), threads)
}

pub fn open_in(store: Arc<dyn Store>, threads: usize) -> Result<ArrayNode> {
    ArrayNode::open(&engine(threads)?, &Location::root(store)).map_err(|e| told(&e))
}

/// Writes elements from `start` on.
pub fn write(
    array: &Array,
    start: usize,
    data: &[u32],
    options: &WriteOptions,
) -> std::result::Result<(), shardine::Error> {
    let bytes = to_bytes(data);
    let region = Region::of_box(&[start as u64], &[data.len() as u64]);
    array.write_elements(&region, ElementsRef::Fixed(&bytes), options).map(|_| ())
}

/// Elements as they are stored.
pub fn to_bytes(data: &[u32]) -> Vec<u8> {
    data.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Reads `len` elements from `start` on.
pub fn read(
    array: &Array,
    start: usize,
    len: usize,
) -> std::result::Result<Vec<u32>, shardine::Error> {
    let mut bytes = vec![0; len * 4];
    array.read_bytes_into(Region::of_box(&[start as u64], &[len as u64]), &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// An error with all of its causes.
pub fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
