//! What is measured: volumes, work, and who does it.

use std::path::Path;

use serde_json::{Value, json};

use crate::block::{Block, Triple, each};
use crate::job::{Action, Compressor, Job, Order};
use crate::random::Random;

/// Edge of a chunk.
pub const CHUNK: u64 = 64;

/// Boxes that are read at random.
const BOXES: usize = 300;

/// What voxels hold, and how chunks are stored.
#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    pub title: &'static str,
    /// Bytes of a voxel.
    pub element: usize,
    /// Whether chunks are in `compressed_segmentation`.
    pub segmented: bool,
    pub gzip: bool,
}

pub const CASES: [Case; 5] = [
    case("u8-raw", "uint8, raw + raw", 1, false, false),
    case("u8-gzip", "uint8, raw + gzip", 1, false, true),
    case("cseg-raw", "uint64, compressed_segmentation + raw", 8, true, false),
    case("cseg-gzip", "uint64, compressed_segmentation + gzip", 8, true, true),
    case("u64-gzip", "uint64, raw + gzip", 8, false, true),
];

const fn case(
    name: &'static str,
    title: &'static str,
    element: usize,
    segmented: bool,
    gzip: bool,
) -> Case {
    Case { name, title, element, segmented, gzip }
}

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Write,
    /// All of it, into memory that was used before, in the order in which volumes are stored.
    Read,
    /// The same in C order.
    ReadC,
    /// Many chunks, in Fortran order. Boxes that cut chunks would take cloud-volume 0.3 s each, in
    /// which it sleeps.
    Random,
}

impl Work {
    pub const ALL: [Self; 4] = [Self::Write, Self::Read, Self::ReadC, Self::Random];

    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::ReadC => "read-c",
            Self::Random => "random",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Write => "write all of it",
            Self::Read => "read all of it, in Fortran order",
            Self::ReadC => "read all of it, in C order",
            Self::Random => "read 300 chunks of 64^3 at random, in Fortran order",
        }
    }
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Floor,
    Shardine,
    TensorStore,
    CloudVolume,
    WkwRaw,
    WkwLz4,
}

impl Subject {
    pub const ALL: [Self; 6] = [
        Self::Floor,
        Self::Shardine,
        Self::TensorStore,
        Self::CloudVolume,
        Self::WkwRaw,
        Self::WkwLz4,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Shardine => "shardine",
            Self::TensorStore => "tensorstore",
            Self::CloudVolume => "cloud-volume",
            Self::WkwRaw => "wkw, raw",
            Self::WkwLz4 => "wkw, lz4",
        }
    }

    /// What workers call it.
    fn worker(self) -> &'static str {
        match self {
            Self::Floor => "precomputed-floor",
            Self::Shardine => "precomputed-shardine",
            Self::TensorStore => "tensorstore",
            Self::CloudVolume => "cloud-volume",
            Self::WkwRaw => "wkw-raw",
            Self::WkwLz4 => "wkw-lz4",
        }
    }

    /// Whether it takes part. wkw has a format of its own, of which random reads are told beside
    /// the others; what cloud-volume reads is always in Fortran order.
    pub fn does(self, case: &Case, work: Work) -> bool {
        match self {
            Self::Floor | Self::Shardine | Self::TensorStore => true,
            Self::CloudVolume => work != Work::ReadC,
            Self::WkwRaw | Self::WkwLz4 => case.name == "u8-raw" && work == Work::Random,
        }
    }

    pub fn is_wkw(self) -> bool {
        matches!(self, Self::WkwRaw | Self::WkwLz4)
    }
}

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    /// Voxels along each axis.
    pub edge: u64,
}

pub const FULL: Scale = Scale { name: "full", edge: 512 };
pub const QUICK: Scale = Scale { name: "quick", edge: 256 };

impl Scale {
    pub fn shape(self) -> Triple {
        [self.edge; 3]
    }

    /// Eight shards.
    pub fn shard(self) -> Triple {
        [self.edge / 2; 3]
    }

    /// The `info` of a case.
    pub fn info(self, case: &Case) -> Value {
        // Bits of the chunks of a shard; up to three of them choose a minishard.
        let within = 3 * (self.edge / 2 / CHUNK).ilog2();
        let encoding = if case.gzip { "gzip" } else { "raw" };
        let mut scale = json!({
            "key": "8_8_8",
            "size": self.shape(),
            "resolution": [8, 8, 8],
            "voxel_offset": [0, 0, 0],
            "chunk_sizes": [([CHUNK; 3])],
            "encoding": "raw",
            "sharding": {
                "@type": "neuroglancer_uint64_sharded_v1",
                "preshift_bits": within - 3.min(within),
                "hash": "identity",
                "minishard_bits": 3.min(within),
                "shard_bits": 3,
                "minishard_index_encoding": "gzip",
                "data_encoding": encoding,
            },
        });
        if case.segmented {
            scale["encoding"] = json!("compressed_segmentation");
            scale["compressed_segmentation_block_size"] = json!([8, 8, 8]);
        }
        json!({
            "@type": "neuroglancer_multiscale_volume",
            "type": if case.element == 8 { "segmentation" } else { "image" },
            "data_type": if case.element == 8 { "uint64" } else { "uint8" },
            "num_channels": 1,
            "scales": [scale],
        })
    }

    /// The job of someone; `level` is that of gzip.
    pub fn job(self, folder: &Path, case: &Case, work: Work, subject: Subject, level: u8) -> Job {
        let shape = self.shape();
        let blocks = match (work, subject) {
            // It writes one shard at a time, and loses what else is in it.
            (Work::Write, Subject::CloudVolume) => Block::whole([2; 3])
                .points()
                .map(|cell| Block {
                    start: each(|axis| cell[axis] * self.shard()[axis]),
                    shape: self.shard(),
                })
                .collect(),
            (Work::Random, _) => {
                let mut random = Random::new(7);
                let mut start = || each(|_| random.below(self.edge / CHUNK) * CHUNK);
                (0..BOXES).map(|_| Block { start: start(), shape: [CHUNK; 3] }).collect()
            }
            _ => vec![Block::whole(shape)],
        };
        let array = if subject.is_wkw() { subject.worker() } else { case.name };
        // The floor leaves compressed_segmentation as it is, so that what it reads cannot be
        // compared.
        let blind = subject == Subject::Floor && case.segmented;
        Job {
            subject: subject.worker().to_owned(),
            action: match work {
                Work::Write => Action::Write,
                Work::Read | Work::ReadC => Action::ReadInto,
                Work::Random => Action::ReadFresh,
            },
            array: folder.join(array),
            scratch: folder.join("scratch"),
            volume: folder.join(if case.element == 8 { "labels.raw" } else { "image.raw" }),
            metadata: json!({"info": self.info(case), "gzip_level": level}),
            shape,
            shard: self.shard(),
            chunk: [CHUNK; 3],
            element: case.element,
            compressor: if case.gzip { Compressor::Gzip } else { Compressor::None },
            transposed: false,
            order: if work == Work::ReadC { Order::Fortran } else { Order::C },
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            index_cache: true,
            latency: false,
            warm_up: match work {
                Work::Write => 0,
                _ if blind => 0,
                Work::Random => 40,
                _ => 1,
            },
            blocks,
            min_seconds: 0.5,
            max_iterations: if work == Work::Write { 1 } else { 5 },
        }
    }
}
