//! Writes a region: whole shards are streamed; updated ones are rewritten, with untouched chunks
//! moved as bytes.

mod compact;
mod in_place;
mod options;
mod publish;
mod shared;
mod stream;
mod task;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardine_store::{Buffer, Condition, CreateOptions, Edit, Key, Object, ReadRange, StoreError};

use smallvec::SmallVec;

use super::cache::CellId;
use super::cancel::{self, CancelToken};
use super::publisher::Publisher;
use super::{ChunkSet, Engine};
use crate::Error;
use crate::layout::{EncodeError, EncodeOptions, Layout, Outcome, ShardLayout, Update, UpdatePlan};
use crate::selection::{RegionError, Selection};
use crate::shard::{IndexLocation, ShardIndex};
use crate::tuning::{STREAM, WRITE_BATCH};
use in_place::Changed;
use stream::Stream;
use task::{Task, tasks};

use crate::tuning::{OVERHEAD, REMOTE_WRITES, REWRITES};
pub use compact::compact;
pub use options::{Strategy, WriteOptions, WriteReport};
pub use task::Patch;

#[derive(Default)]
struct Counters {
    objects_written: AtomicU64,
    objects_removed: AtomicU64,
    chunks_encoded: AtomicU64,
    chunks_kept: AtomicU64,
    chunks_empty: AtomicU64,
    bytes_written: AtomicU64,
}

impl Counters {
    fn chunks(&self, outcome: Outcome) {
        add(&self.chunks_encoded, outcome.encoded);
        add(&self.chunks_kept, outcome.kept);
        add(&self.chunks_empty, outcome.empty);
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Writes elements to selections of the array; where they overlap, the later one wins.
///
/// Each object changes atomically.
pub fn write(
    engine: &Engine,
    grid: &ChunkSet,
    patches: &[Patch<'_>],
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    let expected = grid.layout.element_size();
    for patch in patches {
        if let Some(actual) = patch.source.element_size().filter(|&size| size != expected) {
            return Err(RegionError::ElementSize { expected, actual }.into());
        }
    }
    let writing = Writing::new(engine, grid, options);
    let shared = grid.packing.shared();
    let named = matches!(options.strategy, Strategy::InPlace | Strategy::Append);
    let refusal = match (shared, &grid.layout) {
        (Some(shared), _) => Some(shared.in_place_refusal()),
        // There is nothing besides the chunk that could stay in place.
        (None, Layout::Chunk(_)) => None,
        (None, layout) => in_place::refusal(layout.addressable()),
    };
    if let Some(reason) = refusal.filter(|_| named) {
        return Err(Error::Strategy { strategy: options.strategy, reason });
    }
    let tasks = || tasks(patches, grid.cell_shape(), |cell| grid.bounds(cell));
    match (shared, grid.layout.addressable()) {
        (Some(shared), _) => writing.shared(shared, patches)?,
        (None, Some(shard)) if is_streamed(&grid.layout) || named => {
            tasks().try_for_each(|task| writing.stream(shard, &task))?;
        }
        (None, _) => writing.objects(tasks())?,
    }
    writing.publish_staged()?;
    let counters = &writing.counters;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(WriteReport {
        objects_written: get(&counters.objects_written),
        objects_removed: get(&counters.objects_removed),
        chunks_encoded: get(&counters.chunks_encoded),
        chunks_kept: get(&counters.chunks_kept),
        chunks_empty: get(&counters.chunks_empty),
        bytes_written: get(&counters.bytes_written),
    })
}

/// Whether the chunks of one object are encoded in parallel and written as they are ready, rather
/// than several objects in parallel.
pub fn is_streamed(layout: &Layout) -> bool {
    layout.addressable().is_some() && layout.decoded_len() > STREAM
}

struct Writing<'a> {
    engine: &'a Engine,
    grid: &'a ChunkSet,
    options: &'a WriteOptions,
    encode: EncodeOptions,
    /// Whether the store is local.
    local: bool,
    publisher: Publisher<'a, ()>,
    /// Objects of a remote store to be removed.
    removed: Mutex<Vec<Key>>,
    counters: Counters,
    /// Stops the write.
    cancel: Option<CancelToken>,
}

impl<'a> Writing<'a> {
    fn new(engine: &'a Engine, grid: &'a ChunkSet, options: &'a WriteOptions) -> Self {
        let encode = EncodeOptions { order: options.order, store_empty: options.store_empty };
        Self {
            engine,
            grid,
            options,
            encode,
            local: grid.store.read_cost().local,
            publisher: Publisher::new(&*grid.store, WRITE_BATCH),
            removed: Mutex::default(),
            counters: Counters::default(),
            cancel: CancelToken::watched(),
        }
    }

    /// An error if the write is cancelled.
    fn check(&self) -> Result<(), Error> {
        cancel::check(self.cancel.as_ref())
    }

    fn progress(&self, bytes: u64) {
        if let Some(progress) = &self.options.progress {
            progress(bytes);
        }
    }

    /// Writes small objects, several in parallel.
    fn objects<'t>(&self, tasks: impl Iterator<Item = Task<'t>> + Send) -> Result<(), Error> {
        // The decoded elements, the old bytes and the new ones.
        let cost = self.grid.layout.decoded_len().saturating_mul(3).saturating_add(OVERHEAD);
        let write = |task: Task<'t>| self.object(&task);
        match self.local {
            true => self.engine.each_admitted(cost, tasks, &write),
            false => self.engine.each_waiting(cost, REMOTE_WRITES, tasks, &write),
        }
    }

    /// Writes one object that is encoded in memory.
    fn object(&self, task: &Task<'_>) -> Result<(), Error> {
        self.check()?;
        let key = self.grid.packing.key(&task.index)?;
        let bounds = self.grid.bounds(&task.index);
        let covered = task.covers(&bounds);
        let mut options = self.encode;
        self.attempts(&key, || {
            let updates: SmallVec<[Update<'_>; 1]> = task
                .parts
                .iter()
                .map(|part| Update {
                    selection: &part.cell.selection,
                    bounds: &bounds,
                    source: part.view(),
                    options,
                })
                .collect();
            let old = self.old(&key, covered)?;
            let old_bytes = match &old {
                Some(old) => Some(read(&*old.object, ReadRange::All)?),
                None => None,
            };
            let (outcome, encoded) = self.engine.with_context(|context| {
                let mut encoded = context.take_buffer();
                let old = old_bytes.as_deref();
                self.grid
                    .layout_of(&task.index)
                    .update_all(context, old, &updates, &mut encoded)
                    .map(|outcome| (outcome, encoded))
                    .map_err(|source| self.encode_error(&key, &task.index, &[], source))
            })?;
            let condition = condition(covered, old.as_ref());
            if outcome.stored {
                let writer = self.grid.store.create(&key, CreateOptions { head: 0, condition })?;
                writer.append(&encoded)?;
                self.publish(writer.finish(&[])?, covered, encoded.len() as u64)?;
                add(&self.counters.bytes_written, encoded.len() as u64);
            } else {
                let removed = self.remove(&key, covered, old.is_some(), &condition);
                if let Err(Error::Store(StoreError::Unsupported { .. })) = removed
                    && !std::mem::replace(&mut options.store_empty, true)
                {
                    // An object that cannot be removed safely is stored with nothing but the fill
                    // value.
                    return Err(StoreError::Changed { key: key.clone() }.into());
                }
                removed?;
            }
            self.counters.chunks(outcome);
            self.engine.with_context(|context| context.give_buffer(encoded));
            Ok(())
        })?;
        self.forget(&task.index);
        self.progress(task.bytes(self.grid.layout.element_size()));
        Ok(())
    }

    /// Retries an update while other writers are faster.
    fn attempts(&self, key: &Key, attempt: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        attempts(self.local, key, attempt)
    }

    /// The existing object, if it matters.
    fn old(&self, key: &Key, covered: bool) -> Result<Option<Edit>, Error> {
        if covered {
            return Ok(None);
        }
        match self.grid.store.edit(key) {
            Ok(edit) => Ok(Some(edit)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a large shard: its chunks are encoded in parallel and written as they are ready.
    fn stream(&self, shard: &ShardLayout, task: &Task<'_>) -> Result<(), Error> {
        self.check()?;
        let key = self.grid.packing.key(&task.index)?;
        let bounds = self.grid.bounds(&task.index);
        let covered = task.covers(&bounds);
        let selections: Vec<&Selection> =
            task.parts.iter().map(|part| &part.cell.selection).collect();
        let mut past_max_gap = false;
        self.attempts(&key, || {
            let old = self.old(&key, covered)?;
            let index = match &old {
                Some(old) => Some(self.old_index(shard, &key, &task.index, &*old.object)?),
                None => None,
            };
            let object = old.as_ref().map(|old| &old.object);
            let stream = Stream { writing: self, shard, key: &key, task, old: object };
            let order = self.options.order;
            let plan = UpdatePlan::new(shard, index.as_ref(), &selections, &bounds, order)
                .map_err(|source| stream.damaged(source))?;
            if let (Some(edit), Some(index)) = (&old, &index)
                && let Some(changed) = self.change(&stream, edit, index, &plan)?
            {
                past_max_gap = matches!(changed, Changed::Done { past_max_gap: true });
                if matches!(changed, Changed::Empty) {
                    self.remove(&key, false, true, &edit.condition())?;
                }
                return Ok(());
            }
            stream.rewrite(&plan, condition(covered, old.as_ref()), covered)
        })?;
        self.forget(&task.index);
        if past_max_gap {
            self.compact(shard, &task.index)?;
        }
        Ok(())
    }

    /// Changes a shard in place, if the strategy allows it and it is possible; `None` if it has to
    /// be rewritten.
    fn change(
        &self,
        stream: &Stream<'_, '_>,
        edit: &Edit,
        index: &ShardIndex,
        plan: &UpdatePlan<'_>,
    ) -> Result<Option<Changed>, Error> {
        let auto = match self.options.strategy {
            Strategy::Rewrite => return Ok(None),
            Strategy::Auto => true,
            Strategy::InPlace | Strategy::Append => false,
        };
        if auto && !in_place::is_worth_it(stream.shard, index, plan) {
            return Ok(None);
        }
        match stream.change(edit, index, plan) {
            // If the store cannot do this safely, the shard is rewritten, unless in-place was
            // requested.
            Err(Error::Store(StoreError::Unsupported { .. })) if auto => Ok(None),
            changed => changed.map(Some),
        }
    }

    fn cell_id(&self, cell: &[u64]) -> CellId {
        CellId { array: self.grid.id, cell: cell.iter().copied().collect() }
    }

    /// Closes objects that readers keep open for a cell. They would notice, but only after a wasted
    /// read.
    fn forget(&self, cell: &[u64]) {
        self.engine.kept.remove(&self.cell_id(cell));
    }

    fn old_index(
        &self,
        shard: &ShardLayout,
        key: &Key,
        cell: &[u64],
        object: &dyn Object,
    ) -> Result<ShardIndex, Error> {
        let damaged = |source| Error::shard(key, cell, source);
        let (bytes, len) = match object.len() {
            Some(len) => {
                let range = shard.index.range(len).map_err(damaged)?;
                (read(object, ReadRange::Bounded(range))?, len)
            }
            None => {
                let range = match shard.index.location() {
                    IndexLocation::Start => ReadRange::Bounded(0..shard.index.len()),
                    IndexLocation::End => ReadRange::Suffix(shard.index.len()),
                };
                (read(object, range)?, object.len().unwrap_or(u64::MAX))
            }
        };
        self.engine
            .with_context(|context| shard.index.decode(context, &bytes, len))
            .map_err(damaged)
    }

    fn encode_error(
        &self,
        object: &Key,
        cell: &[u64],
        path: &[u32],
        mut source: EncodeError,
    ) -> Error {
        let mut path = path.to_vec();
        while let EncodeError::Nested { entry, source: inner } = source {
            path.push(entry as u32);
            source = *inner;
        }
        let path = path.as_slice();
        let chunk = self.grid.layout.chunk_coordinates(cell, path);
        Error::encode(object, &chunk, source)
    }
}

/// Retries an update of an object while other writers are faster.
pub fn attempts<T>(
    local: bool,
    key: &Key,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    for tried in 0..REWRITES {
        match attempt() {
            Err(Error::Store(StoreError::Conflict { .. } | StoreError::Changed { .. })) => {}
            result => return result,
        }
        if !local && tried > 0 {
            // With many writers retrying in lockstep, few would get through.
            let chance = RandomState::new().build_hasher().finish() % (5 * tried.min(40) as u64);
            std::thread::sleep(Duration::from_millis(chance));
        }
    }
    Err(Error::Contention { object: key.clone(), attempts: REWRITES })
}

/// The condition for a write, so that nobody else's data is lost.
fn condition(covered: bool, old: Option<&Edit>) -> Condition {
    match old {
        _ if covered => Condition::None,
        Some(old) => old.condition(),
        None => Condition::Absent,
    }
}

fn read(object: &dyn Object, range: ReadRange) -> Result<Buffer, Error> {
    Ok(object.read(range)?)
}
