//! The arguments that all verbs share.

use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use shardine::zarr::ZarrFormat;
use shardine::{Engine, EngineOptions, Location, MAX_THREADS, StoreOptions};

use crate::failure::Failure;
use crate::{
    append, attrs, bench, compact, compare, completions, consolidate, convert, copy, create, demo,
    info, interrupt, kv, ls, migrate, plan, pyramid, read, repack, repair, units, vectors, verify,
    write,
};

const EXAMPLES: &str = "\
Examples:
  shardine demo
  shardine info image.zarr
  shardine create image.zarr --shape 512,1024,512 --dtype uint16
  shardine write image.zarr volume.npy
  shardine append image.zarr planes.npy
  shardine read image.zarr --region 0:64,:,7:8 -o part.npy
  shardine verify image.zarr
  shardine reshard image.zarr --chunks-per-shard 8
  shardine pyramid image.zarr
  shardine copy image.zarr backup.zarr
  shardine compare image.zarr backup.zarr
  shardine bench image.zarr

Exit status: 0 success; 1 `verify` found damage, or `compare` a difference; 2 any other error, with
one line on standard error.";

/// Pack chunked arrays into shards, and read, update, check and convert them.
///
/// A shard is one stored object that holds many chunks and an index to find them. Shardine works on
/// Zarr v3 arrays and on volumes in Neuroglancer's precomputed format, so other libraries can read
/// what it writes, and vice versa. Zarr v2 and webknossos-wrap data sets can be read too.
#[derive(Debug, Parser)]
#[command(name = "shardine", version, after_help = EXAMPLES, propagate_version = false)]
#[command(max_term_width = 110, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Demo(demo::Demo),
    Info(info::Info),
    Ls(ls::Ls),
    Plan(plan::Plan),
    Create(create::Create),
    Read(read::Read),
    Write(write::Write),
    Append(append::Append),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Compact(compact::Compact),
    Compare(compare::Compare),
    Convert(Box<convert::Convert>),
    Copy(copy::Copy),
    Shard(repack::Shard),
    Unshard(repack::Unshard),
    Reshard(repack::Reshard),
    Migrate(migrate::Migrate),
    Pyramid(pyramid::Pyramid),
    Vectors(vectors::Vectors),
    Attrs(attrs::Attrs),
    Consolidate(consolidate::Consolidate),
    Kv(kv::Kv),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

/// What comes next after Ctrl-C, for a job that can be resumed.
pub const RESUME: &str = "run the same command again to resume";

impl Verb {
    /// What comes next when Ctrl-C has stopped a job of this verb between two of its steps.
    pub fn resumed_by(&self) -> &'static str {
        match self {
            Self::Read(_) => "nothing was written; run the same command again",
            Self::Convert(args) if args.is_of_stream() => {
                "a stream cannot be resumed; run the same command again with --overwrite"
            }
            Self::Convert(args) if args.is_to_file() => {
                "nothing was written; run the same command again"
            }
            _ => RESUME,
        }
    }

    /// What is said when Ctrl-C ends this verb, which cannot be stopped between two steps; `None`
    /// where that says nothing new.
    pub fn interrupted_words(&self) -> Option<&'static str> {
        match self {
            Self::Compact(_) | Self::Repair(_) => Some(RESUME),
            Self::Write(_) => Some("every object is either old or new; run the same command again"),
            Self::Verify(_) => Some("nothing was changed; run the same command again"),
            _ => None,
        }
    }
}

/// How much of the machine may be used.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub struct Machine {
    /// Use N worker threads, at most 1024; 0 means one per core
    #[arg(long, global = true, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    pub threads: usize,
    /// Limit memory for data in flight: bytes, or a number with KiB, MiB, GiB, kB, MB or GB
    #[arg(long, global = true, value_name = "SIZE", default_value = "64MiB", value_parser = units::parse_size)]
    pub memory: u64,
    /// Print only errors and requested output: elements, listings, JSON
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Set an option of a remote store, such as aws_endpoint=http://localhost:9000; can be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = parse_option, help_heading = "Store")]
    store_option: Vec<(String, String)>,
    /// Send unsigned requests, for public buckets (s3://, gs://, az://). For only one of two
    /// locations, use --source-option anonymous=true or --target-option anonymous=true
    #[arg(long, global = true, help_heading = "Store")]
    anonymous: bool,
    /// Assume that nobody else writes, to update a store that ignores conditional writes
    #[arg(long, global = true, help_heading = "Store")]
    single_writer: bool,
    /// Use only the metadata of this Zarr version, 2 or 3; by default 3 takes precedence where both
    /// exist
    #[arg(long, global = true, value_name = "VERSION", value_parser = parse_format, help_heading = "Store")]
    pub zarr_format: Option<ZarrFormat>,
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if threads <= MAX_THREADS => Ok(threads),
        _ => Err(format!("\"{text}\" is not a number from 0 to {MAX_THREADS}")),
    }
}

fn parse_format(text: &str) -> Result<ZarrFormat, String> {
    match text {
        "2" => Ok(ZarrFormat::V2),
        "3" => Ok(ZarrFormat::V3),
        _ => Err("must be 2 or 3".to_owned()),
    }
}

/// The settings for the stores of two locations, beside those for both.
#[derive(Debug, Args)]
pub struct Places {
    /// Set an option of the source's store only, overriding --store-option; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_option, help_heading = "Store")]
    source_option: Vec<(String, String)>,
    /// Set an option of the target's store only, overriding --store-option; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_option, help_heading = "Store")]
    target_option: Vec<(String, String)>,
}

impl Places {
    /// The location that is read.
    pub fn source(&self, machine: &Machine, url: &str) -> Result<Location, Failure> {
        machine.location_with(url, &self.source_option)
    }

    /// The location that is written.
    pub fn target(&self, machine: &Machine, url: &str) -> Result<Location, Failure> {
        machine.location_with(url, &self.target_option)
    }

    /// Refuses settings for a target that the command does not have.
    pub fn no_target(&self, option: &str) -> Result<(), Failure> {
        if self.target_option.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("--target-option: without {option} there is only one location"))
            .hint("set its options with --store-option"))
    }
}

fn parse_option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// A budget below this could not hold a chunk of common size on each thread.
const LEAST_MEMORY: u64 = 1 << 20;

impl Machine {
    /// The location of a URL. For a remote store, a quarter of the memory is for uploads.
    pub fn location(&self, url: &str) -> Result<Location, Failure> {
        self.location_with(url, &[])
    }

    /// Like [`location`](Self::location), with options of its own.
    pub fn location_with(&self, url: &str, own: &[(String, String)]) -> Result<Location, Failure> {
        let mut options =
            StoreOptions::new().single_writer(self.single_writer).memory(self.memory / 4);
        options.pairs = self.store_option.to_vec();
        if self.anonymous {
            options = options.anonymous();
        }
        options.pairs.extend_from_slice(own);
        let location = Location::with_options(url, &options)?.with_format(self.zarr_format);
        if !location.store.read_cost().local {
            interrupt::will_clean_up();
        }
        Ok(location)
    }

    /// An engine with the whole budget except an eighth, which is for file buffers and the program
    /// itself.
    pub fn engine(&self) -> Result<Arc<Engine>, Failure> {
        self.engine_with(self.memory - self.memory / 8, None)
    }

    /// An engine with half of the budget, and the bytes of the other half.
    pub fn engine_and_buffer(&self) -> Result<(Arc<Engine>, u64), Failure> {
        let half = self.memory / 2;
        Ok((self.engine_with(self.memory - half, None)?, half.max(1)))
    }

    /// An engine with a quarter of the budget, and the bytes for rows that are sorted: most of the
    /// rest.
    pub fn engine_and_rows(&self) -> Result<(Arc<Engine>, u64), Failure> {
        let quarter = self.memory / 4;
        Ok((
            self.engine_with(quarter.max(1), None)?,
            (self.memory - quarter - self.memory / 8).max(1),
        ))
    }

    /// An engine that caches this many bytes of indexes, even beyond the budget; 0 caches none.
    pub fn engine_with_indexes(&self, bytes: u64) -> Result<Arc<Engine>, Failure> {
        self.engine_with(self.memory - self.memory / 8, Some(bytes))
    }

    fn engine_with(&self, memory: u64, index_cache: Option<u64>) -> Result<Arc<Engine>, Failure> {
        self.check_memory()?;
        let mut options = EngineOptions::new().threads(self.threads).memory(memory);
        options.index_cache = index_cache;
        Ok(Engine::new(&options).map_err(shardine::Error::from)?)
    }

    /// Refuses a budget that is too small for anything.
    pub fn check_memory(&self) -> Result<(), Failure> {
        if self.memory >= LEAST_MEMORY {
            return Ok(());
        }
        Err(Failure::new(format!(
            "--memory {}: must be at least {}",
            units::size(self.memory),
            units::size(LEAST_MEMORY)
        )))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
