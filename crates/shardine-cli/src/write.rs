//! `shardine write`: a region of an array from a file.

use std::fs::File;
use std::io::{self, Read as _, Seek, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use shardine::{
    Array, ElementSize, Location, Region, Source, WriteOptions, WriteOrder, WriteReport,
};

use crate::array_file::{ArrayFile, FileLayout};
use crate::cli::Machine;
use crate::failure::Failure;
use crate::npy::{self, Header};
use crate::progress::Progress;
use crate::raw_variable::{Framing, VariableFile};
use crate::stored_type::{self, Conversion};
use crate::units;

const EXAMPLES: &str = "\
Examples:
  shardine write image.zarr volume.npy
  shardine write image.zarr --region 0:64,:,7:8 part.npy
  shardine write image.zarr --cast float_volume.npy
  generate | shardine write image.zarr -

A .npy file may be in C or Fortran order and of either byte order. Any other file holds the elements alone:
little-endian, in C order; strings joined by NUL, bytes of variable length each behind its length, a
little-endian u32. Regions are as in `shardine read --help`.

Each shard changes at once or not at all: a run that is stopped leaves every shard either old or new.";

/// Write a region of an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Write {
    /// The array
    url: String,
    /// The elements: .npy, or else raw bytes; - is raw bytes from standard input
    file: PathBuf,
    /// Which elements to replace, such as 0:64,:,7:8 [default: all]
    #[arg(long, value_name = "REGION", allow_hyphen_values = true)]
    region: Option<Region>,
    /// Convert numbers of another type. Fractions are cut off; a value that does not fit is an error
    #[arg(long)]
    cast: bool,
    /// The order of chunks in a shard: morton, c, or arrival (as they are ready)
    #[arg(long, value_name = "ORDER", default_value = "morton")]
    order: WriteOrder,
    /// Store chunks that hold nothing but the fill value, too
    #[arg(long)]
    store_empty: bool,
    /// How shards are updated
    #[arg(long, value_enum, default_value_t = Strategy::Auto)]
    strategy: Strategy,
    /// Tell in JSON what was done
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    /// What costs least; in this version always a rewrite
    Auto,
    /// A new shard beside the old one, which then takes its place
    Rewrite,
    #[value(hide = true)]
    InPlace,
    #[value(hide = true)]
    Append,
}

pub fn run(args: &Write, machine: &Machine) -> Result<(), Failure> {
    if matches!(args.strategy, Strategy::InPlace | Strategy::Append) {
        return Err(Failure::new("--strategy: this version rewrites the shards that it updates")
            .hint("leave it out, or give --strategy rewrite"));
    }
    let start = Instant::now();
    let array = Array::open(&machine.engine()?, &Location::parse(&args.url)?)?;
    let region = args.region.clone().unwrap_or_default();
    let shape = region.resolve(array.shape()).map_err(shardine::Error::from)?.shape();
    let source = open(&args.file, &array, &shape, args.cast)?;
    let bytes = match array.data_type().size() {
        ElementSize::Fixed(size) => units::elements(&shape).saturating_mul(size as u64),
        ElementSize::Variable => 0,
    };
    let progress = Progress::bytes("writing", bytes);
    let bar = progress.clone();
    let options = WriteOptions::new()
        .order(args.order)
        .store_empty(args.store_empty)
        .progress(Arc::new(move |done| bar.add(done)));
    let result = array.write_from(&region, &*source, &options);
    progress.finish();
    let report = result?;
    if args.json {
        let mut members = Map::new();
        members.insert("shape".to_owned(), json!(shape));
        members.insert("dtype".to_owned(), array.data_type().to_json());
        members.extend(describe(&report, start.elapsed().as_secs_f64()));
        writeln!(io::stdout(), "{}", Value::Object(members))?;
    }
    Ok(())
}

/// What a write did, as members of a JSON object.
pub fn describe(report: &WriteReport, seconds: f64) -> Map<String, Value> {
    [
        ("objects_written", json!(report.objects_written)),
        ("objects_removed", json!(report.objects_removed)),
        ("chunks_encoded", json!(report.chunks_encoded)),
        ("chunks_kept", json!(report.chunks_kept)),
        ("chunks_empty", json!(report.chunks_empty)),
        ("bytes_written", json!(report.bytes_written)),
        ("seconds", json!(seconds)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// The elements of the region, wherever they come from.
fn open(path: &Path, array: &Array, shape: &[u64], cast: bool) -> Result<Box<dyn Source>, Failure> {
    if path == Path::new("-") {
        return raw(spool()?, "standard input", array, shape, cast);
    }
    let mut file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    let found = file.metadata().map_err(|error| Failure::file(path, &error))?;
    if found.is_dir() {
        return Err(Failure::new(format!("{}: is a folder", path.display())));
    }
    if !found.is_file() {
        // A pipe or a device cannot be read box by box.
        file = copied(&mut file)?;
    }
    let name = path.display().to_string();
    if path.extension().is_some_and(|extension| extension == "npy") {
        return numpy(file, &name, array, shape, cast);
    }
    raw(file, &name, array, shape, cast)
}

/// Standard input in a file without a name, which can be read box by box and is gone with the process.
fn spool() -> Result<File, Failure> {
    copied(&mut io::stdin().lock())
}

fn copied(from: &mut dyn io::Read) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("cannot keep the input in a temporary file: {error}"))
            .hint("TMPDIR names the folder for temporary files")
    };
    let mut file = tempfile::tempfile().map_err(failed)?;
    io::copy(from, &mut file).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(file)
}

fn numpy(
    mut file: File,
    name: &str,
    array: &Array,
    shape: &[u64],
    cast: bool,
) -> Result<Box<dyn Source>, Failure> {
    let header = Header::read(&mut io::BufReader::new(&mut file))
        .map_err(|error| Failure::new(format!("{name}: {error}")))?;
    if header.shape != shape {
        return Err(Failure::new(format!(
            "{name}: has the shape {}, the region {}",
            units::shape(&header.shape),
            units::shape(shape)
        )));
    }
    let data_type = array.data_type();
    let conversion = stored_type::conversion(&header.descr, data_type, cast)
        .map_err(|reason| Failure::new(format!("{name}: {reason}")))?;
    let element = match (conversion, data_type.size()) {
        (Conversion::Cast(cast), _) => cast.from.bytes(),
        (_, ElementSize::Fixed(size)) => size,
        (_, ElementSize::Variable) => 0,
    };
    let expected = units::elements(shape)
        .checked_mul(element as u64)
        .and_then(|bytes| bytes.checked_add(header.data_start));
    check_length(&file, name, expected, None)?;
    let layout =
        FileLayout { data_start: header.data_start, shape, fortran: header.fortran, conversion };
    fixed(file, name, layout, array)
}

fn raw(
    file: File,
    name: &str,
    array: &Array,
    shape: &[u64],
    cast: bool,
) -> Result<Box<dyn Source>, Failure> {
    if cast {
        return Err(Failure::new(format!(
            "{name}: raw bytes do not tell their type, so --cast cannot convert them"
        ))
        .hint("give a .npy file, or leave --cast out"));
    }
    let ElementSize::Fixed(size) = array.data_type().size() else {
        let framing = Framing::of(array.data_type());
        return VariableFile::new(file, framing, shape)
            .map(|file| Box::new(file) as Box<dyn Source>)
            .map_err(|reason| Failure::new(format!("{name}: {reason}")));
    };
    let expected = units::elements(shape).checked_mul(size as u64);
    check_length(&file, name, expected, Some((shape, array)))?;
    let layout = FileLayout { data_start: 0, shape, fortran: false, conversion: Conversion::None };
    fixed(file, name, layout, array)
}

fn fixed(
    file: File,
    name: &str,
    layout: FileLayout<'_>,
    array: &Array,
) -> Result<Box<dyn Source>, Failure> {
    match ArrayFile::new(file, layout, array.data_type()) {
        Some(file) => Ok(Box::new(file)),
        None => Err(Failure::new(format!(
            "{name}: {} elements of {} are not in a file",
            units::shape(layout.shape),
            array.data_type().name()
        ))),
    }
}

/// Refuses a file that does not have exactly the bytes that are due.
fn check_length(
    mut file: &File,
    name: &str,
    expected: Option<u64>,
    raw: Option<(&[u64], &Array)>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("{name}: {error}"));
    let actual = file.metadata().map_err(failed)?.len();
    if expected == Some(actual) {
        return Ok(());
    }
    let expected = expected.map_or("more than 2^64".to_owned(), |bytes| bytes.to_string());
    let Some((shape, array)) = raw else {
        return Err(Failure::new(format!(
            "{name}: has {actual} bytes, its header says {expected}"
        )));
    };
    let (shape, data_type) = (units::shape(shape), array.data_type().name());
    let failure = Failure::new(format!(
        "{name}: has {actual} bytes, the region ({shape} of {data_type}) {expected}"
    ));
    let mut beginning = [0; 8];
    file.rewind().map_err(failed)?;
    if file.read_exact(&mut beginning).is_ok() && npy::is_npy(&beginning) {
        return Err(failure
            .hint("it begins like a .npy file; only names that end in .npy are read as such"));
    }
    Err(failure)
}
