//! Moves encoded chunks into new objects, and compares them there with where they came from.

use std::ops::ControlFlow;
use std::sync::Arc;

use shardine_store::{
    Buffer, Condition, CreateOptions, Key, Object, ObjectWriter, ReadRange, StoreError,
};

use super::build::{Build, Tally};
use super::chunks::{ChunkFinder, EncodedChunk};
use super::{RepackCheck, RepackError};
use crate::Error;
use crate::engine::in_order;
use crate::layout::{Layout, ShardLayout};
use crate::shard::{IndexLocation, ShardError, ShardIndex, WriteOrder};

/// Entries of a shard that are looked up at once.
const WINDOW: usize = 1024;

/// Chunks that are open as files of their own at once, by all workers. A process may commonly have a thousand files open.
const OPEN_CHUNKS: usize = 384;

/// Bytes that are compared at once.
const PIECE: u64 = 256 << 10;

/// A chunk of a shard in the making.
struct Piece {
    entry: usize,
    chunk: EncodedChunk,
}

impl Build<'_> {
    /// Makes a shard of chunks that are moved into it.
    pub(super) fn move_shard(
        &self,
        finder: &ChunkFinder<'_>,
        shard: &ShardLayout,
        cell: &[u64],
        grid: &[u64],
    ) -> Result<(), Error> {
        let key = self.new.grid.keys.key(cell)?;
        if self.resumed && self.is_kept(finder, &key, cell)? {
            return Ok(());
        }
        let damaged = |source| Error::Shard {
            object: key.clone(),
            shard: cell.to_vec(),
            source: Box::new(source),
        };
        let store = &self.new.grid.store;
        let options = CreateOptions { head: shard.index.head(), condition: Condition::None };
        let mut index = ShardIndex::empty(shard.chunks()).map_err(damaged)?;
        let mut writer: Option<Box<dyn ObjectWriter>> = None;
        let mut tally = Tally::default();
        let entries = self.entries(shard).map_err(damaged)?;
        let window = match &self.old.grid.layout {
            Layout::Chunk(_) => (OPEN_CHUNKS / self.new.engine.threads().max(1)).clamp(8, WINDOW),
            _ => WINDOW,
        };
        for window in entries.chunks(window) {
            let mut pieces = Vec::new();
            let mut missing = 0;
            for &entry in window {
                let Some(chunk) = self.chunk_of(cell, entry, grid) else { continue };
                match finder.find(&chunk)? {
                    Some(chunk) => pieces.push(Piece { entry: entry as usize, chunk }),
                    None => missing += 1,
                }
            }
            if self.options.order == WriteOrder::Arrival {
                // As they lie: so the longest runs can be moved at once.
                pieces.sort_by_key(|piece| piece.chunk.place());
            }
            let before = tally;
            if !pieces.is_empty() {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    none => none.insert(store.create(&key, options.clone())?),
                };
                let stored = self.append(&**writer, &pieces, &mut index)?;
                tally.moved += stored;
                missing += pieces.len() as u64 - stored;
            }
            tally.empty += missing;
            self.advance(tally.moved + tally.empty - before.moved - before.empty);
        }
        self.add(tally);
        // Of a far store it is only known now that there was nothing.
        let Some(writer) = writer.filter(|_| !index.all_absent()) else { return Ok(()) };
        let len =
            index.shard_len().max(shard.index.head()) + shard.index.len() - shard.index.head();
        let encoded = self.new.engine.with_context(|context| shard.index.encode(context, &index));
        let encoded = encoded.map_err(|source| {
            let (start, end) = (0, shard.index.len());
            damaged(ShardError::Index { start, end, source })
        })?;
        let staged = match shard.index.location() {
            IndexLocation::Start => writer.finish(&encoded)?,
            IndexLocation::End => {
                writer.append(&encoded)?;
                writer.finish(&[])?
            }
        };
        self.wrote(1, len);
        for published in self.publisher.add(staged, cell.to_vec(), len)? {
            self.check_moved(finder, &published)?;
        }
        Ok(())
    }

    /// Makes an object of one chunk.
    pub(super) fn move_chunk(&self, finder: &ChunkFinder<'_>, chunk: &[u64]) -> Result<(), Error> {
        let key = self.new.grid.keys.key(chunk)?;
        if self.resumed && self.is_kept(finder, &key, chunk)? {
            return Ok(());
        }
        let empty = Tally { empty: 1, ..Tally::default() };
        let Some(found) = finder.find(chunk)? else {
            self.count(empty);
            return Ok(());
        };
        let options = CreateOptions { head: 0, condition: Condition::None };
        let writer = self.new.grid.store.create(&key, options)?;
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
        let chunk = self.new.grid.layout.chunk_coordinates(cell, &[entry]);
        chunk.iter().zip(grid).all(|(&i, &n)| i < n).then_some(chunk)
    }

    /// Appends chunks to a shard; tells how many were there.
    fn append(
        &self,
        writer: &dyn ObjectWriter,
        pieces: &[Piece],
        index: &mut ShardIndex,
    ) -> Result<u64, Error> {
        if !self.old.grid.store.read_cost().local {
            return self.append_far(writer, pieces, index);
        }
        let mut stored = 0;
        let mut rest = pieces;
        while let Some(first) = rest.first() {
            let follow = |pair: &[Piece]| pair[0].chunk.is_followed_by(&pair[1].chunk);
            let run = rest.windows(2).take_while(|pair| follow(pair)).count() + 1;
            let (now, later) = rest.split_at(run);
            rest = later;
            let ranges =
                (&first.chunk.range, now.last().and_then(|last| last.chunk.range.as_ref()));
            let (Some(start), Some(end)) = ranges else {
                // An object of a length that is not known: there is one such piece in the run.
                let bytes = first.chunk.object.read(ReadRange::All)?;
                let at = writer.append(&bytes)?;
                index.set(first.entry, at..at + bytes.len() as u64);
                stored += 1;
                continue;
            };
            let at = writer.append_from(&*first.chunk.object, start.start..end.end)?;
            for piece in now {
                if let Some(range) = &piece.chunk.range {
                    let place = at + (range.start - start.start);
                    index.set(piece.entry, place..place + (range.end - range.start));
                    stored += 1;
                }
            }
            first.chunk.object.check_unchanged()?;
        }
        Ok(stored)
    }

    /// The same from a far store: many reads at once.
    fn append_far(
        &self,
        writer: &dyn ObjectWriter,
        pieces: &[Piece],
        index: &mut ShardIndex,
    ) -> Result<u64, Error> {
        let decoded = self.new.grid.layout.addressable().map(|shard| shard.inner.decoded_len());
        let known = pieces.iter().filter_map(|piece| piece.chunk.range.as_ref());
        let largest = known.map(|range| range.end - range.start).max();
        let each = largest.or(decoded).unwrap_or(PIECE);
        let most = self.old.engine.at_once(&*self.old.grid.store, each.saturating_mul(2));
        let read = |i: usize| {
            let EncodedChunk { object, .. } = &pieces[i].chunk;
            object.read(pieces[i].chunk.read_range())
        };
        let (mut stored, mut failed) = (0, None);
        in_order(most, pieces.len(), &read, &mut |i, read: Result<Buffer, StoreError>| {
            let appended = match read {
                // An object of its own that is not there.
                Err(StoreError::NotFound { .. }) if pieces[i].chunk.range.is_none() => Ok(None),
                Err(error) => Err(error),
                Ok(bytes) => writer.append(&bytes).map(|at| Some(at..at + bytes.len() as u64)),
            };
            match appended {
                Ok(None) => {}
                Ok(Some(range)) => {
                    index.set(pieces[i].entry, range);
                    stored += 1;
                }
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        failed.map_or(Ok(stored), |error| Err(error.into()))
    }

    /// Whether an earlier run has made this object, and it is what this run would make.
    fn is_kept(&self, finder: &ChunkFinder<'_>, key: &Key, cell: &[u64]) -> Result<bool, Error> {
        let opened = self.new.grid.store.open(key, None);
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
            self.new.grid.store.delete(key, &Condition::None)?;
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
        let store = &self.new.grid.store;
        let mut tally = Tally::default();
        let Layout::Shard(shard) = &self.new.grid.layout else {
            let object = store.open(&self.new.grid.keys.key(cell)?, None)?;
            let range = object.len().map(|len| 0..len);
            let new = Some(EncodedChunk { object, range });
            if bytes && !same(new.as_ref(), finder.find(cell)?.as_ref())? {
                return Err(self.differs(cell, cell));
            }
            tally.moved = 1;
            return Ok(tally);
        };
        let key = self.new.grid.keys.key(cell)?;
        let Some(opened) = self.new.open_shard(cell)? else {
            return Err(self.differs(cell, &[]));
        };
        let grid = self.chunk_grid();
        for entry in 0..shard.chunks() as u32 {
            let range = opened.index.get(entry as usize).map_err(|source| Error::Shard {
                object: key.clone(),
                shard: cell.to_vec(),
                source: Box::new(source),
            })?;
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
            let new = range.map(|range| EncodedChunk { object, range: Some(range) });
            if bytes && !same(new.as_ref(), finder.find(&chunk)?.as_ref())? {
                return Err(self.differs(cell, &chunk));
            }
        }
        Ok(tally)
    }

    fn differs(&self, cell: &[u64], chunk: &[u64]) -> Error {
        match self.new.grid.keys.key(cell) {
            Ok(object) => RepackError::Differs { object, chunk: chunk.to_vec() }.into(),
            Err(error) => error.into(),
        }
    }
}

/// Whether two chunks have the same bytes; one that is not stored is only the same as another such.
fn same(new: Option<&EncodedChunk>, old: Option<&EncodedChunk>) -> Result<bool, StoreError> {
    let (Some(new), Some(old)) = (new, old) else { return Ok(new.is_none() && old.is_none()) };
    let (Some(a), Some(b)) = (&new.range, &old.range) else {
        // Of a far store the length is not known before it is read.
        let (a, b) = (new.object.read(new.read_range()), old.object.read(old.read_range()));
        return match (a, b) {
            (a, Err(StoreError::NotFound { .. })) => {
                Ok(matches!(a, Err(StoreError::NotFound { .. })))
            }
            (a, b) => Ok(*a? == *b?),
        };
    };
    let len = a.end - a.start;
    if len != b.end - b.start {
        return Ok(false);
    }
    let mut at = 0;
    while at < len {
        let piece = PIECE.min(len - at);
        let read = |object: &dyn Object, start: u64| {
            object.read(ReadRange::Bounded(start + at..start + at + piece))
        };
        if *read(&*new.object, a.start)? != *read(&*old.object, b.start)? {
            return Ok(false);
        }
        at += piece;
    }
    Ok(true)
}
