//! Appends planes from a file or a stream to an array.

mod error;
mod marker;

use std::io::Read;

use serde::{Deserialize, Serialize};

use super::frame::remove_leftovers_below;
use super::import::counting;
use super::span::job_span;
use super::watched::Watched;
use super::{JobContext, JobProgress};
use crate::engine::Strategy;
use crate::files::{Input, InputOptions, check_cast_of_raw, elements};
use crate::zarr::AppendClaim;
use crate::{
    ArrayNode, ElementSize, ElementsRef, Error, Location, SliceError, SliceOptions, SliceWriter,
    WriteOptions, WriteReport,
};

pub use error::AppendError;
use marker::Marker;

/// How planes are appended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AppendOptions {
    /// The axis that grows.
    pub axis: usize,
    /// Make planes readable after this many of them; `None` means whenever a layer of chunks or
    /// shards is complete.
    pub commit_every: Option<u64>,
    /// How existing shards are updated.
    pub strategy: Strategy,
    /// A shard that was updated in place is compacted if more than this share of it is gaps.
    pub max_gap: f64,
    /// Convert numbers of another type. Fractions are truncated; a value that does not fit is an
    /// error.
    pub cast: bool,
    /// Do not finish an interrupted append of another file; the planes it has written stay.
    pub forget: bool,
    /// Take over from a killed append that owns this array in an object store.
    pub take_over: bool,
}

impl Default for AppendOptions {
    fn default() -> Self {
        let WriteOptions { strategy, max_gap, .. } = WriteOptions::new();
        Self {
            axis: 0,
            commit_every: None,
            strategy,
            max_gap,
            cast: false,
            forget: false,
            take_over: false,
        }
    }
}

impl AppendOptions {
    /// Appends along the first axis.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the axis that grows.
    pub fn axis(mut self, axis: usize) -> Self {
        self.axis = axis;
        self
    }

    fn slices(&self) -> SliceOptions {
        let write = WriteOptions::new().strategy(self.strategy).max_gap(self.max_gap);
        let mut options = SliceOptions::new().write(write);
        options.commit_every = self.commit_every;
        options
    }
}

/// Where planes come from.
pub enum AppendFrom<'a> {
    /// A file, which can be read again: the same append resumes after a kill.
    File(Box<Input>),
    /// Raw bytes, plane after plane, read once.
    Stream {
        /// Read to its end.
        from: &'a mut dyn Read,
        /// Its name in messages.
        name: String,
    },
}

impl std::fmt::Debug for AppendFrom<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(input) => f.debug_tuple("File").field(input).finish(),
            Self::Stream { name, .. } => f.debug_tuple("Stream").field(name).finish(),
        }
    }
}

/// What was appended.
#[derive(Debug)]
#[non_exhaustive]
pub struct AppendReport {
    /// The array with its new shape.
    pub array: ArrayNode,
    /// Planes this run has appended.
    pub planes: u64,
    /// Planes of the same file that an earlier run had appended.
    pub planes_before: u64,
    /// What was written.
    pub written: WriteReport,
}

/// Appends planes to a Zarr array: its shape grows by as many as the file or stream holds.
///
/// One append at a time: a second one is refused before it writes anything. Planes become readable
/// as [`AppendOptions::commit_every`] says. The same call resumes an interrupted append of a file,
/// and a different one is refused until then; [`APPEND_MARKER`](crate::zarr::APPEND_MARKER) says
/// what is under way. After a stream was interrupted, the array has the planes that were committed.
///
/// A file is read piece by piece; of a stream, memory holds the planes that are not committed.
///
/// ```
/// use shardine::jobs::{AppendFrom, AppendOptions, append};
/// use shardine::{Array, Engine, Location};
///
/// let (engine, location) = (Engine::shared()?, Location::memory());
/// Array::builder([0, 3], "uint8").create(&location)?;
/// let mut planes = &[1, 2, 3, 4, 5, 6][..];
/// let from = AppendFrom::Stream { from: &mut planes, name: "memory".to_owned() };
/// let report = append(&engine, from, &location, &AppendOptions::new())?;
/// assert_eq!((report.planes, report.array.shape()), (2, &[2, 3][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn append(
    context: impl Into<JobContext>,
    from: AppendFrom<'_>,
    target: &Location,
    options: &AppendOptions,
) -> Result<AppendReport, Error> {
    let _span = job_span("append", target);
    let context = context.into();
    let array = ArrayNode::open(context.engine(), target)?;
    let rank = array.shape().len();
    if options.axis >= rank {
        return Err(SliceError::Axis { axis: options.axis, rank }.into());
    }
    let claim = AppendClaim::claim(&array, options.take_over)?;
    // As the previous append has left it.
    let array = ArrayNode::open(context.engine(), target)?;
    if options.axis >= array.shape().len() {
        return Err(Error::MetadataChanged { at: target.to_string() });
    }
    match from {
        AppendFrom::File(input) => from_file(&context, options, array, claim, *input),
        AppendFrom::Stream { from, name } => {
            from_stream(&context, options, array, claim, from, name)
        }
    }
}

fn from_file(
    context: &JobContext,
    options: &AppendOptions,
    array: ArrayNode,
    claim: AppendClaim,
    mut input: Input,
) -> Result<AppendReport, Error> {
    let axis = options.axis;
    let old_shape = array.shape().to_vec();
    let mut shape = old_shape.clone();
    shape[axis] = 1;
    let count = input.planes(&array, axis, &shape)?;
    shape[axis] = count;
    let found = input.found()?;
    let source = input.source(&array, &shape, &InputOptions::new().cast(options.cast))?;
    let marker = found.map(|found| Marker::new(axis, &old_shape, found));
    let bytes = match array.data_type().size() {
        ElementSize::Fixed(size) => elements(&shape).saturating_mul(size as u64),
        ElementSize::Variable => 0,
    };
    let mut slices = options.slices();
    slices.write = slices.write.progress(counting(context, 0, bytes));
    let resumed = claim.note().is_some();
    let place = array.location().clone();
    let mut writer = SliceWriter::with_claim(array, axis, slices, claim)?;
    // The marker is written when nothing is left that could be refused.
    let before = match (&marker, writer.claim()) {
        (_, None) => 0,
        (Some(marker), Some(claim)) => marker.begin(claim, &old_shape, count, options.forget)?,
        (None, Some(claim)) => {
            marker::check_none(claim, &old_shape, options.forget)?;
            0
        }
    };
    let watched = Watched { source: &*source, context };
    let result = writer.push_from(before..count, &watched).and_then(|()| writer.commit());
    context.check()?;
    result?;
    if resumed {
        // What the run that was killed was writing. The planes are there in any case, and `verify`
        // reports what could not be removed.
        let _ = remove_leftovers_below(&place);
    }
    let written = writer.report();
    let array = writer.finish()?;
    Ok(AppendReport { array, planes: count - before, planes_before: before, written })
}

fn from_stream(
    context: &JobContext,
    options: &AppendOptions,
    array: ArrayNode,
    mut claim: AppendClaim,
    from: &mut dyn Read,
    name: String,
) -> Result<AppendReport, Error> {
    check_cast_of_raw(&name, options.cast)?;
    let ElementSize::Fixed(size) = array.data_type().size() else {
        return Err(AppendError::VariableStream { name }.into());
    };
    marker::check_none(&mut claim, array.shape(), options.forget)?;
    let mut writer = SliceWriter::with_claim(array, options.axis, options.slices(), claim)?;
    let len = writer.plane_len().saturating_mul(size);
    let mut plane = Vec::new();
    plane.try_reserve_exact(len).map_err(|_| SliceError::Memory { bytes: len as u64 })?;
    let mut planes = 0u64;
    let ended = loop {
        if context.check().is_err() {
            break Some(Error::Cancelled);
        }
        plane.clear();
        // Reads until the plane is full or the stream ends.
        if let Err(source) = (&mut *from).take(len as u64).read_to_end(&mut plane) {
            break Some(AppendError::Stream { name, source }.into());
        }
        match plane.len() {
            0 => break None,
            bytes if bytes < len => {
                break Some(AppendError::InsidePlane { name, bytes, plane: len, planes }.into());
            }
            _ => {}
        }
        writer.push_elements(ElementsRef::Fixed(&plane))?;
        planes += 1;
        let bytes = planes.saturating_mul(len as u64);
        context.report(JobProgress { bytes, ..JobProgress::default() });
    };
    // Whole planes are kept, whatever came after them.
    writer.commit()?;
    if let Some(error) = ended {
        return Err(error);
    }
    let written = writer.report();
    Ok(AppendReport { array: writer.finish()?, planes, planes_before: 0, written })
}
