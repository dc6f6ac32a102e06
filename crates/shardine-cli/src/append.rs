//! `shardine append`: adds planes from a file or a stream to the end of an array.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value, json};
use shardine::files::{Input, is_npy};
use shardine::jobs::{AppendError, AppendFrom, AppendOptions, append};
use shardine::{ArrayNode, Error, SetKind, SliceError, open_in};

use crate::cli::Machine;
use crate::consolidate;
use crate::dataset::{Level, no_array};
use crate::failure::{Failure, quoted};
use crate::progress::Progress;
use crate::stale::Stale;
use crate::update::Update;
use crate::write::describe;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine append image.zarr planes.npy
  shardine append movie.zarr --axis 2 frames.npy
  camera | shardine append movie.zarr - --commit-every 1 --strategy in-place

A file holds any number of complete planes, each with the array's shape except along the axis. It is
read piece by piece, and its planes become readable shard by shard, or as set by --commit-every. Run
the same command again to resume an interrupted append; until it is finished, .shardine-append.json
beside the array's zarr.json records it.

Standard input is raw bytes, plane after plane. Planes become readable when their chunks are
complete along the axis, or as set by --commit-every, and at the end of the input; until then they
are held in memory. If the process is killed, the array has the planes committed so far, and the
next run appends after them.

Only one append can run at a time: a second one is refused before it writes anything. On local
files, a killed append never blocks the next one. On object stores, .shardine-append.json names the
process that appends; if that process was killed on another machine, use --take-over.

Of an OME-Zarr image one level grows, the finest by default. The levels below it keep their shape
until `shardine pyramid URL --update` has run.

docs/append.md explains which chunks, shards and strategy suit which stream.";

/// Append planes to an array along an axis
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Append {
    /// Path or URL of the array, or of an OME-Zarr image
    url: String,
    /// File with the planes: .npy, otherwise raw bytes; - reads raw bytes from standard input
    file: PathBuf,
    /// Axis to append along
    #[arg(long, value_name = "N", default_value_t = 0)]
    axis: usize,
    /// Make planes readable after every N planes [default: after each complete layer of chunks or
    /// shards]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commit_every: Option<u64>,
    #[command(flatten)]
    level: Level,
    #[command(flatten)]
    update: Update,
    /// Convert numbers to the array's type. Fractions are truncated; a value that does not fit is
    /// an error
    #[arg(long)]
    cast: bool,
    /// Do not finish an interrupted append of another file; keep the planes it has appended
    #[arg(long, help_heading = "Job")]
    forget: bool,
    /// Take over from a killed append that still owns the array in an object store
    #[arg(long, help_heading = "Job")]
    take_over: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Append, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    let (engine, location) = (machine.engine()?, machine.location(&args.url)?);
    let set = open_in(&engine, &location)?;
    // The array of a level of an image: groups have no other levels.
    let opened = match set.kind() {
        SetKind::Group if matches!(set.format(), "zarr2" | "zarr3") => {
            let level = args.level.of(&*set, &location, None)?;
            Some(ArrayNode::open(&engine, level.location())?)
        }
        _ => None,
    };
    let Some(array) = opened.as_ref().or_else(|| set.downcast_ref::<ArrayNode>()) else {
        return Err(match (set.kind(), set.format()) {
            (SetKind::Levels, "precomputed") => {
                Failure::new(format!("{location} is a precomputed volume, whose shape is fixed"))
            }
            (SetKind::Array | SetKind::Levels, format) => Failure::new(format!(
                "{location} is stored as {format}; only Zarr arrays can be appended to"
            )),
            _ => no_array(&*set, &location),
        });
    };
    if opened.is_none() {
        args.level.of(&*set, &location, None)?;
    }
    let location = array.location();
    let rank = array.shape().len();
    // Before waiting for a stream.
    if args.axis >= rank {
        return Err(Error::from(SliceError::Axis { axis: args.axis, rank }).into());
    }
    let mut stream = stream(&args.file)?;
    let (from, progress) = match &mut stream {
        Some(Stream { from, name }) => {
            let from = AppendFrom::Stream { from, name: name.clone() };
            (from, Progress::things("appending", 0))
        }
        None => {
            let input = Input::open(&args.file)?;
            (AppendFrom::File(Box::new(input)), Progress::bytes("appending", 0))
        }
    };
    let context = match from {
        AppendFrom::Stream { .. } => progress.context_of_stream(&engine),
        AppendFrom::File(_) => progress.context(&engine),
    };
    let result = append(&context, from, location, &args.options());
    progress.finish();
    let done = result.map_err(|error| failure(error, &args.url, opened.is_some()))?;
    consolidate::warn(done.array.stale_copies());
    let stale = Stale::after(&*set, &done.array, args.level, &args.url);
    if args.json {
        let mut shape = done.array.shape().to_vec();
        let mut members = Map::new();
        members.insert("array_shape".to_owned(), json!(shape));
        shape[args.axis] = done.planes;
        members.insert("shape".to_owned(), json!(shape));
        members.insert("appended_before".to_owned(), json!(done.planes_before));
        members.insert("dtype".to_owned(), done.array.data_type().to_json());
        stale.describe(&mut members);
        members.extend(describe(&done.written, start.elapsed().as_secs_f64()));
        writeln!(io::stdout(), "{}", Value::Object(members))?;
        return Ok(());
    }
    let planes = units::count(done.planes, "plane");
    let before = match done.planes_before {
        0 => String::new(),
        n => format!(", {n} already there from an earlier run"),
    };
    let shape = units::shape(done.array.shape());
    // Not how many objects: one that grows with each commit is written as often.
    let bytes = units::size(done.written.bytes_written);
    let written = format!("{bytes} written in {}", units::duration(start.elapsed().as_secs_f64()));
    let url = &args.url;
    writeln!(said::words(), "appended {planes} to {url}{before}; it is now {shape}: {written}")?;
    stale.note();
    Ok(())
}

impl Append {
    fn options(&self) -> AppendOptions {
        let update = self.update.options();
        let mut options = AppendOptions::new().axis(self.axis);
        options.commit_every = self.commit_every;
        options.strategy = update.strategy;
        options.max_gap = update.max_gap;
        options.cast = self.cast;
        options.forget = self.forget;
        options.take_over = self.take_over;
        options
    }
}

/// An error with the option that helps.
fn failure(error: Error, url: &str, is_image: bool) -> Failure {
    let hint = match &error {
        // A level alone would have another version than its image.
        Error::ZarrV2 { .. } if is_image => {
            let url = quoted(url);
            format!("run `shardine migrate {url}` to write version 3 metadata of the whole image")
        }
        Error::AppendOwned { .. } => {
            "wait for it to finish; if its process was killed, use --take-over".to_owned()
        }
        Error::Append(AppendError::DamagedMarker) => {
            "use --forget to leave the array as it is and start over".to_owned()
        }
        Error::Append(AppendError::Reshaped { .. } | AppendError::FileChanged { .. }) => {
            "use --forget to keep what is there and append the whole file after it".to_owned()
        }
        Error::Append(AppendError::Unfinished { name, axis, .. }) => format!(
            "finish it with `shardine append {} {} --axis {axis}`, or use --forget to leave it unfinished",
            quoted(url),
            quoted(name)
        ),
        _ => return error.into(),
    };
    Failure::new(error).hint(hint)
}

/// A source that is read from beginning to end: standard input, or a pipe.
struct Stream {
    from: Box<dyn Read>,
    name: String,
}

/// The stream that a path refers to; `None` if it is a file.
fn stream(path: &Path) -> Result<Option<Stream>, Failure> {
    if path == Path::new("-") {
        let from = Box::new(io::stdin().lock());
        return Ok(Some(Stream { from, name: "standard input".to_owned() }));
    }
    if is_npy(path) {
        return Ok(None);
    }
    let found = std::fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
    if found.is_file() || found.is_dir() {
        return Ok(None);
    }
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    Ok(Some(Stream { from: Box::new(file), name: path.display().to_string() }))
}
