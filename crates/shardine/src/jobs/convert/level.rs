//! Makes one level: each chunk is moved as it is where that is possible, or encoded anew.

use std::sync::atomic::{AtomicU64, Ordering};

use shardine_codec::Context;
use shardine_codec::strided::Axes;
use shardine_store::{Buffer, Key, Store, StoreError, StoreExt};

use super::super::repack::{ChunkFinder, RepackCheck, RepackError, RepackProgress};
use super::alike::{Side, fixed_len, have_same_chunks};
use super::options::{ConvertOptions, ConvertedLevel};
use super::source::ViewSource;
use super::view::View;
use crate::engine::tuning::JOB_BATCH;
use crate::engine::{Ahead, Cells, Publisher, StoredBytes, reading_ahead};
use crate::layout::{EncodeOptions, Layout, SourceView, Update};
use crate::selection::Selection;
use crate::shard::WriteOrder;
use crate::{Array, EngineError, Error, Region, Source as _};

/// The bytes of a chunk if it is stored; `None` if it is not to be moved at all.
pub(super) type Fetched = Result<Option<Option<Buffer>>, Error>;

/// A level being made.
pub(super) struct Level<'a> {
    old: &'a Array,
    pub view: &'a View,
    pub new: &'a Array,
    pub options: &'a ConvertOptions,
    /// Whether an earlier run has left something.
    pub resumed: bool,
    /// Its name in the target.
    pub name: &'a str,
    /// Whether whole chunks can be moved.
    pub moves: bool,
    finder: ChunkFinder<'a>,
    source: ViewSource<'a>,
    /// What a chunk that is moved must have, where that is known.
    chunk_len: Option<u64>,
    /// Whether what is not stored in the source is not stored in the target either.
    absent_stays: bool,
    pub(super) publisher: Publisher<'a, ()>,
    pub(super) counters: Counters,
}

/// What was done, by whichever worker.
#[derive(Debug, Default)]
pub(super) struct Counters {
    moved: AtomicU64,
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

/// The bytes of a chunk; `None` if it is not stored.
fn read(found: Option<StoredBytes>) -> Result<Option<Buffer>, Error> {
    let Some(found) = found else { return Ok(None) };
    match found.object.read(found.read_range()) {
        Ok(bytes) => {
            found.object.check_unchanged()?;
            Ok(Some(bytes))
        }
        // A store to which opening is free finds out now.
        Err(StoreError::NotFound { .. }) if found.range.is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl<'a> Level<'a> {
    pub fn new(
        old: Side<'a>,
        view: &'a View,
        new: Side<'a>,
        options: &'a ConvertOptions,
        resumed: bool,
        name: &'a str,
    ) -> Self {
        let (moves, chunk_len) = (have_same_chunks(old, view, new), fixed_len(new));
        let (old, new) = (old.array, new.array);
        let zero = old.data_type().default_fill();
        Self {
            moves,
            finder: ChunkFinder::new(old),
            source: ViewSource::new(old, view, new.chunk_shape()),
            chunk_len,
            absent_stays: *old.fill() == zero && !options.store_empty,
            publisher: Publisher::new(&*new.chunks.store, JOB_BATCH),
            counters: Counters::default(),
            old,
            view,
            new,
            options,
            resumed,
            name,
        }
    }

    /// Makes all objects. They are durable afterwards.
    pub fn run(&self, check: RepackCheck) -> Result<(), Error> {
        match (self.new.chunks.packing.shared(), &self.new.chunks.layout) {
            (Some(shared), _) => self.shared_objects(shared)?,
            (None, Layout::Shard(shard)) => self.zarr_shards(shard)?,
            (None, _) => self.objects()?,
        }
        match check {
            RepackCheck::None => Ok(()),
            RepackCheck::Bytes => self.compare(false),
            RepackCheck::Elements => self.compare(true),
        }
    }

    /// Chunks along each axis.
    pub fn chunk_grid(&self) -> Vec<u64> {
        let axes = self.new.shape().iter().zip(self.new.chunk_shape());
        axes.map(|(&len, &n)| len.div_ceil(n)).collect()
    }

    fn chunk_count(&self) -> u64 {
        Cells::new(self.chunk_grid()).count
    }

    /// Where a chunk begins, and how much of it lies in the array.
    fn part(&self, chunk: &[u64]) -> (Vec<u64>, Axes<u64>) {
        let axes = chunk.iter().zip(self.new.chunk_shape());
        let start: Vec<u64> = axes.map(|(&i, &n)| i * n).collect();
        let axes = start.iter().zip(self.new.chunk_shape()).zip(self.new.shape());
        let bounds = axes.map(|((&start, &n), &len)| n.min(len - start)).collect();
        (start, bounds)
    }

    /// Whether a chunk may be moved: it is not cut off at an end of the array.
    fn is_movable(&self, bounds: &[u64]) -> bool {
        self.moves && *bounds == *self.new.chunk_shape()
    }

    /// What there is of a chunk in the source, if it may be moved.
    fn fetch(&self, chunk: &[u64]) -> Fetched {
        let (_, bounds) = self.part(chunk);
        if self.is_movable(&bounds) { self.read_old(chunk).map(Some) } else { Ok(None) }
    }

    /// Does some work while chunks of a far source are read ahead, by number in the order in which they are made.
    pub(super) fn reading_ahead<T>(
        &self,
        count: usize,
        chunk: &(dyn Fn(usize) -> Vec<u64> + Sync),
        work: impl FnOnce(Option<&Ahead<'_, Fetched>>) -> T,
    ) -> T {
        // Those that are read, and those that wait for their turn.
        let bytes = self.chunk_bytes().saturating_mul(3);
        let most = match self.moves {
            true => self.new.engine().at_once(&*self.old.chunks.store, bytes),
            false => 1,
        };
        reading_ahead(most, count, &|i| self.fetch(&chunk(i)), work)
    }

    /// Appends a chunk, as it is to be stored; tells whether it is. `ahead` is where it may have been read already, and its number there.
    pub(super) fn make(
        &self,
        context: &mut Context,
        chunk: &[u64],
        ahead: Option<(&Ahead<'_, Fetched>, usize)>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let (start, bounds) = self.part(chunk);
        let fetched = match ahead.and_then(|(ahead, i)| ahead.take(i)) {
            Some(fetched) => fetched?,
            None => self.fetch(chunk)?,
        };
        if let Some(bytes) = fetched {
            match bytes {
                // One that is too long or too short is damaged: whoever decodes it says how.
                Some(bytes) if self.chunk_len.is_none_or(|len| len == bytes.len() as u64) => {
                    out.extend_from_slice(&bytes);
                    add(&self.counters.moved, 1);
                    return Ok(true);
                }
                None if self.absent_stays => {
                    add(&self.counters.absent, 1);
                    return Ok(false);
                }
                _ => {}
            }
        }
        let layout = match &self.new.chunks.layout {
            Layout::Shard(shard) => &shard.inner,
            _ => self.new.chunks.layout_of(chunk),
        };
        let selection = Selection::whole(&bounds);
        let store_empty = self.options.store_empty;
        let update = Update {
            selection: &selection,
            bounds: &bounds,
            source: SourceView::new(&self.source, start.into_iter().collect()),
            options: EncodeOptions { order: WriteOrder::default(), store_empty },
        };
        let outcome = layout.update(context, None, &update, out).map_err(|source| {
            match self.new.chunks.packing.key(&self.object_cell(chunk)) {
                Ok(object) => Error::from(EngineError::encode(&object, chunk, source)),
                Err(error) => error.into(),
            }
        })?;
        let counters = &self.counters;
        add(if outcome.stored { &counters.recoded } else { &counters.absent }, 1);
        Ok(outcome.stored)
    }

    /// The bytes of a chunk of the source; `None` if it is not stored.
    fn read_old(&self, chunk: &[u64]) -> Result<Option<Buffer>, Error> {
        read(self.finder.find(&self.view.to_array(chunk, 0))?)
    }

    /// The cell of the object that holds a chunk.
    fn object_cell(&self, chunk: &[u64]) -> Vec<u64> {
        match &self.new.chunks.layout {
            layout @ Layout::Shard(_) => layout.find_chunk(chunk).0,
            _ => chunk.to_vec(),
        }
    }

    /// Whether an earlier run has made this object.
    pub(super) fn is_there(&self, store: &dyn Store, key: &Key) -> Result<bool, Error> {
        Ok(self.resumed && store.contains(key)?)
    }

    /// So many more chunks of the grid are done.
    pub(super) fn advance(&self, chunks: u64) {
        let before = self.counters.done.fetch_add(chunks, Ordering::Relaxed);
        if let Some(tell) = &self.options.progress {
            let (array, done) = (self.name.to_owned(), before + chunks);
            tell(RepackProgress { array, done, total: self.chunk_count() });
        }
    }

    pub(super) fn wrote(&self, bytes: u64) {
        add(&self.counters.written, 1);
        add(&self.counters.bytes, bytes);
    }

    /// An earlier run has made an object of so many chunks.
    pub(super) fn kept(&self, chunks: u64) {
        add(&self.counters.kept, 1);
        self.advance(chunks);
    }

    /// Compares all chunks that could be moved, byte by byte; with `elements` all others too, decoded.
    fn compare(&self, elements: bool) -> Result<(), Error> {
        let made = ChunkFinder::new(self.new);
        self.new.engine().each_task(Cells::new(self.chunk_grid()), &|chunk, _| {
            let (start, bounds) = self.part(&chunk);
            if self.is_movable(&bounds) {
                let (new, old) = (read(made.find(&chunk)?)?, self.read_old(&chunk)?);
                match (new, old) {
                    (Some(new), Some(old)) if *new == *old => return Ok(()),
                    (None, None) if self.absent_stays => return Ok(()),
                    (_, Some(_)) => {
                        let object = self.new.chunks.packing.key(&self.object_cell(&chunk))?;
                        return Err(RepackError::Differs { object, chunk }.into());
                    }
                    // It was made of the fill value.
                    _ => {}
                }
            }
            if !elements {
                return Ok(());
            }
            let region = Region::of_box(&start, &bounds);
            let new = self.new.read(&region)?.into_fixed().unwrap_or_default();
            let mut old = vec![0; new.len()];
            let element = self.new.chunks.layout.element_size();
            let too_large = || crate::RegionError::TooLarge { shape: bounds.to_vec() };
            let place = crate::Placement::contiguous(&bounds, element).ok_or_else(too_large)?;
            self.source.copy_box(&start, &bounds, &mut old, &place).map_err(
                |source| match source.downcast::<Error>() {
                    Ok(error) => *error,
                    Err(_) => too_large().into(),
                },
            )?;
            if old == new {
                return Ok(());
            }
            Err(RepackError::Elements { start, shape: bounds.to_vec() }.into())
        })
    }

    /// Puts what was counted into the report.
    pub fn report(&self, report: &mut ConvertedLevel) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        report.chunks_moved = get(&counters.moved);
        report.chunks_recoded = get(&counters.recoded);
        report.chunks_absent = get(&counters.absent);
        report.objects_written = get(&counters.written);
        report.bytes_written = get(&counters.bytes);
        report.objects_kept = get(&counters.kept);
    }
}
