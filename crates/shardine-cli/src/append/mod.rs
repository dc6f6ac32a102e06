//! `shardine append`: planes from a file or a stream, behind those that an array has.

mod marker;

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value, json};
use shardine::{
    AppendClaim, ArrayNode, ElementSize, ElementsRef, SetKind, SliceError, SliceOptions,
    SliceWriter, WriteReport, open,
};

use crate::cli::Machine;
use crate::consolidate;
use crate::dataset::no_array;
use crate::failure::Failure;
use crate::input::{self, Input};
use crate::progress::Progress;
use crate::units;
use crate::update::Update;
use crate::write::describe;
use marker::Marker;

const EXAMPLES: &str = "\
Examples:
  shardine append image.zarr planes.npy
  shardine append movie.zarr --axis 2 frames.npy
  camera | shardine append movie.zarr - --commit-every 1 --strategy in-place

A file holds any number of whole planes: the array's shape, but for the axis. It is read piece by piece, and its
planes become readable shard by shard, or as --commit-every says. Run the same command again to resume one that was
stopped; meanwhile .shardine-append.json beside the array's zarr.json says what is under way.

Standard input is raw bytes, plane after plane. Planes become readable when the chunks that they fall into are complete
along the axis, or as --commit-every says, and at the end; up to there they are in memory. After a kill the array has
the planes that were committed, and the next run appends behind them.

One append at a time: another one is refused before it writes anything. On files a killed append never stands in the
way of the next one. On object stores .shardine-append.json names the process that appends; if that was killed on
another machine, nobody can tell, and --take-over says so.

docs/append.md says which chunks, shards and strategy suit which stream.";

/// Add planes at the end of an axis
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Append {
    /// The array
    url: String,
    /// The planes: .npy, or else raw bytes; - is raw bytes from standard input
    file: PathBuf,
    /// The axis that grows
    #[arg(long, value_name = "N", default_value_t = 0)]
    axis: usize,
    /// Make planes readable after every N of them [default: when a layer of chunks or of shards is complete]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commit_every: Option<u64>,
    #[command(flatten)]
    update: Update,
    /// Convert numbers of another type. Fractions are cut off; a value that does not fit is an error
    #[arg(long)]
    cast: bool,
    /// Do not finish an append of another file that was stopped; what is there of it stays
    #[arg(long)]
    forget: bool,
    /// The append that owns this array in an object store was killed: take its place
    #[arg(long)]
    take_over: bool,
    /// Tell in JSON what was done
    #[arg(long)]
    json: bool,
}

/// What was done.
struct Done {
    array: ArrayNode,
    /// Planes that this run appended.
    planes: u64,
    /// Planes of the same file that an earlier run had appended.
    before: u64,
    report: WriteReport,
}

pub fn run(args: &Append, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    let (engine, location) = (machine.engine()?, machine.location(&args.url)?);
    let set = open(&engine, &location)?;
    let Some(array) = set.downcast_ref::<ArrayNode>() else {
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
    let rank = array.shape().len();
    if args.axis >= rank {
        return Err(shardine::Error::from(SliceError::Axis { axis: args.axis, rank }).into());
    }
    let stream = stream(&args.file)?;
    let claim = AppendClaim::take(array, args.take_over).map_err(claim_failure)?;
    // As the append before this one has left it.
    let array = ArrayNode::open(&engine, &location)?;
    if args.axis >= array.shape().len() {
        return Err(shardine::Error::MetadataChanged { at: location.to_string() }.into());
    }
    let done = match stream {
        Some(stream) => from_stream(args, array, claim, stream)?,
        None => from_file(args, array, claim)?,
    };
    consolidate::warn(done.array.stale_copies());
    if args.json {
        let mut shape = done.array.shape().to_vec();
        let mut members = Map::new();
        members.insert("array_shape".to_owned(), json!(shape));
        shape[args.axis] = done.planes;
        members.insert("shape".to_owned(), json!(shape));
        members.insert("appended_before".to_owned(), json!(done.before));
        members.insert("dtype".to_owned(), done.array.data_type().to_json());
        members.extend(describe(&done.report, start.elapsed().as_secs_f64()));
        writeln!(io::stdout(), "{}", Value::Object(members))?;
    }
    Ok(())
}

fn claim_failure(error: shardine::Error) -> Failure {
    match &error {
        shardine::Error::AppendOwned { .. } => Failure::new(error.to_string())
            .hint("wait until it has ended; if its process is gone, give --take-over"),
        _ => error.into(),
    }
}

/// What is read from its beginning to its end: standard input, or a pipe.
struct Stream {
    from: Box<dyn Read>,
    name: String,
}

/// The stream that a path means; `None` if it is a file.
fn stream(path: &Path) -> Result<Option<Stream>, Failure> {
    if path == Path::new("-") {
        let from = Box::new(io::stdin().lock());
        return Ok(Some(Stream { from, name: "standard input".to_owned() }));
    }
    if input::is_npy(path) {
        return Ok(None);
    }
    let found = std::fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
    if found.is_file() || found.is_dir() {
        return Ok(None);
    }
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    Ok(Some(Stream { from: Box::new(file), name: path.display().to_string() }))
}

fn options(args: &Append) -> SliceOptions {
    let mut options = SliceOptions::new().write(args.update.options());
    options.commit_every = args.commit_every;
    options
}

fn from_file(args: &Append, array: ArrayNode, claim: AppendClaim) -> Result<Done, Failure> {
    let mut plane = array.shape().to_vec();
    plane[args.axis] = 1;
    let mut input = Input::open(&args.file)?;
    let count = input.planes(&array, args.axis, &plane)?;
    let found = input.found.take();
    let mut shape = plane;
    shape[args.axis] = count;
    let source = input.source(&array, &shape, args.cast, 0)?;
    let marker = match &found {
        Some(found) => Some(Marker::new(args.axis, array.shape(), &args.file, found)?),
        None => None,
    };
    let bytes = match array.data_type().size() {
        ElementSize::Fixed(size) => units::elements(&shape).saturating_mul(size as u64),
        ElementSize::Variable => 0,
    };
    let progress = Progress::bytes("appending", bytes);
    let bar = progress.clone();
    let mut options = options(args);
    options.write = options.write.progress(Arc::new(move |done| bar.add(done)));
    let old_shape = array.shape().to_vec();
    let mut writer = SliceWriter::with_claim(array, args.axis, options, claim)?;
    // The marker comes when nothing is left that could be refused.
    let before = match (&marker, writer.claim()) {
        (_, None) => 0,
        (Some(marker), Some(claim)) => {
            marker.begin(claim, &old_shape, count, &args.url, args.forget)?
        }
        (None, Some(claim)) => {
            marker::check_none(claim, &old_shape, &args.url, args.forget)?;
            0
        }
    };
    progress.add(bytes.checked_div(count).unwrap_or(0).saturating_mul(before));
    let result = writer.push_from(before..count, &*source).and_then(|()| writer.commit());
    progress.finish();
    result?;
    let report = writer.report();
    Ok(Done { array: writer.finish()?, planes: count - before, before, report })
}

fn from_stream(
    args: &Append,
    array: ArrayNode,
    mut claim: AppendClaim,
    stream: Stream,
) -> Result<Done, Failure> {
    let Stream { mut from, name } = stream;
    input::check_cast(&name, args.cast)?;
    let ElementSize::Fixed(size) = array.data_type().size() else {
        return Err(Failure::new(format!(
            "{name}: elements of variable length cannot be taken from a stream"
        ))
        .hint("write them to a file, and append that"));
    };
    marker::check_none(&mut claim, array.shape(), &args.url, args.forget)?;
    let mut writer = SliceWriter::with_claim(array, args.axis, options(args), claim)?;
    let len = writer.plane_len().saturating_mul(size);
    let mut plane = Vec::new();
    plane.try_reserve_exact(len).map_err(|_| {
        Failure::new(format!("there is no memory for a plane of {}", units::size(len as u64)))
    })?;
    let progress = Progress::stream("appending");
    let mut planes = 0;
    let ended = loop {
        plane.clear();
        // Reads until the plane is full or nothing more comes.
        if let Err(error) = from.by_ref().take(len as u64).read_to_end(&mut plane) {
            break Some(Failure::new(format!("{name}: {error}")));
        }
        match plane.len() {
            0 => break None,
            n if n < len => {
                break Some(Failure::new(format!(
                    "{name}: ends inside a plane: {n} bytes are over, of {len} that a plane has; the {} before \
                     were appended",
                    units::count(planes, "whole plane"),
                )));
            }
            _ => {}
        }
        writer.push(ElementsRef::Fixed(&plane))?;
        planes += 1;
        progress.add(len as u64);
    };
    progress.finish();
    // What came whole is kept, whatever came after it.
    writer.commit()?;
    if let Some(failure) = ended {
        return Err(failure);
    }
    let report = writer.report();
    Ok(Done { array: writer.finish()?, planes, before: 0, report })
}
