//! How chunks are to be packed, as `reshard` and others take it.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use shardine::jobs::{Part, PartOutcome, RepackCheck, RepackOptions};
use shardine::zarr::metadata::codec_specs_from_json;
use shardine::{CodecChoice, Packing, WriteOrder};

use crate::create::{IndexPlace, Shape, ShardArgument, parse_json, shape_argument, shard_argument};
use crate::failure::Failure;
use crate::units;

/// The default size of shards.
const DEFAULT_SIZE: u64 = 64 << 20;

/// How chunks are packed into shards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Packing")]
pub struct PackingArgs {
    /// Chunks along each axis of a shard: one number for all axes, or one for each; 1 or none means
    /// no shards
    #[arg(long, value_name = "N|N,N,..|none", value_parser = per_shard_argument, conflicts_with_all = ["shard", "target_size"])]
    chunks_per_shard: Option<PerShard>,
    /// The shape of shards, in elements: a multiple of the chunk; none means no shards
    #[arg(long, value_name = "N,N,..|none", value_parser = shard_argument, conflicts_with = "target_size")]
    shard: Option<ShardArgument>,
    /// About how large shards are to be, such as 64MiB, by what the chunks take
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    target_size: Option<u64>,
    /// Where in a shard its index is; `start` suits arrays that will be updated [default: as it
    /// was, or end]
    #[arg(long, value_enum)]
    index: Option<IndexPlace>,
    /// The order of chunks in a shard: morton, c, or arrival (as they lie now)
    #[arg(long, value_name = "ORDER", default_value_t)]
    order: WriteOrder,
    /// Other chunks: their shape in elements. They are re-encoded
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument, help_heading = "Re-encoding")]
    chunk: Option<Shape>,
    /// Another codec for the chunks, as `create` takes it; may repeat. They are re-encoded
    #[arg(long, value_name = "CODEC", conflicts_with = "codecs", help_heading = "Re-encoding")]
    codec: Vec<String>,
    /// Other codecs for the chunks as a list in the metadata's own form
    #[arg(long, value_name = "JSON", help_heading = "Re-encoding")]
    codecs: Option<String>,
}

/// What a job does with what is there, and how it is checked.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Remove the data set that is at the target, or replace the file
    #[arg(long)]
    pub overwrite: bool,
    /// Give up what an earlier job has left unfinished, and start over
    #[arg(long)]
    pub restart: bool,
    /// In place: no other program uses the data set meanwhile. Needed where there are no locks to
    /// rely on, such as on network file systems
    #[arg(long)]
    pub exclusive: bool,
    /// In place: how many seconds other programs may take to be done with the data set before it is
    /// replaced [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// At another place: do only part I of N, so that N processes share the work, in any order and
    /// on any machines that see the storage. The last one finishes the result; `finish` does that
    /// alone
    #[arg(long, value_name = "I/N|finish")]
    pub part: Option<Part>,
    /// At another place: go on with what another process has begun, if it cannot be told here
    /// whether that one still runs
    #[arg(long)]
    pub take_over: bool,
    /// Tell what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// What is checked of the result [default: content, for a remote target none]
    #[arg(long, value_enum, value_name = "WHAT")]
    verify: Option<Check>,
    /// Report in JSON
    #[arg(long)]
    pub json: bool,
}

/// How many chunks go into a shard.
#[derive(Debug, Clone)]
pub struct PerShard(pub Packing);

/// What is checked of a result. `copy` has the same words for the same, and `size`: there objects stay
/// what they are.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Check {
    /// Nothing
    None,
    /// Every index, and every byte of what was moved, by reading it back
    #[value(alias = "bytes")]
    Content,
    /// The same, and all elements, by decoding both sides
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
        Packing::TargetSize(DEFAULT_SIZE)
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
        let missing = outcome.map_or_else(|| json!([]), missing);
        (json!(self.part.map(|part| part.to_string())), missing)
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
        return Some(
            "the result is there already, and no job is under way; nothing was done".into(),
        );
    }
    let (Some(part), PartOutcome::Waiting { missing }) = (part, outcome) else { return None };
    let shown: Vec<String> = missing.iter().take(20).map(u32::to_string).collect();
    let more = if missing.len() > shown.len() { ", .." } else { "" };
    let shown = shown.join(", ");
    Some(match missing.len() {
        1 => format!("part {part} is done; part {shown} has not ended yet"),
        _ => format!("part {part} is done; parts {shown}{more} have not ended yet"),
    })
}

/// The numbers of the parts that the result is waiting for.
pub fn missing(outcome: &PartOutcome) -> Value {
    match outcome {
        PartOutcome::Waiting { missing } => json!(missing),
        _ => json!([]),
    }
}
