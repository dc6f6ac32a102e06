//! Imports a file of elements into a new array.

mod cells;
mod error;
mod fill;
mod target;
mod to_ome;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shardine_store::{FileStore, Folders, MemoryStore};

use super::JobContext;
use super::frame::{JobError, Part, PartEnd, remove_leftovers_below};
use super::rebuild::PartOutcome;
use super::span::job_span;
use super::watched::Watched;
use crate::files::{FileError, Input, InputOptions, type_of_npy};
use crate::plan::{ArrayLayout, chunk_grid, chunks_per_shard_for, sample_of_source};
use crate::zarr::metadata::ArrayMetadata;
use crate::{ArrayNode, DataType, Error, Location, Packing, WriteReport};

pub use error::ImportError;
use fill::fill;
pub(super) use fill::{FileOfElements, counting};
use target::Begun;
pub(super) use target::{STREAM, refused};
pub use to_ome::import_to_ome;

/// How to import a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The shape of raw bytes; a `.npy` file has its own.
    pub shape: Option<Vec<u64>>,
    /// The type of raw bytes; for a `.npy` file, the type its elements are converted to.
    pub data_type: Option<DataType>,
    /// Convert numbers of another type. Fractions are truncated; a value that does not fit is an
    /// error.
    pub cast: bool,
    /// How the array is stored. [`Packing::TargetSize`] is based on the encoded size of some chunks
    /// of the file.
    pub layout: ArrayLayout,
    /// Memory in bytes for what is read along with a chunk and needed for its neighbours.
    pub memory: u64,
    /// Remove the array at the target.
    pub overwrite: bool,
    /// Take over from a killed process that was writing the target in an object store.
    pub take_over: bool,
    /// Make only this part of the array; other processes make the others. Not for a stream.
    pub part: Option<Part>,
}

impl ImportOptions {
    /// A `.npy` file as it is, into an array that does not exist yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raw bytes of this shape and type.
    pub fn raw(mut self, shape: &[u64], data_type: DataType) -> Self {
        self.shape = Some(shape.to_vec());
        self.data_type = Some(data_type);
        self
    }

    /// Sets how the array is stored.
    pub fn layout(mut self, layout: ArrayLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets whether numbers are converted.
    pub fn cast(mut self, cast: bool) -> Self {
        self.cast = cast;
        self
    }

    /// Sets the memory for what lies beside a chunk in the file.
    pub fn memory(mut self, memory: u64) -> Self {
        self.memory = memory;
        self
    }

    /// Sets whether the array at the target is removed first.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }
}

/// What an import has done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImportReport {
    /// The shape of the array.
    pub shape: Vec<u64>,
    /// The type of the elements.
    pub data_type: DataType,
    /// The shape of its chunks.
    pub chunk_shape: Vec<u64>,
    /// The shape of its shards, if it has shards.
    pub shard_shape: Option<Vec<u64>>,
    /// Whether this run resumed an earlier one.
    pub resumed: bool,
    /// Objects an earlier run had written.
    pub objects_kept: u64,
    /// What this run has written.
    pub written: WriteReport,
    /// The state of the array, if it is made in parts.
    pub outcome: PartOutcome,
}

/// Makes a new array from a file of elements.
///
/// The same call resumes a job that was stopped: existing objects are kept. Meanwhile
/// [`CONVERT_MARKER`](crate::zarr::CONVERT_MARKER) says what is under way, and a call that would
/// make something else is refused, as is a second process that makes the same. A stream is copied
/// to a temporary file when it is opened and cannot be resumed.
///
/// Reads the file piece by piece and each element once, as far as [`ImportOptions::memory`] allows;
/// other memory is the chunks in flight.
///
/// ```
/// use shardine::files::Input;
/// use shardine::jobs::{ImportOptions, import};
/// use shardine::{DataType, Engine, Location};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("six.raw");
/// std::fs::write(&path, [1, 2, 3, 4, 5, 6])?;
/// let target = Location::parse(folder.path().join("six.zarr").to_str().ok_or("not UTF-8")?)?;
/// let options = ImportOptions::new().raw(&[2, 3], DataType::parse_name("uint8")?);
/// let report = import(&Engine::shared()?, Input::open(&path)?, &target, &options)?;
/// assert_eq!((report.shape, report.written.objects_written), (vec![2, 3], 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn import(
    context: impl Into<JobContext>,
    input: Input,
    target: &Location,
    options: &ImportOptions,
) -> Result<ImportReport, Error> {
    let _span = job_span("import", target);
    let context = context.into();
    let engine = context.engine();
    if let (Some(folders), Some(path)) = (target.store.folders(), input.path()) {
        refuse_inside(folders, path, target)?;
    }
    let (shape, data_type) = described(options, &input)?;
    let found = input.found()?;
    let metadata = packed(&context, options, &shape, &data_type, &input)?;
    // The array determines how the file is read, but must not exist before everything is known to
    // be valid.
    let unseen = in_memory(&context, metadata.clone())?;
    let with = InputOptions::new().cast(options.cast).memory(options.memory);
    let source = input.source(&unseen, &shape, &with)?;
    drop(unseen);
    if options.part.is_some() {
        check_parts(options, found.is_some())?;
    }
    let mut marker =
        target::marker(found.as_ref(), options.cast, &metadata)?.begun_by(context.begun_by());
    let begun = target::begin(&mut marker, engine, target, metadata, options)?;
    let (mut array, resumed, exists) = match begun {
        Begun::Fresh(array) => (array, false, false),
        Begun::Resumed(array) => (array, true, false),
        Begun::Exists(array) => (array, true, true),
    };
    let mut report = ImportReport {
        shape,
        data_type,
        chunk_shape: array.chunk_shape().to_vec(),
        shard_shape: array.shard_shape().map(<[u64]>::to_vec),
        resumed,
        objects_kept: 0,
        written: WriteReport::default(),
        outcome: PartOutcome::Complete,
    };
    if exists {
        report.outcome = PartOutcome::AlreadyThere;
        return Ok(report);
    }
    if marker.is_finishing() {
        marker.end(target)?;
        return Ok(report);
    }
    // Other parts may be at work, and the last one removes what is left.
    if resumed && options.part.is_none() {
        // What a run that was killed was writing may be what fills the disk.
        remove_leftovers_below(target)?;
    }
    if let Some(part) = options.part {
        // This part runs again, and until it is done the import must not be finished.
        marker.remove_report(target, part)?;
    }
    (report.written, report.objects_kept) =
        fill(&context, &array, &*source, resumed, options.part)?;
    if let Some(part) = options.part {
        match marker.end_part(target, part, &Value::Null)? {
            PartEnd::Last(_) => array.publish()?,
            PartEnd::Finished => return Ok(report),
            PartEnd::Waiting(missing) => {
                report.outcome = PartOutcome::Waiting { missing };
                return Ok(report);
            }
        }
    }
    marker.end(target)?;
    Ok(report)
}

/// Refuses options that processes cannot share.
fn check_parts(options: &ImportOptions, is_file: bool) -> Result<(), JobError> {
    let (option, reason) = if !is_file {
        ("a stream", "only one process can read it")
    } else if options.overwrite {
        ("--overwrite", "each part would remove what the others have made")
    } else {
        return Ok(());
    };
    Err(JobError::NotInParts { option, reason })
}

/// Refuses a file in the folder that is to become an array: what is there is removed.
fn refuse_inside(target: &dyn Folders, source: &Path, at: &Location) -> Result<(), Error> {
    let resolved = source.canonicalize().map_err(FileError::at(source))?;
    let above = FileStore::new(resolved.parent().unwrap_or(&resolved));
    let (above, _) = above.folder_ids(None)?;
    let (target, exists) = target.folder_ids(at.path.as_ref())?;
    if exists && target.first().is_some_and(|target| above.contains(target)) {
        let (name, target) = (source.display().to_string(), at.to_string());
        return Err(ImportError::Inside { name, target }.into());
    }
    Ok(())
}

/// The shape and type of the file's elements.
fn described(options: &ImportOptions, input: &Input) -> Result<(Vec<u64>, DataType), ImportError> {
    let name = || input.name().to_owned();
    let Some(header) = input.header() else {
        return match (&options.shape, &options.data_type) {
            (Some(shape), Some(data_type)) => Ok((shape.clone(), data_type.clone())),
            _ => Err(ImportError::Undescribed { name: name() }),
        };
    };
    if let Some(asked) = options.shape.as_ref().filter(|&shape| *shape != header.shape) {
        let (found, asked) = (header.shape.clone(), asked.clone());
        return Err(ImportError::Shape { name: name(), found, asked });
    }
    let data_type = match &options.data_type {
        Some(data_type) => data_type.clone(),
        None => type_of_npy(&header.descr)
            .ok_or_else(|| ImportError::Type { name: name(), descr: header.descr.to_string() })?,
    };
    Ok((header.shape.clone(), data_type))
}

/// An array in memory that nobody else sees.
fn in_memory(context: &JobContext, metadata: ArrayMetadata) -> Result<ArrayNode, Error> {
    let location = Location::root(Arc::new(MemoryStore::new()));
    ArrayNode::create(context.engine(), &location, metadata)
}

/// The metadata; shards of a target size are based on the encoded size of chunks of the file.
fn packed(
    context: &JobContext,
    options: &ImportOptions,
    shape: &[u64],
    data_type: &DataType,
    input: &Input,
) -> Result<ArrayMetadata, Error> {
    let Packing::TargetSize(target) = options.layout.packing else {
        return Ok(options.layout.metadata(shape, data_type)?);
    };
    let mut layout = ArrayLayout { packing: Packing::Unsharded, ..options.layout.clone() };
    // Index codecs are refused where there are no shards.
    let index_codecs = layout.index_codecs.take();
    let unsharded = layout.metadata(shape, data_type)?;
    let chunk = unsharded.chunk_shape().to_vec();
    let unseen = in_memory(context, unsharded)?;
    let source = input.again()?.source(&unseen, shape, &InputOptions::new().cast(options.cast))?;
    let watched = Watched { source: &*source, context };
    let sample = sample_of_source(&unseen, &watched);
    context.check()?;
    let each = sample?.map_or(0, |sample| sample.mean);
    let counts = chunks_per_shard_for(&chunk_grid(shape, &chunk), each, target);
    layout.packing = Packing::ChunksPerShard(counts);
    layout.chunk = Some(chunk);
    layout.index_codecs = index_codecs;
    Ok(layout.metadata(shape, data_type)?)
}
