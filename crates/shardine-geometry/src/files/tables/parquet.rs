//! Tables in Parquet files.

use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, Length};

use super::{guarded, stored_columns, stored_rows};
use crate::files::keyed::RawRows;
use crate::files::options::ReadOptions;
use crate::files::table::{Assembler, TableRows};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySink, GeometrySource};

const PARQUET: &str = "Parquet";

/// The rows of a Parquet file, whatever its columns mean.
pub(in crate::files) struct ParquetRows(ParquetRecordBatchReader);

impl ParquetRows {
    /// Gives so many rows at a time. Returns the columns too.
    pub fn open<R: Read + Seek + Send + 'static>(
        input: R,
        batch_rows: usize,
    ) -> Result<(Self, SchemaRef), GeometryError> {
        let input = Shared::new(input)?;
        let builder =
            guarded(PARQUET, "footer", || ParquetRecordBatchReaderBuilder::try_new(input))?;
        let columns = builder.schema().clone();
        let build = || builder.with_batch_size(batch_rows).build();
        Ok((Self(guarded(PARQUET, "footer", build)?), columns))
    }
}

impl RawRows for ParquetRows {
    const FORMAT: &'static str = PARQUET;

    fn next(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        guarded(PARQUET, "row group", || self.0.next().transpose())
    }
}

/// Reads a table from a Parquet file, uncompressed or compressed with snappy, zstd or lz4.
pub struct ParquetReader {
    raw: ParquetRows,
    rows: TableRows,
}

impl ParquetReader {
    /// Reads the footer.
    pub fn open<R: Read + Seek + Send + 'static>(
        input: R,
        options: &ReadOptions,
    ) -> Result<Self, GeometryError> {
        let (raw, columns) = ParquetRows::open(input, options.rows())?;
        let assembler = Assembler::new(PARQUET, &columns, options)?;
        Ok(Self { raw, rows: TableRows::new(assembler, options.rows()) })
    }
}

impl GeometrySource for ParquetReader {
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

/// One input that the readers of several columns share.
struct Shared<R> {
    input: Arc<Mutex<R>>,
    start: u64,
    length: u64,
}

impl<R: Seek> Shared<R> {
    fn new(mut input: R) -> io::Result<Self> {
        let start = input.stream_position()?;
        let end = input.seek(SeekFrom::End(0))?;
        let length = end.saturating_sub(start);
        Ok(Self { input: Arc::new(Mutex::new(input)), start, length })
    }
}

/// Nothing is left half done when a reader panics: each read begins with a seek.
fn lock<R>(input: &Mutex<R>) -> MutexGuard<'_, R> {
    input.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Send> Length for Shared<R> {
    fn len(&self) -> u64 {
        self.length
    }
}

impl<R: Read + Seek + Send> ChunkReader for Shared<R> {
    type T = BufReader<Cursor<R>>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let position = self.start.saturating_add(start);
        Ok(BufReader::new(Cursor { input: self.input.clone(), position }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // Before anything is allocated for it: the length is a number in the file.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            let reason = format!("bytes {start} to {start}+{length} of a file of {}", self.length);
            return Err(ParquetError::EOF(reason));
        }
        let mut bytes = vec![0; length];
        let mut input = lock(&self.input);
        input.seek(SeekFrom::Start(self.start + start))?;
        input.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reads on from a position of its own.
struct Cursor<R> {
    input: Arc<Mutex<R>>,
    position: u64,
}

impl<R: Read + Seek> Read for Cursor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut input = lock(&self.input);
        input.seek(SeekFrom::Start(self.position))?;
        let taken = input.read(buffer)?;
        self.position += taken as u64;
        Ok(taken)
    }
}

/// Writes vertices as a Parquet file, compressed with zstd. Links are not written.
pub struct ParquetWriter<W: Write + Send> {
    output: ArrowWriter<BufWriter<W>>,
    columns: SchemaRef,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins the file.
    pub fn create(output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        let columns = stored_columns(PARQUET, schema)?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_created_by("shardine".to_owned())
            .build();
        let output = BufWriter::new(output);
        let output = ArrowWriter::try_new(output, columns.clone(), Some(properties));
        Ok(Self { output: output.map_err(failed)?, columns })
    }
}

fn failed(error: ParquetError) -> GeometryError {
    GeometryError::Side(Box::new(error))
}

impl<W: Write + Send> GeometrySink for ParquetWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        self.output.write(&stored_rows(&self.columns, &batch.vertices)?).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        self.output.finish().map_err(failed)?;
        Ok(self.output.inner_mut().flush()?)
    }
}
