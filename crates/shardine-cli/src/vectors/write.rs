//! `shardine vectors write`: rows of a file as a new store.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use shardine::CodecChoice;
use shardine::files::FoundFile;
use shardine::jobs::{
    ObjectTables, Part, WriteVectorsOptions, WriteVectorsReport, write_vectors_with,
};
use shardine_geometry::files::{EdgeReader, FileFormat, FileRows, ReadOptions, WithEdges};
use shardine_geometry::zarr_vectors::Scalar;
use shardine_geometry::{
    GROUP, GeometryError, GeometryKind, GeometrySource, OBJECT_ID, TableSource,
};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::packing::waiting;
use crate::progress::Progress;
use crate::{consolidate, said, units};

const EXAMPLES: &str = "\
Examples:
  shardine vectors write spots.zv spots.csv --kind points --chunk 100
  shardine vectors write cells.zv cells.parquet --kind points --chunk 100,100,50 --bin 25 --shard 8
  shardine vectors write fibres.zv fibres.parquet --kind polylines --chunk 50 --shard 4,4,4
  shardine vectors write s3://bucket/neurons.zv neurons.swc --kind skeleton --chunk 64
  shardine vectors write net.zv nodes.csv --kind graph --edges edges.csv --chunk 200
  shardine vectors write cells.zv rows.csv --kind points --chunk 100 --object-attributes cells.csv
  shardine vectors write brain.zv brain.ply --kind mesh --chunk 512 --codec none

INPUT is CSV, Parquet or Arrow IPC with the columns x, y, z, object_id (if there are objects) and
attributes; .npy with positions (N x D); .obj, .ply or .swc. Lines have the columns x0, y0, z0, x1,
y1, z1, and their other columns are attributes of the line; the rows of a polyline are in order,
with the same object_id. The edges of a graph or a skeleton are in a file of their own with the
columns a and b, which are numbers of rows from 0 on; those of a skeleton go from a child (a) to its
parent (b), and the faces of a mesh in a table have a third column, c. --object-attributes and --groups are CSV, Parquet or Arrow IPC too.

Rows may come in any order, also those of several objects in turns. They are sorted by chunk within
--memory; what there is no room for is kept in unnamed files with the target, or in the folder of
--spool, until it is written.

Run the same command again to resume: the rows are read and sorted again, and shards that exist are
kept. Until the store is complete, .shardine-convert.json records it, and there is no zarr.json.";

/// Write rows of geometry as a new Zarr Vectors store
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Write {
    /// Store to create
    #[arg(value_name = "DST")]
    target: String,
    /// File with the rows
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// What the rows form
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Kind,
    /// Set the edges of a chunk of space, in units of the coordinates: one number for all axes, or
    /// one per axis
    #[arg(long, value_name = "L|L,L,..", value_parser = lengths)]
    chunk: Lengths,
    /// Divide chunks into bins with these edges, a whole number of which must be a chunk
    #[arg(long, value_name = "L|L,L,..", value_parser = lengths)]
    bin: Option<Lengths>,
    /// Pack this many chunks into a shard: one number for all axes, or one per axis; `none` makes
    /// an object of each chunk [default: none]
    #[arg(long, value_name = "N|N,N,..|none", value_parser = shard)]
    shard: Option<Shard>,
    /// Compress chunks: zstd:3, blosc:lz4:5, gzip, or none; can be repeated
    #[arg(long, value_name = "CODEC", default_value = "zstd:3")]
    codec: Vec<String>,
    /// Read the edges of a graph or a skeleton from this CSV file, with columns a and b; or the
    /// faces of a mesh, with columns a, b and c
    #[arg(long, value_name = "FILE")]
    edges: Option<PathBuf>,
    /// Take these columns of INPUT for attributes of objects: the same in all rows of an object
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    object_columns: Vec<String>,
    /// Read attributes of objects from this table: a column object_id, a row per object in any
    /// order, and a column per attribute
    #[arg(long, value_name = "FILE")]
    object_attributes: Option<PathBuf>,
    /// Read groups of objects from this table, with columns group (numbers from 0 on) and
    /// object_id
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Store coordinates as this type: float32, float64, int32, ... [default: as in the file;
    /// float64 if it is text]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// Keep rows that memory has no room for in this folder while they are sorted
    #[arg(long, value_name = "FOLDER", help_heading = "Job")]
    spool: Option<PathBuf>,
    /// Replace an existing data set at the target
    #[arg(long)]
    overwrite: bool,
    /// Write only part I of N, so that N processes can share the work, in any order. Each reads all
    /// rows, and sorts those of its shards. The last one finishes the store; `finish` only finishes
    /// it
    #[arg(long, value_name = "I/N|finish", help_heading = "Job")]
    part: Option<Part>,
    /// Take over from another process, if it cannot be determined here whether it is still running
    #[arg(long, help_heading = "Job")]
    take_over: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// What rows form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Points that nothing joins
    Points,
    /// Objects of two points each
    Lines,
    /// Paths
    Polylines,
    /// Paths that follow a field, such as fibre tracts
    Streamlines,
    /// Vertices and edges
    Graph,
    /// Trees
    Skeleton,
    /// Vertices and triangles
    Mesh,
}

impl Kind {
    fn geometry(self) -> GeometryKind {
        match self {
            Self::Points => GeometryKind::Points,
            Self::Lines => GeometryKind::Lines,
            Self::Polylines => GeometryKind::Polylines,
            Self::Streamlines => GeometryKind::Streamlines,
            Self::Graph => GeometryKind::Graph,
            Self::Skeleton => GeometryKind::Skeletons,
            Self::Mesh => GeometryKind::Mesh,
        }
    }
}

/// Lengths along axes: one for all, or one for each.
#[derive(Debug, Clone)]
struct Lengths(Vec<f64>);

impl Lengths {
    fn of(&self, rank: usize) -> Vec<f64> {
        match &*self.0 {
            [all] => vec![*all; rank],
            each => each.to_vec(),
        }
    }
}

fn lengths(text: &str) -> Result<Lengths, String> {
    let parse = |part: &str| match part.trim().parse::<f64>() {
        Ok(length) if length.is_finite() && length > 0.0 => Ok(length),
        _ => Err(format!("\"{part}\" is not a length above 0")),
    };
    text.split(',').map(parse).collect::<Result<_, _>>().map(Lengths)
}

/// Chunks along each axis of a shard; `None` for none.
#[derive(Debug, Clone)]
struct Shard(Option<Vec<u64>>);

fn shard(text: &str) -> Result<Shard, String> {
    if text == "none" {
        return Ok(Shard(None));
    }
    match units::parse_shape(text) {
        Ok(counts) if !counts.is_empty() && !counts.contains(&0) => Ok(Shard(Some(counts))),
        _ => Err("expected a number from 1 on, one for each axis, or none".to_owned()),
    }
}

pub fn run(args: &Write, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    let location = machine.location(&args.target)?;
    let (mut source, mut inputs) = open(args)?;
    let mut table = |path: &Option<PathBuf>, keys: &[&str]| match path {
        Some(path) => open_table(path, keys, &mut inputs).map(Some),
        None => Ok(None),
    };
    let mut attributes = table(&args.object_attributes, &[OBJECT_ID])?;
    let mut groups = table(&args.groups, &[GROUP, OBJECT_ID])?;
    let rank = source.schema().axes.len();
    let (engine, memory) = machine.engine_and_rows()?;
    let mut options = WriteVectorsOptions::new(&args.chunk.of(rank)).memory(memory);
    options.bin = args.bin.as_ref().map(|bin| bin.of(rank));
    options.shard = args.shard.as_ref().and_then(|shard| shard.0.clone());
    options.codec = Some(CodecChoice::Words(args.codec.clone()));
    options.object_columns = args.object_columns.clone();
    options.spool = args.spool.clone();
    options.overwrite = args.overwrite;
    options.take_over = args.take_over;
    options.part = args.part;
    let progress = Progress::things("writing", 0);
    let context = progress.context(&engine);
    let mut tables = ObjectTables::default();
    if let Some(attributes) = &mut attributes {
        tables = tables.attributes(attributes);
    }
    if let Some(groups) = &mut groups {
        tables = tables.groups(groups);
    }
    let result = write_vectors_with(&context, &mut *source, tables, &inputs, &location, &options);
    progress.finish();
    let report = result?;
    consolidate::renew_above(&location);
    tell(args, &report, start.elapsed().as_secs_f64())
}

type Opened = (Box<dyn GeometrySource + Send>, Vec<FoundFile>);

/// Opens the input, with its edges.
fn open(args: &Write) -> Result<Opened, Failure> {
    let path = &args.input;
    let format = format_of(path, ".csv, .parquet, .arrow, .npy, .obj, .ply or .swc")?;
    let mut options = ReadOptions::new(args.kind.geometry());
    if let Some(name) = &args.dtype {
        options = options.coordinate(coordinate(name)?.arrow());
    }
    let input = path.clone();
    let source = FileRows::open(format, &options, move || File::open(&input));
    let source = source.map_err(|error| unreadable(path, error))?;
    let mut inputs = vec![FoundFile::of(path).map_err(shardine::Error::from)?];
    let Some(edges) = &args.edges else { return Ok((Box::new(source), inputs)) };
    let file = File::open(edges).map_err(|error| unreadable(edges, error.into()))?;
    inputs.push(FoundFile::of(edges).map_err(shardine::Error::from)?);
    let reader = EdgeReader::open(file, args.kind.geometry(), options.batch_rows);
    let reader = reader.map_err(|error| unreadable(edges, error))?;
    let joined = WithEdges::new(source, reader).map_err(|error| unreadable(edges, error))?;
    Ok((Box::new(joined), inputs))
}

/// What a file is, by its name.
fn format_of(path: &Path, endings: &str) -> Result<FileFormat, Failure> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.and_then(FileFormat::of_extension).ok_or_else(|| {
        let message = format!("{}: its name does not say what is in it", path.display());
        Failure::new(message).hint(format!("rename it to end in {endings}"))
    })
}

/// Opens a table whose rows are named by the columns `keys`.
fn open_table(
    path: &Path,
    keys: &[&str],
    inputs: &mut Vec<FoundFile>,
) -> Result<Box<dyn TableSource + Send>, Failure> {
    let format = format_of(path, ".csv, .parquet or .arrow")?;
    let file = File::open(path).map_err(|error| unreadable(path, error.into()))?;
    inputs.push(FoundFile::of(path).map_err(shardine::Error::from)?);
    format.open_table(file, keys).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: GeometryError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// The type of coordinates that a name stands for.
fn coordinate(name: &str) -> Result<Scalar, Failure> {
    let wrong = || Failure::new(format!("--dtype {name}: is not a type of coordinates"));
    Scalar::parse(name).ok_or_else(|| wrong().hint("use float32, float64, or an integer type"))
}

fn tell(args: &Write, report: &WriteVectorsReport, seconds: f64) -> Result<(), Failure> {
    let mut out = said::out(args.json);
    if args.json {
        let mut members = report.to_json();
        members.insert("part".to_owned(), json!(args.part.map(|part| part.to_string())));
        members.insert("parts_missing".to_owned(), json!(report.outcome.missing()));
        members.insert("seconds".to_owned(), json!(seconds));
        writeln!(out, "{}", Value::Object(members))?;
        return Ok(());
    }
    if let Some(waiting) = waiting(args.part, &report.outcome) {
        writeln!(out, "{}: {waiting}", args.target)?;
        return Ok(());
    }
    let objects = match report.objects {
        Some(objects) => format!(" of {}", units::count(objects, "object")),
        None => String::new(),
    };
    let kept = match report.resumed {
        true => format!(", {} already there", units::count(report.objects_kept, "object")),
        false => String::new(),
    };
    writeln!(
        out,
        "made {}: {} ({}){objects} in {}; {} written{kept}",
        args.target,
        super::vertices(report.vertices),
        report.kind,
        units::count(report.chunks, "chunk"),
        units::size(report.written.bytes_written),
    )?;
    if report.sparse_ids && matches!(args.kind, Kind::Lines | Kind::Polylines | Kind::Streamlines) {
        writeln!(
            out,
            "ids are not 0, 1, 2, ..: zarr-vectors finds such objects only if asked for them by id"
        )?;
    }
    Ok(())
}
