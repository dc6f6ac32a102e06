//! `shardine read`: a region of an array into a file, or onto the screen.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use shardine::files::{self, FileError, IfExists, check_free, is_device};
use shardine::jobs::{ExportOptions, export_to_file, export_to_stream};
use shardine::{Array, ElementSize, Elements, Error, FillValue, Location, Region, open_in};

use crate::cli::Machine;
use crate::dataset::Level;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::progress::Progress;
use crate::region::RegionArgs;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine read image.zarr -o image.npy
  shardine read image.zarr --region 0:64,:,7:8 -o part.npy
  shardine read image.zarr --region=-1 -o - | sha256sum
  shardine read image.zarr --region 10,20,0:8
  shardine read image.zarr --region z=10:20,x=5 -o plane.npy
  shardine read volume --region x=5000:5064,z=1200 --offset -o part.npy
  shardine read image.zarr --level 2 --box z=0:20um,y=1.5mm:2mm,c=1 -o part.npy
  shardine read image.zarr --box z=12.4um,y=803.7um,x=99um

A region has one item per axis, start:stop:step or an integer; missing axes are read whole, and
`...` stands for as many axes as are missing. Negative numbers count from the end. Where axes have
names, as shown by `shardine info`, items may be given by name instead, in any order. With --offset,
numbers are coordinates of the data set, which begin at the voxel_offset of a precomputed volume;
negative ones are coordinates too.

A box selects by physical coordinates, in OME-Zarr images and precomputed volumes: the elements
whose centres lie from start up to, but not including, stop. Each axis is named; either end may be
missing. A single number is a position: the element that contains it. Numbers are in the unit of the
axis, or in the one that follows, such as nm, um, mm, ms or s. Along channels and time, numbers
without a unit count elements from 0.

A name that ends in .npy makes a .npy file, any other name a file of the elements alone:
little-endian, in C order; strings are separated by NUL, and variable-length bytes are each preceded
by their length as a little-endian u32.";

/// The most elements that are shown on the screen.
const SHOWN: u64 = 1000;

/// Read an array, or a region of it, to a file or the terminal
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Read {
    /// Path or URL of the array, image or volume
    url: String,
    #[command(flatten)]
    region: RegionArgs,
    #[command(flatten)]
    level: Level,
    /// Write to FILE: .npy, otherwise raw bytes; - is standard output [default: print up to 1000
    /// elements]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    overwrite: bool,
    /// Print the elements, or with -o the report, as JSON
    #[arg(long)]
    json: bool,
}

impl Read {
    /// Reads a whole array into a file.
    pub fn whole(url: &str, output: &Path, overwrite: bool, json: bool) -> Self {
        let (url, output) = (url.to_owned(), Some(output.to_owned()));
        Self {
            url,
            region: RegionArgs::default(),
            level: Level::default(),
            output,
            overwrite,
            json,
        }
    }
}

pub fn run(args: &Read, machine: &Machine) -> Result<(), Failure> {
    run_at(args, &machine.location(&args.url)?, machine)
}

/// The same of a place that has settings of its own.
pub fn run_at(args: &Read, location: &Location, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    if let Some(path) = args.output.as_deref()
        && path != Path::new("-")
        && !is_device(path)?
    {
        check_free(path, IfExists::replaced(args.overwrite))?;
    }
    let (engine, budget) = machine.engine_and_buffer()?;
    let set = open_in(&engine, location)?;
    let array = args.level.of(&*set, location, None)?;
    let region = args.region.of(&*set, args.level)?;
    let shape = region.resolve(array.shape()).map_err(shardine::Error::from)?.shape();
    let job = Job { array: &array, region: &region, shape, budget };
    let bytes = match args.output.as_deref() {
        None => return show(&job, args.json),
        Some(path) if path == Path::new("-") => {
            if args.json {
                return Err(Failure::new("--json and -o - both write to standard output"));
            }
            job.stream(&mut io::stdout().lock(), false, &Failure::from)?;
            return Ok(());
        }
        Some(path) => job.file(path, args.overwrite)?,
    };
    if args.json {
        let seconds = start.elapsed().as_secs_f64();
        let mut report = json!({
            "shape": job.shape,
            "dtype": array.data_type().to_json(),
            "bytes": bytes,
            "seconds": seconds,
        });
        if args.region.is_box() {
            report["region"] = json!(region.to_string());
        }
        writeln!(io::stdout(), "{report}")?;
        return Ok(());
    }
    // A pipe or a device may be the standard output that would be written to.
    if let Some(path) = args.output.as_deref()
        && !is_device(path)?
    {
        let (shape, name) = (units::shape(&job.shape), array.data_type().name());
        let (bytes, file) = (units::size(bytes), path.display());
        let seconds = units::duration(start.elapsed().as_secs_f64());
        writeln!(said::words(), "read {shape} {name} into {file}: {bytes} in {seconds}")?;
    }
    Ok(())
}

/// What is to be read.
struct Job<'a> {
    array: &'a Array,
    region: &'a Region,
    shape: Vec<u64>,
    /// Bytes that may be used for elements.
    budget: u64,
}

impl Job<'_> {
    fn progress(&self) -> Progress {
        match self.array.data_type().size() {
            ElementSize::Fixed(_) => Progress::bytes("reading", 0),
            ElementSize::Variable => Progress::things("reading", 0),
        }
    }

    /// Writes a file; returns its length.
    fn file(&self, path: &Path, overwrite: bool) -> Result<u64, Failure> {
        let npy = files::is_npy(path);
        let data_type = self.array.data_type();
        if npy && let Some((descr, true)) = files::npy_descr(data_type) {
            let name = data_type.name();
            eprintln!("note: numpy has no {name}; the file stores each element as {descr}");
        }
        // Pipes and devices are written to, not replaced.
        if is_device(path)? {
            let failed = |error: io::Error| match error.kind() {
                // A named pipe without a reader.
                io::ErrorKind::BrokenPipe => Failure::NobodyReads,
                _ => Failure::file(path, &error),
            };
            let mut device = OpenOptions::new().write(true).open(path).map_err(failed)?;
            return self.stream(&mut device, npy, &failed);
        }
        let file = Unfinished::create(path, overwrite)?;
        let options = ExportOptions::new().npy(npy).memory(self.budget);
        let progress = self.progress();
        let context = progress.context(self.array.engine());
        let result = export_to_file(&context, self.array, self.region, file.output(), &options);
        progress.finish();
        let bytes = result?;
        file.finish()?;
        Ok(bytes)
    }

    /// Writes the region to a stream, from its first element to its last; returns the number of
    /// bytes.
    fn stream(
        &self,
        out: &mut dyn Write,
        npy: bool,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Result<u64, Failure> {
        let options = ExportOptions::new().npy(npy).memory(self.budget);
        let progress = self.progress();
        let context = progress.context_of_stream(self.array.engine());
        let result = export_to_stream(&context, self.array, self.region, out, &options);
        progress.finish();
        result.map_err(|error| match error {
            Error::File(FileError::Stream { source }) => failed(source),
            error => error.into(),
        })
    }
}

/// Shows the elements of a small region.
fn show(job: &Job<'_>, as_json: bool) -> Result<(), Failure> {
    if units::elements(&job.shape) > SHOWN {
        let shape = units::shape(&job.shape);
        return Err(Failure::new(format!("{shape} elements are too many to show"))
            .hint("use a smaller --region, or -o FILE"));
    }
    let data_type = job.array.data_type();
    let elements = job.array.read_elements(job.region)?;
    let elements: Vec<&[u8]> = match (&elements, data_type.size()) {
        (Elements::Fixed(bytes), ElementSize::Fixed(size)) => bytes.chunks_exact(size).collect(),
        (Elements::Variable(elements), _) => elements.iter().collect(),
        _ => Vec::new(),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if as_json {
        let mut values =
            elements.iter().map(|bytes| data_type.fill_to_json(&FillValue(bytes.to_vec())));
        let values = nested(&job.shape, &mut values);
        let report = json!({ "shape": job.shape, "dtype": data_type.to_json(), "values": values });
        writeln!(out, "{report}")?;
    } else {
        let words: Vec<String> =
            elements.iter().map(|bytes| data_type.format_element(bytes)).collect();
        write_rows(&mut out, &words, &job.shape)?;
    }
    out.flush()?;
    Ok(())
}

fn nested(shape: &[u64], values: &mut dyn Iterator<Item = Value>) -> Value {
    match shape {
        [] => values.next().unwrap_or(Value::Null),
        [n, rest @ ..] => (0..*n).map(|_| nested(rest, values)).collect(),
    }
}

/// A line for each row of the last axis, a blank line between planes. Axes of length 1 do not count.
fn write_rows(out: &mut dyn Write, words: &[String], shape: &[u64]) -> io::Result<()> {
    let shape: Vec<u64> = shape.iter().copied().filter(|&n| n != 1).collect();
    let row = shape.last().copied().unwrap_or(1).max(1) as usize;
    let width = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
    for (i, words) in words.chunks(row).enumerate() {
        let ended = shape.iter().rev().skip(1).scan(1u64, |rows, &n| {
            *rows *= n.max(1);
            Some(*rows)
        });
        if i > 0 && ended.clone().any(|rows| (i as u64).is_multiple_of(rows)) {
            writeln!(out)?;
        }
        let words: Vec<String> = words.iter().map(|word| format!("{word:>width$}")).collect();
        writeln!(out, "{}", words.join(" "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_told_apart() {
        let words: Vec<String> = (0..8).map(|i| i.to_string()).collect();
        let mut out = Vec::new();
        write_rows(&mut out, &words, &[2, 2, 2]).unwrap();
        assert_eq!(out, b"0 1\n2 3\n\n4 5\n6 7\n");
        let mut out = Vec::new();
        write_rows(&mut out, &words, &[4, 2]).unwrap();
        assert_eq!(out, b"0 1\n2 3\n4 5\n6 7\n");
        let mut out = Vec::new();
        write_rows(&mut out, &words, &[8, 1, 1, 1]).unwrap();
        assert_eq!(out, b"0 1 2 3 4 5 6 7\n");
    }
}
