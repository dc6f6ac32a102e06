//! What is measured: arrays, workloads, and the figures that are aimed at.

use std::path::Path;

use serde_json::{Value, json};

use crate::block::{Block, Triple, each};
use crate::floor::{BLOSC_LEVEL, GZIP_LEVEL, ZSTD_LEVEL};
use crate::job::{Action, Compressor, Job, Order};
use crate::random::Random;

/// Which of the two volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// 16 bits, smooth and noisy.
    Image,
    /// 64 bits, labelled cells.
    Segmentation,
}

/// One stored array.
#[derive(Debug, Clone)]
pub struct Variant {
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    pub content: Content,
    pub compressor: Compressor,
    pub chunk: u64,
    pub shard: u64,
    pub transposed: bool,
}

const fn image(
    name: &'static str,
    title: &'static str,
    compressor: Compressor,
    chunk: u64,
) -> Variant {
    let (content, shard, transposed) = (Content::Image, 256, false);
    Variant { name, title, content, compressor, chunk, shard, transposed }
}

pub const VARIANTS: [Variant; 8] = [
    image("zstd", "zstd 3", Compressor::Zstd, 32),
    image("lz4", "blosc-lz4 5", Compressor::BloscLz4, 32),
    image("none", "uncompressed", Compressor::None, 32),
    image("gzip", "gzip 5", Compressor::Gzip, 32),
    image("zstd64", "zstd 3, chunks of 64^3", Compressor::Zstd, 64),
    Variant {
        transposed: true,
        ..image("zstdF", "zstd 3, chunks in Fortran order", Compressor::Zstd, 32)
    },
    Variant {
        transposed: true,
        ..image("noneF", "uncompressed, chunks in Fortran order", Compressor::None, 32)
    },
    Variant {
        name: "seg",
        title: "zstd 3, uint64 segmentation, shards of 128^3",
        content: Content::Segmentation,
        compressor: Compressor::Zstd,
        chunk: 32,
        shard: 128,
        transposed: false,
    },
];

impl Variant {
    pub fn named(name: &str) -> Option<&'static Self> {
        VARIANTS.iter().find(|variant| variant.name == name)
    }

    /// Bytes of one element.
    pub fn element(&self) -> usize {
        match self.content {
            Content::Image => 2,
            Content::Segmentation => 8,
        }
    }

    /// The array's `zarr.json`.
    pub fn metadata(&self, shape: Triple) -> Value {
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let mut codecs = vec![little.clone()];
        if self.transposed {
            codecs.insert(0, json!({"name": "transpose", "configuration": {"order": [2, 1, 0]}}));
        }
        match self.compressor {
            Compressor::Zstd => codecs.push(
                json!({"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": false}}),
            ),
            Compressor::BloscLz4 => codecs.push(json!({"name": "blosc", "configuration": {
                "cname": "lz4", "clevel": BLOSC_LEVEL, "shuffle": "shuffle",
                "typesize": self.element(), "blocksize": 0}})),
            Compressor::Gzip => {
                codecs.push(json!({"name": "gzip", "configuration": {"level": GZIP_LEVEL}}));
            }
            Compressor::None => {}
        }
        let (shard, chunk) = ([self.shard; 3], [self.chunk; 3]);
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": match self.content {
                Content::Image => "uint16",
                Content::Segmentation => "uint64",
            },
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": chunk,
                "codecs": codecs,
                "index_codecs": [little, {"name": "crc32c"}],
                "index_location": "end",
            }}],
            "attributes": {},
        })
    }
}

/// Which blocks a workload is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Whole,
    Shards,
    /// Random inner chunks.
    Chunks(usize),
    /// Random boxes of this edge.
    Boxes(usize, u64),
    /// Planes with the last axis fixed.
    Planes(usize),
}

/// What is timed.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    pub action: Action,
    pattern: Pattern,
    /// Of the caller's buffer.
    order: Order,
    pub index_cache: bool,
    pub latency: bool,
    pub threads: usize,
    /// Not one of the rows that everybody is compared in: see [`Workload::aside`].
    aside: bool,
    /// Blocks that warm up; 0 means all of them.
    warm_up: usize,
    /// The arrays it runs on, and those of a quick run.
    pub variants: &'static [&'static str],
    pub quick: &'static [&'static str],
    /// The ratio to the floor that is aimed at, by variant.
    pub goals: &'static [(&'static str, f64)],
}

const THREE: &[&str] = &["zstd", "lz4", "none"];

const fn workload(
    name: &'static str,
    title: &'static str,
    action: Action,
    pattern: Pattern,
) -> Workload {
    Workload {
        name,
        title,
        action,
        pattern,
        order: Order::C,
        index_cache: true,
        latency: false,
        threads: 2,
        aside: false,
        warm_up: 0,
        variants: THREE,
        quick: THREE,
        goals: &[],
    }
}

pub const WORKLOADS: [Workload; 13] = [
    Workload {
        warm_up: 1,
        variants: &["zstd", "lz4", "none", "gzip", "zstd64", "seg"],
        quick: &["zstd", "lz4", "none", "gzip"],
        goals: &[("zstd", 1.05), ("lz4", 0.95), ("none", 0.90), ("gzip", 1.05)],
        ..workload("W1", "write the whole array, shard by shard", Action::Write, Pattern::Shards)
    },
    Workload {
        variants: &["zstd", "lz4", "none", "gzip", "zstd64", "seg"],
        goals: &[("zstd", 1.05), ("lz4", 1.10), ("none", 1.15)],
        ..workload("W2", "read the whole array, fresh output", Action::ReadFresh, Pattern::Whole)
    },
    Workload {
        goals: &[("zstd", 1.10), ("lz4", 1.15), ("none", 1.25)],
        ..workload(
            "W2b",
            "read the whole array into the caller's buffer",
            Action::ReadInto,
            Pattern::Whole,
        )
    },
    Workload {
        order: Order::Fortran,
        aside: true,
        ..workload(
            "W2F",
            "read the whole array into the caller's buffer, in Fortran order",
            Action::ReadInto,
            Pattern::Whole,
        )
    },
    Workload {
        aside: true,
        variants: &["zstdF", "noneF"],
        quick: &["zstdF", "noneF"],
        ..workload(
            "W2f",
            "read the whole array, chunks stored in Fortran order",
            Action::ReadFresh,
            Pattern::Whole,
        )
    },
    Workload {
        goals: &[("zstd", 1.10), ("lz4", 1.15), ("none", 1.25)],
        ..workload("W3", "read shard by shard into one buffer", Action::ReadInto, Pattern::Shards)
    },
    Workload {
        index_cache: false,
        warm_up: 200,
        variants: &["zstd", "lz4", "none", "zstd64"],
        goals: &[("zstd", 1.10), ("lz4", 1.15), ("none", 1.30)],
        ..workload(
            "W4",
            "read 2,000 random inner chunks, one by one, no index cache",
            Action::ReadInto,
            Pattern::Chunks(2000),
        )
    },
    Workload {
        latency: true,
        warm_up: 200,
        variants: &["zstd", "lz4", "none", "zstd64", "seg"],
        goals: &[("zstd", 1.15), ("lz4", 1.15), ("none", 1.15)],
        ..workload(
            "W4b",
            "read 2,000 random inner chunks, one by one, index cached",
            Action::ReadInto,
            Pattern::Chunks(2000),
        )
    },
    Workload {
        warm_up: 20,
        variants: &["zstd", "lz4", "none", "zstd64"],
        goals: &[("zstd", 1.05), ("lz4", 1.15), ("none", 1.25)],
        ..workload(
            "W5",
            "read 100 random unaligned boxes of 100^3",
            Action::ReadInto,
            Pattern::Boxes(100, 100),
        )
    },
    Workload {
        warm_up: 2,
        variants: &["zstd"],
        quick: &["zstd"],
        goals: &[("zstd", 0.02)],
        ..workload(
            "W6",
            "update one random inner chunk, 8 times (Shardine: in place); the floor writes the encoded shard again",
            Action::Update,
            Pattern::Chunks(8),
        )
    },
    Workload {
        goals: &[("zstd", 1.05), ("lz4", 1.15), ("none", 1.25)],
        ..workload(
            "W7",
            "read 4 planes across the array, last axis fixed",
            Action::ReadInto,
            Pattern::Planes(4),
        )
    },
    Workload {
        threads: 1,
        aside: true,
        warm_up: 1,
        quick: &[],
        ..workload("W1t1", "as W1, with one thread", Action::Write, Pattern::Shards)
    },
    Workload {
        threads: 1,
        aside: true,
        quick: &[],
        ..workload("W2t1", "as W2, with one thread", Action::ReadFresh, Pattern::Whole)
    },
];

impl Workload {
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// Whether a row tells about shardine and the floor first of all: the others run in it less
    /// often.
    pub fn aside(&self, variant: &Variant) -> bool {
        self.aside || !THREE.contains(&variant.name)
    }

    pub fn goal(&self, variant: &str) -> Option<f64> {
        self.goals.iter().find(|(name, _)| *name == variant).map(|&(_, goal)| goal)
    }

    /// The blocks: the same in every run.
    fn blocks(&self, shape: Triple, variant: &Variant) -> Vec<Block> {
        let mut random = Random::new(7);
        let grid = |edge: u64| shape.map(|n| n / edge);
        let on_grid =
            |cell: Triple, edge: u64| Block { start: cell.map(|i| i * edge), shape: [edge; 3] };
        match self.pattern {
            Pattern::Whole => vec![Block::whole(shape)],
            Pattern::Shards => Block::whole(grid(variant.shard))
                .points()
                .map(|cell| on_grid(cell, variant.shard))
                .collect(),
            Pattern::Chunks(count) => {
                let mut blocks: Vec<Block> = Vec::new();
                // Each chunk at most once, so that an update is not hidden by a later one.
                let unique = self.action == Action::Update;
                while blocks.len() < count {
                    let cells = grid(variant.chunk);
                    let cell = each(|axis| random.below(cells[axis]));
                    let block = on_grid(cell, variant.chunk);
                    if !(unique && blocks.contains(&block)) {
                        blocks.push(block);
                    }
                }
                blocks
            }
            Pattern::Boxes(count, edge) => (0..count)
                .map(|_| Block {
                    start: each(|axis| random.below(shape[axis] - edge + 1)),
                    shape: [edge; 3],
                })
                .collect(),
            Pattern::Planes(count) => (0..count)
                .map(|_| Block {
                    start: [0, 0, random.below(shape[2])],
                    shape: [shape[0], shape[1], 1],
                })
                .collect(),
        }
    }
}

/// Size and length of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    pub image: Triple,
    pub segmentation: Triple,
    pub min_seconds: f64,
}

pub const FULL: Scale =
    Scale { name: "full", image: [512, 512, 512], segmentation: [256, 256, 512], min_seconds: 0.2 };

pub const QUICK: Scale = Scale {
    name: "quick",
    image: [256, 512, 512],
    segmentation: [256, 256, 256],
    min_seconds: 0.1,
};

impl Scale {
    pub fn shape(&self, content: Content) -> Triple {
        match content {
            Content::Image => self.image,
            Content::Segmentation => self.segmentation,
        }
    }

    /// The job of one implementation; `folder` holds the volumes and arrays of this scale.
    pub fn job(&self, folder: &Path, subject: &str, workload: &Workload, variant: &Variant) -> Job {
        let shape = self.shape(variant.content);
        let blocks = workload.blocks(shape, variant);
        Job {
            subject: subject.to_owned(),
            action: workload.action,
            array: folder.join(variant.name).with_extension("zarr"),
            scratch: folder.join("scratch.zarr"),
            volume: folder.join(match variant.content {
                Content::Image => "image.raw",
                Content::Segmentation => "segmentation.raw",
            }),
            metadata: variant.metadata(shape),
            shape,
            shard: [variant.shard; 3],
            chunk: [variant.chunk; 3],
            element: variant.element(),
            compressor: variant.compressor,
            transposed: variant.transposed,
            order: workload.order,
            threads: workload.threads,
            index_cache: workload.index_cache,
            latency: workload.latency,
            warm_up: if workload.warm_up == 0 { blocks.len() } else { workload.warm_up },
            blocks,
            min_seconds: self.min_seconds,
            max_iterations: 20,
        }
    }
}
