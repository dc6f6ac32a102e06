//! How the chunks of precomputed volumes are packed into uint64 shards, and packing them anew.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use shardine::plan::{recommended_sharding, sharding_for_box, sharding_for_size};
use shardine::precomputed::{Scale, VolumeInfo};
use shardine::shard::uint64::{Encoding, KeyHash, Sharding};
use shardine::{
    ElementSize, KeyValueStore, Location, Packing, RepackOutcome, RepackVolumeOptions,
    RepackedScale, ShardingChoice, repack_keys, repack_volume,
};

use crate::cli::Machine;
use crate::create::{encoding, parse_sharding};
use crate::failure::Failure;
use crate::packing::{Asked, JobArgs};
use crate::progress::Progress;
use crate::{units, volume};

/// How chunks of precomputed volumes are packed into shards.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Precomputed volumes")]
pub struct ShardingArgs {
    /// How chunks are packed, in the form that an `info` has; @FILE reads it from a file
    #[arg(long, value_name = "JSON", conflicts_with_all = [
        "preshift_bits", "minishard_bits", "shard_bits", "hash", "data_encoding", "minishard_index_encoding",
    ])]
    sharding: Option<String>,
    /// Low bits of a key that do not matter for its place
    #[arg(long, value_name = "N")]
    preshift_bits: Option<u32>,
    /// The logarithm of the number of minishards in a shard
    #[arg(long, value_name = "N")]
    minishard_bits: Option<u32>,
    /// The logarithm of the number of shards
    #[arg(long, value_name = "N")]
    shard_bits: Option<u32>,
    /// How keys are scattered: identity or murmurhash3_x86_128
    #[arg(long, value_name = "NAME", value_parser = hash)]
    hash: Option<KeyHash>,
    /// How values are compressed in their shards: raw or gzip
    #[arg(long, value_name = "raw|gzip", value_parser = encoding)]
    data_encoding: Option<Encoding>,
    /// How the indexes of minishards are compressed: raw or gzip
    #[arg(long, value_name = "raw|gzip", value_parser = encoding)]
    minishard_index_encoding: Option<Encoding>,
}

fn hash(text: &str) -> Result<KeyHash, String> {
    KeyHash::from_name(text)
        .ok_or_else(|| format!("\"{text}\" is not identity or murmurhash3_x86_128"))
}

/// What becomes of bits of which nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsaid {
    /// They stay as they are; where there were no shards, what is recommended.
    Kept,
    /// What is recommended.
    Recommended,
}

impl ShardingArgs {
    fn is_something(&self) -> bool {
        self.sharding.is_some() || self.changes_something()
    }

    fn changes_something(&self) -> bool {
        self.preshift_bits.is_some()
            || self.minishard_bits.is_some()
            || self.shard_bits.is_some()
            || self.hash.is_some()
            || self.data_encoding.is_some()
            || self.minishard_index_encoding.is_some()
    }

    /// Refuses what only volumes have.
    pub fn only_of_volumes(&self) -> Result<(), Failure> {
        if self.is_something() {
            return Err(Failure::new("options of precomputed volumes are given, but this is none")
                .hint("Zarr arrays take --chunks-per-shard, --shard or --target-size"));
        }
        Ok(())
    }

    /// How each scale is to be sharded, or the one that is named.
    pub fn choice(
        &self,
        asked: Asked<'_>,
        unsaid: Unsaid,
        level: Option<usize>,
    ) -> Result<ShardingChoice, Failure> {
        if asked.index.is_some()
            || asked.chunk.is_some()
            || !asked.codec.is_empty()
            || asked.codecs.is_some()
        {
            return Err(Failure::new(
                "--index, --chunk and --codec are for Zarr arrays, and this is a precomputed volume",
            )
            .hint("`shardine convert` makes other chunks"));
        }
        if let Some(text) = &self.sharding {
            if asked.packing.is_some() {
                return Err(Failure::new("--sharding says all; leave the other packing out"));
            }
            let sharding = parse_sharding(text)?;
            return Ok(Arc::new(move |_, _| Ok(Some(sharding.clone()))));
        }
        if unsaid == Unsaid::Kept && asked.packing.is_none() && !self.changes_something() {
            return Err(Failure::new("nothing is asked for").hint(
                "say how: --sharding, --shard, --target-size, --data-encoding or the number of bits; \
                 `shardine plan` recommends a packing",
            ));
        }
        let (args, packing) = (self.clone(), asked.packing);
        Ok(Arc::new(move |info, scale| {
            // What fits the finest level may not be possible for one that has another form.
            let is_finest = info.scales().first() == Some(scale);
            let exact = is_finest || level.is_some();
            args.of_scale(info, scale, packing.as_ref(), unsaid, exact)
        }))
    }

    fn of_scale(
        &self,
        info: &VolumeInfo,
        scale: &Scale,
        packing: Option<&Packing>,
        unsaid: Unsaid,
        exact: bool,
    ) -> Result<Option<Sharding>, String> {
        let (size, chunk) = (scale.size, scale.chunk_size());
        let bytes = chunk_bytes(info, scale);
        let in_boxes = |shape: [u64; 3]| match sharding_for_box(size, chunk, shape) {
            Err(_) if !exact => {
                let chunks = shape.iter().zip(chunk).map(|(n, chunk)| n.div_ceil(chunk));
                let target = chunks.fold(bytes, u64::saturating_mul);
                Ok(sharding_for_size(size, chunk, bytes, target).sharding)
            }
            sharding => sharding,
        };
        let base = match (packing, unsaid, &scale.sharding) {
            (Some(Packing::Unsharded), ..) => return Ok(None),
            (Some(Packing::Shard(shape)), ..) => Some(in_boxes(box_of(shape)?)?),
            (Some(Packing::ChunksPerShard(counts)), ..) => {
                let counts = match counts[..] {
                    [n] => [n; 3],
                    _ => box_of(counts)?,
                };
                let shape = std::array::from_fn(|axis| counts[axis].saturating_mul(chunk[axis]));
                Some(in_boxes(shape)?)
            }
            (Some(Packing::TargetSize(target)), ..) => {
                Some(sharding_for_size(size, chunk, bytes, *target).sharding)
            }
            (_, Unsaid::Kept, Some(_)) => None,
            _ if scale.sharding.is_some() && !self.changes_something() => None,
            _ => Some(recommended_sharding(size, chunk, bytes).sharding),
        };
        let sharding = match (base, &scale.sharding) {
            (None, Some(kept)) => kept.clone(),
            (Some(base), Some(old)) => base
                .hash(KeyHash::Identity)
                .data_encoding(old.data_encoding)
                .minishard_index_encoding(old.minishard_index_encoding),
            (Some(base), None) => base.minishard_index_encoding(Encoding::Gzip).data_encoding(
                match scale.encoding.name() {
                    "raw" | "compressed_segmentation" => Encoding::Gzip,
                    _ => Encoding::Raw,
                },
            ),
            (None, None) => return Ok(None),
        };
        self.change(sharding).map(Some)
    }

    /// A sharding with what is said of it.
    fn change(&self, mut sharding: Sharding) -> Result<Sharding, String> {
        if let Some(hash) = self.hash {
            sharding = sharding.hash(hash);
        }
        if let Some(encoding) = self.data_encoding {
            sharding = sharding.data_encoding(encoding);
        }
        if let Some(encoding) = self.minishard_index_encoding {
            sharding = sharding.minishard_index_encoding(encoding);
        }
        sharding.preshift_bits = self.preshift_bits.unwrap_or(sharding.preshift_bits);
        sharding.minishard_bits = self.minishard_bits.unwrap_or(sharding.minishard_bits);
        sharding.shard_bits = self.shard_bits.unwrap_or(sharding.shard_bits);
        // Under the same rules as one that is read.
        Sharding::from_json(&sharding.to_json()).map_err(|error| error.to_string())
    }
}

impl ShardingArgs {
    /// Packs the values of a folder anew.
    pub fn repack_keys(
        &self,
        source: &Location,
        target: &Option<Location>,
        job: &JobArgs,
        machine: &Machine,
    ) -> Result<(), Failure> {
        if !self.is_something() {
            return Err(Failure::new("nothing is asked for")
                .hint("say how: --sharding, --data-encoding or the number of bits"));
        }
        let sharding = match &self.sharding {
            Some(text) => parse_sharding(text)?,
            None => {
                let now = KeyValueStore::open(&machine.engine()?, source)?.sharding().clone();
                self.change(now).map_err(Failure::new)?
            }
        };
        let options = options(Arc::new(|_, _| Ok(None)), None);
        let name = source.to_string();
        run(source, target.as_ref(), options, Some(&sharding), job, machine, &name)
    }
}

/// Bytes of a chunk of a scale before compression.
pub fn chunk_bytes(info: &VolumeInfo, scale: &Scale) -> u64 {
    let element = match info.data_type().size() {
        ElementSize::Fixed(size) => size as u64,
        ElementSize::Variable => 1,
    };
    units::elements(&scale.chunk_size()).saturating_mul(info.channels()).saturating_mul(element)
}

fn box_of(shape: &[u64]) -> Result<[u64; 3], String> {
    match shape {
        [x, y, z] | [x, y, z, _] => Ok([*x, *y, *z]),
        shape => Err(format!("{} is not a box along x, y and z", units::shape_argument(shape))),
    }
}

/// How the scales of a volume are packed: all of them, or one.
pub fn options(choice: ShardingChoice, level: Option<usize>) -> RepackVolumeOptions {
    let mut options = RepackVolumeOptions::new(move |info, scale| choice(info, scale));
    options.level = level;
    options
}

/// Packs the scales of a volume anew, or with `keys` the values of a folder, and reports.
pub fn run(
    source: &Location,
    target: Option<&Location>,
    mut options: RepackVolumeOptions,
    keys: Option<&Sharding>,
    job: &JobArgs,
    machine: &Machine,
    name: &str,
) -> Result<(), Failure> {
    if job.overwrite {
        return Err(Failure::new("--overwrite: a volume is not replaced by another")
            .hint("remove its folder first, or choose another name"));
    }
    let engine = machine.engine()?;
    let progress = Progress::things("packing", 0);
    options.dry_run = job.dry_run;
    options.restart = job.restart;
    options.exclusive = job.exclusive;
    options.wait = job.wait.map(Duration::from_secs);
    options.check = job.compares(target.unwrap_or(source).store.read_cost().local);
    let context = progress.context(&engine);
    let start = Instant::now();
    let mut scales = Vec::new();
    let mut tell = |scale| scales.push(scale);
    let result = match keys {
        Some(sharding) => repack_keys(&context, source, target, sharding, &options, &mut tell),
        None => repack_volume(&context, source, target, &options, &mut tell),
    };
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    if job.json {
        let report = json!({
            "dry_run": job.dry_run,
            "scales": scales.iter().map(to_json).collect::<Vec<_>>(),
            "failed": result.as_ref().err().map(ToString::to_string),
            "seconds": seconds,
        });
        writeln!(io::stdout(), "{report}")?;
    }
    result?;
    if !job.json {
        let mut out = io::stdout().lock();
        for scale in &scales {
            writeln!(out, "{}", describe(scale, name, job.dry_run))?;
        }
        if !job.dry_run {
            let sum = |of: fn(&RepackedScale) -> u64| scales.iter().map(of).sum::<u64>();
            writeln!(
                out,
                "{}: {} moved, {} compressed or decompressed; {} written, {} in {}",
                units::count(scales.len() as u64, "scale"),
                units::count(sum(|scale| scale.chunks_moved), "chunk"),
                sum(|scale| scale.chunks_recompressed),
                units::count(sum(|scale| scale.objects_written), "object"),
                units::size(sum(|scale| scale.bytes_written)),
                units::duration(seconds),
            )?;
        }
    }
    Ok(())
}

fn describe(scale: &RepackedScale, name: &str, dry_run: bool) -> String {
    let packing = match &scale.sharding {
        Some(sharding) => volume::sharding_words(sharding),
        None => "no shards".to_owned(),
    };
    let name = match scale.key.as_str() {
        "" => name.to_owned(),
        key => format!("{}, level {} ({key})", name.trim_end_matches('/'), scale.level),
    };
    match scale.outcome {
        RepackOutcome::Unchanged => format!("{name}: {packing} already"),
        _ if dry_run => format!("{name}: would have {packing}"),
        RepackOutcome::Resumed => format!("{name}: {packing}; an earlier run was gone on with"),
        _ => format!("{name}: {packing}"),
    }
}

fn to_json(scale: &RepackedScale) -> Value {
    json!({
        "level": scale.level,
        "key": scale.key,
        "outcome": match scale.outcome {
            RepackOutcome::Unchanged => "unchanged",
            RepackOutcome::Resumed => "resumed",
            _ => "done",
        },
        "sharding": scale.sharding.as_ref().map(Sharding::to_json),
        "chunks_moved": scale.chunks_moved,
        "chunks_recompressed": scale.chunks_recompressed,
        "objects_written": scale.objects_written,
        "objects_kept": scale.objects_kept,
        "bytes_written": scale.bytes_written,
    })
}
