//! What is measured, on what, by whom.

use serde_json::{Value, json};

use crate::block::Triple;

/// Edge of the chunks that are moved.
pub const CHUNK: u64 = 64;

/// Edge of the chunks that are encoded anew.
pub const RECODED_CHUNK: u64 = 32;

/// What `--memory` is told where chunks are encoded anew.
pub const RECODING_MEMORY: u64 = 256 << 20;

/// How large everything is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub name: &'static str,
    pub shape: Triple,
    /// Chunks along each axis of the shards of the source.
    per_shard: u64,
    /// The same of what `reshard` makes.
    resharded: u64,
    /// Edge of the shards of chunks that are encoded anew.
    recoded_shard: u64,
}

pub const FULL: Scale = Scale {
    name: "full",
    shape: [512, 1024, 1024],
    per_shard: 8,
    resharded: 4,
    recoded_shard: 256,
};

pub const SMALL: Scale =
    Scale { name: "small", shape: [256, 256, 512], per_shard: 4, resharded: 2, recoded_shard: 128 };

pub const SCALES: [Scale; 2] = [FULL, SMALL];

/// The arrays that work begins from; all have the same chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Version 3, an object for each chunk.
    Chunks,
    /// Version 3, sharded.
    Shards,
    /// Version 2.
    V2,
}

impl Source {
    pub const ALL: [Self; 3] = [Self::Chunks, Self::Shards, Self::V2];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chunks => "chunks.zarr",
            Self::Shards => "shards.zarr",
            Self::V2 => "v2.zarr",
        }
    }
}

/// One kind of work.
#[derive(Debug, PartialEq, Eq)]
pub struct Work {
    pub name: &'static str,
    pub title: &'static str,
    pub source: Source,
    /// A source that is packed as the result is, so that its copy tells what writing such files
    /// takes.
    pub like_result: Option<Source>,
    /// Whether chunks are moved as they are.
    pub moves: bool,
}

pub const WORKS: [Work; 5] = [
    Work {
        name: "shard",
        title: "chunks are packed into shards",
        source: Source::Chunks,
        like_result: Some(Source::Shards),
        moves: true,
    },
    Work {
        name: "unshard",
        title: "the chunks of shards become objects",
        source: Source::Shards,
        like_result: Some(Source::Chunks),
        moves: true,
    },
    Work {
        name: "reshard",
        title: "shards become smaller shards",
        source: Source::Shards,
        like_result: None,
        moves: true,
    },
    Work {
        name: "v2",
        title: "an array of version 2 becomes a sharded one of version 3",
        source: Source::V2,
        like_result: Some(Source::Shards),
        moves: true,
    },
    Work {
        name: "recode",
        title: "shards get other chunks and another codec",
        source: Source::Shards,
        like_result: None,
        moves: false,
    },
];

/// Who does it, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// `cp -r` of the source.
    Copy,
    /// `cp -r` of an array that is packed as the result is.
    CopyLikeResult,
    Floor,
    /// With `-o`.
    Shardine,
    ShardineInPlace,
    Zarrs,
    TensorStore,
    ZarrPython,
}

impl Subject {
    pub const ALL: [Self; 8] = [
        Self::Copy,
        Self::CopyLikeResult,
        Self::Floor,
        Self::Shardine,
        Self::ShardineInPlace,
        Self::Zarrs,
        Self::TensorStore,
        Self::ZarrPython,
    ];

    pub const PEERS: [Self; 3] = [Self::Zarrs, Self::TensorStore, Self::ZarrPython];

    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "cp",
            Self::CopyLikeResult => "cp-like-result",
            Self::Floor => "floor",
            Self::Shardine => "shardine",
            Self::ShardineInPlace => "shardine-in-place",
            Self::Zarrs => "zarrs_reencode",
            Self::TensorStore => "tensorstore",
            Self::ZarrPython => "zarr-python",
        }
    }

    /// Whether it takes part in some work.
    pub fn does(self, work: &Work) -> bool {
        match self {
            Self::CopyLikeResult => work.like_result.is_some(),
            Self::Floor => !work.moves,
            // An array of version 2 is not replaced by one of version 3.
            Self::ShardineInPlace => work.moves && work.source != Source::V2,
            // It keeps the grid of the source where it makes no shards, so that chunks become as
            // large as the shards were.
            Self::Zarrs => work.name != "unshard",
            _ => true,
        }
    }
}

impl Scale {
    pub fn named(name: &str) -> Option<Self> {
        SCALES.into_iter().find(|scale| scale.name == name)
    }

    /// The edges of the chunks and of the shards, if there are any, that a work results in.
    pub fn result(&self, work: &Work) -> (u64, Option<u64>) {
        match work.name {
            "unshard" => (CHUNK, None),
            "reshard" => (CHUNK, Some(CHUNK * self.resharded)),
            "recode" => (RECODED_CHUNK, Some(self.recoded_shard)),
            _ => (CHUNK, Some(CHUNK * self.per_shard)),
        }
    }

    /// The metadata document of a source: its name and what it says.
    pub fn source(&self, source: Source) -> (&'static str, Value) {
        match source {
            Source::Chunks => ("zarr.json", self.metadata(CHUNK, None, &blosc())),
            Source::Shards => {
                ("zarr.json", self.metadata(CHUNK, Some(CHUNK * self.per_shard), &blosc()))
            }
            Source::V2 => (".zarray", self.version_2()),
        }
    }

    /// The `zarr.json` that a work results in.
    pub fn result_metadata(&self, work: &Work) -> Value {
        let (chunk, shard) = self.result(work);
        self.metadata(chunk, shard, &if work.moves { blosc() } else { zstd() })
    }

    /// Edge of the blocks that are whole objects of both sides: what one thing at a time is for
    /// those who read and write elements.
    pub fn block(&self, work: &Work) -> u64 {
        let source = if work.source == Source::Shards { CHUNK * self.per_shard } else { CHUNK };
        let (chunk, shard) = self.result(work);
        source.max(shard.unwrap_or(chunk))
    }

    /// The arguments of `shardine` before those that say from where to where.
    pub fn shardine_arguments(&self, work: &Work) -> Vec<String> {
        let line = match (work.name, self.result(work)) {
            ("unshard", _) => "unshard".to_owned(),
            ("reshard", _) => format!("reshard --chunks-per-shard {}", self.resharded),
            ("recode", (chunk, Some(shard))) => format!(
                "reshard --chunk {} --shard {} --codec zstd:3 --memory {}MiB",
                cube(chunk),
                cube(shard),
                RECODING_MEMORY >> 20
            ),
            _ => format!("shard --chunks-per-shard {}", self.per_shard),
        };
        line.split(' ').map(str::to_owned).collect()
    }

    /// The same of `zarrs_reencode`. What is not told stays as it is in the source.
    pub fn zarrs_arguments(&self, work: &Work) -> Vec<String> {
        let (chunk, shard) = self.result(work);
        let mut words = vec!["--chunk-shape".to_owned(), cube(chunk)];
        if let Some(shard) = shard {
            words.extend(["--shard-shape".to_owned(), cube(shard)]);
        }
        if !work.moves {
            words.extend(["--bytes-to-bytes-codecs".to_owned(), json!([zstd()]).to_string()]);
        }
        words
    }

    fn metadata(&self, chunk: u64, shard: Option<u64>, codec: &Value) -> Value {
        let (inner, outer) = ([chunk; 3], [shard.unwrap_or(chunk); 3]);
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let codecs = json!([little, codec]);
        let codecs = match shard {
            None => codecs,
            Some(_) => json!([{"name": "sharding_indexed", "configuration": {
                "chunk_shape": inner,
                "codecs": codecs,
                "index_codecs": [little, {"name": "crc32c"}],
                "index_location": "end",
            }}]),
        };
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": outer}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": codecs,
            "attributes": {},
        })
    }

    fn version_2(&self) -> Value {
        let chunks = [CHUNK; 3];
        json!({
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": chunks,
            "dtype": "<u2",
            "compressor": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0},
            "fill_value": 0,
            "order": "C",
            "filters": null,
            "dimension_separator": "/",
        })
    }
}

fn cube(edge: u64) -> String {
    format!("{edge},{edge},{edge}")
}

fn blosc() -> Value {
    json!({"name": "blosc", "configuration": {
        "cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0,
    }})
}

fn zstd() -> Value {
    json!({"name": "zstd", "configuration": {"level": 3, "checksum": false}})
}
