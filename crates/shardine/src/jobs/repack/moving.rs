//! Moves encoded chunks into new objects, and compares them there with where they came from.

use std::sync::Arc;

use shardine_store::{Buffer, Condition, CreateOptions, Key, ReadRange, StoreError};

use super::build::{Build, Tally};
use super::chunks::ChunkFinder;
use super::{RepackCheck, RepackError};
use crate::engine::{
    Batch, Finished, IndexedFrame, LaidDown, NewObject, Slots, StoredBytes, Taken, reading_ahead,
};
use crate::layout::{Layout, ShardLayout};
use crate::shard::{ShardError, WriteOrder};
use crate::{EngineError, Error};

/// Entries of a shard that are looked up at once.
const WINDOW: usize = 1024;

/// Chunks that are open as files of their own at once, by all workers. A process may commonly have a thousand files open.
const OPEN_CHUNKS: usize = 384;

impl Build<'_> {
    /// Makes a shard of chunks that are moved into it.
    pub(super) fn move_shard(
        &self,
        finder: &ChunkFinder<'_>,
        shard: &ShardLayout,
        cell: &[u64],
        grid: &[u64],
    ) -> Result<(), Error> {
        let key = self.new.chunks.packing.key(cell)?;
        if self.resumed && self.is_kept(finder, &key, cell)? {
            return Ok(());
        }
        let damaged = |source| Error::from(EngineError::shard(&key, cell, source));
        let mut entries = Vec::new();
        for &entry in self.entries(shard).map_err(damaged)?.iter() {
            entries.extend(self.chunk_of(cell, entry, grid).map(|chunk| (entry as usize, chunk)));
        }
        let new = NewObject {
            store: &*self.new.chunks.store,
            key: &key,
            condition: Condition::None,
            frame: &IndexedFrame { shard, key: &key, cell },
            any_order: false,
        };
        let laid_down = match self.old.chunks.store.read_cost().local {
            true => self.lay_down_local(finder, &new, &entries)?,
            false => self.lay_down_far(finder, &new, &entries)?,
        };
        let placed = &laid_down.placed;
        let is_there = |(entry, _): &&(usize, _)| placed.get(*entry).is_ok_and(|p| p.is_some());
        let moved = entries.iter().filter(is_there).count() as u64;
        self.add(Tally { moved, empty: entries.len() as u64 - moved, ..Tally::default() });
        if laid_down.is_empty() {
            return Ok(());
        }
        let Finished { staged, len } = laid_down.finish(self.new.engine())?;
        self.wrote(1, len);
        for published in self.publisher.add(staged, cell.to_vec(), len)? {
            self.check_moved(finder, &published)?;
        }
        Ok(())
    }

    /// Makes an object of one chunk.
    pub(super) fn move_chunk(&self, finder: &ChunkFinder<'_>, chunk: &[u64]) -> Result<(), Error> {
        let key = self.new.chunks.packing.key(chunk)?;
        if self.resumed && self.is_kept(finder, &key, chunk)? {
            return Ok(());
        }
        let empty = Tally { empty: 1, ..Tally::default() };
        let Some(found) = finder.find(chunk)? else {
            self.count(empty);
            return Ok(());
        };
        let options = CreateOptions { head: 0, condition: Condition::None };
        let writer = self.new.chunks.store.create(&key, options)?;
        let len = match &found.range {
            Some(range) => {
                writer.append_from(&*found.object, range.clone())?;
                range.end - range.start
            }
            None => match found.object.read(ReadRange::All) {
                Ok(bytes) => {
                    writer.append(&bytes)?;
                    bytes.len() as u64
                }
                Err(StoreError::NotFound { .. }) => {
                    self.count(empty);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            },
        };
        let staged = writer.finish(&[])?;
        self.count(Tally { moved: 1, ..Tally::default() });
        self.wrote(1, len);
        for published in self.publisher.add(staged, chunk.to_vec(), len)? {
            self.check_moved(finder, &published)?;
        }
        Ok(())
    }

    /// The entries of a new shard, in the order in which they are laid down.
    fn entries(&self, shard: &ShardLayout) -> Result<Arc<[u32]>, ShardError> {
        match self.options.order {
            WriteOrder::Morton => shard.morton(),
            WriteOrder::C | WriteOrder::Arrival => Ok((0..shard.chunks() as u32).collect()),
        }
    }

    /// The place of an entry in the grid of chunks; `None` if that lies outside of the array.
    fn chunk_of(&self, cell: &[u64], entry: u32, grid: &[u64]) -> Option<Vec<u64>> {
        let chunk = self.new.chunks.layout.chunk_coordinates(cell, &[entry]);
        chunk.iter().zip(grid).all(|(&i, &n)| i < n).then_some(chunk)
    }

    /// Lays the chunks of a shard down, neighbours in one call.
    fn lay_down_local<'n>(
        &self,
        finder: &ChunkFinder<'_>,
        new: &'n NewObject<'_>,
        entries: &[(usize, Vec<u64>)],
    ) -> Result<LaidDown<'n>, Error> {
        let together = match &self.old.chunks.layout {
            Layout::Chunk(_) => (OPEN_CHUNKS / self.new.engine().threads().max(1)).clamp(8, WINDOW),
            _ => WINDOW,
        };
        let slots = Slots {
            is_made: &|_| false,
            groups: vec![together; entries.len().div_ceil(together)],
            ..Slots::made(entries, 0)
        };
        let engine = self.new.engine();
        new.lay_down(engine, slots, &|_, taken: &Taken<'_, (usize, Vec<u64>)>| {
            let mut found = Vec::new();
            for (entry, chunk) in taken.slots {
                found.extend(finder.find(chunk)?.map(|chunk| (*entry, chunk)));
            }
            if self.options.order == WriteOrder::Arrival {
                // As they lie: so the longest runs can be moved at once.
                found.sort_by_key(|(_, chunk)| chunk.place());
            }
            let mut batch = Batch { unlocked: true, ..Batch::default() };
            for (entry, StoredBytes { object, range }) in found {
                match range {
                    Some(range) => batch.push_moved(Some(entry), &object, range),
                    // An object of a length that is not known.
                    None => batch.push_bytes(Some(entry), &object.read(ReadRange::All)?),
                }
            }
            self.advance(taken.slots.len() as u64);
            Ok(batch)
        })
    }

    /// The same from a remote store: many reads are under way.
    fn lay_down_far<'n>(
        &self,
        finder: &ChunkFinder<'_>,
        new: &'n NewObject<'_>,
        entries: &[(usize, Vec<u64>)],
    ) -> Result<LaidDown<'n>, Error> {
        let chunk = self.new.chunks.layout.addressable().map_or(0, |s| s.inner.decoded_len());
        let engine = self.new.engine();
        let most = engine.at_once(&*self.old.chunks.store, chunk.saturating_mul(2));
        let fetch = |i: usize| -> Result<Option<Buffer>, Error> {
            let Some((_, chunk)) = entries.get(i) else { return Ok(None) };
            let Some(found) = finder.find(chunk)? else { return Ok(None) };
            match found.object.read(found.read_range()) {
                // An object of its own that is not there.
                Err(StoreError::NotFound { .. }) if found.range.is_none() => Ok(None),
                read => Ok(Some(read?)),
            }
        };
        reading_ahead(most, entries.len(), &fetch, |ahead| {
            let slots = Slots::made(entries, chunk);
            new.lay_down(engine, slots, &|context, taken: &Taken<'_, (usize, Vec<u64>)>| {
                let mut batch = Batch { encoded: context.take_buffer(), ..Batch::default() };
                for (number, (entry, _)) in (taken.first..).zip(taken.slots) {
                    let read = ahead.and_then(|ahead| ahead.take(number));
                    if let Some(bytes) = read.unwrap_or_else(|| fetch(number))? {
                        batch.push_bytes(Some(*entry), &bytes);
                    }
                }
                self.advance(taken.slots.len() as u64);
                Ok(batch)
            })
        })
    }

    /// Whether an earlier run has made this object, and it is what this run would make.
    fn is_kept(&self, finder: &ChunkFinder<'_>, key: &Key, cell: &[u64]) -> Result<bool, Error> {
        let opened = self.new.chunks.store.open(key, None);
        let there = opened.and_then(|object| match object.len() {
            Some(_) => Ok(()),
            None => object.read(ReadRange::Bounded(0..0)).map(drop),
        });
        match there {
            Err(StoreError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
        let Ok(tally) = self.compare(finder, cell, self.check != RepackCheck::None) else {
            // The chunks that it was made of may be gone by now, and then nothing takes its place.
            self.new.chunks.store.delete(key, &Condition::None)?;
            return Ok(false);
        };
        self.count(tally);
        self.kept();
        Ok(true)
    }

    /// Compares the chunks of a new object with those that were moved into it.
    pub(super) fn check_moved(&self, finder: &ChunkFinder<'_>, cell: &[u64]) -> Result<(), Error> {
        if self.check == RepackCheck::None {
            return Ok(());
        }
        self.compare(finder, cell, true).map(drop)
    }

    /// Counts the chunks of an object, and with `bytes` compares them with the old ones.
    fn compare(&self, finder: &ChunkFinder<'_>, cell: &[u64], bytes: bool) -> Result<Tally, Error> {
        let store = &self.new.chunks.store;
        let mut tally = Tally::default();
        let Layout::Shard(shard) = &self.new.chunks.layout else {
            let object = store.open(&self.new.chunks.packing.key(cell)?, None)?;
            let range = object.len().map(|len| 0..len);
            let new = Some(StoredBytes { object, range });
            if bytes && !same(new.as_ref(), finder.find(cell)?.as_ref())? {
                return Err(self.differs(cell, cell));
            }
            tally.moved = 1;
            return Ok(tally);
        };
        let key = self.new.chunks.packing.key(cell)?;
        let Some(opened) = self.new.open_shard(cell)? else {
            return Err(self.differs(cell, &[]));
        };
        let grid = self.chunk_grid();
        for entry in 0..shard.chunks() as u32 {
            let range = opened
                .index
                .get(entry as usize)
                .map_err(|source| EngineError::shard(&key, cell, source))?;
            let Some(chunk) = self.chunk_of(cell, entry, &grid) else {
                if range.is_some() {
                    return Err(self.differs(cell, &[]));
                }
                continue;
            };
            match range {
                Some(_) => tally.moved += 1,
                None => tally.empty += 1,
            }
            let object = Arc::clone(&opened.object);
            let new = range.map(|range| StoredBytes { object, range: Some(range) });
            if bytes && !same(new.as_ref(), finder.find(&chunk)?.as_ref())? {
                return Err(self.differs(cell, &chunk));
            }
        }
        Ok(tally)
    }

    fn differs(&self, cell: &[u64], chunk: &[u64]) -> Error {
        match self.new.chunks.packing.key(cell) {
            Ok(object) => RepackError::Differs { object, chunk: chunk.to_vec() }.into(),
            Err(error) => error.into(),
        }
    }
}

/// Whether two chunks have the same bytes; one that is not stored is only the same as another such.
fn same(new: Option<&StoredBytes>, old: Option<&StoredBytes>) -> Result<bool, StoreError> {
    match (new, old) {
        (Some(new), Some(old)) => new.has_bytes_of(old),
        (new, old) => Ok(new.is_none() && old.is_none()),
    }
}
