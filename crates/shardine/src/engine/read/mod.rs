//! Reading a region: region -> objects -> chunks -> byte ranges -> decoded straight into place.

mod decode;
mod plan;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use shardine_codec::strided::Placement;
use shardine_store::{Buffer, Key, Object, Read, ReadRange, StoreError, Version};

use super::cache::{CachedIndex, IndexKey, Path};
use super::first_error::FirstError;
use super::{Engine, Grid};
use crate::Error;
use crate::layout::{DecodeError, Target, advance};
use crate::selection::{Cell, RegionError, Selection};
use crate::shard::{ShardError, ShardIndex};
use plan::{Fetch, Node};

/// Objects that are open at once.
const WAVE: usize = 128;

/// How often a shard that changes under the reader is read again.
const ATTEMPTS: usize = 8;

/// Decoded bytes up to which the caller's own thread does the work: handing over costs more.
const INLINE: u64 = 128 << 10;

/// What is done with the bytes of a read, given its number.
type UseBytes<'a> = dyn Fn(usize, &[u8]) -> Result<(), Error> + Sync + 'a;

/// An object that exists.
struct Opened {
    key: Key,
    cell: Cell,
    object: Arc<dyn Object>,
    /// The version that the reads are pinned to, where the store learns it only by reading.
    expected: Option<Version>,
}

impl Opened {
    /// The version that is read, as far as it is known.
    fn version(&self) -> Option<Version> {
        self.object.version().or_else(|| self.expected.clone())
    }
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
        first_error: FirstError::default(),
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
    first_error: FirstError,
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
        self.follow(&opened, nodes, &mut fetches, inline)?;
        self.fetch(&opened, &mut fetches, inline)?;
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
        self.first_error.check()
    }

    /// An error in the bytes of an object counts only if the object is still what it was.
    fn settle(&self, opened: &[Opened], object: usize, error: Error) -> Result<(), Error> {
        match opened[object].object.check_unchanged() {
            Err(StoreError::Changed { .. }) => {
                self.lose(object, Lost::Changed);
                Ok(())
            }
            _ => Err(error),
        }
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
        let expected = cached.map(|cached| cached.version.clone());
        match self.grid.store.open(&key, expected.as_ref()) {
            Ok(object) => Ok(Some(Opened { key, cell, object, expected })),
            Err(StoreError::NotFound { .. }) => {
                self.fill(&cell.selection, &self.place_of(&cell))?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn fill(&self, selection: &Selection, place: &Placement) -> Result<(), Error> {
        // SAFETY: the window is this read's alone by the contract of `read`, and every place in it belongs
        // to one chunk, which is decoded or filled by one worker.
        unsafe { self.target.fill(selection, place) }
            .map_err(|_| RegionError::TooLarge { shape: selection.shape() }.into())
    }

    /// Keeps an index for later reads, if the version it belongs to is known.
    fn remember(
        &self,
        key: IndexKey,
        version: Option<Version>,
        index: ShardIndex,
    ) -> Arc<CachedIndex> {
        let known = version.is_some();
        let version = version.unwrap_or_else(|| Version("".into()));
        let cached = Arc::new(CachedIndex { version, index });
        if known {
            self.engine.indexes.insert(key, Arc::clone(&cached));
        }
        cached
    }

    /// Reads what is to be read, merged where that is cheaper, and decodes it.
    fn fetch(
        &self,
        opened: &[Opened],
        fetches: &mut Vec<Fetch<'a>>,
        inline: bool,
    ) -> Result<(), Error> {
        let fetches = self.merge(std::mem::take(fetches));
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
        self.check()
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
            if self.first_error.is_set() {
                return;
            }
            match answer {
                Ok(bytes) => {
                    let result = use_bytes(i, &bytes);
                    let result = result.or_else(|error| self.settle(opened, objects[i], error));
                    if let Err(error) = result {
                        self.first_error.set(error);
                    }
                }
                Err(StoreError::Changed { .. }) => self.lose(objects[i], Lost::Changed),
                Err(StoreError::NotFound { .. }) => self.lose(objects[i], Lost::Missing),
                Err(error) => self.first_error.set(error.into()),
            }
        };
        if inline {
            for (i, (object, range, len)) in reads.into_iter().enumerate() {
                let _permit = self.engine.admit(len);
                deliver(i, opened[object].object.read(range));
            }
            return;
        }
        let permits: Vec<Mutex<Option<super::budget::Permit>>> =
            reads.iter().map(|_| Mutex::new(None)).collect();
        let mut reads = reads.into_iter().enumerate().map(|(i, (object, range, len))| {
            let permit = self.engine.admit(len);
            *permits[i].lock().unwrap_or_else(PoisonError::into_inner) = permit;
            Read { object: Arc::clone(&opened[object].object), range }
        });
        self.grid.store.read_batch(&self.engine.pool, &mut reads, &|i, answer| {
            deliver(i, answer);
            permits[i].lock().unwrap_or_else(PoisonError::into_inner).take();
        });
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
