//! Where the encoded chunks of an array lie.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_store::{Object, ReadRange};
use smallvec::SmallVec;

use crate::engine::StoredBytes;
use crate::layout::{Layout, ShardLayout};
use crate::shard::ShardIndex;
use crate::{Array, EngineError, Error};

/// Shards kept open at a time. Processes are commonly limited to a thousand open files.
const OPEN: usize = 64;

/// The limit on the memory of cached indexes: the memory in flight divided by this.
const INDEX_SHARE: u64 = 4;

/// Identifies a shard: its cell, and the entries that lead to it if it is nested.
type ShardKey = (Vec<u64>, SmallVec<[u32; 4]>);

/// A shard with its index; `None` if it does not exist.
type Known = Option<Arc<KnownShard>>;

#[derive(Debug)]
struct KnownShard {
    object: Arc<dyn Object>,
    /// Where it begins in the object.
    start: u64,
    index: ShardIndex,
}

/// Finds the innermost chunks of an array, however they are packed.
#[derive(Debug)]
pub(in crate::jobs) struct ChunkFinder<'a> {
    array: &'a Array,
    /// The most recently used ones, the newest last.
    shards: Mutex<VecDeque<(ShardKey, Known)>>,
    most_memory: u64,
    /// Held while looking for a chunk in a remote store: one thread reads an index while the others
    /// wait, as they would all request the same.
    looking: Option<Mutex<()>>,
}

impl<'a> ChunkFinder<'a> {
    /// For an array whose layout is addressable throughout.
    pub fn new(array: &'a Array) -> Self {
        let most_memory = array.engine().memory_in_flight() / INDEX_SHARE;
        let far = !array.chunks.store.read_cost().local;
        Self { array, shards: Mutex::default(), most_memory, looking: far.then(Mutex::default) }
    }

    /// The bytes of a chunk, by its position in the grid of innermost chunks; `None` if it is not
    /// stored.
    ///
    /// In a remote store, a chunk that is its own object is not checked here: its first read shows
    /// whether it exists.
    pub fn find(&self, chunk: &[u64]) -> Result<Option<StoredBytes>, Error> {
        let layout = &self.array.chunks.layout;
        let (cell, path) = layout.find_chunk(chunk);
        let Layout::Shard(outer) = layout else {
            if let Some(shared) = self.array.chunks.packing.shared()
                && let Some(_looking) = self.look()
            {
                shared.prepare(&[&cell], 1);
            }
            return Ok(self.array.chunks.find(&cell)?);
        };
        let (Some((last, leading)), mut shard) = (path.split_last(), outer) else {
            return Ok(None);
        };
        let _looking = self.look();
        let Some(mut known) = self.outer(&cell)? else { return Ok(None) };
        for (depth, &entry) in leading.iter().enumerate() {
            let Layout::Shard(inner) = &shard.inner else { return Ok(None) };
            let key = (cell.clone(), SmallVec::from_slice(&leading[..=depth]));
            let Some(inside) = self.inner(key, &known, inner, entry, &cell)? else {
                return Ok(None);
            };
            (known, shard) = (inside, inner);
        }
        let found = self.entry(&known, *last, &cell)?;
        Ok(found.map(|range| StoredBytes { object: Arc::clone(&known.object), range: Some(range) }))
    }

    fn look(&self) -> Option<MutexGuard<'_, ()>> {
        let looking = self.looking.as_ref();
        looking.map(|looking| looking.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The byte range of an entry in the object.
    fn entry(
        &self,
        known: &KnownShard,
        entry: u32,
        cell: &[u64],
    ) -> Result<Option<Range<u64>>, Error> {
        let found = known.index.get(entry as usize).map_err(|source| self.damaged(cell, source))?;
        Ok(found.map(|range| known.start + range.start..known.start + range.end))
    }

    fn damaged(&self, cell: &[u64], source: crate::shard::ShardError) -> Error {
        match self.array.chunks.packing.key(cell) {
            Ok(object) => EngineError::shard(&object, cell, source).into(),
            Err(error) => error.into(),
        }
    }

    /// A shard that is an object.
    fn outer(&self, cell: &[u64]) -> Result<Known, Error> {
        self.cached((cell.to_vec(), SmallVec::new()), || {
            let opened = self.array.open_shard(cell)?;
            Ok(opened.map(|opened| KnownShard {
                object: opened.object,
                start: 0,
                index: opened.index,
            }))
        })
    }

    /// A shard that is an entry of another.
    fn inner(
        &self,
        key: ShardKey,
        around: &KnownShard,
        layout: &ShardLayout,
        entry: u32,
        cell: &[u64],
    ) -> Result<Known, Error> {
        self.cached(key, || {
            let Some(range) = self.entry(around, entry, cell)? else { return Ok(None) };
            let len = range.end - range.start;
            let damaged = |source| self.damaged(cell, source);
            let index = layout.index.range(len).map_err(damaged)?;
            let bytes = range.start + index.start..range.start + index.end;
            let bytes = around.object.read(ReadRange::Bounded(bytes))?;
            let index = self
                .array
                .engine()
                .with_context(|context| layout.index.decode(context, &bytes, len))
                .map_err(damaged)?;
            Ok(Some(KnownShard { object: Arc::clone(&around.object), start: range.start, index }))
        })
    }

    fn cached(
        &self,
        key: ShardKey,
        load: impl FnOnce() -> Result<Option<KnownShard>, Error>,
    ) -> Result<Known, Error> {
        {
            let shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, known)) = shards.iter().rev().find(|(cached, _)| *cached == key) {
                return Ok(known.clone());
            }
        }
        // Two threads may load it concurrently, which beats one waiting for the other.
        let loaded = load()?.map(Arc::new);
        let memory = |known: &Known| known.as_ref().map_or(0, |known| known.index.memory() as u64);
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        shards.push_back((key, loaded.clone()));
        while shards.len() > OPEN
            || shards.len() > 1
                && shards.iter().map(|(_, known)| memory(known)).sum::<u64>() > self.most_memory
        {
            shards.pop_front();
        }
        Ok(loaded)
    }
}
