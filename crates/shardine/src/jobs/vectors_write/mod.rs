//! Writes rows of geometry as a new Zarr Vectors store.

mod arrays;
mod documents;
mod error;
mod options;
mod sources;
mod spool;
mod tables;
mod tasks;

use serde_json::{Map, Value};
use shardine_geometry::zarr_vectors::{
    BuildOptions, Builder, BuiltGroups, BuiltObjects, BuiltStore, ObjectArray,
};
use shardine_geometry::{GeometryError, GeometrySource};
use shardine_store::{Condition, StoreError, StoreExt};

use super::convert::CONVERT;
use super::copy::clear::clear;
use super::frame::{Beginning, JobError, Marker, Part, PartEnd, Start, remove_leftovers_below};
use super::import::{STREAM, refused};
use super::rebuild::PartOutcome;
use super::span::job_span;
use super::{JobContext, JobProgress};
use crate::engine::tuning::{DOCUMENT as DOCUMENT_BYTES, REMOTE_WRITES};
use crate::files::FoundFile;
use crate::owner::Owner;
use crate::source::Source;
use crate::zarr::metadata::GroupMetadata;
use crate::zarr::{CONVERT_MARKER, DOCUMENT};
use crate::{Error, Location};
use sources::{built_cells, value_source};

pub(super) use arrays::{Counter, NewNodes, ObjectWriter};
pub(super) use documents::{Form, byte_rows, ids as ids_metadata};
pub(super) use sources::{CellSource, RowSource, grid_objects, id_source, object_of};
pub(super) use spool::FolderSpool;
pub(super) use tasks::Task;

pub use error::WriteVectorsError;
pub use options::{WriteVectorsOptions, WriteVectorsReport};
pub use tables::ObjectTables;

/// Ids that are stored together.
pub(super) const IDS: u64 = 65_536;

/// Writes the rows of a source as a new Zarr Vectors store, as zarr-vectors 0.9.2 would.
///
/// `inputs` are the files that the rows come from, by which a later call knows that it may resume;
/// without any the source is a stream, and what a stopped run left has to be overwritten. Rows come
/// in any order, those of different objects in turns if need be (those of a path in the order of the
/// path), and are sorted by chunk of space within [`memory`](WriteVectorsOptions::memory) bytes:
/// what does not fit waits in unnamed files.
///
/// Shards are written one by one. Documents follow when all are there, that of the root last; until
/// then [`CONVERT_MARKER`] says that the store is unfinished, and the same call resumes it: it reads
/// and sorts the rows again, and writes what is missing.
///
/// Costs one read of the rows, what they take on the disk up to two times if memory has no room for
/// them, and one write for each shard of each array.
pub fn write_vectors(
    context: impl Into<JobContext>,
    source: &mut dyn GeometrySource,
    inputs: &[FoundFile],
    target: &Location,
    options: &WriteVectorsOptions,
) -> Result<WriteVectorsReport, Error> {
    write_vectors_with(context, source, ObjectTables::default(), inputs, target, options)
}

/// The same as [`write_vectors`], with attributes of objects and groups of them.
///
/// Objects without attributes get what zarr-vectors takes for "absent": not a number, the smallest
/// of signed and the largest of unsigned integers, or the next such value if one of the objects has
/// that; an empty string. Booleans are stored as 8-bit integers. An id in a table that no object has
/// is an error. Costs another sort of each table.
pub fn write_vectors_with(
    context: impl Into<JobContext>,
    source: &mut dyn GeometrySource,
    tables: ObjectTables<'_>,
    inputs: &[FoundFile],
    target: &Location,
    options: &WriteVectorsOptions,
) -> Result<WriteVectorsReport, Error> {
    let _span = job_span("write_vectors", target);
    let context = &context.into();
    let schema = source.schema().clone();
    let rank = schema.axes.len();
    let shard = options.shard_shape(rank)?;
    let codecs = options.bytes_codecs()?;
    let input = match inputs.first() {
        Some(input) => input.name.clone(),
        None => STREAM.to_owned(),
    };
    let wrong = |error: GeometryError| failed(error, &input, None);
    let object_columns = options.of_objects(source)?;
    let build = BuildOptions::new(&options.chunk)
        .bin(options.bin.as_deref())
        .memory(options.memory)
        .object_columns(&object_columns);
    check_parts(options, inputs)?;
    let spool = FolderSpool::new(options.spool.clone(), target)?;
    let mut builder = Builder::new(&schema, &build, &spool).map_err(wrong)?;
    // Which rows a part needs follows from where the grid begins, and that from all rows.
    let bounds = match options.part {
        Some(_) => source.bounds().map_err(wrong)?,
        None => None,
    };
    if let (Some(part), Some([low, _])) = (options.part, &bounds) {
        let (origin, shard) = (builder.grid_origin(low), shard.clone());
        builder.keep(move |chunk| {
            let cell = chunk.iter().zip(&origin).map(|(at, first)| at.abs_diff(*first)).collect();
            Task::Place.is_of(Some(part), "", &object_of(cell, shard.as_deref()))
        });
    }
    // Nothing is left at the target if the first rows cannot even be read.
    let mut next = source.next_batch().map_err(wrong)?;
    let request = match inputs {
        // Never the same twice, so that no run adopts what another one left.
        [] => serde_json::json!({ "stream": Owner::fresh_id() }),
        inputs => options.request(&schema, tables.request(), inputs),
    };
    let mut marker =
        Marker::of_named(&CONVERT, input.clone(), request).begun_by(context.begun_by());
    let &WriteVectorsOptions { overwrite, take_over, part, .. } = options;
    let how = Beginning { overwrite, take_over, part, within: false };
    let start = marker.begin(None, target, how).map_err(|error| refused(error, &marker, target))?;
    let mut report = WriteVectorsReport {
        kind: schema.kind.name(),
        vertices: 0,
        rows_sorted: 0,
        links: 0,
        objects: None,
        chunks: 0,
        arrays: 0,
        bounds: [Vec::new(), Vec::new()],
        shard: shard.clone(),
        sparse_ids: false,
        resumed: start == Start::Resumed,
        objects_kept: 0,
        written: Default::default(),
        outcome: PartOutcome::Complete,
    };
    match start {
        Start::Exists => {
            report.outcome = PartOutcome::AlreadyThere;
            return already_there(target).map(|()| report);
        }
        Start::Clear => {
            clear(target, context.engine().threads(), CONVERT_MARKER)?;
            marker.cleared(target)?;
        }
        Start::Resumed if part.is_none() => remove_leftovers_below(target)?,
        Start::Resumed | Start::Fresh => {}
    }
    if marker.is_finishing() {
        marker.end(target)?;
        return Ok(report);
    }
    if let Some(part) = part {
        // This part runs again, and until it is done the job must not be finished.
        marker.remove_report(target, part)?;
    }
    let told = |error: GeometryError| failed(error, &input, Some(&spool));
    let gather = || -> Result<BuiltStore, Error> {
        while let Some(batch) = next.take() {
            context.check()?;
            builder.push(&batch).map_err(told)?;
            context.report(JobProgress { done: builder.vertices(), ..JobProgress::default() });
            next = source.next_batch().map_err(told)?;
        }
        tables.read(context, &mut builder, &|error, table| failed(error, table, Some(&spool)))?;
        let check = || context.check().map_err(|error| GeometryError::Side(Box::new(error)));
        builder.finish(&check, &|_| {}).map_err(told)
    };
    let store = match gather() {
        Ok(store) => store,
        Err(error) => {
            // Nothing has been written, so that other rows or options need not overwrite anything.
            if start != Start::Resumed && part.is_none() {
                let _ = marker.withdraw(target);
            }
            return Err(error);
        }
    };
    if bounds.is_some_and(|bounds| bounds != *store.bounds()) {
        return Err(JobError::SourceChanged { at: input }.into());
    }
    let form = Form { shape: store.grid_shape(), shard: shard.as_deref(), codecs: &codecs };
    let job =
        Writing { context, target, store: &store, form, part, resumed: start != Start::Fresh };
    describe(&mut report, &store);
    let counter = Counter { total: job.objects(), ..Counter::default() };
    let documents = job.arrays(&counter)?;
    report.arrays = documents.len() as u64;
    let done = counter.done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    (report.written, report.objects_kept) = (done.written, done.kept);
    if let Some(part) = part {
        match marker.end_part(target, part, &Value::Null)? {
            PartEnd::Last(_) => {}
            PartEnd::Finished => return Ok(report),
            PartEnd::Waiting(missing) => {
                report.outcome = PartOutcome::Waiting { missing };
                return Ok(report);
            }
        }
    }
    job.documents(documents)?;
    marker.end(target)?;
    Ok(report)
}

/// Refuses options that processes cannot share.
fn check_parts(options: &WriteVectorsOptions, inputs: &[FoundFile]) -> Result<(), JobError> {
    let (option, reason) = match options.part {
        Some(_) if inputs.is_empty() => ("a stream", "only one process can read it"),
        Some(_) if options.overwrite => {
            ("--overwrite", "each part would remove what the others have made")
        }
        _ => return Ok(()),
    };
    Err(JobError::NotInParts { option, reason })
}

/// For a part that finds a data set without a marker: another one may have finished the store.
fn already_there(target: &Location) -> Result<(), Error> {
    let document = target.store.get(&target.key(DOCUMENT)?)?;
    let document: Option<Value> = document.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let is_store = document.is_some_and(|document| {
        document.get("attributes").is_some_and(|found| found.get("zarr_vectors").is_some())
    });
    match is_store {
        true => Ok(()),
        false => Err(Error::Exists { at: target.to_string() }),
    }
}

fn describe(report: &mut WriteVectorsReport, store: &BuiltStore) {
    report.vertices = store.vertices();
    report.rows_sorted = store.rows_kept();
    report.links = store.links();
    report.objects = store.objects().map(|objects| objects.len());
    report.sparse_ids = store.objects().is_some_and(|objects| !objects.is_counted());
    report.chunks = store.chunk_count() as u64;
    report.bounds = store.bounds().clone();
}

/// An error of rows that are sorted, as one of the job.
pub(super) fn spooled(error: GeometryError, input: &str, spool: &FolderSpool) -> Error {
    failed(error, input, Some(spool))
}

/// An error of rows as one of the job. `spool` is where rows are kept, once they are.
fn failed(error: GeometryError, input: &str, spool: Option<&FolderSpool>) -> Error {
    match (error, spool) {
        (GeometryError::Side(error), _) => match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(error) => {
                let source = Box::new(GeometryError::Side(error));
                WriteVectorsError::Rows { input: input.to_owned(), source }.into()
            }
        },
        (GeometryError::Spool(source), Some(spool)) => {
            let folder = spool.folder.display().to_string();
            WriteVectorsError::Spool { folder, source }.into()
        }
        (source, _) => {
            let (input, source) = (input.to_owned(), Box::new(source));
            WriteVectorsError::Rows { input, source }.into()
        }
    }
}

/// A store being written.
struct Writing<'a> {
    context: &'a JobContext,
    target: &'a Location,
    store: &'a BuiltStore,
    form: Form<'a>,
    part: Option<Part>,
    resumed: bool,
}

/// The path of a node and its document.
type Document = (String, Vec<u8>);

impl Writing<'_> {
    /// How many objects all arrays have.
    fn objects(&self) -> u64 {
        let of_grids = self.store.grid_arrays();
        let of_grids = of_grids.iter().map(|array| match self.form.shard {
            Some(shard) => grid_objects(built_cells(self.store, array), Some(shard)).len(),
            None => self.store.chunks(array).len(),
        });
        let of_objects = self.store.objects().map_or(0, |objects| {
            let values = self.store.object_arrays().len() as u64;
            let of_values = values * objects.len().div_ceil(ObjectArray::BLOCK);
            objects.len().div_ceil(BuiltObjects::BLOCK) + objects.len().div_ceil(IDS) + of_values
        });
        let groups = self.store.object_groups();
        let of_groups = groups.map_or(0, |groups| groups.len().div_ceil(BuiltGroups::BLOCK));
        of_grids.map(|count| count as u64).sum::<u64>() + of_objects + of_groups
    }

    /// Writes the objects of all arrays. The documents follow when all are there.
    fn arrays(&self, counter: &Counter) -> Result<Vec<Document>, Error> {
        let nodes = NewNodes { context: self.context, target: self.target };
        let mut documents = Vec::new();
        for array in self.store.grid_arrays() {
            let metadata = nodes.metadata(&array.path, self.form.grid(Map::new()))?;
            let node = nodes.array(&array.path, metadata)?;
            let read = |cell: &[u64], out: &mut Vec<u8>| self.store.read_cell(&array, cell, out);
            let source = CellSource::new(read);
            let objects = grid_objects(built_cells(self.store, &array), self.form.shard);
            let writer = self.writer(&array.path, Task::Place, counter);
            writer.write(&node, objects.into_iter(), &source)?;
            drop(source);
            let attributes = self.store.attributes(&array);
            let metadata = nodes.metadata(&array.path, self.form.grid(attributes))?;
            documents.push((array.path, metadata.to_bytes()));
        }
        let Some(objects) = self.store.objects() else { return Ok(documents) };
        let count = objects.len();
        let mut add = |path: &str, rows: (u64, u64), metadata, source: &dyn Source| {
            let metadata = nodes.metadata(path, metadata)?;
            documents.push((path.to_owned(), metadata.to_bytes()));
            let node = nodes.array(path, metadata)?;
            let columns = node.shape().len() - 1;
            let blocks = (0..rows.0.div_ceil(rows.1)).map(|at| {
                let cell: Vec<u64> = [at].into_iter().chain(vec![0; columns]).collect();
                (cell, 0)
            });
            self.writer(path, Task::Block, counter).write(&node, blocks, source)
        };
        let codecs = self.form.codecs;
        let metadata = documents::ids(count, IDS, codecs);
        let ids = id_source(move |start, count, out| objects.read_ids(start, count, out));
        add("0/object_index/object_ids", (count, IDS), metadata, &ids)?;
        let source = RowSource::manifests(objects);
        let metadata = documents::byte_rows(count, source.block, Map::new());
        add("0/object_index/manifests", (count, source.block), metadata, &source)?;
        for array in self.store.object_arrays() {
            let metadata = documents::object_values(&array, count, codecs);
            let rows = (count, ObjectArray::BLOCK);
            add(&array.path, rows, metadata, &value_source(self.store, &array))?;
        }
        if let Some(groups) = self.store.object_groups() {
            let source = RowSource::members(groups);
            let metadata = documents::byte_rows(groups.len(), source.block, groups.attributes());
            add("0/groups", (groups.len(), source.block), metadata, &source)?;
        }
        Ok(documents)
    }

    fn writer<'w>(&'w self, path: &'w str, task: Task, progress: &'w Counter) -> ObjectWriter<'w> {
        let (context, part, resumed) = (self.context, self.part, self.resumed);
        ObjectWriter { context, part, resumed, path, task, progress }
    }

    /// Writes all documents, that of the root last.
    fn documents(&self, arrays: Vec<Document>) -> Result<(), Error> {
        let name = self.target.parent()?.map_or_else(|| "store".to_owned(), |(_, name)| name);
        let groups = self.store.groups(&name).into_iter();
        let groups =
            groups.map(|(path, attributes)| (path, GroupMetadata::new(attributes).to_bytes()));
        let mut all: Vec<Document> = arrays.into_iter().chain(groups).collect();
        let above = all.split_off(all.len().saturating_sub(2));
        let engine = self.context.engine();
        engine.each_waiting(DOCUMENT_BYTES, REMOTE_WRITES, all.into_iter(), &|document| {
            self.put(&document)
        })?;
        above.iter().try_for_each(|document| self.put(document))
    }

    fn put(&self, (path, bytes): &Document) -> Result<(), Error> {
        self.context.check()?;
        let key = match path.as_str() {
            "" => self.target.key(DOCUMENT)?,
            path => self.target.key(path)?.join(DOCUMENT)?,
        };
        match self.target.store.put(&key, bytes, Condition::Absent) {
            // Of a run that was stopped, or of a part that was last too.
            Err(StoreError::Conflict { .. }) => Ok(()),
            put => Ok(put.map(|_| ())?),
        }
    }
}
