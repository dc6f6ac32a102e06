//! `shardine plan`: chunks and shards that suit an array, and what follows from them.

mod report;
mod vectors;
mod volume;

use std::io::{self, BufWriter, Write};

use clap::{Args, ValueEnum};
use serde_json::json;
use shardine::plan::{Action, ArrayAdvice, PlanError, Purpose, Recommendation, Situation};
use shardine::precomputed::Volume;
use shardine::shard::IndexLocation;
use shardine::vectors::VectorStore;
use shardine::zarr::MAX_DEPTH;
use shardine::{ArrayNode, Child, DataSet, DataType, Error, Group, Node, open_in};

use crate::cli::Machine;
use crate::create::Format;
use crate::dataset::Level;
use crate::failure::{self, Failure, quoted};
use crate::units;
use report::Advice;

const EXAMPLES: &str = "\
Examples:
  shardine plan image.zarr
  shardine plan s3://bucket/image.zarr --for serve
  shardine plan --shape 2048,4096,4096 --dtype uint16 --ratio 2.5 --remote
  shardine plan --to precomputed --shape 100000,80000,7000 --dtype uint8 --chunk 128,128,16

For a data set, it reads the metadata and, for each array, the indexes of up to 32 shards or the
lengths of up to 128 chunks, but no chunks. The objects of an array are counted, unless there are
very many and none seems to be missing. Nothing is changed: the last lines are the commands to run.

Rules, by the names used in the output: no shards on a local disk below a million chunks
(few-local-chunks), for many parallel writers (parallel-writers), or where a chunk is as large as a
shard should be (large-chunks); 8 chunks per axis for serving (eight-per-axis) if that is 10 to 100
MB; otherwise about 64 MiB, or 16 MiB for updates and 96 MB for archives (target-size), by measured
chunk sizes. docs/plan.md describes all of them. For precomputed volumes it recommends the bits of
keys, for stores of Zarr Vectors chunks, bins and shards, each with a reason.";

/// Recommend chunks and shards for a data set or a shape
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Plan {
    /// Path or URL of the array, group of arrays, precomputed volume or store of Zarr Vectors
    #[arg(required_unless_present = "shape", conflicts_with = "shape")]
    url: Option<String>,
    #[command(flatten)]
    level: Level,
    /// Plan a new array with these lengths of its axes, such as 2048,4096,4096
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument, requires = "dtype")]
    shape: Option<Shape>,
    /// Set the data type of the new array
    #[arg(long, value_name = "TYPE", requires = "shape")]
    dtype: Option<String>,
    /// Set the format of the new array: zarr3, or precomputed for a volume
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "zarr3")]
    to: Format,
    /// Use chunks of this shape, in elements [default: recommended]
    #[arg(long, value_name = "N,N,..", value_parser = shape_argument)]
    chunk: Option<Shape>,
    /// Assume this compression ratio where it is not measured
    #[arg(long, value_name = "X", value_parser = ratio)]
    ratio: Option<f64>,
    /// Set what the array is for
    #[arg(long = "for", value_enum, value_name = "USE")]
    purpose: Option<Use>,
    /// Assume that the array will be in an object store, wherever it is now
    #[arg(long)]
    remote: bool,
    /// Set how many programs write to the array in parallel
    #[arg(long, value_name = "N", default_value_t = 1)]
    writers: u64,
    /// Aim for shards of about this size [default: by use]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    target_size: Option<u64>,
    /// Set the size of a screen, in elements: columns and rows
    #[arg(long, value_name = "WxH", default_value = "1920x1080", value_parser = screen)]
    screen: Screen,
    /// Set the length of each axis of a three-dimensional view, in elements
    #[arg(long, value_name = "N", default_value_t = 512)]
    view: u64,
    /// Print the recommendation as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Use {
    /// Read by many, a part at a time
    Serve,
    /// Updated often, in small parts
    Update,
    /// Written by several programs in parallel: see --writers
    Write,
    /// Archived, and rarely read
    Archive,
}

/// The parser would treat a bare `Vec` as an option that may be repeated.
#[derive(Debug, Clone)]
struct Shape(Vec<u64>);

#[derive(Debug, Clone, Copy)]
struct Screen([u64; 2]);

fn shape_argument(text: &str) -> Result<Shape, String> {
    units::parse_shape(text).map(Shape)
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.trim().parse::<f64>().ok().filter(|&ratio| ratio > 0.0 && ratio.is_finite());
    ratio.ok_or_else(|| format!("\"{text}\" is not a ratio such as 2.5"))
}

fn screen(text: &str) -> Result<Screen, String> {
    let lengths = text.split_once('x').and_then(|(columns, rows)| {
        let length = |text: &str| text.trim().parse::<u64>().ok().filter(|&n| n > 0);
        Some(Screen([length(rows)?, length(columns)?]))
    });
    lengths.ok_or_else(|| format!("\"{text}\" is not a screen such as 1920x1080"))
}

pub fn run(args: &Plan, machine: &Machine) -> Result<(), Failure> {
    if args.url.is_none() && args.level.given().is_some() {
        return Err(Failure::new("--level: a new array has no levels").hint("omit --level"));
    }
    let found = match &args.url {
        Some(url) => {
            let found = open_in(&machine.engine()?, &machine.location(url)?)?;
            if let Some(volume) = found.downcast_ref::<Volume>() {
                return volume::of_volume(args, url, volume);
            }
            if let Some(group) = found.downcast_ref::<Group>().filter(|g| VectorStore::is_store(g))
            {
                return vectors::of_store(args, machine, url, group);
            }
            Some((url, found))
        }
        None => None,
    };
    if let (Format::Precomputed, Some(Shape(shape)), Some(dtype)) =
        (args.to, &args.shape, &args.dtype)
    {
        return volume::of_shape(args, shape, dtype);
    }
    let advice = match (found, &args.shape, &args.dtype) {
        (Some((url, found)), ..) => of_data_set(args, machine, url, found)?,
        (None, Some(Shape(shape)), Some(dtype)) => vec![of_shape(args, machine, shape, dtype)?],
        _ => return Err(Failure::new("a URL, or --shape and --dtype, is required")),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let arrays: Vec<_> = advice.iter().map(Advice::to_json).collect();
        let commands: Vec<_> = advice.iter().filter_map(|advice| advice.command.clone()).collect();
        let total = report::total_json(&advice);
        writeln!(out, "{:#}", json!({ "arrays": arrays, "total": total, "commands": commands }))?;
    } else {
        for (i, advice) in advice.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            advice.write(&mut out)?;
        }
        report::write_end(&mut out, &advice)?;
    }
    out.flush()?;
    Ok(())
}

fn situation(args: &Plan, machine: &Machine, shape: &[u64], data_type: &DataType) -> Situation {
    let mut situation = Situation::of_type(shape, data_type).remote(args.remote);
    situation.chunk = args.chunk.as_ref().map(|Shape(chunk)| chunk.clone());
    (situation.ratio, situation.writers, situation.target) =
        (args.ratio, args.writers, args.target_size);
    situation.purpose = match args.purpose {
        None => Purpose::General,
        Some(Use::Serve) => Purpose::Serve,
        Some(Use::Update) => Purpose::Update,
        Some(Use::Write) => Purpose::Write,
        Some(Use::Archive) => Purpose::Archive,
    };
    situation.threads = match machine.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        threads => threads as u64,
    };
    Situation { screen: args.screen.0, view: args.view, ..situation }
}

/// A chunk of the wrong rank is an error in an argument.
fn refused(args: &Plan, rank: usize, error: &PlanError) -> Failure {
    match &args.chunk {
        Some(Shape(chunk)) if chunk.len() != rank || chunk.contains(&0) => Failure::new(format!(
            "--chunk {}: needs one length above 0 for each of the {rank} axes",
            units::shape_argument(chunk),
        )),
        _ => Failure::new(error),
    }
}

fn of_shape(args: &Plan, machine: &Machine, shape: &[u64], dtype: &str) -> Result<Advice, Failure> {
    let data_type = failure::data_type(dtype)?;
    let situation = situation(args, machine, shape, &data_type);
    let of = ArrayAdvice::of_new("a new array", &data_type, situation)
        .map_err(|error| refused(args, shape.len(), &error))?;
    let mut command = format!(
        "shardine create NEW.zarr --shape {} --dtype {} {}",
        shape_words(shape),
        quoted(dtype),
        packing_flags(&of.advice)
    );
    index_flag(&mut command, &of.advice);
    Ok(Advice { of, command: Some(command) })
}

/// Advises on all arrays below a location.
fn of_data_set(
    args: &Plan,
    machine: &Machine,
    url: &str,
    found: Box<dyn DataSet>,
) -> Result<Vec<Advice>, Failure> {
    let mut advice = Vec::new();
    let is_zarr = found.is::<Group>() || found.is::<ArrayNode>();
    if args.level.given().is_some() && is_zarr {
        let (location, levels) = (found.location(), found.levels()?);
        let array = args.level.of(&*found, location, None)?;
        let path = levels.get(args.level.number()).map(|path| format!("/{path}"));
        let url = format!("{}{}", url.trim_end_matches('/'), path.unwrap_or_default());
        let array = ArrayNode::open(array.engine(), array.location())?;
        return Ok(vec![of_array(args, machine, &url, &array)?]);
    }
    match (found.downcast_ref::<ArrayNode>(), found.downcast_ref::<Group>()) {
        (Some(array), _) => advice.push(of_array(args, machine, url, array)?),
        (_, Some(group)) => of_group(args, machine, url, group, 0, &mut advice)?,
        // Recommendations are for Zarr arrays and precomputed volumes.
        _ => {
            let at = machine.location(url)?.to_string();
            return Err(match found.array(0) {
                Err(error @ Error::Unsupported { .. }) => error,
                _ => Error::NoNode { at },
            }
            .into());
        }
    }
    if advice.is_empty() {
        return Err(Failure::new(format!("{url}: no arrays in this group")));
    }
    Ok(advice)
}

fn of_group(
    args: &Plan,
    machine: &Machine,
    url: &str,
    group: &Group,
    depth: usize,
    advice: &mut Vec<Advice>,
) -> Result<(), Failure> {
    for Child { name, node, .. } in group.children()? {
        let url = format!("{}/{name}", url.trim_end_matches('/'));
        match node {
            Ok(Node::Array(array)) => advice.push(of_array(args, machine, &url, &array)?),
            Ok(Node::Group(group)) if VectorStore::is_store(&group) => {
                eprintln!("note: skipped {url}, a store of Zarr Vectors: plan it on its own");
            }
            Ok(Node::Group(group)) if depth < MAX_DEPTH => {
                of_group(args, machine, &url, &group, depth + 1, advice)?;
            }
            Ok(Node::Group(_)) => {}
            Err(error) => eprintln!("note: skipped {url}: {error}"),
        }
    }
    Ok(())
}

fn of_array(
    args: &Plan,
    machine: &Machine,
    url: &str,
    array: &ArrayNode,
) -> Result<Advice, Failure> {
    let mut situation = situation(args, machine, array.shape(), array.data_type());
    let local = array.location().store.read_cost().local;
    situation.look_at(array)?;
    let of = ArrayAdvice::of_array(url, array, situation)
        .map_err(|error| refused(args, array.shape().len(), &error))?;
    let advice = &of.advice;
    let target = quoted(url);
    let mut command = match advice.action {
        Action::Reshard => format!("shardine reshard {target} {}", shard_flag(advice)),
        Action::Unshard => format!("shardine unshard {target}"),
        Action::Rechunk => format!("shardine reshard {target} {}", packing_flags(advice)),
        _ => String::new(),
    };
    if matches!(advice.action, Action::Reshard | Action::Rechunk) {
        index_flag(&mut command, advice);
    }
    // Only folders can be exchanged in one step.
    if !local && !command.is_empty() {
        let name = url.trim_end_matches('/').trim_end_matches(".zarr");
        command.push_str(&format!(" -o {}", quoted(&format!("{name}-new.zarr"))));
    }
    let command = Some(command).filter(|command| !command.is_empty());
    Ok(Advice { of, command })
}

/// A shape as one shell word.
fn shape_words(shape: &[u64]) -> String {
    if shape.is_empty() { "''".to_owned() } else { units::shape_argument(shape) }
}

fn shard_flag(advice: &Recommendation) -> String {
    match &advice.shard {
        Some(shard) => format!("--shard {}", shape_words(shard)),
        None => "--shard none".to_owned(),
    }
}

fn packing_flags(advice: &Recommendation) -> String {
    format!("--chunk {} {}", shape_words(&advice.chunk), shard_flag(advice))
}

/// The option for an index that goes elsewhere than where it is, or would be.
fn index_flag(command: &mut String, advice: &Recommendation) {
    if let Some((IndexLocation::Start, _)) = &advice.index {
        command.push_str(" --index start");
    }
}
