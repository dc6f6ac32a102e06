//! Writing an array plane by plane, as an instrument delivers them.

use std::ops::Range;
use std::sync::Arc;

use shardine_codec::{Element, ElementSize, Elements, ElementsRef};
use shardine_store::FolderHold;

use super::slice_source::{Plane, Planes};
use super::{AppendClaim, ArrayNode};
use crate::Error;
use crate::engine::{WriteOptions, WriteReport};
use crate::selection::{Region, Selection};
use crate::source::{MemorySource, PartOfSource, Source};

/// Why planes cannot be written.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SliceError {
    /// There is no such axis.
    #[error("there is no axis {axis}: the array has {rank}")]
    Axis {
        /// As given.
        axis: usize,
        /// Axes of the array.
        rank: usize,
    },
    /// A plane has no elements, so the number of planes given cannot be determined.
    #[error("a plane across axis {axis} has no elements: the array's shape is {shape:?}")]
    EmptyPlane {
        /// The axis.
        axis: usize,
        /// The array's shape.
        shape: Vec<u64>,
    },
    /// The elements are not whole planes.
    #[error(
        "a plane has {plane} bytes, or elements of variable length; {over} are left over after \
         the last whole one"
    )]
    PartOfPlane {
        /// What a plane has.
        plane: u64,
        /// The remainder.
        over: u64,
    },
    /// Fixed-size elements were given for an array of variable-length ones, or vice versa.
    #[error("the elements are not of the array's kind")]
    Kind,
    /// There is no memory for a plane.
    #[error("there is no memory for a plane of {bytes} bytes")]
    Memory {
        /// Its size.
        bytes: u64,
    },
    /// Planes would lie beyond the end of an array that does not grow.
    #[error("plane {plane} is past the end of the axis, which has {len} and may not grow")]
    PastEnd {
        /// The last plane that was given.
        plane: u64,
        /// Planes of the array.
        len: u64,
    },
    /// An invalid number of planes between commits.
    #[error("planes cannot be committed every 0 planes")]
    CommitEvery,
    /// No axis is that long.
    #[error("the axis would have 2^64 planes or more")]
    TooLong,
}

/// How planes are written.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SliceOptions {
    /// How chunks are written, [`Strategy`](crate::Strategy) included.
    pub write: WriteOptions,
    /// Planes are committed after every this many; `None` commits them when their layer of chunks
    /// is complete.
    pub commit_every: Option<u64>,
    /// Where the first plane goes in an array that already has its final shape; `None` grows the
    /// array.
    pub start: Option<u64>,
    /// Whether an append of unknown state is assumed to be dead. See [`AppendClaim::take_over`].
    pub take_over: bool,
}

impl SliceOptions {
    /// Appends to the array, and commits each layer of chunks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how chunks are written.
    pub fn write(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self
    }

    /// Commits after every this many planes.
    pub fn commit_every(mut self, planes: u64) -> Self {
        self.commit_every = Some(planes);
        self
    }

    /// Sets whether an append of unknown state is assumed to be dead.
    pub fn take_over(mut self, take_over: bool) -> Self {
        self.take_over = take_over;
        self
    }

    /// Replaces planes from number `plane` on, in an array that does not grow.
    pub fn start(mut self, plane: u64) -> Self {
        self.start = Some(plane);
        self
    }
}

/// Writes planes of an array one after another along an axis: for acquisition, and for appending.
///
/// The array grows as planes are committed. A commit writes chunks first and the metadata last, and
/// what lies beyond the shape is invisible: so every reader, using any library, sees whole planes
/// up to the last commit, even after a kill. To resume, open the array again; its shape gives the
/// number of planes. Anything a killed run had written beyond that is overwritten by the next
/// planes. Dropping the writer without [`finish`](Self::finish) loses the planes that were not
/// committed.
///
/// Planes are held in memory up to the end of a layer of chunks (the extent of the array's
/// [chunks](crate::Array::chunk_shape) along the axis), and chunks are written whole: if the array
/// ends inside a layer, the existing part of that layer is read first. So memory use is at most one
/// layer of planes on top of the engine's budget. Chunks of length 1 along the axis need none.
///
/// A growing array has one writer at a time: it owns the end of the array ([`AppendClaim`]) from
/// its creation until it is finished or dropped, and another one is refused before it has written a
/// byte.
///
/// ```
/// use shardine::{Array, Location, SliceOptions, SliceWriter};
///
/// let array = Array::builder([0, 3], "uint8").chunks([2, 2]).create(Location::memory())?;
/// let mut writer = SliceWriter::new(array, 0, SliceOptions::new().commit_every(1))?;
/// for plane in [[1u8, 2, 3], [4, 5, 6], [7, 8, 9]] {
///     writer.push(&plane)?;
/// }
/// let array = writer.finish()?;
/// assert_eq!(array.shape(), [3, 3]);
/// assert_eq!(array.read::<u8>(2)?, [7, 8, 9]);
/// # Ok::<(), shardine::Error>(())
/// ```
#[derive(Debug)]
pub struct SliceWriter {
    array: ArrayNode,
    /// For an array that grows.
    claim: Option<AppendClaim>,
    options: SliceOptions,
    plane: Plane,
    /// The extents of a chunk and of an object along the axis.
    layer: u64,
    cell: u64,
    /// Planes of one layer of chunks received so far, some of them perhaps written already.
    planes: Vec<Elements>,
    /// The number of the first of them, or of the next plane.
    first: u64,
    /// Planes before this one are written.
    written: u64,
    /// Planes before this one are committed.
    committed: u64,
    report: WriteReport,
    /// Keeps the array in place while something lies beyond its shape that an in-place job would
    /// leave behind.
    hold: Option<Arc<FolderHold>>,
}

impl SliceWriter {
    /// A writer of planes across `axis`. From now on it owns the end of an array that grows.
    ///
    /// [`Error::AppendUnderWay`] if another one does, and [`Error::MetadataChanged`] if the array
    /// has changed since it was opened. Costs the claim and one read; nothing if the array does not
    /// grow.
    pub fn new(array: ArrayNode, axis: usize, options: SliceOptions) -> Result<Self, Error> {
        let writer = Self::unclaimed(array, axis, options)?;
        if writer.options.start.is_some() {
            return Ok(writer);
        }
        let claim = AppendClaim::claim(&writer.array, writer.options.take_over)?;
        writer.claimed(claim)
    }

    /// A writer for an array that grows, whose end the caller has claimed.
    pub fn with_claim(
        array: ArrayNode,
        axis: usize,
        options: SliceOptions,
        claim: AppendClaim,
    ) -> Result<Self, Error> {
        if !claim.is_of(array.location()) {
            return Err(Error::AppendLost { at: array.location().to_string() });
        }
        Self::unclaimed(array, axis, SliceOptions { start: None, ..options })?.claimed(claim)
    }

    /// Adds a claim on the end of an array that has not changed since it was opened.
    fn claimed(mut self, claim: AppendClaim) -> Result<Self, Error> {
        // The previous owner of the claim may have grown the array, and what lies beyond the shape
        // known here may now be data.
        self.hold_array()?;
        self.array.check_current()?;
        self.let_go();
        self.claim = Some(claim);
        Ok(self)
    }

    fn unclaimed(array: ArrayNode, axis: usize, options: SliceOptions) -> Result<Self, Error> {
        if options.start.is_none() {
            array.check_changeable()?;
        }
        let shape = array.shape();
        let rank = shape.len();
        let &len = shape.get(axis).ok_or(SliceError::Axis { axis, rank })?;
        let element = match array.data_type().size() {
            ElementSize::Fixed(size) => Some(size),
            ElementSize::Variable => None,
        };
        let plane = Plane::new(shape, axis, element)?;
        if plane.elements == 0 {
            return Err(SliceError::EmptyPlane { axis, shape: shape.to_vec() }.into());
        }
        if options.commit_every == Some(0) {
            return Err(SliceError::CommitEvery.into());
        }
        let start = options.start.unwrap_or(len);
        if start > len {
            return Err(SliceError::PastEnd { plane: start, len }.into());
        }
        Ok(Self {
            layer: array.chunk_shape()[axis],
            cell: array.cell_shape()[axis],
            array,
            claim: None,
            options,
            plane,
            planes: Vec::new(),
            first: start,
            written: start,
            committed: start,
            report: WriteReport::default(),
            hold: None,
        })
    }

    /// The array. Its shape is the committed one.
    pub fn array(&self) -> &ArrayNode {
        &self.array
    }

    /// The claim on the end of the array, to set what is left behind if this writer is not
    /// finished; `None` if the array does not grow.
    pub fn claim(&mut self) -> Option<&mut AppendClaim> {
        self.claim.as_mut()
    }

    /// The number of the next plane: where the writer began, plus the planes taken since.
    ///
    /// After an error this shows which planes of a push were taken; the next call continues with
    /// those that were not written.
    pub fn position(&self) -> u64 {
        self.first + self.planes.len() as u64
    }

    /// All planes before this one are committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Elements of one plane.
    pub fn plane_len(&self) -> usize {
        self.plane.elements
    }

    /// What was written so far.
    pub fn report(&self) -> WriteReport {
        self.report
    }

    /// Takes one or several whole planes: elements in C order of the array's shape, with the number
    /// of planes along the axis.
    ///
    /// Complete layers of chunks are written, and committed unless [`SliceOptions::commit_every`]
    /// is set. Several layers in one push are written together, straight from the caller's memory.
    pub fn push<T: Element>(&mut self, elements: &[T]) -> Result<(), Error> {
        self.array.check_type::<T>()?;
        let bytes = self.array.little_endian(elements);
        self.push_elements(ElementsRef::Fixed(&bytes))
    }

    /// Takes planes of any type, as little-endian bytes or as variable-length elements. See
    /// [`push`](Self::push).
    pub fn push_elements(&mut self, elements: ElementsRef<'_>) -> Result<(), Error> {
        let count = self.plane.count(elements)?;
        self.check_end(count as u64)?;
        self.hold_array()?;
        let shape = self.plane.shape_of(count as u64);
        let source = MemorySource::new(elements, &shape, self.plane.element)?;
        let mut taken = 0;
        while taken < count {
            self.settle()?;
            let position = self.position();
            let left = ((count - taken) as u64).min(self.until_commit());
            let layers = left / self.layer * self.layer;
            if position.is_multiple_of(self.layer) && layers > 0 {
                self.write_from(&source, taken as u64, layers)?;
                taken += layers as usize;
            } else {
                self.begin_layer()?;
                let some = left.min(self.layer - position % self.layer);
                for _ in 0..some {
                    self.planes.push(self.plane.split(elements, count, taken)?);
                    taken += 1;
                }
            }
        }
        self.settle()?;
        self.let_go();
        Ok(())
    }

    /// Takes planes `planes` of a source without holding them in memory: for data that is already
    /// in a file.
    ///
    /// They are written up to the end of one shard after another and at the end, and committed
    /// there unless [`SliceOptions::commit_every`] is set. If they begin or end inside a chunk, its
    /// other planes are merged with them.
    pub fn push_from(&mut self, planes: Range<u64>, source: &dyn Source) -> Result<(), Error> {
        self.check_end(planes.end.saturating_sub(planes.start))?;
        self.hold_array()?;
        self.settle()?;
        if self.written < self.position() {
            self.write_planes()?;
        }
        self.forget_planes();
        let mut next = planes.start;
        while next < planes.end {
            let to_end = self.cell - self.first % self.cell;
            let some = (planes.end - next).min(self.until_commit()).min(to_end);
            self.write_from(source, next, some)?;
            next += some;
            self.settle()?;
        }
        self.let_go();
        Ok(())
    }

    /// Makes all planes taken so far durable and visible to all readers.
    ///
    /// Writes the incomplete layer of chunks, if there is one, and then the array's new shape.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.hold_array()?;
        self.publish()?;
        self.let_go();
        Ok(())
    }

    fn publish(&mut self) -> Result<(), Error> {
        if self.written < self.position() {
            self.write_planes()?;
        }
        if self.options.start.is_none() && self.written > self.array.shape()[self.plane.axis] {
            self.check_claim()?;
            let shape = self.plane.shape_of(self.written);
            self.array.resize(&shape)?;
        }
        self.committed = self.written;
        Ok(())
    }

    /// Keeps the array in place until everything written is committed. If another array has
    /// replaced it since, planes are written to that one from here on.
    fn hold_array(&mut self) -> Result<(), Error> {
        if self.hold.is_some() {
            return Ok(());
        }
        loop {
            match self.array.hold_same() {
                Ok(hold) => {
                    self.hold = hold;
                    return Ok(());
                }
                Err(Error::Replaced { .. }) => {}
                Err(error) => return Err(error),
            }
            let now = ArrayNode::open(self.array.engine(), self.array.location())?;
            let at = || self.array.location().to_string();
            if now.data_type() != self.array.data_type() {
                return Err(Error::Replaced { at: at() });
            }
            if now.shape() != self.array.shape() {
                return Err(Error::MetadataChanged { at: at() });
            }
            self.layer = now.chunk_shape()[self.plane.axis];
            self.cell = now.cell_shape()[self.plane.axis];
            self.array = now;
            // What is committed is stored there; where it ends inside a chunk, new planes are
            // merged with it.
            let stored = self.committed.saturating_sub(self.first);
            self.planes.drain(..self.planes.len().min(stored as usize));
            self.first += stored;
        }
    }

    /// Lets jobs have the array if nothing lies beyond its shape.
    fn let_go(&mut self) {
        if self.committed == self.written {
            self.hold = None;
        }
    }

    /// Commits what is not committed yet, gives back the claim on the end of the array, and returns
    /// the array.
    ///
    /// If that fails, the planes of the last layer are lost; [`commit`](Self::commit) can be
    /// retried.
    pub fn finish(mut self) -> Result<ArrayNode, Error> {
        self.commit()?;
        if let Some(claim) = self.claim.take() {
            claim.finish()?;
        }
        Ok(self.array)
    }

    /// An error if another append owns the end of the array by now.
    fn check_claim(&self) -> Result<(), Error> {
        self.claim.as_ref().map_or(Ok(()), AppendClaim::check)
    }

    /// Refuses planes beyond the end of an array that does not grow, or beyond the longest possible
    /// axis.
    fn check_end(&self, count: u64) -> Result<(), SliceError> {
        let end = self.position().checked_add(count).ok_or(SliceError::TooLong)?;
        let len = self.array.shape()[self.plane.axis];
        match self.options.start {
            Some(_) if end > len => Err(SliceError::PastEnd { plane: end - 1, len }),
            _ => Ok(()),
        }
    }

    /// How many planes may come before the next commit is due.
    fn until_commit(&self) -> u64 {
        match self.options.commit_every {
            Some(planes) => planes.saturating_sub(self.position() - self.committed),
            None => u64::MAX,
        }
    }

    /// Writes a complete layer, and commits if it is time.
    fn settle(&mut self) -> Result<(), Error> {
        let position = self.position();
        if position.is_multiple_of(self.layer) && !self.planes.is_empty() {
            if self.written < position {
                self.write_planes()?;
            }
            self.forget_planes();
        }
        let is_due = match self.options.commit_every {
            Some(planes) => position - self.committed >= planes,
            None => self.written == position && self.committed < position,
        };
        if is_due { self.publish() } else { Ok(()) }
    }

    /// Reads the existing planes of the layer that the next plane falls into, so that its chunks
    /// are written whole.
    fn begin_layer(&mut self) -> Result<(), Error> {
        let within = self.first % self.layer;
        // An array that does not grow has planes after the next one too; the engine merges them.
        let grows = self.options.start.is_none();
        if !self.planes.is_empty() || within == 0 || !grows || self.committed < self.first {
            return Ok(());
        }
        let mut start = vec![0; self.plane.shape.len()];
        start[self.plane.axis] = self.first - within;
        let there =
            self.array.read_elements(Region::of_box(&start, &self.plane.shape_of(within)))?;
        let count = self.plane.count(there.as_ref())?;
        let planes: Result<_, _> =
            (0..count).map(|at| self.plane.split(there.as_ref(), count, at)).collect();
        self.planes = planes?;
        self.first -= within;
        Ok(())
    }

    fn forget_planes(&mut self) {
        self.first = self.position();
        self.planes.clear();
    }

    /// Writes the planes in memory.
    fn write_planes(&mut self) -> Result<(), Error> {
        let planes = std::mem::take(&mut self.planes);
        let plane = self.plane.clone();
        let source = Planes { plane: &plane, planes: &planes };
        let result = self.write(self.first, planes.len() as u64, &source);
        self.planes = planes;
        result?;
        self.written = self.position();
        Ok(())
    }

    /// Writes `count` planes of a source at the position of the next plane.
    fn write_from(&mut self, source: &dyn Source, skipped: u64, count: u64) -> Result<(), Error> {
        let mut start = vec![0; self.array.shape().len()];
        if let Some(first) = start.get_mut(self.plane.axis) {
            *first = skipped;
        }
        let source = PartOfSource { source, start };
        self.write(self.first, count, &source)?;
        self.first += count;
        self.written = self.first;
        Ok(())
    }

    fn write(&mut self, first: u64, count: u64, source: &dyn Source) -> Result<(), Error> {
        self.check_claim()?;
        let axis = self.plane.axis;
        let mut selection = Selection::whole(&self.plane.shape_of(count));
        selection.axes[axis].start = first;
        let mut grown = self.array.shape().to_vec();
        grown[axis] = grown[axis].max(first + count);
        let report =
            self.array.array.write_grown(grown, &selection, source, &self.options.write)?;
        self.report.add(&report);
        Ok(())
    }
}
