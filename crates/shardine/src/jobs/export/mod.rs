//! Exports regions of arrays as files of elements: `.npy`, or raw bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use super::span::job_span;
use super::{JobContext, JobProgress};
use crate::files::{
    FileError, Framing, Header, Order, OutputFile, Slab, Writer, cut_into_slabs, elements,
    npy_descr,
};
use crate::{Array, Axis, ElementSize, Elements, Error, Region};

/// The bytes assumed for an element of variable length when memory is planned.
const VARIABLE: u64 = 64;

/// How to export a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Write a `.npy` header before the elements.
    pub npy: bool,
    /// Memory for elements, in bytes. With less than a row of chunks needs, some are decoded more
    /// than once.
    pub memory: u64,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self { npy: false, memory: 256 << 20 }
    }
}

impl ExportOptions {
    /// Raw bytes, through a buffer of 256 MiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to write a `.npy` file.
    pub fn npy(mut self, npy: bool) -> Self {
        self.npy = npy;
        self
    }

    /// Sets the size of the buffer in bytes.
    pub fn memory(mut self, memory: u64) -> Self {
        self.memory = memory;
        self
    }
}

/// Writes a region of an array to a file; returns the length of the file.
///
/// Elements are little-endian and in C order. Strings are joined by NUL, and bytes of variable
/// length are prefixed with their length, a little-endian u32. The caller gives the file its name
/// with [`OutputFile::finish`]; until then, and if this fails or is cancelled, an existing file of
/// that name stays.
///
/// Decodes each chunk once as far as [`ExportOptions::memory`] allows; reads the region part by
/// part.
///
/// ```
/// use shardine::files::{IfExists, OutputFile};
/// use shardine::jobs::{ExportOptions, export_to_file};
/// use shardine::{Array, Engine, Location, Region};
///
/// let (engine, folder) = (Engine::shared()?, tempfile::tempdir()?);
/// let array = Array::builder([4], "uint8").fill(7).create(Location::memory())?;
/// let output = OutputFile::create(&folder.path().join("a.npy"), IfExists::Refuse)?;
/// export_to_file(&engine, &array, &Region::all(), &output, &ExportOptions::new().npy(true))?;
/// output.finish()?;
/// assert!(std::fs::read(folder.path().join("a.npy"))?.ends_with(&[7, 7, 7, 7]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn export_to_file(
    context: impl Into<JobContext>,
    array: &Array,
    region: &Region,
    output: &OutputFile,
    options: &ExportOptions,
) -> Result<u64, Error> {
    let _span = job_span("export_to_file", array.location());
    let context = context.into();
    let export = Export::new(&context, array, region, options)?;
    let head = export.head()?;
    let name = output.path().display().to_string();
    let failed = |source| FileError::Io { name: name.clone(), source };
    let bytes = match array.data_type().size() {
        ElementSize::Variable => export.stream_variable(&mut output.file(), &failed)?,
        ElementSize::Fixed(size) => {
            output.file().write_all_at(&head, 0).map_err(&failed)?;
            export.fill(output.file(), head.len() as u64, size as u64, &failed)?
        }
    };
    Ok(head.len() as u64 + bytes)
}

/// The same to a stream, from the first element to the last; returns the number of bytes written.
///
/// An error of the stream is [`FileError::Stream`].
pub fn export_to_stream(
    context: impl Into<JobContext>,
    array: &Array,
    region: &Region,
    out: &mut dyn Write,
    options: &ExportOptions,
) -> Result<u64, Error> {
    let _span = job_span("export_to_stream", array.location());
    let context = context.into();
    let export = Export::new(&context, array, region, options)?;
    let head = export.head()?;
    let failed = |source| FileError::Stream { source };
    out.write_all(&head).map_err(failed)?;
    let bytes = match array.data_type().size() {
        ElementSize::Variable => export.stream_variable(out, &failed)?,
        ElementSize::Fixed(size) => export.stream(out, size as u64, &failed)?,
    };
    Ok(head.len() as u64 + bytes)
}

/// Adds the name of the output to an error.
type Failed<'a> = &'a dyn Fn(io::Error) -> FileError;

/// What is read.
struct Export<'a> {
    context: &'a JobContext,
    array: &'a Array,
    axes: Vec<Axis>,
    shape: Vec<u64>,
    options: &'a ExportOptions,
}

impl<'a> Export<'a> {
    fn new(
        context: &'a JobContext,
        array: &'a Array,
        region: &Region,
        options: &'a ExportOptions,
    ) -> Result<Self, Error> {
        let selection = region.resolve(array.shape())?;
        let (shape, axes) = (selection.shape(), selection.axes.to_vec());
        Ok(Self { context, array, axes, shape, options })
    }

    /// The header before the elements; empty for raw ones.
    fn head(&self) -> Result<Vec<u8>, FileError> {
        if !self.options.npy {
            return Ok(Vec::new());
        }
        let data_type = self.array.data_type();
        match npy_descr(data_type) {
            Some((descr, _)) => Ok(Header::bytes(&descr, &self.shape)),
            None => Err(FileError::VariableInNpy { data_type: data_type.name().to_string() }),
        }
    }

    fn slabs(&self, element: u64, order: Order) -> impl Iterator<Item = Slab> {
        let (chunk, shard) = (self.array.chunk_shape(), self.array.shard_shape());
        cut_into_slabs(&self.axes, chunk, shard, element, self.options.memory, order)
    }

    /// Writes each part of the region to its place in a file of fixed-size elements.
    fn fill(&self, file: &File, start: u64, size: u64, failed: Failed<'_>) -> Result<u64, Error> {
        let total = self.total(size)?;
        let (mut buffer, mut done) = (Vec::new(), 0);
        for slab in self.slabs(size, Order::Any) {
            self.read(&slab, size, &mut buffer)?;
            for (offset, bytes) in runs(&slab, &self.shape, size, &buffer) {
                file.write_all_at(bytes, start + offset).map_err(failed)?;
            }
            done += buffer.len() as u64;
            self.report(done, total);
        }
        Ok(total)
    }

    /// Writes the region from its first element to its last.
    fn stream(&self, out: &mut dyn Write, size: u64, failed: Failed<'_>) -> Result<u64, Error> {
        let total = self.total(size)?;
        let (mut buffer, mut done) = (Vec::new(), 0);
        for slab in self.slabs(size, Order::Sequential) {
            self.read(&slab, size, &mut buffer)?;
            out.write_all(&buffer).map_err(failed)?;
            done += buffer.len() as u64;
            self.report(done, total);
        }
        out.flush().map_err(failed)?;
        Ok(total)
    }

    fn stream_variable(&self, out: &mut dyn Write, failed: Failed<'_>) -> Result<u64, Error> {
        let counted = Counted { out: BufWriter::new(out), bytes: 0 };
        let mut writer = Writer::new(counted, Framing::of(self.array.data_type()));
        let (total, mut done) = (elements(&self.shape), 0);
        for slab in self.slabs(VARIABLE, Order::Sequential) {
            self.context.check()?;
            if let Elements::Variable(elements) =
                self.array.read_elements(slab.region(&self.axes))?
            {
                writer.add(&elements, failed)?;
                done += elements.len() as u64;
                self.context.report(JobProgress::steps("", done, total));
            }
        }
        let mut counted = writer.into_inner();
        counted.flush().map_err(failed)?;
        Ok(counted.bytes)
    }

    fn report(&self, bytes: u64, total_bytes: u64) {
        self.context.report(JobProgress { bytes, total_bytes, ..JobProgress::default() });
    }

    /// The bytes of all elements; an error if no file could hold them.
    fn total(&self, size: u64) -> Result<u64, FileError> {
        let bytes = elements(&self.shape).checked_mul(size);
        let bytes = bytes.filter(|&bytes| i64::try_from(bytes).is_ok());
        bytes.ok_or_else(|| FileError::TooLarge { shape: self.shape.clone() })
    }

    fn read(&self, slab: &Slab, size: u64, buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.context.check()?;
        // At most the memory that may be used, or one element.
        let bytes = elements(&slab.shape).saturating_mul(size);
        let len = usize::try_from(bytes).map_err(|_| FileError::Memory { bytes })?;
        if buffer.capacity() < len {
            // Fresh pages are zero without being touched; growing would copy them.
            *buffer = vec![0; len];
        }
        buffer.resize(len, 0);
        self.array.read_bytes_into(slab.region(&self.axes), buffer)
    }
}

/// Counts the bytes written through it.
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

/// The contiguous runs of a part's bytes, with their positions in the whole.
fn runs<'a>(
    slab: &Slab,
    shape: &[u64],
    size: u64,
    bytes: &'a [u8],
) -> impl Iterator<Item = (u64, &'a [u8])> {
    // Trailing axes that the part covers in full are contiguous, and so are the elements of the one
    // before them.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(start: &[u64], part: &[u64], shape: &[u64]) -> Vec<(u64, usize)> {
        let slab = Slab { start: start.to_vec(), shape: part.to_vec() };
        let bytes = vec![0; 2 * elements(part) as usize];
        runs(&slab, shape, 2, &bytes).map(|(offset, bytes)| (offset, bytes.len())).collect()
    }

    #[test]
    fn what_lies_together_is_written_together() {
        assert_eq!(placed(&[2, 0], &[3, 10], &[8, 10]), [(40, 60)]);
        assert_eq!(placed(&[2, 4], &[2, 3], &[8, 10]), [(48, 6), (68, 6)]);
        assert_eq!(placed(&[1, 2, 0], &[2, 3, 5], &[4, 6, 5]), [(80, 30), (140, 30)]);
        assert_eq!(placed(&[], &[], &[]), [(0, 2)]);
    }
}
