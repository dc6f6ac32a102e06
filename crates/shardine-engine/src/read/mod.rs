//! Reads a region: region -> objects -> chunks -> byte ranges -> decoded straight into place.

mod decode;
mod fetch;
mod plan;
mod single;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use shardine_codec::strided::Placement;
use shardine_store::{Key, Object, ReadCost, ReadRange, Recovery, StoreError, Version};

use smallvec::{SmallVec, smallvec};

use super::cache::{CachedIndex, CellId, IndexKey, KeptObject, Path};
use super::cancel::{self, CancelToken};
use super::first_error::FirstError;
use super::packing::{SharedObject, SharedPacking};
use super::{ChunkSet, Engine};
use crate::Error;
use crate::layout::{DecodeError, Target, advance};
use crate::selection::{Cell, RegionError, Selection};
use crate::shard::{ShardError, ShardIndex};
use crate::tuning::MOST_WAITING;
use crate::tuning::{
    INLINE_READ, READ_WAVE, REMOTE_READ_WAVE, REREADS, REREADS_BESIDE_A_WRITER, UNTELLING_WAIT,
    WRITER_WAIT,
};

/// What one of the selections needs from one object, and where it goes.
struct Part {
    cell: Cell,
    place: Placement,
}

/// The parts needed from one object.
type Parts = SmallVec<[Part; 1]>;

/// An object that exists.
struct Opened {
    key: Key,
    /// Its cell in the grid, or the first one needed if it holds several.
    index: SmallVec<[u64; 4]>,
    /// What is needed from it and present.
    parts: Parts,
    /// Set if it holds several cells. Boxed, since most objects do not and are moved around.
    shared: Option<Box<Shared>>,
    object: Arc<dyn Object>,
    /// The version that reads are pinned to, for stores that learn it only by reading.
    expected: Option<Version>,
    /// Whether it was open before, and may be out of date.
    kept: bool,
}

/// What is known about an object that holds several cells.
struct Shared {
    number: u64,
    /// The ranges of the parts.
    ranges: Vec<Range<u64>>,
    /// What is needed from it but absent.
    absent: Vec<Part>,
}

impl Opened {
    /// The bytes of one of its parts, as far as known.
    fn range_of(&self, part: usize) -> Option<Range<u64>> {
        match &self.shared {
            Some(shared) => shared.ranges.get(part).cloned(),
            None => self.object.len().map(|len| 0..len),
        }
    }

    /// An object that is a single cell.
    fn whole(key: Key, index: SmallVec<[u64; 4]>, parts: Parts, object: Arc<dyn Object>) -> Self {
        Self { key, index, parts, shared: None, object, expected: None, kept: false }
    }

    /// The same, marked as open before.
    fn kept(self) -> Self {
        Self { kept: true, ..self }
    }

    /// The version being read, as far as known.
    fn version(&self) -> Option<Version> {
        self.object.version().or_else(|| self.expected.clone())
    }

    /// Whether the bytes read belong to one version, which was current during this read.
    fn is_sound(&self) -> Result<bool, StoreError> {
        if self.kept {
            return self.object.is_current();
        }
        match self.object.check_unchanged() {
            Ok(()) => Ok(true),
            Err(StoreError::Changed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Why an object could not be read completely.
enum Lost {
    /// It was replaced by another version.
    Changed,
    /// It does not exist.
    Missing,
}

/// Reads the selected elements of the array, each selection to its own place in `target`.
///
/// What several selections need from one object is read together.
///
/// # Safety
/// Nobody else may touch the target's window at the same time, and the places must be distinct.
pub unsafe fn read(
    engine: &Engine,
    grid: &ChunkSet,
    wanted: &[(Selection, Placement)],
    target: &Target<'_>,
) -> Result<(), Error> {
    let cost = grid.store.read_cost();
    let reading = Reading {
        engine,
        grid,
        target,
        cost,
        local: cost.local,
        first_error: FirstError::default(),
        cancel: CancelToken::watched(),
        lost: Mutex::default(),
        before: Mutex::default(),
        damage: Mutex::default(),
        suspects: Mutex::default(),
        attempt: AtomicUsize::new(0),
        beside_a_writer: AtomicBool::new(false),
    };
    if let [(selection, place)] = wanted
        && !selection.is_empty()
        // SAFETY: upheld by the caller.
        && unsafe { reading.read_single(selection, place) }.is_some()
    {
        return Ok(());
    }
    // Indexes in memory together stay a small part of the budget.
    let index = grid.layout.addressable().map_or(0, |shard| shard.index.len());
    let most = if cost.local || index > 0 { READ_WAVE } else { REMOTE_READ_WAVE };
    let wave = (engine.budget.total() / 4 / index.max(1)).clamp(1, most as u64) as usize;
    let mut objects = objects(wanted, grid.cell_shape());
    loop {
        let mut todo: Vec<Parts> = objects.by_ref().take(wave).collect();
        if todo.is_empty() {
            return Ok(());
        }
        // Attempts that met no writer.
        let mut quiet = 0;
        for attempt in 0.. {
            *reading.damage.lock().unwrap_or_else(PoisonError::into_inner) = None;
            reading.attempt.store(attempt, Ordering::Relaxed);
            reading.beside_a_writer.store(false, Ordering::Relaxed);
            todo = reading.wave(todo)?;
            let Some(cell) = todo.first().and_then(|parts| parts.first()).map(|part| &part.cell)
            else {
                break;
            };
            let beside_a_writer = reading.beside_a_writer.load(Ordering::Relaxed);
            quiet += usize::from(!beside_a_writer);
            if quiet >= REREADS || attempt + 1 >= REREADS_BESIDE_A_WRITER {
                let damage = &mut *reading.damage.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(error) = damage.take() {
                    return Err(error);
                }
                let object = grid.packing.key(&cell.index)?;
                return Err(Error::Unstable { object, attempts: attempt + 1 });
            }
            if attempt >= REREADS {
                std::thread::sleep(WRITER_WAIT);
            }
        }
    }
}

/// The objects that selections touch, each once, with the parts needed from it.
///
/// For one selection they are computed one by one; for several all together.
fn objects<'b>(
    wanted: &'b [(Selection, Placement)],
    cell_shape: &'b [u64],
) -> Box<dyn Iterator<Item = Parts> + 'b> {
    let parts = |(selection, place): &'b (Selection, Placement)| {
        let cells = (!selection.is_empty()).then(|| selection.cells(cell_shape));
        cells.into_iter().flatten().map(|cell| {
            let place = advance(place, &cell.at);
            Part { cell, place }
        })
    };
    if let [one] = wanted {
        return Box::new(parts(one).map(|part| smallvec![part]));
    }
    let mut objects: BTreeMap<SmallVec<[u64; 4]>, Parts> = BTreeMap::new();
    for part in wanted.iter().flat_map(parts) {
        objects.entry(part.cell.index.clone()).or_default().push(part);
    }
    Box::new(objects.into_values())
}

struct Reading<'a> {
    engine: &'a Engine,
    grid: &'a ChunkSet,
    target: &'a Target<'a>,
    /// The cost of requests, as known when the read started.
    cost: ReadCost,
    /// Whether the store is local.
    local: bool,
    first_error: FirstError<Error>,
    /// Stops the read.
    cancel: Option<CancelToken>,
    /// Objects that changed or vanished while they were being read.
    lost: Mutex<Vec<(usize, Lost)>>,
    /// Objects that are being changed in place, or were when their writer died, as they were
    /// before.
    before: Mutex<Vec<(Key, Arc<dyn Object>)>>,
    /// What was wrong in this attempt with an object whose timestamps would not reveal a later
    /// change.
    damage: Mutex<Option<Error>>,
    /// Versions that were inconsistent while a writer was at work, and in which attempt. One that
    /// is still inconsistent in a later attempt is damaged, whatever the writer does.
    suspects: Mutex<Vec<(Key, Version, usize)>>,
    attempt: AtomicUsize,
    /// Whether an object was lost in this attempt because it was being changed in place.
    beside_a_writer: AtomicBool,
}

impl<'a> Reading<'a> {
    /// Reads some cells; returns those whose objects changed meanwhile.
    fn wave(&self, objects: Vec<Parts>) -> Result<Vec<Parts>, Error> {
        cancel::check(self.cancel.as_ref())?;
        let inline = self.engine.on_worker();
        let opened = match self.grid.packing.shared() {
            Some(shared) => {
                let objects = self.by_object(shared, objects);
                self.open_all(objects, inline, |(n, parts)| self.open_shared(shared, n, parts))?
            }
            None => self.open_all(objects, inline, |parts| self.open(parts))?,
        };
        let mut wanted = Vec::new();
        let roots = opened.iter().enumerate().flat_map(|(i, opened)| self.roots(i, opened));
        let nodes = roots.collect();
        self.follow(&opened, nodes, &mut wanted, inline)?;
        self.fetch(&opened, &mut wanted, inline)?;
        self.ask_unread(&opened, inline)?;
        for (i, opened) in opened.iter().enumerate() {
            if !opened.is_sound()? {
                self.lose(i, Lost::Changed);
            } else if !opened.kept && opened.shared.is_none() && opened.object.can_be_kept() {
                let (key, object) = (opened.key.clone(), Arc::clone(&opened.object));
                self.engine.kept.insert(self.cell_id(&opened.index), KeptObject { key, object });
            }
        }
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let mut opened: Vec<Option<Opened>> = opened.into_iter().map(Some).collect();
        let mut again = Vec::new();
        for (object, why) in lost {
            let Some(opened) = opened[object].take() else { continue };
            match &opened.shared {
                Some(shared) => {
                    self.grid.packing.shared().inspect(|packing| packing.forget(shared.number));
                }
                None => {
                    self.engine.indexes.remove(&self.index_key(&opened, &Path::new()));
                    self.engine.kept.remove(&self.cell_id(&opened.index));
                }
            }
            match why {
                // A missing shard may have been replaced by one in another form.
                Lost::Missing if opened.shared.is_none() => self.fill_all(&opened.parts)?,
                Lost::Changed | Lost::Missing => {
                    let mut parts = opened.parts;
                    parts.extend(opened.shared.into_iter().flat_map(|shared| shared.absent));
                    again.push(parts);
                }
            }
        }
        Ok(again)
    }

    /// Opens objects, in parallel if that takes time. Opening an object of a remote store is free.
    fn open_all<T: Send>(
        &self,
        objects: Vec<T>,
        inline: bool,
        open: impl Fn(T) -> Result<Option<Opened>, Error> + Sync,
    ) -> Result<Vec<Opened>, Error> {
        if objects.len() == 1 || inline || !self.local {
            return objects.into_iter().filter_map(|object| open(object).transpose()).collect();
        }
        let open = |object| open(object).transpose();
        self.engine.pool.install(|| objects.into_par_iter().filter_map(open).collect())
    }

    /// Groups what is needed by the objects that hold it.
    fn by_object(&self, packing: &dyn SharedPacking, cells: Vec<Parts>) -> Vec<(u64, Parts)> {
        let first = |parts: &'_ Parts| parts.first().map(|part| part.cell.index.clone());
        if !self.local {
            let cells: Vec<_> = cells.iter().filter_map(first).collect();
            let cells: Vec<&[u64]> = cells.iter().map(|cell| &cell[..]).collect();
            packing.prepare(&cells, self.cost.in_flight.min(MOST_WAITING));
        }
        let mut objects: BTreeMap<u64, Parts> = BTreeMap::new();
        for parts in cells {
            let Some(cell) = first(&parts) else { continue };
            let object = packing.object_of(packing.number(&cell));
            objects.entry(object).or_default().extend(parts);
        }
        objects.into_iter().collect()
    }

    /// Opens an object shared by several cells; whatever is not in it is filled.
    fn open_shared(
        &self,
        packing: &dyn SharedPacking,
        number: u64,
        parts: Parts,
    ) -> Result<Option<Opened>, Error> {
        let Some(first) = parts.first() else { return Ok(None) };
        let index = first.cell.index.clone();
        let bytes: u64 =
            parts.iter().map(|part| part.cell.selection.bytes(self.target.element)).sum();
        let cells: Vec<&[u64]> = parts.iter().map(|part| &part.cell.index[..]).collect();
        let found = packing.open(number, &cells, bytes <= INLINE_READ)?;
        if !found.as_ref().is_some_and(|found| found.kept) {
            self.grid.lookups.fetch_add(1, Ordering::Relaxed);
        }
        let Some(SharedObject { object, ranges, kept }) = found else {
            self.fill_all(&parts)?;
            return Ok(None);
        };
        let key = packing.object_key(number)?;
        let mut shared = Shared { number, ranges: Vec::new(), absent: Vec::new() };
        let mut there = Parts::new();
        for (part, range) in parts.into_iter().zip(ranges) {
            match range {
                None => shared.absent.push(part),
                Some(range) => {
                    shared.ranges.push(range);
                    there.push(part);
                }
            }
        }
        self.fill_all(&shared.absent)?;
        let shared = Some(Box::new(shared));
        Ok(Some(Opened { shared, kept, ..Opened::whole(key, index, there, object) }))
    }

    /// Checks objects from which nothing was read because a cached index says that nothing is
    /// there.
    fn ask_unread(&self, opened: &[Opened], inline: bool) -> Result<(), Error> {
        let unread = |(i, opened): (usize, &Opened)| {
            let nothing_said = opened.expected.is_some() && opened.object.version().is_none();
            nothing_said.then_some((i, ReadRange::Bounded(0..0), 0))
        };
        let reads: Vec<_> = opened.iter().enumerate().filter_map(unread).collect();
        if !reads.is_empty() {
            let inline = inline || reads.len() == 1;
            self.batch(opened, reads, inline, &|_, _| Ok(()));
        }
        self.check()
    }

    fn fill_all(&self, parts: &[Part]) -> Result<(), Error> {
        parts.iter().try_for_each(|part| self.fill(&part.cell.selection, &part.place))
    }

    fn check(&self) -> Result<(), Error> {
        self.first_error.check()
    }

    /// Whether the read has failed or is cancelled, so that continuing is pointless.
    fn is_over(&self) -> bool {
        if let Err(error) = cancel::check(self.cancel.as_ref()) {
            self.first_error.set(error);
        }
        self.first_error.is_set()
    }

    /// An error in the bytes of an object counts only if the object is unchanged and nobody was
    /// changing it.
    fn settle(&self, opened: &[Opened], object: usize, error: Error) -> Result<(), Error> {
        let damaged = matches!(error, Error::Shard { .. } | Error::Decode { .. });
        if damaged && self.grid.layout.addressable().is_some() {
            let key = &opened[object].key;
            let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
            let recovery = self.grid.store.recover(key);
            if let Ok(Recovery::Done | Recovery::Before(_)) = recovery
                && self.is_suspect(key, opened[object].version())
            {
                return Err(error);
            }
            match recovery {
                Ok(Recovery::Done) => {
                    self.beside_a_writer.store(true, Ordering::Relaxed);
                    self.lose(object, Lost::Changed);
                    return Ok(());
                }
                Ok(Recovery::Before(view)) => {
                    before.retain(|(known, _)| known != key);
                    before.push((key.clone(), view));
                    self.beside_a_writer.store(true, Ordering::Relaxed);
                    self.lose(object, Lost::Changed);
                    return Ok(());
                }
                // A problem with the bytes says more than a failure of the recovery check.
                Ok(Recovery::Nothing) | Err(_) => {}
            }
        }
        // The bytes may be what a killed writer left of a file that has been replaced since.
        let opened = &opened[object];
        let current = match opened.object.can_be_kept() {
            true => opened.object.is_current(),
            false => opened.is_sound(),
        };
        match current {
            Ok(false) => {
                self.lose(object, Lost::Changed);
                Ok(())
            }
            // It was changed so recently that its timestamps would not reveal a later change, such
            // as a switch of the index that ended between the read and this check.
            Ok(true) if damaged && self.local && opened.object.version().is_none() => {
                std::thread::sleep(UNTELLING_WAIT);
                *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.lose(object, Lost::Changed);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Records that a version was inconsistent beside a writer. Returns whether it already was in
    /// an earlier attempt.
    ///
    /// Each change in place creates a new version, so a version seen again is not in the middle of
    /// a change that ended, or was undone, in between.
    fn is_suspect(&self, key: &Key, version: Option<Version>) -> bool {
        let Some(version) = version else { return false };
        let attempt = self.attempt.load(Ordering::Relaxed);
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        match suspects.iter().find(|(k, v, _)| k == key && *v == version) {
            Some((_, _, first)) => *first < attempt,
            None => {
                suspects.push((key.clone(), version, attempt));
                false
            }
        }
    }

    fn lose(&self, object: usize, why: Lost) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push((object, why));
    }

    fn cell_id(&self, index: &SmallVec<[u64; 4]>) -> CellId {
        CellId { array: self.grid.id, cell: index.clone() }
    }

    fn index_key(&self, object: &Opened, path: &Path) -> IndexKey {
        IndexKey { cell: self.cell_id(&object.index), path: path.clone() }
    }

    /// Opens the object that parts are needed from; fills them if it does not exist.
    fn open(&self, parts: Parts) -> Result<Option<Opened>, Error> {
        let Some(first) = parts.first() else { return Ok(None) };
        let index = first.cell.index.clone();
        let id = self.cell_id(&index);
        if let Some(KeptObject { key, object }) = self.engine.kept.get(&id) {
            // Large reads do not trust a kept object.
            let bytes: u64 =
                parts.iter().map(|part| part.cell.selection.bytes(self.target.element)).sum();
            if bytes <= INLINE_READ || object.is_current()? {
                return Ok(Some(Opened::whole(key, index, parts, object).kept()));
            }
            self.engine.kept.remove(&id);
        }
        let key = self.grid.packing.key(&index)?;
        let before = {
            let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
            let found = before.iter().position(|(known, _)| *known == key);
            found.map(|i| before.swap_remove(i).1)
        };
        if let Some(object) = before {
            return Ok(Some(Opened::whole(key, index, parts, object)));
        }
        let expected = if self.local {
            None
        } else {
            let cached = self.engine.indexes.get(&IndexKey { cell: id, path: Path::new() });
            cached.map(|cached| cached.version.clone())
        };
        self.grid.lookups.fetch_add(1, Ordering::Relaxed);
        match self.grid.store.open(&key, expected.as_ref()) {
            Ok(object) => Ok(Some(Opened { expected, ..Opened::whole(key, index, parts, object) })),
            Err(StoreError::NotFound { .. }) => {
                self.fill_all(&parts)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn fill(&self, selection: &Selection, place: &Placement) -> Result<(), Error> {
        // SAFETY: by the contract of `read` the window belongs to this read alone, and every place
        // in it belongs to one chunk, which one worker decodes or fills.
        unsafe { self.target.fill(selection, place) }
            .map_err(|_| RegionError::TooLarge { shape: selection.shape() }.into())
    }

    /// Caches an index for later reads, if the version it belongs to is known.
    fn remember(
        &self,
        key: IndexKey,
        version: Option<Version>,
        index: ShardIndex,
    ) -> Arc<CachedIndex> {
        let known = version.is_some() && self.engine.indexes.is_on;
        let version = version.unwrap_or_else(|| Version("".into()));
        let cached = Arc::new(CachedIndex { version, index });
        if known {
            self.engine.indexes.insert(key, Arc::clone(&cached));
        }
        cached
    }

    fn shard_error(&self, object: &Opened, source: ShardError) -> Error {
        Error::shard(&object.key, &object.index, source)
    }

    fn decode_error(
        &self,
        object: &Opened,
        (part, path): (usize, &[u32]),
        range: Range<u64>,
        source: DecodeError,
    ) -> Error {
        let cell = object.parts.get(part).map_or(&object.index, |part| &part.cell.index);
        let chunk = self.grid.layout.chunk_coordinates(cell, path);
        Error::Decode { object: object.key.clone(), chunk, range, source: Box::new(source) }
    }
}
