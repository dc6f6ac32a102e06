//! Arrays of all kinds, and ways to pack them.

use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::jobs::{RepackCheck, RepackOptions};
use shardine::shard::IndexLocation;
use shardine::zarr::metadata::codec_specs_from_json;
use shardine::{CodecChoice, Packing, WriteOrder};

use crate::common::*;

/// An array and what is written to it.
#[derive(Debug, Clone)]
pub struct Config {
    pub document: Value,
    pub shape: Vec<u64>,
    /// Bytes of an element; `None` for strings.
    pub element: Option<usize>,
    pub writes: Vec<Write>,
    /// Whether a chunk of nothing but the fill value is stored.
    pub store_empty: bool,
}

/// A box, and whether the fill value or noise goes there.
#[derive(Debug, Clone)]
pub struct Write {
    pub start: Vec<u64>,
    pub len: Vec<u64>,
    pub fills: bool,
}

/// Where the result of a job goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Here,
    Memory,
    Files,
}

/// One job. Shapes are given as factors, to be applied to the array as it is at that point.
#[derive(Debug, Clone)]
pub struct Job {
    pub packing: usize,
    pub factors: Vec<u64>,
    pub one_for_all: bool,
    pub target_size: u64,
    pub index: Option<IndexLocation>,
    pub order: WriteOrder,
    pub check: Option<RepackCheck>,
    pub chunk: Option<Vec<u64>>,
    pub codecs: Option<usize>,
    pub place: Place,
}

fn permutation(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..rank).collect::<Vec<_>>()).prop_shuffle()
}

fn transpose(order: &[usize]) -> Value {
    json!({"name": "transpose", "configuration": {"order": order}})
}

fn innermost(rank: usize, element: Option<usize>) -> impl Strategy<Value = Vec<Value>> {
    let compressor = prop::sample::select(vec![
        vec![],
        vec![zstd()],
        vec![json!({"name": "gzip", "configuration": {"level": 1}})],
        vec![zstd(), json!("crc32c")],
    ]);
    let endian = prop::sample::select(vec!["little", "big"]);
    (prop::option::weighted(0.3, permutation(rank)), endian, compressor).prop_map(
        move |(order, endian, compressor)| {
            let mut chain: Vec<Value> = order.iter().map(|order| transpose(order)).collect();
            chain.push(match element {
                Some(_) => json!({"name": "bytes", "configuration": {"endian": endian}}),
                None => json!("vlen-utf8"),
            });
            chain.extend(compressor);
            chain
        },
    )
}

#[derive(Debug, Clone)]
struct Level {
    factors: Vec<u64>,
    order: Option<Vec<usize>>,
    delta: bool,
    index: Vec<Value>,
    location: Option<&'static str>,
    after: bool,
}

fn level(rank: usize) -> impl Strategy<Value = Level> {
    let index = prop::sample::select(vec![
        vec![bytes(), json!("crc32c")],
        vec![bytes()],
        vec![json!({"name": "bytes", "configuration": {"endian": "big"}}), json!("crc32c")],
    ]);
    (
        prop::collection::vec(1u64..4, rank),
        prop::option::weighted(0.3, permutation(rank)),
        prop::bool::weighted(0.08),
        index,
        prop::sample::select(vec![None, Some("start"), Some("end")]),
        prop::bool::weighted(0.15),
    )
        .prop_map(|(factors, order, delta, index, location, after)| Level {
            factors,
            order,
            delta,
            index,
            location,
            after,
        })
}

/// Wraps codecs into shards; returns the shape of the outermost ones.
fn wrap(
    mut chunk: Vec<u64>,
    mut codecs: Vec<Value>,
    levels: Vec<Level>,
    delta: Option<&str>,
) -> (Vec<u64>, Vec<Value>) {
    for level in levels {
        let mut configuration =
            json!({"chunk_shape": chunk, "codecs": codecs, "index_codecs": level.index});
        if let Some(location) = level.location {
            configuration["index_location"] = location.into();
        }
        chunk = chunk.iter().zip(&level.factors).map(|(c, f)| c * f).collect();
        codecs = Vec::new();
        if let Some(order) = level.order {
            // The shard sees the permuted shape, so the outer shape is its inverse.
            let mut outer = chunk.clone();
            order.iter().zip(&chunk).for_each(|(&k, &len)| outer[k] = len);
            chunk = outer;
            codecs.push(transpose(&order));
        }
        if let (true, Some(name)) = (level.delta, delta) {
            codecs.push(json!({"name": "numcodecs.delta", "configuration": {"dtype": name}}));
        }
        codecs.push(json!({"name": "sharding_indexed", "configuration": configuration}));
        if level.after {
            codecs.push(json!("crc32c"));
        }
    }
    (chunk, codecs)
}

fn boxes(shape: &[u64]) -> impl Strategy<Value = Vec<Write>> + use<> {
    let spans: Vec<_> = shape
        .iter()
        .map(|&len| (0..len.max(1)).prop_flat_map(move |s| (Just(s), 1..=(len.max(1) - s))))
        .collect();
    let one = (spans, prop::bool::weighted(0.2)).prop_map(|(spans, fills)| {
        let (start, len) = spans.into_iter().unzip();
        Write { start, len, fills }
    });
    prop::collection::vec(one, 0..5)
}

/// Any array that the library can make, small.
pub fn config() -> impl Strategy<Value = Config> {
    let types = prop::sample::select(vec![
        (Some(1usize), "uint8"),
        (Some(2), "int16"),
        (Some(4), "uint32"),
        (Some(8), "int64"),
        (None, "string"),
    ]);
    (0usize..5, types).prop_flat_map(|(rank, (element, type_name))| {
        let most = [2u64, 40, 20, 12, 7][rank];
        (
            prop::collection::vec(1u64..4, rank),
            innermost(rank, element),
            prop::collection::vec(level(rank), 0..3),
            prop::collection::vec(0u64..most, rank),
            prop::sample::select(vec![0u8, 0, 1]),
            prop::sample::select(vec![
                json!({"name": "default"}),
                json!({"name": "default", "configuration": {"separator": "."}}),
                json!({"name": "v2", "configuration": {"separator": "."}}),
                json!({"name": "v2", "configuration": {"separator": "/"}}),
            ]),
            any::<bool>(),
        )
            .prop_flat_map(
                move |(chunk, codecs, levels, shape, fill, keys, store_empty)| {
                    let delta = match type_name {
                        "uint8" => Some("|u1"),
                        "int16" => Some("<i2"),
                        "uint32" => Some("<u4"),
                        _ => None,
                    };
                    let (outer, codecs) = wrap(chunk, codecs, levels, delta);
                    let fill = match element {
                        Some(n) => json!((0..n).fold(0u64, |v, _| v << 8 | u64::from(fill))),
                        None => json!("–"),
                    };
                    let mut document =
                        document(&shape, &outer, type_name.into(), fill, codecs.into());
                    document["chunk_key_encoding"] = keys;
                    document["attributes"] = json!({"units": "nm", "deep": {"list": [1, null]}});
                    document["made_by"] = json!({"must_understand": false, "who": "a test"});
                    if shape.len() == 2 {
                        document["dimension_names"] = json!(["y", null]);
                    }
                    let writes = boxes(&shape);
                    writes.prop_map(move |writes| Config {
                        document: document.clone(),
                        shape: shape.clone(),
                        element,
                        writes,
                        store_empty,
                    })
                },
            )
    })
}

/// A way to pack an array of any rank up to four.
pub fn job() -> impl Strategy<Value = Job> {
    let shape = (
        0usize..5,
        prop::collection::vec(1u64..5, 4),
        any::<bool>(),
        prop::sample::select(vec![1u64, 300, 3000, 100_000]),
    );
    let how = (
        prop::sample::select(vec![None, Some(IndexLocation::Start), Some(IndexLocation::End)]),
        prop::sample::select(vec![WriteOrder::Morton, WriteOrder::C, WriteOrder::Arrival]),
        prop::sample::select(vec![
            None,
            None,
            Some(RepackCheck::Elements),
            Some(RepackCheck::None),
        ]),
    );
    let anew = (
        prop::option::weighted(0.2, prop::collection::vec(1u64..6, 4)),
        prop::option::weighted(0.2, 0usize..3),
    );
    let place = prop::sample::select(vec![Place::Here, Place::Here, Place::Memory, Place::Files]);
    (shape, how, anew, place).prop_map(|(shape, how, (chunk, codecs), place)| {
        let (packing, factors, one_for_all, target_size) = shape;
        let (index, order, check) = how;
        Job {
            packing,
            factors,
            one_for_all,
            target_size,
            index,
            order,
            check,
            chunk,
            codecs,
            place,
        }
    })
}

impl Job {
    /// The options for an array with chunks of this shape.
    pub fn options(&self, chunk: &[u64], strings: bool) -> RepackOptions {
        let rank = chunk.len();
        let asked = self.chunk.as_ref().map(|chunk| chunk[..rank].to_vec());
        let chunk = asked.clone().unwrap_or_else(|| chunk.to_vec());
        let factors = &self.factors[..rank];
        let packing = match self.packing {
            0 => Packing::Keep,
            1 => Packing::Unsharded,
            2 if self.one_for_all => Packing::ChunksPerShard(vec![self.factors[0]]),
            2 => Packing::ChunksPerShard(factors.to_vec()),
            3 => Packing::Shard(chunk.iter().zip(factors).map(|(c, f)| c * f).collect()),
            _ => Packing::TargetSize(self.target_size),
        };
        let mut options = RepackOptions::new().packing(packing).order(self.order);
        options.index = self.index;
        options.check = self.check;
        options.chunk = asked;
        if let Some(codecs) = self.codecs {
            let first = if strings { json!("vlen-utf8") } else { bytes() };
            let list = match codecs {
                0 => json!([first, zstd()]),
                1 => json!([first, {"name": "gzip", "configuration": {"level": 2}}, "crc32c"]),
                _ => json!([transpose(&(0..rank).rev().collect::<Vec<_>>()), first]),
            };
            let specs = codec_specs_from_json(&list).unwrap();
            options = options.codecs(CodecChoice::Codecs(specs));
        }
        options
    }
}
