use std::ops::Range;

use shardine_codec::strided::{self, Axes, OutOfMemory, Placement};
use shardine_codec::{CodecError, Context, ElementsRef, Endian, VariableElements};

use smallvec::SmallVec;

use super::decode::{DecodeError, HANDLE, counts};
use super::update_plan::{Action, UpdatePlan};
use super::{Layout, Leaf, ShardLayout, StagedLayout, select};
use crate::selection::Selection;
use crate::shard::{IndexLocation, ShardError, ShardIndex, WriteOrder};
use crate::source::{MemorySource, Source, SourceError};

/// Why an updated chunk could not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The previous contents cannot be decoded, so nothing can be merged with them.
    #[error("cannot read the chunk to be updated: {0}")]
    Old(#[from] DecodeError),
    /// A codec refused the elements.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A chunk inside a shard cannot be encoded.
    #[error("chunk {entry} of the inner shard: {source}")]
    Nested {
        /// Its number in the index.
        entry: usize,
        /// Why not.
        source: Box<EncodeError>,
    },
    /// The source failed to provide the elements.
    #[error("cannot get the elements to be written: {0}")]
    Source(SourceError),
}

impl From<ShardError> for EncodeError {
    fn from(error: ShardError) -> Self {
        Self::Old(error.into())
    }
}

impl From<OutOfMemory> for EncodeError {
    fn from(error: OutOfMemory) -> Self {
        Self::Old(error.into())
    }
}

/// How chunks are encoded and laid out.
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodeOptions {
    /// The order of chunks in new shards.
    pub order: WriteOrder,
    /// Stores chunks that hold nothing but the fill value.
    pub store_empty: bool,
}

/// A source seen from inside a chunk, whose axes may be permuted.
#[derive(Clone)]
pub struct SourceView<'a> {
    /// Where elements come from.
    pub source: &'a dyn Source,
    /// Where the chunk's selected elements start in the source, by axis of the chunk.
    pub at: Axes<u64>,
    /// The source axis of each axis of the chunk.
    pub axes: Axes<usize>,
}

impl<'a> SourceView<'a> {
    /// A view of a source that starts at this position.
    pub fn new(source: &'a dyn Source, at: Axes<u64>) -> Self {
        let axes = (0..at.len()).collect();
        Self { source, at, axes }
    }

    /// The same view, by the stored axes of a shard.
    pub fn to_stored(&self, shard: &ShardLayout) -> Self {
        Self {
            source: self.source,
            at: shard.to_stored(&self.at),
            axes: shard.to_stored(&self.axes),
        }
    }

    /// The same view, moved forward.
    pub fn advance(&self, by: &[u64]) -> Self {
        let at = self.at.iter().zip(by).map(|(&a, &b)| a + b).collect();
        Self { source: self.source, at, axes: self.axes.clone() }
    }

    /// Where the elements start in the source, by its axes.
    pub fn start(&self) -> Axes<u64> {
        self.by_source_axis(&self.at)
    }

    /// Reorders values from chunk axes to source axes.
    fn by_source_axis<T: Copy + Default>(&self, values: &[T]) -> Axes<T> {
        let mut out: Axes<T> = values.iter().map(|_| T::default()).collect();
        for (&k, &value) in self.axes.iter().zip(values) {
            out[k] = value;
        }
        out
    }

    fn copy_to(&self, shape: &[u64], target: &mut [u8], to: &Placement) -> Result<(), EncodeError> {
        let (start, shape) = (self.by_source_axis(&self.at), self.by_source_axis(shape));
        let to = Placement { start: to.start, strides: self.by_source_axis(&to.strides) };
        self.source.copy_box(&start, &shape, target, &to).map_err(EncodeError::Source)
    }

    /// The elements of a box, with their positions in it: `places` is visited in the same order.
    fn variable(
        &self,
        shape: &[u64],
        to: &Placement,
    ) -> Result<(VariableElements, Axes<usize>, Placement), EncodeError> {
        let (start, shape) = (self.by_source_axis(&self.at), self.by_source_axis(shape));
        let elements = self.source.variable_box(&start, &shape).map_err(EncodeError::Source)?;
        let to = Placement { start: to.start, strides: self.by_source_axis(&to.strides) };
        Ok((elements, shape.iter().map(|&n| n as usize).collect(), to))
    }
}

/// The outcome for a chunk, or for the innermost chunks of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether there is anything to store.
    pub stored: bool,
    /// Chunks that were encoded and are stored.
    pub encoded: u64,
    /// Chunks, or inner shards, that were moved unchanged.
    pub kept: u64,
    /// Chunks that hold nothing but the fill value and are not stored.
    pub empty: u64,
}

impl Outcome {
    fn of_chunk(stored: bool) -> Self {
        Self { stored, encoded: u64::from(stored), kept: 0, empty: u64::from(!stored) }
    }

    /// Adds the outcome for other chunks.
    pub fn add(&mut self, other: Self) {
        self.encoded += other.encoded;
        self.kept += other.kept;
        self.empty += other.empty;
    }
}

/// What is written to a chunk or shard.
#[derive(Clone)]
pub struct Update<'a> {
    /// The elements that are written.
    pub selection: &'a Selection,
    /// How much of it lies inside the array.
    pub bounds: &'a [u64],
    /// Where the elements come from.
    pub source: SourceView<'a>,
    /// How it is encoded.
    pub options: EncodeOptions,
}

impl Update<'_> {
    /// Whether none of the previous contents remain.
    fn covers_all(&self) -> bool {
        self.selection.covers(self.bounds)
    }
}

impl Layout {
    /// Appends the encoded form of a chunk or shard after an update to `out`.
    ///
    /// `old` is the previous encoded form, if any; it is not looked at if the update covers
    /// everything. If there is nothing to store, `out` is unchanged. Untouched chunks are moved
    /// unchanged.
    pub fn update(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        update: &Update<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, EncodeError> {
        let old = if update.covers_all() { None } else { old };
        match self {
            Self::Chunk(leaf) => leaf.update(context, old, update, out),
            Self::Shard(shard) => shard.update(context, old, std::slice::from_ref(update), out),
            Self::Staged(staged) => staged.update(context, old, update, out),
        }
    }

    /// The same for several updates applied in order. The outcome is that of the last.
    pub fn update_all(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        updates: &[Update<'_>],
        out: &mut Vec<u8>,
    ) -> Result<Outcome, EncodeError> {
        let Some((last, before)) = updates.split_last() else { return Ok(Outcome::default()) };
        let Some((first, between)) = before.split_first() else {
            return self.update(context, old, last, out);
        };
        match self {
            Self::Chunk(leaf) => {
                if let Some(len) = leaf.codec.stored().byte_len() {
                    return leaf.update_fixed(context, old, updates, len, out);
                }
            }
            Self::Shard(shard) => return shard.update(context, old, updates, out),
            Self::Staged(_) => {}
        }
        let mut merged = context.take_buffer();
        let mut stored = self.update(context, old, first, &mut merged)?.stored;
        for update in between {
            let mut next = context.take_buffer();
            let old = stored.then_some(&*merged);
            stored = self.update(context, old, update, &mut next)?.stored;
            context.give_buffer(std::mem::replace(&mut merged, next));
        }
        let outcome = self.update(context, stored.then_some(&*merged), last, out)?;
        context.give_buffer(merged);
        Ok(outcome)
    }
}

impl Leaf {
    fn update(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        update: &Update<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, EncodeError> {
        match self.codec.stored().byte_len() {
            Some(len) => self.update_fixed(context, old, std::slice::from_ref(update), len, out),
            None => self.update_variable(context, old, update, out),
        }
    }

    /// Updates a chunk of fixed-size elements, `len` bytes, encoding it once for all updates.
    fn update_fixed(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        updates: &[Update<'_>],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, EncodeError> {
        let mut elements = context.take_filled(len)?;
        let store = self.merge(context, old, updates, &mut elements)?;
        if store {
            self.codec.encode(context, ElementsRef::Fixed(&elements), out)?;
        }
        context.give_buffer(elements);
        Ok(Outcome::of_chunk(store))
    }

    /// Fills `elements` with the chunk's elements after updates, in stored order; returns whether
    /// there is anything to store.
    fn merge(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        updates: &[Update<'_>],
        elements: &mut [u8],
    ) -> Result<bool, EncodeError> {
        let spec = self.codec.spec();
        // Whatever comes before an update that covers everything is overwritten.
        let covering = updates.iter().rposition(Update::covers_all);
        let updates = &updates[covering.unwrap_or(0)..];
        let covers_padding = |update: &Update<'_>| update.bounds == spec.shape;
        match old.filter(|_| covering.is_none()) {
            Some(old) => {
                self.codec.decode_into(context, old, elements).map_err(DecodeError::from)?;
            }
            None if covering.is_some() && updates.first().is_some_and(covers_padding) => {}
            None => {
                let whole: Axes<usize> = spec.shape.iter().map(|&n| n as usize).collect();
                let place = Placement { start: 0, strides: self.strides.clone() };
                strided::fill(&whole, &spec.fill.0, elements, &place)?;
            }
        }
        for update in updates {
            let to = self.selected(update.selection);
            update.source.copy_to(&update.selection.shape(), elements, &to)?;
        }
        let store_empty = updates.iter().any(|update| update.options.store_empty);
        Ok(store_empty || !strided::is_filled(elements, &spec.fill.0))
    }

    fn update_variable(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        update: &Update<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, EncodeError> {
        let fill = &self.codec.spec().fill.0;
        let count = self.codec.spec().elements().ok_or(OutOfMemory)?;
        let old = match old {
            Some(old) => Some(self.codec.decode_variable(context, old).map_err(DecodeError::from)?),
            None => None,
        };
        let to = self.selected(update.selection);
        let (new, shape, to) = update.source.variable(&update.selection.shape(), &to)?;
        // For each position in the chunk, the number of the new element that goes there, if any.
        let mut numbers: Vec<Option<usize>> = Vec::new();
        let bytes = count.saturating_mul(size_of::<Option<usize>>());
        numbers
            .try_reserve_exact(count)
            .map_err(|_| CodecError::OutOfMemory { codec: "array -> bytes", bytes })?;
        numbers.resize(count, None);
        let mut number = 0;
        super::decode::for_each_offset(&shape, &to, |at| {
            if let Some(place) = numbers.get_mut(at / HANDLE) {
                *place = Some(number);
            }
            number += 1;
        });
        let elements: VariableElements = numbers
            .iter()
            .enumerate()
            .map(|(i, number)| {
                let element = match number {
                    Some(number) => new.get(*number),
                    None => old.as_ref().and_then(|old| old.get(i)),
                };
                element.unwrap_or(fill)
            })
            .collect();
        let store = update.options.store_empty || elements.iter().any(|e| e != fill);
        if store {
            self.codec.encode(context, ElementsRef::Variable(&elements), out)?;
        }
        Ok(Outcome::of_chunk(store))
    }
}

impl ShardLayout {
    fn update(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        updates: &[Update<'_>],
        out: &mut Vec<u8>,
    ) -> Result<Outcome, EncodeError> {
        // Whatever comes before an update that covers everything is overwritten.
        let covering = updates.iter().rposition(Update::covers_all);
        let updates = &updates[covering.unwrap_or(0)..];
        let Some(&Update { bounds, options, .. }) = updates.first() else {
            return Ok(Outcome::default());
        };
        let old = match old.filter(|_| covering.is_none()) {
            Some(old) => Some(self.after.decode(context, old).map_err(DecodeError::from)?),
            None => None,
        };
        let old_bytes = old.as_ref().map(AsRef::as_ref);
        let old_index = match old_bytes {
            Some(bytes) => {
                let len = bytes.len() as u64;
                let range = self.index.range(len)?;
                let encoded = &bytes[range.start as usize..range.end as usize];
                Some(self.index.decode(context, encoded, len)?)
            }
            None => None,
        };
        let sources: SmallVec<[SourceView<'_>; 1]> =
            updates.iter().map(|update| update.source.to_stored(self)).collect();
        let selections: SmallVec<[&Selection; 1]> =
            updates.iter().map(|update| update.selection).collect();
        let plan = UpdatePlan::new(self, old_index.as_ref(), &selections, bounds, options.order)?;

        let slice = |range: &Range<u64>| {
            let bytes: &[u8] = old_bytes.unwrap_or_default();
            bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
        };
        let mut outcome = Outcome::default();
        let mut index = ShardIndex::empty(self.chunks())?;
        let mut shard = context.take_buffer();
        shard.resize(self.index.head() as usize, 0);
        for &entry in plan.entries() {
            let entry = entry as usize;
            let start = shard.len() as u64;
            let stored = match plan.action(entry)? {
                None => false,
                Some(Action::Keep { old }) => {
                    shard.extend_from_slice(slice(&old));
                    outcome.kept += 1;
                    true
                }
                Some(Action::Encode { cells, bounds, old }) => {
                    let updates: SmallVec<[Update<'_>; 1]> = cells
                        .iter()
                        .map(|(number, cell)| Update {
                            selection: &cell.selection,
                            bounds: &bounds,
                            source: sources[*number].advance(&cell.at),
                            options,
                        })
                        .collect();
                    let old = old.as_ref().map(slice);
                    let inner = self.inner.update_all(context, old, &updates, &mut shard).map_err(
                        |source| EncodeError::Nested { entry, source: Box::new(source) },
                    )?;
                    outcome.add(inner);
                    inner.stored
                }
            };
            if stored {
                index.set(entry, start..shard.len() as u64);
            }
        }
        outcome.stored = options.store_empty || !index.all_absent();
        if outcome.stored {
            let encoded = self.index.encode(context, &index)?;
            match self.index.location() {
                IndexLocation::Start => shard[..encoded.len()].copy_from_slice(&encoded),
                IndexLocation::End => shard.extend_from_slice(&encoded),
            }
            self.after.encode(context, &shard, out)?;
        }
        context.give_buffer(shard);
        if let Some(old) = old {
            old.recycle(context);
        }
        Ok(outcome)
    }
}

impl StagedLayout {
    fn update(
        &self,
        context: &mut Context,
        old: Option<&[u8]>,
        update: &Update<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, EncodeError> {
        let element = super::element_size(&self.spec);
        let place = Placement::contiguous(&self.spec.shape, element).ok_or(OutOfMemory)?;
        let mut elements = match old {
            Some(old) => self.decode_elements(context, old)?,
            None => {
                let shape = counts(&Selection::whole(&self.spec.shape));
                let mut elements = context.take_filled(self.spec.byte_len().ok_or(OutOfMemory)?)?;
                strided::fill(&shape, &self.spec.fill.0, &mut elements, &place)?;
                elements
            }
        };
        let to = select(&place.strides, update.selection);
        update.source.copy_to(&update.selection.shape(), &mut elements, &to)?;
        if !update.options.store_empty && strided::is_filled(&elements, &self.spec.fill.0) {
            return Ok(Outcome::of_chunk(false));
        }
        let encoded = self.stages.encode(context, &elements)?.unwrap_or(elements);
        let spec = self.inner.spec();
        let whole = Selection::whole(&spec.shape);
        let element = Some(super::element_size(spec));
        let source = MemorySource::new(ElementsRef::Fixed(&encoded), &spec.shape, element)
            .map_err(|e| EncodeError::Source(e.into()))?;
        let mut update = Update {
            selection: &whole,
            bounds: &spec.shape,
            source: SourceView::new(&source, spec.shape.iter().map(|_| 0).collect()),
            options: update.options,
        };
        let outcome = self.inner.update(context, None, &update, out)?;
        if outcome.stored {
            return Ok(outcome);
        }
        // All encoded elements equal the encoded fill value; that does not imply that the decoded
        // ones are all fill.
        update.options.store_empty = true;
        self.inner.update(context, None, &update, out)
    }
}

/// The encoded forms of some chunks or inner shards, one after another.
pub struct EncodedChunks<'a> {
    layout: &'a Layout,
    bytes: Vec<u8>,
    /// For chunks that are stored as they lie in memory, their size in bytes: they are built in
    /// place, in memory that is allocated for all of them up front.
    plain: Option<(&'a Leaf, usize)>,
    end: usize,
}

impl<'a> EncodedChunks<'a> {
    /// Allocates room for up to `count` of them.
    pub fn new(
        layout: &'a Layout,
        count: usize,
        context: &mut Context,
    ) -> Result<Self, CodecError> {
        let plain = match layout {
            Layout::Chunk(leaf) if leaf.codec.plain() == Some(Endian::Little) => {
                leaf.codec.stored().byte_len().map(|len| (&**leaf, len))
            }
            _ => None,
        };
        let bytes = match plain {
            Some((_, len)) => context.take_filled(len.saturating_mul(count))?,
            None => context.take_buffer(),
        };
        Ok(Self { layout, bytes, plain, end: 0 })
    }

    /// Adds a chunk after updates, as [`Layout::update_all`] does, and returns its range.
    pub fn add(
        &mut self,
        context: &mut Context,
        old: Option<&[u8]>,
        updates: &[Update<'_>],
    ) -> Result<(Outcome, Range<usize>), EncodeError> {
        let start = self.end;
        let outcome = match (self.plain, updates) {
            (Some((leaf, len)), updates) => {
                let elements = self.bytes.get_mut(start..start + len).ok_or(OutOfMemory)?;
                let store = leaf.merge(context, old, updates, elements)?;
                self.end += if store { len } else { 0 };
                Outcome::of_chunk(store)
            }
            (None, updates) => {
                let outcome = self.layout.update_all(context, old, updates, &mut self.bytes)?;
                self.end = self.bytes.len();
                outcome
            }
        };
        Ok((outcome, start..self.end))
    }

    /// All bytes; with plain chunks, unused ones may follow them.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
