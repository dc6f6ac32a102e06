//! What is asked for, and what was done.

use std::path::PathBuf;

use arrow_schema::Fields;
use serde_json::{Value, json};
use shardine_geometry::{GeometrySchema, GeometrySource};

use super::error::WriteVectorsError;
use crate::files::FoundFile;
use crate::jobs::frame::Part;
use crate::jobs::rebuild::PartOutcome;
use crate::{CodecChoice, CodecSpec, DataType, WriteReport};

/// How geometry is written.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct WriteVectorsOptions {
    /// The edges of a chunk of space.
    pub chunk: Vec<f64>,
    /// The edges of a bin, if chunks are divided into bins.
    pub bin: Option<Vec<f64>>,
    /// How many chunks a shard has along each axis: one number for all axes, or one for each. None
    /// makes an object of each chunk.
    pub shard: Option<Vec<u64>>,
    /// The codecs of chunks. Without any they are not compressed.
    pub codec: Option<CodecChoice>,
    /// The columns of rows that are attributes of objects, each with the same value in all rows of
    /// an object.
    pub object_columns: Vec<String>,
    /// Memory in bytes for rows while they are sorted, beside what the engine uses.
    pub memory: u64,
    /// Where rows are kept that memory has no room for. By default with a target on a disk, and
    /// otherwise where temporary files go.
    pub spool: Option<PathBuf>,
    /// Remove the data set at the target.
    pub overwrite: bool,
    /// Take over from a killed process that was writing the target in an object store.
    pub take_over: bool,
    /// Write only this part; other processes write the others. Each of them reads all rows: twice, if
    /// the source can tell its bounds first ([`GeometrySource::bounds`]), and then it sorts only the
    /// rows of its own shards. Otherwise it reads them once, and sorts all.
    ///
    /// [`GeometrySource::bounds`]: shardine_geometry::GeometrySource::bounds
    pub part: Option<Part>,
}

impl WriteVectorsOptions {
    /// Chunks with these edges, each an object, with 256 MiB of memory for rows.
    pub fn new(chunk: &[f64]) -> Self {
        Self { chunk: chunk.to_vec(), memory: 256 << 20, ..Self::default() }
    }

    /// Divides chunks into bins with these edges.
    pub fn bin(mut self, bin: &[f64]) -> Self {
        self.bin = Some(bin.to_vec());
        self
    }

    /// Packs this many chunks along each axis into a shard.
    pub fn shard(mut self, shard: &[u64]) -> Self {
        self.shard = Some(shard.to_vec());
        self
    }

    /// Sets the codecs of chunks.
    pub fn codec(mut self, codec: CodecChoice) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Takes these columns for attributes of objects.
    pub fn object_columns(mut self, names: &[&str]) -> Self {
        self.object_columns = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Sets the memory for rows.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Writes only this part.
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    /// The columns of a source that are attributes of objects: those that it says, and those that
    /// were asked for.
    pub(super) fn of_objects(
        &self,
        source: &dyn GeometrySource,
    ) -> Result<Vec<String>, WriteVectorsError> {
        let known = &source.schema().vertex_attributes;
        let unknown = |name: &&String| known.find(name).is_none();
        if let Some(name) = self.object_columns.iter().find(unknown) {
            return Err(WriteVectorsError::ObjectColumn { name: name.clone() });
        }
        let own = source.object_columns();
        let more = self.object_columns.iter().filter(|name| !own.contains(name));
        Ok(own.iter().chain(more).cloned().collect())
    }

    /// The shape of a shard in a grid of `rank` axes.
    pub(super) fn shard_shape(&self, rank: usize) -> Result<Option<Vec<u64>>, WriteVectorsError> {
        let Some(shard) = &self.shard else { return Ok(None) };
        let wrong = |reason: String| WriteVectorsError::Shard { shape: shard.clone(), reason };
        let shape = match &**shard {
            [all] => vec![*all; rank],
            each if each.len() == rank => each.to_vec(),
            _ => return Err(wrong(format!("there are {rank} axes"))),
        };
        if shape.contains(&0) {
            return Err(wrong("would be empty".to_owned()));
        }
        let chunks = shape.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
        if chunks.is_none_or(|chunks| chunks > MOST_CHUNKS) {
            return Err(wrong(format!("may have {MOST_CHUNKS} chunks at most")));
        }
        // A shard of one chunk is that chunk.
        Ok((chunks != Some(1)).then_some(shape))
    }

    /// The codecs that follow the one that makes bytes of elements of a type.
    pub(super) fn bytes_codecs(&self) -> Result<Vec<CodecSpec>, WriteVectorsError> {
        let wrong = |reason: String| WriteVectorsError::Codec { reason };
        let Some(choice) = &self.codec else { return Ok(Vec::new()) };
        let data_type = DataType::parse_name("bytes").map_err(|error| wrong(error.to_string()))?;
        let mut codecs = choice.codecs(&data_type).map_err(wrong)?;
        match codecs.first() {
            Some(first) if first.name == "vlen-bytes" => {
                codecs.remove(0);
                Ok(codecs)
            }
            _ => Err(wrong("only codecs of bytes, such as zstd, apply to geometry".to_owned())),
        }
    }

    /// What the marker of a job says is being made.
    pub(super) fn request(
        &self,
        schema: &GeometrySchema,
        tables: Value,
        inputs: &[FoundFile],
    ) -> Value {
        json!({
            "inputs": inputs, "kind": schema.kind.name(), "chunk": self.chunk, "bin": self.bin,
            "shard": self.shard, "codec": self.codec, "tables": tables,
            // The same file may be read in several ways.
            "columns": columns(schema.vertex_columns().fields()),
            "link_columns": columns(&schema.link_attributes), "object_columns": self.object_columns,
        })
    }
}

/// Columns by name and type.
pub(super) fn columns(fields: &Fields) -> Vec<String> {
    fields.iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect()
}

/// The most chunks of a shard: its index, which is read whole, has 16 bytes for each.
const MOST_CHUNKS: u64 = 1 << 20;

/// What was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WriteVectorsReport {
    /// What the vertices form.
    pub kind: &'static str,
    /// How many vertices there are.
    pub vertices: u64,
    /// How many rows this process has sorted and put together: all, or those of its part.
    pub rows_sorted: u64,
    /// How many links are stored, those between the pieces of a path included.
    pub links: u64,
    /// How many objects there are; `None` for points without ids.
    pub objects: Option<u64>,
    /// How many chunks have vertices.
    pub chunks: u64,
    /// How many arrays the store has.
    pub arrays: u64,
    /// The smallest and the largest coordinates.
    pub bounds: [Vec<f64>; 2],
    /// How many chunks a shard has along each axis.
    pub shard: Option<Vec<u64>>,
    /// Whether ids are other than 0, 1, 2 and so on. zarr-vectors finds lines and paths with such
    /// ids only if it is asked for them by id.
    pub sparse_ids: bool,
    /// Whether an earlier run, or another part, had begun.
    pub resumed: bool,
    /// Objects of the store that an earlier run had written.
    pub objects_kept: u64,
    /// What this run has written.
    pub written: WriteReport,
    /// Whether the store is complete.
    pub outcome: PartOutcome,
}
