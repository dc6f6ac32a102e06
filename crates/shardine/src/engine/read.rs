//! Reading a region: region -> objects -> chunks -> byte ranges -> decoded straight into place.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use shardine_codec::Context;
use shardine_codec::strided::Placement;
use shardine_store::{Buffer, Key, Object, Read, ReadRange, StoreError};

use super::cache::{CachedIndex, IndexKey, Path};
use super::{Engine, Grid};
use crate::Error;
use crate::layout::{DecodeError, Layout, ShardLayout, Target, advance};
use crate::selection::{Cell, RegionError, Selection};
use crate::shard::{IndexLocation, ShardError, ShardIndex};

/// Objects that are open at once.
const WAVE: usize = 128;

/// How often a shard that changes under the reader is read again.
const ATTEMPTS: usize = 8;

/// Decoded bytes up to which the caller's own thread does the work: handing over costs more.
const INLINE: u64 = 128 << 10;

/// Decoded bytes of a piece of work for one worker.
const PIECE: u64 = 256 << 10;

/// What is done with the bytes of a read, given its number.
type UseBytes<'a> = dyn Fn(usize, &[u8]) -> Result<(), Error> + Sync + 'a;

/// Something encoded that is wanted: all or part of the bytes `range` of an object.
#[derive(Clone)]
struct Node<'a> {
    /// Which of the opened objects.
    object: usize,
    /// Its bytes; unknown for an object whose length is not.
    range: Option<Range<u64>>,
    layout: &'a Layout,
    /// What is wanted of it.
    selection: Selection,
    /// Where that goes.
    place: Placement,
    path: Path,
    /// Whether all of it that lies inside the array is wanted.
    whole: bool,
}

/// One read and what is in it.
struct Fetch<'a> {
    object: usize,
    range: Option<Range<u64>>,
    nodes: Vec<Node<'a>>,
}

/// A chunk in memory that is ready to be decoded.
struct Job<'a, 'b> {
    node: &'b Node<'a>,
    layout: &'a Layout,
    bytes: &'b [u8],
    start: u64,
    selection: Selection,
    place: Placement,
    path: Path,
}

/// An object that exists.
struct Opened {
    key: Key,
    cell: Cell,
    object: Arc<dyn Object>,
}

/// Why an object could not be read to the end.
enum Lost {
    /// Another version took its place.
    Changed,
    /// It is not there.
    Missing,
}

/// Reads what `selection` selects of the array to `place` in `target`.
///
/// # Safety
/// Nobody else may touch the target's window at the same time.
pub(crate) unsafe fn read(
    engine: &Engine,
    grid: &Grid,
    selection: &Selection,
    target: &Target<'_>,
    place: &Placement,
) -> Result<(), Error> {
    if selection.is_empty() {
        return Ok(());
    }
    let reading = Reading {
        engine,
        grid,
        target,
        place,
        failed: AtomicBool::new(false),
        error: Mutex::new(None),
        lost: Mutex::default(),
    };
    // Indexes that are in memory at once stay a small part of the budget.
    let index = grid.layout.addressable().map_or(0, |shard| shard.index.len());
    let wave = (engine.budget.total() / 4 / index.max(1)).clamp(1, WAVE as u64) as usize;
    let mut cells = selection.cells(grid.cell_shape());
    loop {
        let mut todo: Vec<Cell> = cells.by_ref().take(wave).collect();
        if todo.is_empty() {
            return Ok(());
        }
        for attempt in 0.. {
            todo = reading.wave(todo)?;
            let Some(cell) = todo.first() else { break };
            if attempt + 1 == ATTEMPTS {
                let object = grid.keys.key(&cell.index)?;
                return Err(Error::Unstable { object, attempts: ATTEMPTS });
            }
        }
    }
}

struct Reading<'a> {
    engine: &'a Engine,
    grid: &'a Grid,
    target: &'a Target<'a>,
    place: &'a Placement,
    failed: AtomicBool,
    error: Mutex<Option<Error>>,
    /// Objects that changed or vanished while they were read.
    lost: Mutex<Vec<(usize, Lost)>>,
}

impl<'a> Reading<'a> {
    /// Reads some cells; returns those whose objects changed meanwhile.
    fn wave(&self, cells: Vec<Cell>) -> Result<Vec<Cell>, Error> {
        let inline = self.engine.on_worker();
        let opened: Vec<Opened> = if cells.len() == 1 || inline {
            cells
                .into_iter()
                .filter_map(|cell| self.open(cell).transpose())
                .collect::<Result<_, _>>()?
        } else {
            let open = |cell| self.open(cell).transpose();
            let all = || cells.into_par_iter().filter_map(open).collect::<Result<_, _>>();
            self.engine.pool.install(all)?
        };
        let mut fetches = Vec::new();
        let mut nodes: Vec<Node<'a>> = Vec::new();
        for (i, opened) in opened.iter().enumerate() {
            nodes.push(self.root(i, opened));
        }
        // Each round reads the indexes of one level of shards.
        while !nodes.is_empty() {
            nodes = self.descend(&opened, nodes, &mut fetches, inline)?;
            self.check()?;
        }
        self.fetch(&opened, fetches, inline);
        self.check()?;
        for (i, opened) in opened.iter().enumerate() {
            match opened.object.check_unchanged() {
                Ok(()) => {}
                Err(StoreError::Changed { .. }) => self.lose(i, Lost::Changed),
                Err(error) => return Err(error.into()),
            }
        }
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        let mut opened: Vec<Option<Opened>> = opened.into_iter().map(Some).collect();
        let mut again = Vec::new();
        for (object, why) in lost {
            let Some(opened) = opened[object].take() else { continue };
            self.engine.indexes.remove(&self.index_key(&opened.key, &Path::new()));
            match why {
                Lost::Changed => again.push(opened.cell),
                Lost::Missing => self.fill(&opened.cell.selection, &self.place_of(&opened.cell))?,
            }
        }
        Ok(again)
    }

    fn place_of(&self, cell: &Cell) -> Placement {
        advance(self.place, &cell.at)
    }

    fn check(&self) -> Result<(), Error> {
        match self.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn lose(&self, object: usize, why: Lost) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push((object, why));
    }

    fn index_key(&self, object: &Key, path: &Path) -> IndexKey {
        IndexKey { array: self.grid.id, object: object.clone(), path: path.clone() }
    }

    /// Opens the object of a cell; one that does not exist is filled and done with.
    fn open(&self, cell: Cell) -> Result<Option<Opened>, Error> {
        let key = self.grid.keys.key(&cell.index)?;
        let cached = self.engine.indexes.get(&self.index_key(&key, &Path::new()));
        match self.grid.store.open(&key, cached.as_ref().map(|c| &c.version)) {
            Ok(object) => Ok(Some(Opened { key, cell, object })),
            Err(StoreError::NotFound { .. }) => {
                self.fill(&cell.selection, &self.place_of(&cell))?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is wanted of an object.
    fn root(&self, object: usize, opened: &Opened) -> Node<'a> {
        let cell = &opened.cell;
        Node {
            object,
            range: opened.object.len().map(|len| 0..len),
            layout: &self.grid.layout,
            whole: cell.selection.covers(&self.grid.bounds(&cell.index)),
            selection: cell.selection.clone(),
            place: self.place_of(cell),
            path: Path::new(),
        }
    }

    fn fill(&self, selection: &Selection, place: &Placement) -> Result<(), Error> {
        // SAFETY: the window is this read's alone by the contract of `read`, and every place in it belongs
        // to one chunk, which is decoded or filled by one worker.
        unsafe { self.target.fill(selection, place) }
            .map_err(|_| RegionError::TooLarge { shape: selection.shape() }.into())
    }

    /// Turns nodes into fetches where it is known what to fetch; reads the indexes of the others and returns
    /// the nodes that these lead to.
    fn descend(
        &self,
        opened: &[Opened],
        nodes: Vec<Node<'a>>,
        fetches: &mut Vec<Fetch<'a>>,
        inline: bool,
    ) -> Result<Vec<Node<'a>>, Error> {
        let mut next = Vec::new();
        let mut unknown: Vec<(Node<'a>, &'a ShardLayout)> = Vec::new();
        for node in nodes {
            let Some(shard) = node.layout.addressable() else {
                fetches.push(Fetch::of(node));
                continue;
            };
            let key = self.index_key(&opened[node.object].key, &node.path);
            let version = opened[node.object].object.version();
            match self.engine.indexes.get(&key) {
                Some(cached) if version.as_ref().is_none_or(|v| *v == cached.version) => {
                    self.expand(opened, &node, shard, &cached.index, &mut next)?;
                }
                _ if self.worth_whole(&node, shard) => fetches.push(Fetch::of(node)),
                _ => unknown.push((node, shard)),
            }
        }
        let reads = unknown.iter().map(|(node, shard)| {
            self.index_range(opened, node, shard)
                .map(|range| (node.object, range, shard.index.len()))
        });
        let reads: Vec<_> = reads.collect::<Result<_, _>>()?;
        let indexes: Vec<Mutex<Option<Arc<CachedIndex>>>> =
            unknown.iter().map(|_| Mutex::new(None)).collect();
        let inline = inline || reads.len() == 1;
        self.batch(opened, reads, inline, &|i, bytes| {
            let (node, shard) = &unknown[i];
            let object = &opened[node.object];
            let len = match (&node.range, object.object.len()) {
                (Some(range), _) => range.end - range.start,
                (None, Some(len)) => len,
                // With the index at the start of an object of unknown length any entry may be right;
                // a read past the end fails then.
                (None, None) => u64::MAX,
            };
            let decoded = self
                .engine
                .with_context(|context| shard.index.decode(context, bytes, len))
                .map_err(|source| self.shard_error(object, source))?;
            let version = object.object.version();
            let key = self.index_key(&object.key, &node.path);
            let index = self.remember(key, version, decoded);
            *indexes[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(index);
            Ok(())
        });
        for ((node, shard), index) in unknown.iter().zip(indexes) {
            // An index that is not there failed, or its object changed or vanished.
            if let Some(cached) = index.into_inner().unwrap_or_else(PoisonError::into_inner) {
                self.expand(opened, node, shard, &cached.index, &mut next)?;
            }
        }
        Ok(next)
    }

    /// Keeps an index for later reads, if the version it belongs to is known.
    fn remember(
        &self,
        key: IndexKey,
        version: Option<shardine_store::Version>,
        index: ShardIndex,
    ) -> Arc<CachedIndex> {
        let known = version.is_some();
        let version = version.unwrap_or_else(|| shardine_store::Version("".into()));
        let cached = Arc::new(CachedIndex { version, index });
        if known {
            self.engine.indexes.insert(key, Arc::clone(&cached));
        }
        cached
    }

    /// Whether to fetch all of a shard in one read, index included, instead of the index first.
    fn worth_whole(&self, node: &Node<'a>, shard: &ShardLayout) -> bool {
        let Some(range) = &node.range else { return false };
        let len = range.end - range.start;
        if node.whole && len <= self.engine.budget.total() {
            return true;
        }
        // One request more costs as much as this many bytes.
        len <= self.grid.store.read_cost().request_in_bytes.saturating_add(shard.index.len())
    }

    fn index_range(
        &self,
        opened: &[Opened],
        node: &Node<'a>,
        shard: &ShardLayout,
    ) -> Result<ReadRange, Error> {
        let Some(range) = &node.range else {
            return Ok(match shard.index.location() {
                IndexLocation::Start => ReadRange::Bounded(0..shard.index.len()),
                IndexLocation::End => ReadRange::Suffix(shard.index.len()),
            });
        };
        let local = shard
            .index
            .range(range.end - range.start)
            .map_err(|source| self.shard_error(&opened[node.object], source))?;
        Ok(ReadRange::Bounded(range.start + local.start..range.start + local.end))
    }

    /// The chunks of a shard whose index is known: those that are there become nodes, the others are filled.
    fn expand(
        &self,
        opened: &[Opened],
        node: &Node<'a>,
        shard: &'a ShardLayout,
        index: &ShardIndex,
        next: &mut Vec<Node<'a>>,
    ) -> Result<(), Error> {
        let base = node.range.as_ref().map_or(0, |r| r.start);
        let place = shard.placement_to_stored(&node.place);
        for cell in shard.selection_to_stored(&node.selection).cells(&shard.chunk_shape) {
            let entry = shard.entry(&cell.index);
            let place = advance(&place, &cell.at);
            let range = index
                .get(entry)
                .map_err(|source| self.shard_error(&opened[node.object], source))?;
            match range {
                None => self.fill(&cell.selection, &place)?,
                Some(range) => {
                    let mut path = node.path.clone();
                    path.push(entry as u32);
                    next.push(Node {
                        object: node.object,
                        range: Some(base + range.start..base + range.end),
                        layout: &shard.inner,
                        // Chunks at the edge of the array count as partly wanted; that costs at most
                        // one read of an inner index.
                        whole: node.whole || cell.selection.covers(&shard.chunk_shape),
                        selection: cell.selection,
                        place,
                        path,
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads what is to be read, merged where that is cheaper, and decodes it.
    fn fetch(&self, opened: &[Opened], fetches: Vec<Fetch<'a>>, inline: bool) {
        let fetches = self.merge(fetches);
        let total: u64 = fetches.iter().flat_map(|f| &f.nodes).map(Node::decoded_len).sum();
        let inline =
            inline || total <= INLINE || (fetches.len() == 1 && fetches[0].nodes.len() == 1);
        let parallel = !self.engine.on_worker() && total > INLINE;
        let reads = fetches.iter().map(|fetch| {
            let range = fetch.range.clone().map_or(ReadRange::All, ReadRange::Bounded);
            let len = fetch.range.as_ref().map_or(0, |r| r.end - r.start);
            (fetch.object, range, len)
        });
        let reads: Vec<_> = reads.collect();
        self.batch(opened, reads, inline, &|i, bytes| {
            self.decode(opened, &fetches[i], bytes, parallel)
        });
    }

    /// Merges neighbouring ranges of an object where reading the gap costs less than another request.
    fn merge(&self, mut fetches: Vec<Fetch<'a>>) -> Vec<Fetch<'a>> {
        let gap = self.grid.store.read_cost().request_in_bytes;
        let most = self.engine.max_merged_read();
        fetches.sort_by_key(|f| (f.object, f.range.as_ref().map_or(0, |r| r.start)));
        let mut merged: Vec<Fetch<'a>> = Vec::new();
        for fetch in fetches {
            if let Some(last) = merged.last_mut()
                && last.object == fetch.object
                && let (Some(a), Some(b)) = (&mut last.range, &fetch.range)
                && b.start <= a.end.saturating_add(gap)
                && b.end.max(a.end) - a.start <= most.max(a.end - a.start)
            {
                a.end = a.end.max(b.end);
                last.nodes.extend(fetch.nodes);
            } else {
                merged.push(fetch);
            }
        }
        merged
    }

    /// Runs reads within the memory budget and hands each answer to `use_bytes`.
    fn batch(
        &self,
        opened: &[Opened],
        reads: Vec<(usize, ReadRange, u64)>,
        inline: bool,
        use_bytes: &UseBytes<'_>,
    ) {
        let objects: Vec<usize> = reads.iter().map(|(object, ..)| *object).collect();
        let deliver = |i: usize, answer: Result<Buffer, StoreError>| {
            if self.failed.load(Ordering::Relaxed) {
                return;
            }
            match answer {
                Ok(bytes) => {
                    if let Err(error) = use_bytes(i, &bytes) {
                        self.fail(error);
                    }
                }
                Err(StoreError::Changed { .. }) => self.lose(objects[i], Lost::Changed),
                Err(StoreError::NotFound { .. }) => self.lose(objects[i], Lost::Missing),
                Err(error) => self.fail(error.into()),
            }
        };
        if inline {
            for (i, (object, range, len)) in reads.into_iter().enumerate() {
                let _permit = self.engine.budget.acquire(len);
                deliver(i, opened[object].object.read(range));
            }
            return;
        }
        let permits: Vec<Mutex<Option<super::budget::Permit>>> =
            reads.iter().map(|_| Mutex::new(None)).collect();
        let mut reads = reads.into_iter().enumerate().map(|(i, (object, range, len))| {
            let permit = self.engine.budget.acquire(len);
            *permits[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
            Read { object: Arc::clone(&opened[object].object), range }
        });
        self.grid.store.read_batch(&self.engine.pool, &mut reads, &|i, answer| {
            deliver(i, answer);
            permits[i].lock().unwrap_or_else(PoisonError::into_inner).take();
        });
    }

    /// Decodes what a fetch brought, in parallel if there is much of it.
    fn decode(
        &self,
        opened: &[Opened],
        fetch: &Fetch<'a>,
        bytes: &[u8],
        parallel: bool,
    ) -> Result<(), Error> {
        let base = fetch.range.as_ref().map_or(0, |r| r.start);
        let mut jobs = Vec::with_capacity(fetch.nodes.len());
        for node in &fetch.nodes {
            let range = node.range.clone().unwrap_or(0..bytes.len() as u64);
            let part = (range.start - base) as usize..(range.end - base) as usize;
            let job = Job {
                node,
                layout: node.layout,
                bytes: bytes.get(part).unwrap_or_default(),
                start: range.start,
                selection: node.selection.clone(),
                place: node.place.clone(),
                path: node.path.clone(),
            };
            self.engine.with_context(|context| self.unpack(opened, context, job, &mut jobs))?;
        }
        let each = jobs.first().map_or(0, |job| job.layout.decoded_len());
        let together = (PIECE / each.max(1)).max(1) as usize;
        if !parallel || jobs.len() <= together {
            return self.decode_jobs(opened, &jobs);
        }
        let run = || jobs.par_chunks(together).try_for_each(|jobs| self.decode_jobs(opened, jobs));
        if self.engine.on_worker() { run() } else { self.engine.pool.install(run) }
    }

    /// Takes shards in memory apart, down to the chunks that are wanted.
    fn unpack<'b>(
        &self,
        opened: &[Opened],
        context: &mut Context,
        job: Job<'a, 'b>,
        jobs: &mut Vec<Job<'a, 'b>>,
    ) -> Result<(), Error> {
        let Some(shard) = job.layout.addressable() else {
            jobs.push(job);
            return Ok(());
        };
        let object = &opened[job.node.object];
        let damaged = |source| self.shard_error(object, source);
        let len = job.bytes.len() as u64;
        let at = shard.index.range(len).map_err(damaged)?;
        let encoded = &job.bytes[at.start as usize..at.end as usize];
        let index = shard.index.decode(context, encoded, len).map_err(damaged)?;
        let place = shard.placement_to_stored(&job.place);
        for cell in shard.selection_to_stored(&job.selection).cells(&shard.chunk_shape) {
            let entry = shard.entry(&cell.index);
            let place = advance(&place, &cell.at);
            let Some(range) = index.get(entry).map_err(damaged)? else {
                self.fill(&cell.selection, &place)?;
                continue;
            };
            let mut path = job.path.clone();
            path.push(entry as u32);
            let inner = Job {
                node: job.node,
                layout: &shard.inner,
                bytes: &job.bytes[range.start as usize..range.end as usize],
                start: job.start + range.start,
                selection: cell.selection,
                place,
                path,
            };
            self.unpack(opened, context, inner, jobs)?;
        }
        let version = object.object.version();
        let key = self.index_key(&object.key, &job.path);
        self.remember(key, version, index);
        Ok(())
    }

    fn decode_jobs(&self, opened: &[Opened], jobs: &[Job<'a, '_>]) -> Result<(), Error> {
        self.engine.with_context(|context| {
            for job in jobs {
                // SAFETY: the window is this read's alone by the contract of `read`, and each job's box
                // is that of its chunk, which no other job has.
                let result = unsafe {
                    job.layout.decode(context, job.bytes, &job.selection, self.target, &job.place)
                };
                result.map_err(|source| {
                    let object = &opened[job.node.object];
                    let range = job.start..job.start + job.bytes.len() as u64;
                    self.decode_error(&object.key, &object.cell.index, &job.path, range, source)
                })?;
            }
            Ok(())
        })
    }

    fn shard_error(&self, object: &Opened, source: ShardError) -> Error {
        let (key, shard) = (object.key.clone(), object.cell.index.to_vec());
        Error::Shard { object: key, shard, source: Box::new(source) }
    }

    fn decode_error(
        &self,
        object: &Key,
        cell: &[u64],
        path: &[u32],
        range: Range<u64>,
        source: DecodeError,
    ) -> Error {
        let chunk = self.grid.layout.chunk_coordinates(cell, path);
        Error::Decode { object: object.clone(), chunk, range, source: Box::new(source) }
    }
}

impl<'a> Fetch<'a> {
    fn of(node: Node<'a>) -> Self {
        Self { object: node.object, range: node.range.clone(), nodes: vec![node] }
    }
}

impl Node<'_> {
    /// Bytes of decoded elements that are wanted.
    fn decoded_len(&self) -> u64 {
        let element = self.layout.element_size() as u64;
        self.selection.axes.iter().fold(element, |n, a| n.saturating_mul(a.count))
    }
}
