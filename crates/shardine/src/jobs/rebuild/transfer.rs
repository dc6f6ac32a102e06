//! Makes the chunks of one array from those of another: each is moved unchanged where possible,
//! otherwise recompressed or re-encoded.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use shardine_codec::strided::Axes;
use shardine_codec::{Context, zlib_to_gzip};
use shardine_store::{Buffer, StoreError};

use super::axes::AxisMap;
use super::finder::ChunkFinder;
use super::objects::Kind;
use super::relation::{Relation, fixed_len};
use super::source::ArraySource;
use super::{Note, RepackCheck};
use crate::engine::tuning::{JOB_BATCH, MAX_DECOMPRESSED};
use crate::engine::{Ahead, Cells, Publisher, StoredBytes, reading_ahead};
use crate::jobs::frame::{JobContext, JobProgress, Part};
use crate::jobs::pyramid::LevelCounts;
use crate::layout::{EncodeOptions, SourceView, Update};
use crate::selection::Selection;
use crate::shard::WriteOrder;
use crate::{Array, EngineError, Error};

/// How the chunks of an array are made from those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in crate::jobs) struct TransferOptions {
    /// The order of chunks in new shards.
    pub order: WriteOrder,
    /// Whether chunks that hold only the fill value are stored.
    pub store_empty: bool,
    /// How the result is checked.
    pub check: RepackCheck,
}

/// What was done, or what exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in crate::jobs) struct Counts {
    /// Chunks moved unchanged.
    pub moved: u64,
    /// Chunks compressed or decompressed.
    pub recompressed: u64,
    /// Chunks re-encoded.
    pub recoded: u64,
    /// Chunks that are not stored.
    pub absent: u64,
    /// Objects written.
    pub written: u64,
    /// Their total bytes.
    pub bytes: u64,
    /// Objects an earlier run had written.
    pub kept: u64,
}

impl Counts {
    /// What was made of levels, together.
    pub fn of_levels(levels: &[LevelCounts]) -> Self {
        let mut all = Self::default();
        for level in levels {
            all.add(&Self::from(level));
        }
        all
    }

    /// Adds the counts of another process.
    pub fn add(&mut self, other: &Self) {
        self.moved += other.moved;
        self.recompressed += other.recompressed;
        self.recoded += other.recoded;
        self.absent += other.absent;
        self.written += other.written;
        self.bytes += other.bytes;
        self.kept += other.kept;
    }
}

impl From<&LevelCounts> for Counts {
    fn from(level: &LevelCounts) -> Self {
        Self {
            recoded: level.chunks,
            absent: level.empty,
            written: level.objects,
            bytes: level.bytes,
            kept: level.kept,
            ..Self::default()
        }
    }
}

/// The same while being counted, by any worker.
#[derive(Debug, Default)]
struct Counters {
    moved: AtomicU64,
    recompressed: AtomicU64,
    recoded: AtomicU64,
    absent: AtomicU64,
    written: AtomicU64,
    bytes: AtomicU64,
    kept: AtomicU64,
    done: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// The bytes of a chunk if it is stored; `None` if it is not to be moved at all.
pub(super) type Fetched = Result<Option<Option<Buffer>>, Error>;

/// How a chunk was made.
pub(super) enum Made {
    /// It is not stored.
    Absent,
    /// It is moved unchanged.
    Moved(StoredBytes),
    /// It was appended.
    Bytes,
}

/// Two arrays, and how their axes correspond.
#[derive(Clone, Copy)]
pub(in crate::jobs) struct Sides<'a> {
    pub old: &'a Array,
    pub axes: &'a AxisMap,
    pub new: &'a Array,
}

/// One array being made from another.
pub(in crate::jobs) struct Transfer<'a> {
    pub(super) context: &'a JobContext,
    pub(super) old: &'a Array,
    pub(super) axes: &'a AxisMap,
    pub(super) new: &'a Array,
    pub(super) options: TransferOptions,
    /// Whether an earlier run may have left objects.
    pub(super) resumed: bool,
    /// The part whose objects this process makes; `None` for all.
    pub(super) part: Option<Part>,
    /// The path of the new array, for reports.
    pub(super) name: &'a str,
    pub(super) relation: Relation,
    pub(super) kind: Kind<'a>,
    pub(super) finder: ChunkFinder<'a>,
    pub(super) source: ArraySource<'a>,
    /// The length of a moved chunk, where known.
    chunk_len: Option<u64>,
    /// Whether chunks absent from the old array are absent from the new one too.
    pub(super) absent_stays: bool,
    pub(super) publisher: Publisher<'a, Note>,
    counters: Counters,
}

/// Reads the stored bytes of a chunk; `None` if it is not stored.
pub(super) fn read(found: Option<StoredBytes>) -> Result<Option<Buffer>, Error> {
    let Some(found) = found else { return Ok(None) };
    match found.object.read(found.read_range()) {
        Ok(bytes) => {
            found.object.check_unchanged()?;
            Ok(Some(bytes))
        }
        // A store where opening is free finds out now.
        Err(StoreError::NotFound { .. }) if found.range.is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl<'a> Transfer<'a> {
    pub fn new(
        context: &'a JobContext,
        Sides { old, axes, new }: Sides<'a>,
        options: TransferOptions,
        resumed: bool,
        name: &'a str,
    ) -> Self {
        let relation = Relation::of(old, axes, new);
        let kind = Kind::of(new);
        // Small objects are made whole by one worker, the chunks of large ones by several.
        let unit = if new.streams() { new.chunk_shape() } else { new.cell_shape() };
        // Where both store chunks alike, a chunk of the wrong length is no more wrong than before.
        let differ = old.cuts_edges() != new.cuts_edges();
        Self {
            context,
            old,
            axes,
            new,
            options,
            resumed,
            part: None,
            name,
            relation,
            kind,
            finder: ChunkFinder::new(old),
            source: ArraySource::new(old, axes, unit),
            chunk_len: if differ { fixed_len(new) } else { None },
            absent_stays: old.fill() == new.fill() && !options.store_empty,
            publisher: Publisher::new(&*new.chunks.store, JOB_BATCH),
            counters: Counters::default(),
        }
    }

    /// Makes only the objects of this part.
    pub fn with_part(mut self, part: Option<Part>) -> Self {
        self.part = part;
        self
    }

    /// Whether chunks are moved or recompressed rather than re-encoded.
    pub fn moves(&self) -> bool {
        self.relation.keeps_elements_encoded()
    }

    /// Makes and checks all objects. They are durable afterwards.
    pub fn run(&self) -> Result<(), Error> {
        self.make_all()?;
        self.finish()?;
        if self.options.check == RepackCheck::Elements {
            self.compare_elements()?;
        }
        Ok(())
    }

    /// Publishes and checks all objects that were made.
    pub(super) fn finish(&self) -> Result<(), Error> {
        let notes = self.publisher.finish()?;
        self.context.engine().each_task(notes.iter(), &|note, _| self.check_made(note))
    }

    /// The shape of what is made as one: a chunk, or an object that is encoded as a whole.
    pub(super) fn piece_shape(&self) -> &'a [u64] {
        match self.kind {
            Kind::Objects => self.new.cell_shape(),
            _ => self.new.chunk_shape(),
        }
    }

    /// The number of axes of the new array.
    pub(super) fn rank(&self) -> usize {
        self.new.shape().len()
    }

    /// The number of chunks of the new array along each axis.
    pub(super) fn chunk_grid(&self) -> Vec<u64> {
        let axes = self.new.shape().iter().zip(self.new.chunk_shape());
        axes.map(|(&len, &n)| len.div_ceil(n.max(1))).collect()
    }

    /// The number of chunks of the new array, saturating.
    pub(super) fn chunk_count(&self) -> u64 {
        Cells::new(self.chunk_grid()).count
    }

    /// Where a box of a grid of such boxes begins, and how much of it lies in the array.
    pub(super) fn part_of(&self, cell: &[u64], shape: &[u64]) -> (Vec<u64>, Axes<u64>) {
        let start: Vec<u64> = cell.iter().zip(shape).map(|(&i, &n)| i.saturating_mul(n)).collect();
        let axes = start.iter().zip(shape).zip(self.new.shape());
        let bounds = axes.map(|((&start, &n), &len)| n.min(len.saturating_sub(start))).collect();
        (start, bounds)
    }

    /// Whether a chunk keeps its elements encoded: both sides store it alike, cut off at an end of
    /// the array or not.
    pub(super) fn is_movable(&self, chunk: &[u64]) -> bool {
        if !self.moves() {
            return false;
        }
        if self.old.cuts_edges() == self.new.cuts_edges() {
            return true;
        }
        let (_, bounds) = self.part_of(chunk, self.new.chunk_shape());
        *bounds == *self.new.chunk_shape()
    }

    /// Where a chunk is stored in the old array.
    pub(super) fn find_old(&self, chunk: &[u64]) -> Result<Option<StoredBytes>, Error> {
        self.finder.find(&self.axes.to_old(chunk, 0))
    }

    /// The stored bytes of a chunk in the old array, if it keeps its elements encoded.
    fn fetch(&self, chunk: &[u64]) -> Fetched {
        match self.is_movable(chunk) {
            true => read(self.find_old(chunk)?).map(Some),
            false => Ok(None),
        }
    }

    /// The decoded size of a chunk in bytes.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let element = self.new.chunks.layout.element_size() as u64;
        self.new.chunk_shape().iter().fold(element, |n, &len| n.saturating_mul(len))
    }

    /// Whether chunks can be moved without passing through memory.
    pub(super) fn moves_in_kernel(&self) -> bool {
        matches!(self.relation, Relation::Same) && self.old.chunks.store.read_cost().local
    }

    /// Runs `work` while chunks of a remote store are prefetched, by number in the order in which
    /// they are made.
    pub(super) fn reading_ahead<T>(
        &self,
        count: usize,
        chunk: &(dyn Fn(usize) -> Vec<u64> + Sync),
        work: impl FnOnce(Option<&Ahead<'_, Fetched>>) -> T,
    ) -> T {
        // For each worker: those being read, and those waiting for their turn.
        let engine = self.context.engine();
        let bytes = self.chunk_bytes().saturating_mul(3);
        let most = match self.moves() {
            true => engine.at_once(&*self.old.chunks.store, bytes),
            false => 1,
        };
        reading_ahead(most, count, &|i| self.fetch(&chunk(i)), work)
    }

    /// Makes a chunk: returns where it is moved from, or appends the bytes to be stored. `ahead` is
    /// where it may have been prefetched, and its number there.
    pub(super) fn make(
        &self,
        context: &mut Context,
        chunk: &[u64],
        ahead: Option<(&Ahead<'_, Fetched>, usize)>,
        out: &mut Vec<u8>,
    ) -> Result<Made, Error> {
        let counters = &self.counters;
        if self.moves_in_kernel() && self.is_movable(chunk) {
            match self.find_old(chunk)? {
                None if self.absent_stays => {
                    add(&counters.absent, 1);
                    return Ok(Made::Absent);
                }
                None => {}
                Some(found) => {
                    let len = found.range.as_ref().map(|range| range.end - range.start);
                    if len.is_some() && self.chunk_len.is_none_or(|wanted| Some(wanted) == len) {
                        add(&counters.moved, 1);
                        return Ok(Made::Moved(found));
                    }
                }
            }
        }
        let fetched = match ahead.and_then(|(ahead, i)| ahead.take(i)) {
            Some(fetched) => fetched?,
            None => self.fetch(chunk)?,
        };
        if let Some(bytes) = fetched {
            match bytes {
                // One of the wrong length is damaged: decoding it says how.
                Some(bytes) if self.chunk_len.is_none_or(|len| len == bytes.len() as u64) => {
                    self.carry(context, chunk, &bytes, out)?;
                    return Ok(Made::Bytes);
                }
                None if self.absent_stays => {
                    add(&counters.absent, 1);
                    return Ok(Made::Absent);
                }
                _ => {}
            }
        }
        self.encode(context, chunk, out)
    }

    /// Appends the bytes of a chunk, recompressed if needed.
    fn carry(
        &self,
        context: &mut Context,
        chunk: &[u64],
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let counter = match &self.relation {
            Relation::Recompressed { .. } => {
                self.recompress(context, chunk, bytes, out)?;
                &self.counters.recompressed
            }
            Relation::Rewrapped { .. } => {
                self.recompress(context, chunk, bytes, out)?;
                &self.counters.moved
            }
            Relation::Prefixed(prefix) => {
                out.extend_from_slice(prefix);
                out.extend_from_slice(bytes);
                &self.counters.moved
            }
            Relation::Same | Relation::Recoded => {
                out.extend_from_slice(bytes);
                &self.counters.moved
            }
        };
        add(counter, 1);
        Ok(())
    }

    /// Appends the new form of a chunk of the old array.
    pub(super) fn recompress(
        &self,
        context: &mut Context,
        chunk: &[u64],
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let limit = usize::try_from(MAX_DECOMPRESSED).unwrap_or(usize::MAX);
        let done = match &self.relation {
            Relation::Recompressed { decode: Some(from), encode: Some(to) } => {
                let mut plain = context.take_buffer();
                let done = from.decode(context, bytes, limit, &mut plain);
                let done = done.and_then(|()| to.encode(context, &plain, out));
                context.give_buffer(plain);
                done
            }
            Relation::Recompressed { decode: Some(codec), encode: None } => {
                codec.decode(context, bytes, limit.saturating_add(out.len()), out)
            }
            Relation::Recompressed { decode: None, encode: Some(codec) } => {
                codec.encode(context, bytes, out)
            }
            Relation::Rewrapped { .. } => zlib_to_gzip(context, bytes, limit, out),
            _ => {
                out.extend_from_slice(bytes);
                Ok(())
            }
        };
        done.map_err(|error| match self.old.chunks.packing.key(&self.old_cell(chunk)) {
            Ok(key) => {
                let reason = format!("chunk {chunk:?}: {error}");
                StoreError::Damaged { key, reason }.into()
            }
            Err(error) => Error::from(error),
        })
    }

    /// The cell of the old array's object that holds a chunk.
    fn old_cell(&self, chunk: &[u64]) -> Vec<u64> {
        self.old.chunks.layout.find_chunk(&self.axes.to_old(chunk, 0)).0
    }

    /// The cell of the new array's object that holds a chunk.
    pub(super) fn new_cell(&self, chunk: &[u64]) -> Vec<u64> {
        self.new.chunks.layout.find_chunk(chunk).0
    }

    /// Encodes a chunk from elements of the old array.
    fn encode(
        &self,
        context: &mut Context,
        chunk: &[u64],
        out: &mut Vec<u8>,
    ) -> Result<Made, Error> {
        let (start, bounds) = self.part_of(chunk, self.piece_shape());
        let layout = match self.kind {
            Kind::Shards(shard) => &shard.inner,
            _ => self.new.chunks.layout_of(chunk),
        };
        let selection = Selection::whole(&bounds);
        let store_empty = self.options.store_empty;
        let update = Update {
            selection: &selection,
            bounds: &bounds,
            source: SourceView::new(&self.source, start.into_iter().collect()),
            options: EncodeOptions { order: self.options.order, store_empty },
        };
        let outcome = layout.update(context, None, &update, out).map_err(|source| {
            match self.new.chunks.packing.key(&self.new_cell(chunk)) {
                Ok(object) => Error::from(EngineError::encode(&object, chunk, source)),
                Err(error) => error.into(),
            }
        })?;
        self.wrote_chunks(outcome.encoded, outcome.empty);
        Ok(if outcome.stored { Made::Bytes } else { Made::Absent })
    }

    /// Counts chunks of the grid as done. An error if the job should stop.
    pub(super) fn advance(&self, chunks: u64) -> Result<(), Error> {
        let before = self.counters.done.fetch_add(chunks, Ordering::Relaxed);
        if self.context.is_watched() {
            // Elements are compared in a second pass over the grid.
            let passes = if self.options.check == RepackCheck::Elements { 2 } else { 1 };
            let total = self.chunk_count().saturating_mul(passes);
            let done = (before + chunks).min(total);
            let bytes = self.counters.bytes.load(Ordering::Relaxed);
            let progress = JobProgress::steps(self.name, done, total);
            self.context.report(JobProgress { bytes, ..progress });
        }
        self.context.check()
    }

    /// Counts written objects and their bytes.
    pub(super) fn wrote(&self, objects: u64, bytes: u64) {
        add(&self.counters.written, objects);
        add(&self.counters.bytes, bytes);
    }

    /// Counts chunks made by the engine's own writer.
    pub(super) fn wrote_chunks(&self, recoded: u64, absent: u64) {
        add(&self.counters.recoded, recoded);
        add(&self.counters.absent, absent);
    }

    /// Counts an object that an earlier run has made, with its stored and absent chunks.
    pub(super) fn kept(&self, stored: u64, absent: u64) -> Result<(), Error> {
        let counters = &self.counters;
        add(&counters.kept, 1);
        add(&counters.absent, absent);
        match &self.relation {
            Relation::Same | Relation::Prefixed(_) | Relation::Rewrapped { .. } => {
                add(&counters.moved, stored);
            }
            Relation::Recompressed { .. } => add(&counters.recompressed, stored),
            Relation::Recoded => {}
        }
        self.advance(stored + absent)
    }

    /// Counts an object that an earlier run has made, without having read its chunks.
    pub(super) fn kept_unseen(&self, chunks: u64) -> Result<(), Error> {
        add(&self.counters.kept, 1);
        self.advance(chunks)
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let mut counts = Counts {
            moved: get(&counters.moved),
            recompressed: get(&counters.recompressed),
            recoded: get(&counters.recoded),
            absent: get(&counters.absent),
            written: get(&counters.written),
            bytes: get(&counters.bytes),
            kept: get(&counters.kept),
        };
        if self.part.is_none() && self.is_sparse() && self.absent_stays {
            // Where nothing is stored, nothing was counted.
            let stored = counts.moved + counts.recompressed + counts.recoded;
            counts.absent = self.chunk_count().saturating_sub(stored);
        }
        counts
    }
}
