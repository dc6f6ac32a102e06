//! `shardine read`: a region of an array into a file, or onto the screen.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use shardine::{Array, Axis, DataType, ElementSize, Elements, FillValue, Region, open};

use crate::cli::Machine;
use crate::dataset::Level;
use crate::failure::Failure;
use crate::npy::Header;
use crate::output_file::{OutputFile, check_free, is_device};
use crate::progress::Progress;
use crate::raw_variable::{Framing, Writer};
use crate::slabs::{self, Order, Slab};
use crate::{stored_type, units};

const EXAMPLES: &str = "\
Examples:
  shardine read image.zarr -o image.npy
  shardine read image.zarr --region 0:64,:,7:8 -o part.npy
  shardine read image.zarr --region=-1 -o - | sha256sum
  shardine read image.zarr --region 10,20,0:8

A region has one item per axis, start:stop:step or an integer; missing axes are whole, and `...` stands for
as many as are missing. Negative numbers count from the end. A name that ends in .npy makes a .npy file, any
other the elements alone: little-endian, in C order; strings are joined by NUL, and bytes of variable length
have their length before them, a little-endian u32.";

/// Elements that are shown on the screen, at most.
const SHOWN: u64 = 1000;

/// Bytes that an element of variable length is taken to have when memory is planned.
const VARIABLE: u64 = 64;

/// Read a region of an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Read {
    /// The array
    url: String,
    /// Which elements, such as 0:64,:,7:8 [default: all]
    #[arg(long, value_name = "REGION", allow_hyphen_values = true)]
    region: Option<Region>,
    #[command(flatten)]
    level: Level,
    /// The file to write: .npy, or else raw bytes; - is standard output. Without it few elements are shown
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    overwrite: bool,
    /// Tell in JSON what was read
    #[arg(long)]
    json: bool,
}

impl Read {
    /// The whole of an array into a file.
    pub fn whole(url: &str, output: &Path, overwrite: bool, json: bool) -> Self {
        let (url, output) = (url.to_owned(), Some(output.to_owned()));
        Self { url, region: None, level: Level::default(), output, overwrite, json }
    }
}

/// What is to be read.
struct Job<'a> {
    array: &'a Array,
    axes: Vec<Axis>,
    shape: Vec<u64>,
    /// Bytes that may be used for elements.
    budget: u64,
}

pub fn run(args: &Read, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    if let Some(path) = args.output.as_deref()
        && path != Path::new("-")
        && !is_device(path)?
    {
        check_free(path, args.overwrite)?;
    }
    let (engine, budget) = machine.engine_and_buffer()?;
    let location = machine.location(&args.url)?;
    let array = args.level.of(&*open(&engine, &location)?, &location, None)?;
    let region = args.region.clone().unwrap_or_default();
    let selection = region.resolve(array.shape()).map_err(shardine::Error::from)?;
    let shape = selection.shape();
    let job = Job { array: &array, axes: selection.axes.to_vec(), shape, budget };
    let bytes = match args.output.as_deref() {
        None => return show(&job, &region, args.json),
        Some(path) if path == Path::new("-") => {
            if args.json {
                return Err(Failure::new("--json and -o - both want standard output"));
            }
            job.stream(&mut io::stdout().lock(), &Failure::from)?;
            return Ok(());
        }
        Some(path) => job.file(path, args.overwrite)?,
    };
    if args.json {
        let seconds = start.elapsed().as_secs_f64();
        let report = json!({
            "shape": job.shape,
            "dtype": array.data_type().to_json(),
            "bytes": bytes,
            "seconds": seconds,
        });
        writeln!(io::stdout(), "{report}")?;
    }
    Ok(())
}

impl Job<'_> {
    fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    fn elements(&self) -> u64 {
        units::elements(&self.shape)
    }

    fn plan(&self, element: u64, order: Order) -> slabs::Slabs {
        let (chunk, shard) = (self.array.chunk_shape(), self.array.shard_shape());
        slabs::plan(&self.axes, chunk, shard, element, self.budget, order)
    }

    /// Writes a file; tells how long it is.
    fn file(&self, path: &Path, overwrite: bool) -> Result<u64, Failure> {
        let header = self.npy_header(path)?;
        let failed = |error: io::Error| match error.kind() {
            // A pipe with a name, and nobody at its other end.
            io::ErrorKind::BrokenPipe => Failure::NobodyReads,
            _ => Failure::file(path, &error),
        };
        // Pipes and devices are written to, not replaced.
        if is_device(path)? {
            let mut device = OpenOptions::new().write(true).open(path).map_err(failed)?;
            device.write_all(&header).map_err(failed)?;
            return Ok(header.len() as u64 + self.stream(&mut device, &failed)?);
        }
        let output = OutputFile::create(path, overwrite)?;
        let mut file = output.file();
        let bytes = match self.data_type().size() {
            ElementSize::Variable => self.stream(&mut file, &failed)?,
            ElementSize::Fixed(size) => {
                file.write_all_at(&header, 0).map_err(failed)?;
                self.fill(file, header.len() as u64, size, &failed)?
            }
        };
        output.finish()?;
        Ok(header.len() as u64 + bytes)
    }

    /// The header that the file's name asks for; empty for raw bytes.
    fn npy_header(&self, path: &Path) -> Result<Vec<u8>, Failure> {
        if path.extension().is_none_or(|extension| extension != "npy") {
            return Ok(Vec::new());
        }
        let name = self.data_type().name();
        let Some((descr, view)) = stored_type::npy_descr(self.data_type()) else {
            return Err(Failure::new(format!(
                "a .npy file cannot hold {name}, whose elements vary in length"
            ))
            .hint("give the output another name, such as out.raw, to get raw bytes"));
        };
        if view {
            eprintln!(
                "note: numpy has no {name}; the file holds it as {descr}, one for each element"
            );
        }
        Ok(Header::bytes(&descr, &self.shape))
    }

    /// Writes each part of the region to its place in a file of fixed-size elements.
    fn fill(
        &self,
        file: &File,
        data_start: u64,
        size: usize,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Result<u64, Failure> {
        let size = size as u64;
        let total = self.total(size)?;
        let progress = Progress::bytes("reading", total);
        let mut buffer = Vec::new();
        for slab in self.plan(size, Order::Any) {
            self.read(&slab, size, &mut buffer)?;
            for (offset, bytes) in runs(&slab, &self.shape, size, &buffer) {
                file.write_all_at(bytes, data_start + offset).map_err(failed)?;
            }
            progress.add(buffer.len() as u64);
        }
        progress.finish();
        Ok(total)
    }

    /// Writes the region to a stream, from its first element to its last; tells how many bytes that were.
    fn stream(
        &self,
        out: &mut dyn Write,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Result<u64, Failure> {
        let size = match self.data_type().size() {
            ElementSize::Fixed(size) => size as u64,
            ElementSize::Variable => return self.stream_variable(out, failed),
        };
        let total = self.total(size)?;
        let progress = Progress::bytes("reading", total);
        let mut buffer = Vec::new();
        for slab in self.plan(size, Order::Sequential) {
            self.read(&slab, size, &mut buffer)?;
            out.write_all(&buffer).map_err(failed)?;
            progress.add(buffer.len() as u64);
        }
        out.flush().map_err(failed)?;
        progress.finish();
        Ok(total)
    }

    fn stream_variable(
        &self,
        out: &mut dyn Write,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Result<u64, Failure> {
        let progress = Progress::things("reading", self.elements());
        let counted = Counted { out: BufWriter::new(out), bytes: 0 };
        let mut writer = Writer::new(counted, Framing::of(self.data_type()));
        for slab in self.plan(VARIABLE, Order::Sequential) {
            if let Elements::Variable(elements) = self.array.read(&slab.region(&self.axes))? {
                writer.add(&elements, failed)?;
                progress.add(elements.len() as u64);
            }
        }
        let mut counted = writer.into_inner();
        counted.flush().map_err(failed)?;
        progress.finish();
        Ok(counted.bytes)
    }

    /// Bytes of all elements; an error if no file could hold them.
    fn total(&self, size: u64) -> Result<u64, Failure> {
        let bytes = self.elements().checked_mul(size).filter(|&n| i64::try_from(n).is_ok());
        bytes.ok_or_else(|| {
            let shape = units::shape(&self.shape);
            Failure::new(format!("a region of {shape} elements is larger than a file can be"))
        })
    }

    fn read(&self, slab: &Slab, size: u64, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        // At most the budget, or one element.
        let len = usize::try_from(units::elements(&slab.shape).saturating_mul(size));
        let len = len.map_err(|_| Failure::new("--memory is larger than memory can be"))?;
        if buffer.capacity() < len {
            // Fresh pages are zero without being touched; growing would copy them.
            *buffer = vec![0; len];
        }
        buffer.resize(len, 0);
        Ok(self.array.read_into(&slab.region(&self.axes), buffer)?)
    }
}

/// Counts what goes through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The bytes of a part that are neighbours in the whole, with their place in it.
fn runs<'a>(
    slab: &Slab,
    shape: &[u64],
    size: u64,
    bytes: &'a [u8],
) -> impl Iterator<Item = (u64, &'a [u8])> {
    // Trailing axes that the part has in full lie together, and so do the elements of the one before them.
    let mut inner = shape.len();
    let mut run = size;
    while inner > 0 {
        inner -= 1;
        run *= slab.shape[inner];
        if slab.shape[inner] != shape[inner] {
            break;
        }
    }
    let (start, part, shape) = (slab.start.clone(), slab.shape.clone(), shape.to_vec());
    bytes.chunks_exact((run as usize).max(1)).enumerate().map(move |(i, bytes)| {
        let mut i = i as u64;
        let (mut offset, mut stride) = (0, size);
        for k in (0..shape.len()).rev() {
            let mut at = start[k];
            if k < inner {
                at += i % part[k];
                i /= part[k];
            }
            offset += at * stride;
            stride *= shape[k];
        }
        (offset, bytes)
    })
}

/// Shows the elements of a small region.
fn show(job: &Job<'_>, region: &Region, as_json: bool) -> Result<(), Failure> {
    let count = job.elements();
    if count > SHOWN {
        let shape = units::shape(&job.shape);
        return Err(Failure::new(format!("{shape} elements are too many to show"))
            .hint("give a smaller --region, or -o FILE"));
    }
    let data_type = job.data_type();
    let elements = job.array.read(region)?;
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

/// A line for each row of the last axis, a blank line between planes.
fn write_rows(out: &mut dyn Write, words: &[String], shape: &[u64]) -> io::Result<()> {
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

    fn placed(start: &[u64], part: &[u64], shape: &[u64]) -> Vec<(u64, usize)> {
        let slab = Slab { start: start.to_vec(), shape: part.to_vec() };
        let bytes = vec![0; 2 * units::elements(part) as usize];
        runs(&slab, shape, 2, &bytes).map(|(offset, bytes)| (offset, bytes.len())).collect()
    }

    #[test]
    fn what_lies_together_is_written_together() {
        assert_eq!(placed(&[2, 0], &[3, 10], &[8, 10]), [(40, 60)]);
        assert_eq!(placed(&[2, 4], &[2, 3], &[8, 10]), [(48, 6), (68, 6)]);
        assert_eq!(placed(&[1, 2, 0], &[2, 3, 5], &[4, 6, 5]), [(80, 30), (140, 30)]);
        assert_eq!(placed(&[], &[], &[]), [(0, 2)]);
    }

    #[test]
    fn planes_are_told_apart() {
        let words: Vec<String> = (0..8).map(|i| i.to_string()).collect();
        let mut out = Vec::new();
        write_rows(&mut out, &words, &[2, 2, 2]).unwrap();
        assert_eq!(out, b"0 1\n2 3\n\n4 5\n6 7\n");
        let mut out = Vec::new();
        write_rows(&mut out, &words, &[4, 2]).unwrap();
        assert_eq!(out, b"0 1\n2 3\n4 5\n6 7\n");
    }
}
