//! Tables in Arrow IPC files and streams.

use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::SchemaRef;

use super::messages::Messages;
use super::{guarded, stored_columns, stored_rows};
use crate::files::invalid;
use crate::files::keyed::RawRows;
use crate::files::options::ReadOptions;
use crate::files::table::{Assembler, TableRows};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySink, GeometrySource};

const IPC: &str = "Arrow IPC";

/// What a file begins and ends with. A stream has neither.
const MAGIC: &[u8; 6] = b"ARROW1";

/// The rows of an Arrow IPC file or stream, whatever its columns mean.
pub(in crate::files) struct IpcRows<R>(Messages<BufReader<R>>);

impl<R: Read + Seek> IpcRows<R> {
    /// Reads the header. Returns the columns too.
    pub fn open(mut input: R) -> Result<(Self, SchemaRef), GeometryError> {
        let start = input.stream_position()?;
        let mut beginning = Vec::new();
        (&mut input).take(8).read_to_end(&mut beginning)?;
        let mut data = start;
        if beginning.starts_with(MAGIC) {
            // A file is a stream between two magic words. Without the second it has been cut short,
            // which a stream could not tell.
            let end = input.seek(SeekFrom::End(0))?;
            let mut last = [0; 6];
            if end >= start + 16 {
                input.seek(SeekFrom::Start(end - 6))?;
                input.read_exact(&mut last)?;
            }
            if last != *MAGIC {
                return Err(invalid(IPC, "end", "the file has been cut short"));
            }
            data += 8 + padding(&mut input, start + 8)?;
        }
        let end = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(data))?;
        let input = BufReader::new(input);
        let open = || Messages::open(input, end.saturating_sub(data));
        let (messages, schema) = guarded(IPC, "header", open)?;
        Ok((Self(messages), schema))
    }
}

impl<R: Read> RawRows for IpcRows<R> {
    const FORMAT: &'static str = IPC;

    fn next(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        guarded(IPC, "batch", || self.0.next())
    }
}

/// Reads a table from an Arrow IPC file (Feather, version 2) or stream, uncompressed or compressed
/// with lz4 or zstd.
///
/// A batch of the file is in memory as a whole.
pub struct IpcReader<R> {
    raw: IpcRows<R>,
    rows: TableRows,
}

impl<R: Read + Seek> IpcReader<R> {
    /// Reads the schema.
    pub fn open(input: R, options: &ReadOptions) -> Result<Self, GeometryError> {
        let (raw, columns) = IpcRows::open(input)?;
        let assembler = Assembler::new(IPC, &columns, options)?;
        Ok(Self { raw, rows: TableRows::new(assembler, options.rows()) })
    }
}

/// The zeros between the first magic word and the stream: none by the letter of the format, but
/// the Rust library fills 64 bytes unless told otherwise.
fn padding<R: Read + Seek>(input: &mut R, start: u64) -> Result<u64, GeometryError> {
    input.seek(SeekFrom::Start(start))?;
    let mut words = Vec::new();
    input.take(56).read_to_end(&mut words)?;
    let zeros = words.iter().take_while(|byte| **byte == 0).count();
    Ok((zeros - zeros % 8) as u64)
}

impl<R: Read> GeometrySource for IpcReader<R> {
    fn schema(&self) -> &GeometrySchema {
        &self.rows.assembler.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        let Self { raw, rows } = self;
        rows.next(|| raw.next())
    }

    fn object_columns(&self) -> &[String] {
        &self.rows.assembler.object_columns
    }
}

/// Writes vertices as an Arrow IPC file, without compression. Links are not written.
pub struct IpcWriter<W: Write> {
    output: FileWriter<BufWriter<W>>,
    columns: SchemaRef,
}

impl<W: Write> IpcWriter<W> {
    /// Writes the schema.
    pub fn create(output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        let columns = stored_columns(IPC, schema)?;
        // Buffers that begin at multiples of 8, as most programs write them.
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
        let output = BufWriter::new(output);
        let output = FileWriter::try_new_with_options(output, &columns, options)?;
        Ok(Self { output, columns })
    }
}

impl<W: Write> GeometrySink for IpcWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        if batch.vertices.num_rows() > 0 {
            self.output.write(&stored_rows(&self.columns, &batch.vertices)?)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        self.output.finish()?;
        Ok(self.output.get_mut().flush()?)
    }
}
