//! What is measured, on what.

use serde_json::{Value, json};

use crate::block::{Block, Triple};
use crate::job::Action;
use crate::random::Random;

pub const CHUNK: u64 = 32;
pub const SHARD: u64 = 256;
const ZSTD_LEVEL: u32 = 3;

/// The implementations, in the order of the report.
pub const SUBJECTS: [&str; 5] =
    ["floor", "shardine", "tensorstore", "zarr-python+obstore", "zarr-python+s3fs"];

/// How large everything is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    pub shape: Triple,
    pub random_chunks: usize,
    pub planes_per_axis: u64,
    pub repeats: usize,
}

pub const FULL: Scale = Scale {
    name: "full",
    shape: [256, 512, 512],
    random_chunks: 500,
    planes_per_axis: 4,
    repeats: 7,
};

pub const QUICK: Scale = Scale {
    name: "quick",
    shape: [256, 256, 512],
    random_chunks: 100,
    planes_per_axis: 2,
    repeats: 1,
};

/// One kind of work.
pub struct Workload {
    pub name: &'static str,
    pub title: &'static str,
    pub action: Action,
}

pub const WORKLOADS: [Workload; 5] = [
    Workload { name: "R1", title: "read the whole array", action: Action::ReadEach },
    Workload {
        name: "R2",
        title: "read random inner chunks, all at once, each by itself",
        action: Action::ReadMany,
    },
    Workload {
        name: "R3",
        title: "read planes across each axis, one after the other",
        action: Action::ReadEach,
    },
    Workload { name: "R4", title: "write the whole array", action: Action::Write },
    Workload { name: "R5", title: "open the array and read one chunk", action: Action::ReadEach },
];

impl Scale {
    /// The blocks of a workload. Those of R5 are others in each repeat, but the same for all
    /// implementations.
    pub fn blocks(&self, workload: &Workload, repeat: usize) -> Vec<Block> {
        match workload.name {
            "R2" => self.chunks(5, self.random_chunks),
            "R3" => self.planes(),
            "R5" => self.chunks(1000 + repeat as u64, 1),
            _ => vec![Block::whole(self.shape)],
        }
    }

    /// Different chunks, in an order of no kind.
    fn chunks(&self, seed: u64, count: usize) -> Vec<Block> {
        let mut random = Random::new(seed);
        let grid = self.shape.map(|n| n / CHUNK);
        let mut all: Vec<u64> = (0..grid.iter().product()).collect();
        for last in (1..all.len()).rev() {
            all.swap(last, random.below(last as u64 + 1) as usize);
        }
        let at = |i: u64| [i / (grid[1] * grid[2]), i / grid[2] % grid[1], i % grid[2]];
        let block = |i: u64| Block { start: at(i).map(|n| n * CHUNK), shape: [CHUNK; 3] };
        all.into_iter().take(count).map(block).collect()
    }

    fn planes(&self) -> Vec<Block> {
        let mut planes = Vec::new();
        for axis in 0..3 {
            for i in 0..self.planes_per_axis {
                let mut plane = Block::whole(self.shape);
                // In the middle of equal parts.
                plane.start[axis] = (2 * i + 1) * self.shape[axis] / (2 * self.planes_per_axis);
                plane.shape[axis] = 1;
                planes.push(plane);
            }
        }
        planes
    }

    /// How much of what a workload reads or writes.
    pub fn amount(&self, workload: &Workload) -> String {
        let [a, b, c] = self.shape;
        match workload.name {
            "R2" => format!("{} chunks", self.random_chunks),
            "R3" => format!("{} planes", 3 * self.planes_per_axis),
            "R5" => "1 chunk".to_owned(),
            _ => format!("{} MiB", (a * b * c * 2) >> 20),
        }
    }
}

/// The `zarr.json` of an array.
pub fn metadata(shape: Triple, shard: u64) -> Value {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": false}});
    let (outer, inner) = ([shard; 3], [CHUNK; 3]);
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": outer}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner,
            "codecs": [little, zstd],
            "index_codecs": [little, {"name": "crc32c"}],
            "index_location": "end",
        }}],
        "attributes": {},
    })
}
