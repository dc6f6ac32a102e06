//! The image, its levels, and who makes them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::block::{Triple, each};

/// Edge of chunks.
pub const CHUNK: u64 = 64;

/// What the report calls the work.
pub const WORK: &str = "mean";

/// How large the image is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    pub shape: Triple,
    /// Chunks along each axis of a shard.
    pub per_shard: u64,
}

pub const FULL: Scale = Scale { name: "full", shape: [512, 1024, 1024], per_shard: 4 };

pub const SMALL: Scale = Scale { name: "small", shape: [256, 256, 512], per_shard: 2 };

/// A level below the finest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Level {
    pub path: String,
    pub shape: Triple,
    pub shard: Triple,
    /// Its `zarr.json`.
    pub metadata: Value,
}

impl Scale {
    pub fn named(name: &str) -> Option<Self> {
        [FULL, SMALL].into_iter().find(|scale| scale.name == name)
    }

    pub fn shard(&self) -> Triple {
        [CHUNK * self.per_shard; 3]
    }

    /// The levels down to the one that fits one chunk, in shards no longer than the level.
    pub fn levels(&self) -> Vec<Level> {
        let (mut levels, mut shape) = (Vec::new(), self.shape);
        while shape.iter().any(|&n| n > CHUNK) {
            shape = shape.map(|n| n.div_ceil(2));
            let whole = shape.map(|n| n.div_ceil(CHUNK) * CHUNK);
            let shard = each(|axis| self.shard()[axis].min(whole[axis]));
            let path = (levels.len() + 1).to_string();
            levels.push(Level { path, shape, shard, metadata: metadata(shape, shard) });
        }
        levels
    }

    /// The `zarr.json` of the finest level.
    pub fn finest(&self) -> Value {
        metadata(self.shape, self.shard())
    }
}

/// The `zarr.json` of an image that names one level.
pub fn group() -> Value {
    let axis = |name: &str| json!({"name": name, "type": "space", "unit": "micrometer"});
    json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": {
        "version": "0.5",
        "multiscales": [{
            "name": "image",
            "axes": [axis("z"), axis("y"), axis("x")],
            "datasets": [{"path": "0", "coordinateTransformations": [
                {"type": "scale", "scale": [1.0, 1.0, 1.0]}]}],
        }],
    }}})
}

fn metadata(shape: Triple, shard: Triple) -> Value {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 3, "checksum": false}});
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": ([CHUNK; 3]),
            "codecs": [little, zstd],
            "index_codecs": [little, {"name": "crc32c"}],
            "index_location": "end",
        }}],
        "dimension_names": ["z", "y", "x"],
        "attributes": {},
    })
}

/// Who makes them, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Floor,
    Shardine,
    TensorStore,
    OmeZarr,
    NgffZarr,
    Igneous,
}

impl Subject {
    pub const ALL: [Self; 6] = [
        Self::Floor,
        Self::Shardine,
        Self::TensorStore,
        Self::OmeZarr,
        Self::NgffZarr,
        Self::Igneous,
    ];

    pub const PEERS: [Self; 4] = [Self::TensorStore, Self::OmeZarr, Self::NgffZarr, Self::Igneous];

    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Shardine => "shardine",
            Self::TensorStore => "tensorstore",
            Self::OmeZarr => "ome-zarr-py",
            Self::NgffZarr => "ngff-zarr",
            Self::Igneous => "igneous",
        }
    }

    /// Whether it takes so long that fewer rounds have to do.
    pub fn is_slow(self) -> bool {
        matches!(self, Self::OmeZarr | Self::NgffZarr | Self::Igneous)
    }

    /// Whether its mean is defined as Shardine's is, so that every element must be equal.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Floor | Self::Shardine | Self::TensorStore)
    }

    /// Whether it works on a copy of the image, or makes its levels elsewhere.
    pub fn works_in_place(self) -> bool {
        !matches!(self, Self::OmeZarr | Self::NgffZarr)
    }
}
