//! How chunks are to be packed, as `reshard` and others take it.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use shardine::jobs::{Part, PartOutcome, RepackCheck, RepackOptions};
use shardine::plan::DEFAULT_SHARD_BYTES;
use shardine::zarr::metadata::codec_specs_from_json;
use shardine::{CodecChoice, Packing, WriteOrder};

use crate::create::{IndexPlace, Shape, ShardArgument, parse_json, shape_argument, shard_argument};
use crate::failure::Failure;
use crate::units;

/// How chunks are packed into shards.
#[derive(Debug, Args)]
pub struct PackingArgs {
    /// Set the chunks per shard along each axis: one number for all axes, or one per axis; 1 or
    /// `none` disables sharding
    #[arg(long, value_name = "N|N,N,..|none", value_parser = per_shard_argument, conflicts_with_all = ["shard", "target_size"], help_heading = "Packing")]
    chunks_per_shard: Option<PerShard>,
    /// Set the shape of shards, in elements, a multiple of the chunk shape; `none` disables
    /// sharding
    #[arg(long, value_name = "N,N,..|none", value_parser = shard_argument, conflicts_with = "target_size", help_heading = "Packing")]
    shard: Option<ShardArgument>,
    /// Aim for shards of about this size, such as 64MiB, by the measured size of chunks
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, help_heading = "Packing")]
    target_size: Option<u64>,
    /// Store the index of a shard at its start or end; `start` suits arrays that will be updated
    /// [default: as it is, or end]
    #[arg(long, value_enum, help_heading = "Packing")]
    index: Option<IndexPlace>,
    /// Set the order of chunks in a shard: morton, c, or arrival (as they are stored now)
    #[arg(long, value_name = "ORDER", default_value_t, help_heading = "Packing")]
    order: WriteOrder,
    /// Re-encode into chunks of this shape, in elements
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument, help_heading = "Re-encoding")]
    chunk: Option<Shape>,
    /// Re-encode chunks with this codec, as in `shardine create --codec`; can be repeated
    #[arg(long, value_name = "CODEC", conflicts_with = "codecs", help_heading = "Re-encoding")]
    codec: Vec<String>,
    /// Re-encode chunks with these codecs, a JSON list as in the metadata
    #[arg(long, value_name = "JSON", help_heading = "Re-encoding")]
    codecs: Option<String>,
}

/// What a job does with what is there, and how it is checked.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Replace an existing data set or file at the target
    #[arg(long)]
    pub overwrite: bool,
    /// Discard what an interrupted job has left, and start over
    #[arg(long, help_heading = "Job")]
    pub restart: bool,
    /// In place: assume that no other program uses the data set. Needed where locks are unreliable,
    /// such as on network file systems
    #[arg(long, help_heading = "Job")]
    pub exclusive: bool,
    /// In place: wait up to this many seconds for other programs to finish with the data set before
    /// it is replaced [default: 30]
    #[arg(long, value_name = "SECONDS", help_heading = "Job")]
    pub wait: Option<u64>,
    /// To another location: process only part I of N, so that N processes can share the work, in
    /// any order and on any machines that see the storage. The last one finishes the result;
    /// `finish` only finishes it
    #[arg(long, value_name = "I/N|finish", help_heading = "Job")]
    pub part: Option<Part>,
    /// To another location: take over a job from another process, if it cannot be determined here
    /// whether that process is still running
    #[arg(long, help_heading = "Job")]
    pub take_over: bool,
    /// Report what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Choose how to check the result [default: content, or none for a remote target]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Job")]
    verify: Option<Check>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// How many chunks go into a shard.
#[derive(Debug, Clone)]
pub struct PerShard(pub Packing);

/// How a result is checked. `copy` uses the same words, and `size`: there objects stay what they
/// are.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Check {
    /// Do not check
    None,
    /// Check every index, and read every moved byte back and compare it
    #[value(alias = "bytes")]
    Content,
    /// Also decode both sides and compare all elements
    Elements,
}

/// The number of chunks in a shard, for all axes or for each.
pub fn per_shard_argument(text: &str) -> Result<PerShard, String> {
    if text == "none" {
        return Ok(PerShard(Packing::Unsharded));
    }
    match units::parse_shape(text) {
        Ok(counts) if !counts.is_empty() && !counts.contains(&0) => {
            Ok(PerShard(Packing::ChunksPerShard(counts)))
        }
        _ => Err(format!("\"{text}\" is not a number of chunks such as 8 or 4,4,16")),
    }
}

/// What is requested for an existing array.
#[derive(Debug)]
pub struct Asked<'a> {
    pub packing: Option<Packing>,
    pub index: Option<IndexPlace>,
    pub order: WriteOrder,
    pub chunk: Option<&'a [u64]>,
    pub codec: &'a [String],
    pub codecs: Option<&'a str>,
}

impl Asked<'_> {
    /// Whether anything is requested.
    pub fn is_something(&self) -> bool {
        let recoded = self.chunk.is_some() || !self.codec.is_empty() || self.codecs.is_some();
        self.packing.is_some() || self.index.is_some() || recoded
    }

    /// The requested codecs, if any.
    pub fn codec_choice(&self) -> Result<Option<CodecChoice>, Failure> {
        if let Some(json) = self.codecs {
            let codecs = codec_specs_from_json(&parse_json("--codecs", json)?);
            let codecs = codecs.map_err(|error| Failure::new(format!("--codecs: {error}")))?;
            return Ok(Some(CodecChoice::Codecs(codecs)));
        }
        Ok((!self.codec.is_empty()).then(|| CodecChoice::Words(self.codec.to_vec())))
    }

    /// The options for a job.
    pub fn options(self, packing: Packing) -> Result<RepackOptions, Failure> {
        let packing = self.packing.clone().unwrap_or(packing);
        let mut options = RepackOptions::new().packing(packing).order(self.order);
        options.index = self.index.map(IndexPlace::location);
        if let Some(chunk) = self.chunk {
            options = options.chunk(chunk);
        }
        options.codecs = self.codec_choice()?;
        Ok(options)
    }
}

impl PackingArgs {
    /// What these arguments request.
    pub fn asked(&self) -> Asked<'_> {
        let shard = self.shard.as_ref().map(ShardArgument::packing);
        let per_shard = self.chunks_per_shard.as_ref().map(|per| per.0.clone());
        Asked {
            packing: per_shard.or(shard).or(self.target_size.map(Packing::TargetSize)),
            index: self.index,
            order: self.order,
            chunk: self.chunk.as_ref().map(|chunk| chunk.0.as_slice()),
            codec: &self.codec,
            codecs: self.codecs.as_deref(),
        }
    }

    /// Shards near 64 MiB.
    pub fn default_packing() -> Packing {
        Packing::TargetSize(DEFAULT_SHARD_BYTES)
    }
}

impl JobArgs {
    /// The first option given that only applies to jobs from one data set to another; processes can
    /// share the import of a file into an array, but not the writing of a file.
    pub fn of_data_sets(&self, to_file: bool) -> Option<&'static str> {
        let given = [
            ("--restart", self.restart),
            ("--exclusive", self.exclusive),
            ("--wait", self.wait.is_some()),
            ("--part", self.part.is_some() && to_file),
            ("--take-over", self.take_over && to_file),
            ("--dry-run", self.dry_run),
            ("--verify", self.verify.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The message for a part that has not completed the result; `None` if it has.
    pub fn waits(&self, outcome: &PartOutcome) -> Option<String> {
        waiting(self.part, outcome)
    }

    /// The members of a report that say which part it is for, and which are missing.
    pub fn describe_part(&self, outcome: Option<&PartOutcome>) -> (Value, Value) {
        let missing = outcome.map_or(&[][..], PartOutcome::missing);
        (json!(self.part.map(|part| part.to_string())), json!(missing))
    }

    /// Whether the result is compared with its source, in a local or remote store.
    pub fn compares(&self, is_local: bool) -> bool {
        match self.verify {
            None => is_local,
            Some(Check::None) => false,
            Some(Check::Content | Check::Elements) => true,
        }
    }

    /// The requested check of the result, if given.
    pub fn check(&self) -> Option<RepackCheck> {
        self.verify.map(|check| match check {
            Check::None => RepackCheck::None,
            Check::Content => RepackCheck::Bytes,
            Check::Elements => RepackCheck::Elements,
        })
    }

    /// Adds these settings.
    pub fn apply(&self, mut options: RepackOptions) -> RepackOptions {
        options = options.overwrite(self.overwrite).restart(self.restart).dry_run(self.dry_run);
        options = options.exclusive(self.exclusive);
        options.wait = self.wait.map(Duration::from_secs);
        options.take_over = self.take_over;
        options.part = self.part;
        match self.check() {
            None => options,
            Some(check) => options.check(check),
        }
    }
}

/// The message for a part that has ended while others have not, or that found nothing to do; `None`
/// if it has completed the result.
pub fn waiting(part: Option<Part>, outcome: &PartOutcome) -> Option<String> {
    if *outcome == PartOutcome::AlreadyThere {
        return Some("the result exists already, and no job is running; nothing was done".into());
    }
    let (Some(part), PartOutcome::Waiting { missing }) = (part, outcome) else { return None };
    let shown: Vec<String> = missing.iter().take(20).map(u32::to_string).collect();
    let more = if missing.len() > shown.len() { ", .." } else { "" };
    let shown = shown.join(", ");
    Some(match missing.len() {
        1 => format!("part {part} is done; part {shown} has not finished yet"),
        _ => format!("part {part} is done; parts {shown}{more} have not finished yet"),
    })
}
