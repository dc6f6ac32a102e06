//! How chunks are to be packed, as `reshard` and others take it.

use clap::{Args, ValueEnum};
use shardine::shard::IndexLocation;
use shardine::zarr::metadata::codec_specs_from_json;
use shardine::{CodecChoice, Packing, RepackCheck, RepackOptions, WriteOrder};

use crate::failure::Failure;
use crate::{codec_words, units};

/// Shards near this size, where nothing else is asked for.
const DEFAULT_SIZE: u64 = 64 << 20;

/// How chunks are packed into shards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Packing")]
pub struct PackingArgs {
    /// Chunks along each axis of a shard: one number for all axes, or one for each; 1 or none means no shards
    #[arg(long, value_name = "N|N,N,..|none", value_parser = chunks_argument, conflicts_with_all = ["shard", "target_size"])]
    chunks_per_shard: Option<PackingArgument>,
    /// The shape of shards, in elements: a multiple of the chunk; none means no shards
    #[arg(long, value_name = "N,N,..|none", value_parser = shard_argument, conflicts_with = "target_size")]
    shard: Option<PackingArgument>,
    /// About how large shards are to be, such as 64MiB, by what the chunks take
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    target_size: Option<u64>,
    /// Where in a shard its index is; `start` suits arrays that will be updated [default: as it was, or end]
    #[arg(long, value_enum)]
    index: Option<IndexPlace>,
    /// The order of chunks in a shard: morton, c, or arrival (as they lie now)
    #[arg(long, value_name = "ORDER", default_value_t)]
    order: WriteOrder,
    /// Other chunks: their shape in elements. They are encoded anew
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument, help_heading = "Encoding anew")]
    chunk: Option<Shape>,
    /// Another codec for the chunks, as `create` takes it; may repeat. They are encoded anew
    #[arg(long, value_name = "CODEC", conflicts_with = "codecs", help_heading = "Encoding anew")]
    codec: Vec<String>,
    /// Other codecs for the chunks as a list in the metadata's own form
    #[arg(long, value_name = "JSON", help_heading = "Encoding anew")]
    codecs: Option<String>,
}

/// What a job does with what is there, and how it is checked.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Remove the data set that is at the target
    #[arg(long)]
    overwrite: bool,
    /// Give up what an earlier job has left unfinished, and begin anew
    #[arg(long)]
    restart: bool,
    /// Tell what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How the result is checked: not at all; by comparing all bytes that were moved; by decoding and comparing all
    /// elements as well [default: bytes, for a remote target none]
    #[arg(long, value_enum, value_name = "HOW")]
    verify: Option<Check>,
    /// Report in JSON
    #[arg(long)]
    pub json: bool,
}

/// The parser would take a bare `Vec` for an option that may be repeated.
#[derive(Debug, Clone)]
struct Shape(Vec<u64>);

#[derive(Debug, Clone)]
struct PackingArgument(Packing);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IndexPlace {
    Start,
    End,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Check {
    None,
    Bytes,
    Elements,
}

fn shape_argument(text: &str) -> Result<Shape, String> {
    units::parse_shape(text).map(Shape)
}

fn chunks_argument(text: &str) -> Result<PackingArgument, String> {
    match text {
        "none" => Ok(PackingArgument(Packing::Unsharded)),
        _ => Ok(PackingArgument(Packing::ChunksPerShard(units::parse_shape(text)?))),
    }
}

fn shard_argument(text: &str) -> Result<PackingArgument, String> {
    match text {
        "none" => Ok(PackingArgument(Packing::Unsharded)),
        _ => Ok(PackingArgument(Packing::Shard(units::parse_shape(text)?))),
    }
}

impl PackingArgs {
    /// The packing that is asked for, if any is.
    pub fn packing(&self) -> Option<Packing> {
        let shapes = self.chunks_per_shard.as_ref().or(self.shard.as_ref());
        shapes.map(|packing| packing.0.clone()).or(self.target_size.map(Packing::TargetSize))
    }

    /// Whether anything is asked for.
    pub fn asks(&self) -> bool {
        self.packing().is_some() || self.index.is_some() || self.recodes()
    }

    /// Whether chunks or codecs are asked for.
    fn recodes(&self) -> bool {
        self.chunk.is_some() || !self.codec.is_empty() || self.codecs.is_some()
    }

    /// Shards near 64 MiB.
    pub fn default_packing() -> Packing {
        Packing::TargetSize(DEFAULT_SIZE)
    }

    /// The options for a job.
    pub fn options(&self, packing: Packing) -> Result<RepackOptions, Failure> {
        let mut options = RepackOptions::new().packing(packing).order(self.order);
        if let Some(index) = self.index {
            options = options.index(match index {
                IndexPlace::Start => IndexLocation::Start,
                IndexPlace::End => IndexLocation::End,
            });
        }
        if let Some(Shape(chunk)) = &self.chunk {
            options = options.chunk(chunk);
        }
        if let Some(json) = &self.codecs {
            let refuse = |reason: String| Failure::new(format!("--codecs: {reason}"));
            let value: serde_json::Value =
                serde_json::from_str(json).map_err(|error| refuse(error.to_string()))?;
            let codecs =
                codec_specs_from_json(&value).map_err(|error| refuse(error.to_string()))?;
            options =
                options.codecs(CodecChoice::new(value.to_string(), move |_| Ok(codecs.clone())));
        } else if !self.codec.is_empty() {
            let words = self.codec.clone();
            options = options.codecs(CodecChoice::new(words.join(" "), move |data_type| {
                codec_words::chain(&words, data_type).map_err(|reason| format!("--codec: {reason}"))
            }));
        }
        Ok(options)
    }
}

impl JobArgs {
    /// Adds what these say.
    pub fn apply(&self, mut options: RepackOptions) -> RepackOptions {
        options = options.overwrite(self.overwrite).restart(self.restart).dry_run(self.dry_run);
        match self.verify {
            None => options,
            Some(Check::None) => options.check(RepackCheck::None),
            Some(Check::Bytes) => options.check(RepackCheck::Bytes),
            Some(Check::Elements) => options.check(RepackCheck::Elements),
        }
    }
}
