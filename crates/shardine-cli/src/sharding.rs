//! How the chunks of precomputed volumes are packed into uint64 shards, and repacking them.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use shardine::Location;
use shardine::jobs::{
    RepackOutcome, RepackVolumeOptions, RepackedScale, repack_keys, repack_volume,
};
use shardine::plan::{ShardingRequest, Unsaid, ValueSizes, VolumePacking};
use shardine::precomputed::KeyValueStore;
use shardine::shard::uint64::{Encoding, KeyHash, Sharding};

use crate::cli::Machine;
use crate::create::{encoding, parse_sharding};
use crate::failure::Failure;
use crate::packing::{Asked, JobArgs};
use crate::progress::Progress;
use crate::{said, units, volume};

/// How chunks of precomputed volumes are packed into shards.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Precomputed volumes")]
pub struct ShardingArgs {
    /// Set the sharding as JSON, as in an `info`; @FILE reads it from a file
    #[arg(long, value_name = "JSON", conflicts_with_all = [
        "preshift_bits", "minishard_bits", "shard_bits", "hash", "data_encoding", "minishard_index_encoding",
    ])]
    sharding: Option<String>,
    /// Set preshift_bits, the low bits of a key that do not select a shard or minishard
    #[arg(long, value_name = "N")]
    preshift_bits: Option<u32>,
    /// Set minishard_bits: a shard has 2^N minishards
    #[arg(long, value_name = "N")]
    minishard_bits: Option<u32>,
    /// Set shard_bits: there are 2^N shards
    #[arg(long, value_name = "N")]
    shard_bits: Option<u32>,
    /// Set the hash of keys: identity or murmurhash3_x86_128
    #[arg(long, value_name = "NAME", value_parser = hash)]
    hash: Option<KeyHash>,
    /// Compress values within shards: raw or gzip
    #[arg(long, value_name = "raw|gzip", value_parser = encoding)]
    data_encoding: Option<Encoding>,
    /// Compress the minishard indexes: raw or gzip
    #[arg(long, value_name = "raw|gzip", value_parser = encoding)]
    minishard_index_encoding: Option<Encoding>,
}

fn hash(text: &str) -> Result<KeyHash, String> {
    KeyHash::from_name(text)
        .ok_or_else(|| format!("\"{text}\" is not identity or murmurhash3_x86_128"))
}

impl ShardingArgs {
    fn is_something(&self) -> bool {
        self.sharding.is_some() || self.request(Unsaid::Kept).changes_something()
    }

    /// What is requested for the bits, the hash and the encodings.
    fn request(&self, unsaid: Unsaid) -> ShardingRequest {
        let mut request = ShardingRequest::default();
        request.preshift_bits = self.preshift_bits;
        request.minishard_bits = self.minishard_bits;
        request.shard_bits = self.shard_bits;
        request.hash = self.hash;
        request.data_encoding = self.data_encoding;
        request.minishard_index_encoding = self.minishard_index_encoding;
        request.unsaid = unsaid;
        request
    }

    /// Refuses options that only volumes have.
    pub fn only_of_volumes(&self) -> Result<(), Failure> {
        if self.is_something() {
            return Err(Failure::new(
                "options for precomputed volumes do not apply to a Zarr array",
            )
            .hint("use --chunks-per-shard, --shard or --target-size for Zarr arrays"));
        }
        Ok(())
    }

    /// How scales are to be sharded.
    pub fn choice(&self, asked: Asked<'_>, unsaid: Unsaid) -> Result<ShardingRequest, Failure> {
        if asked.index.is_some()
            || asked.chunk.is_some()
            || !asked.codec.is_empty()
            || asked.codecs.is_some()
        {
            return Err(Failure::new(
                "--index, --chunk and --codec do not apply to a precomputed volume",
            )
            .hint("use `shardine convert` to change the chunks"));
        }
        if let Some(text) = &self.sharding {
            if asked.packing.is_some() {
                return Err(Failure::new(
                    "--sharding cannot be combined with another packing option",
                ));
            }
            return Ok(Some(parse_sharding(text)?).into());
        }
        let mut request = self.request(unsaid);
        if unsaid == Unsaid::Kept && asked.packing.is_none() && !request.changes_something() {
            return Err(Failure::new("no change requested").hint(
                "use --sharding, --shard, --target-size, --data-encoding or the number of bits; \
                 `shardine plan` recommends a packing",
            ));
        }
        let packing = asked.packing.as_ref().map(VolumePacking::try_from);
        request.packing = packing.transpose().map_err(Failure::new)?;
        Ok(request)
    }

    /// Repacks the values of a folder.
    pub fn repack_keys(
        &self,
        source: &Location,
        target: &Option<Location>,
        job: &JobArgs,
        machine: &Machine,
    ) -> Result<(), Failure> {
        if !self.is_something() {
            return Err(Failure::new("no change requested")
                .hint("use --sharding, --data-encoding or the number of bits"));
        }
        let sharding = match &self.sharding {
            Some(text) => parse_sharding(text)?,
            None => {
                let now = KeyValueStore::open(&machine.engine()?, source)?.sharding().clone();
                self.request(Unsaid::Kept).change(now).map_err(Failure::new)?
            }
        };
        let options = options(None, None);
        let name = source.to_string();
        run(source, target.as_ref(), options, Some(&sharding), job, machine, &name)
    }
}

/// Options that repack the scales of a volume: all of them, or one.
pub fn options(request: impl Into<ShardingRequest>, level: Option<usize>) -> RepackVolumeOptions {
    let mut options = RepackVolumeOptions::new(request);
    options.level = level;
    options
}

/// Repacks the scales of a volume, or with `keys` the values of a folder, and reports.
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
        return Err(Failure::new("--overwrite: a volume cannot be replaced by another")
            .hint("remove its folder first, or choose another name"));
    }
    let engine = machine.engine()?;
    let progress = Progress::things("packing", 0);
    options.dry_run = job.dry_run;
    options.restart = job.restart;
    options.exclusive = job.exclusive;
    options.wait = job.wait.map(Duration::from_secs);
    options.take_over = job.take_over;
    options.part = job.part;
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
        let (part, missing) = job.describe_part(result.as_ref().ok());
        let report = json!({
            "dry_run": job.dry_run,
            "part": part,
            "parts_missing": missing,
            "scales": scales.iter().map(RepackedScale::to_json).collect::<Vec<_>>(),
            "failed": result.as_ref().err().map(ToString::to_string),
            "seconds": seconds,
        });
        writeln!(io::stdout(), "{report}")?;
    }
    let outcome = result?;
    if let Some(line) = job.waits(&outcome) {
        if !job.json {
            writeln!(said::words(), "{line}")?;
        }
        return Ok(());
    }
    if !job.json {
        let mut out = said::words();
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
    let mut line = match scale.outcome {
        RepackOutcome::Unchanged => format!("{name}: unchanged, {packing}"),
        _ if dry_run => format!("{name}: would have {packing}"),
        RepackOutcome::Resumed => format!("{name}: {packing}; resumed an earlier run"),
        _ => format!("{name}: {packing}"),
    };
    if let Some(sizes) = &scale.measured {
        line += &format!("; {}", measured(sizes));
    }
    line
}

/// Why values are compressed with gzip, or not.
pub fn measured(sizes: &ValueSizes) -> String {
    format!(
        "data {}: {} took {} raw, and {} with gzip",
        sizes.encoding().name(),
        units::count(sizes.count, "chunk"),
        units::size(sizes.raw),
        units::size(sizes.gzip)
    )
}
