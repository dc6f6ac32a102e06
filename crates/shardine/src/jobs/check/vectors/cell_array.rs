//! An array with a cell for each chunk of space.

use shardine_codec::{ElementSize, VariableElements};
use shardine_geometry::zarr_vectors::rules::ChunkList;
use shardine_geometry::zarr_vectors::{ChunkCoords, GridDocument, chunk_key};
use shardine_store::Key;

use super::stored::{StoredCells, object_place};
use crate::jobs::check::{Finding, FindingKind};
use crate::{ArrayNode, Engine, Error, ErrorKind, Location, Region};

/// How many bytes of cells are read at a time, as stored, at most.
const READ_AT_ONCE: u64 = 8 << 20;

/// How many cells are read at a time at most.
const MOST_CELLS: usize = 4096;

/// An array with a cell for each chunk, and what is stored in it.
pub(in crate::jobs) struct CellArray {
    pub array: ArrayNode,
    /// What it says of its chunks.
    pub list: ChunkList,
    pub grid: GridDocument,
    pub stored: StoredCells,
}

/// Takes cells: the number of the chunk among those asked for, and its bytes.
type EachCell<'a> = dyn FnMut(usize, Result<&[u8], Error>) + 'a;

impl CellArray {
    /// The array, whose grid must have `rank` axes; what is wrong with it, in words. Nothing is
    /// known of its cells before [`look`](Self::look).
    pub fn new(array: ArrayNode, rank: usize) -> Result<Self, String> {
        if array.shape().len() != rank {
            return Err(format!("has {} axes, but chunks have {rank}", array.shape().len()));
        }
        let unit = array.chunk_shape().iter().all(|len| *len == 1);
        if array.data_type().size() != ElementSize::Variable || !unit {
            return Err("is not an array of bytes of variable length, in chunks of one".to_owned());
        }
        let list = ChunkList::read(array.metadata().attributes(), rank)?;
        let (grid, stored) = (list.grid(), StoredCells::default());
        Ok(Self { array, list, grid, stored })
    }

    /// Finds out what is stored.
    pub fn look(&mut self) -> Result<(), Error> {
        self.stored = StoredCells::find(&self.array, &self.grid)?;
        Ok(())
    }

    pub fn location(&self) -> &Location {
        self.array.location()
    }

    pub fn attributes(&self) -> &serde_json::Map<String, serde_json::Value> {
        self.array.metadata().attributes()
    }

    fn cell(&self, chunk: &[i64]) -> Option<Vec<u64>> {
        self.grid.cell(chunk, self.array.shape()).map(|cell| cell.to_vec())
    }

    /// The object that holds the cell of a chunk; `None` if there is no such cell.
    pub fn object(&self, chunk: &[i64]) -> Option<Key> {
        let place = object_place(&self.array, &self.cell(chunk)?);
        self.array.chunks.packing.key(&place).ok()
    }

    /// The chunks that are stored, shard by shard.
    pub fn chunks(&self) -> Vec<ChunkCoords> {
        self.stored.in_order(&self.array, &self.grid)
    }

    /// Whether its list names a chunk for which nothing is stored.
    pub fn lacks_listed(&self) -> bool {
        let listed = self.list.chunks.as_deref().unwrap_or_default();
        listed.iter().any(|chunk| !self.stored.has(chunk) && !self.is_unknown(chunk))
    }

    /// Whether it could not be found out if a chunk is stored.
    pub fn is_unknown(&self, chunk: &[i64]) -> bool {
        self.cell(chunk).is_some_and(|cell| self.stored.is_unknown(&self.array, &cell))
    }

    /// A finding about the cell of a chunk.
    pub fn finding(&self, kind: FindingKind, chunk: &[i64], message: &str) -> Finding {
        let message = format!("chunk {}: {message}", chunk_key(chunk));
        let object = self.object(chunk).or_else(|| self.location().path.clone());
        let finding = Finding::new(kind, object, message);
        let Some(cell) = self.cell(chunk) else { return finding };
        let finding = match self.array.shard_shape() {
            Some(_) => finding.shard(&object_place(&self.array, &cell)),
            None => finding,
        };
        finding.chunk(Some(cell))
    }

    /// How many of the first `chunks` are read at a time.
    pub fn at_once(&self, engine: &Engine, chunks: &[ChunkCoords]) -> usize {
        let most = READ_AT_ONCE.min(engine.memory_in_flight() / 16);
        let mut bytes = 0u64;
        let fits = chunks.iter().take(MOST_CELLS).take_while(|chunk| {
            bytes = bytes.saturating_add(self.stored.len_of(chunk));
            bytes <= most
        });
        fits.count().max(1)
    }

    /// Reads the cells of chunks, some at a time, and hands each to `each` with its number, in
    /// order. One for which nothing is stored has no bytes. If something cannot be read, the cells
    /// around it still are.
    pub fn each(&self, engine: &Engine, chunks: &[ChunkCoords], each: &mut EachCell<'_>) {
        let mut done = 0;
        while let Some(rest) = chunks.get(done..).filter(|rest| !rest.is_empty()) {
            let now = &rest[..self.at_once(engine, rest)];
            match self.read(now) {
                Ok(cells) => {
                    (done..).zip(cells.iter()).for_each(|(at, bytes)| each(at, Ok(bytes)));
                }
                Err(error) if now.len() == 1 => each(done, Err(error)),
                Err(_) => {
                    for (at, chunk) in (done..).zip(now) {
                        match self.read(std::slice::from_ref(chunk)) {
                            Ok(cells) => each(at, Ok(cells.get(0).unwrap_or_default())),
                            Err(error) => each(at, Err(error)),
                        }
                    }
                }
            }
            done += now.len();
        }
    }

    fn read(&self, chunks: &[ChunkCoords]) -> Result<VariableElements, Error> {
        let cells: Vec<Option<Vec<u64>>> = chunks
            .iter()
            .map(|chunk| self.cell(chunk).filter(|_| self.stored.has(chunk)))
            .collect();
        let one = vec![1; self.array.shape().len()];
        let regions: Vec<Region> =
            cells.iter().flatten().map(|cell| Region::of_box(cell, &one)).collect();
        let read = self.array.read_many_variable(&regions)?;
        let mut all = VariableElements::with_capacity(chunks.len(), read.byte_len());
        let mut read = read.iter();
        for cell in cells {
            all.push(if cell.is_some() { read.next().unwrap_or_default() } else { &[] });
        }
        Ok(all)
    }
}

/// The finding for a cell that could not be read; `None` if the check of its array, which decodes
/// cells, has reported it.
pub(in crate::jobs) fn unread(
    array: &CellArray,
    chunk: &[i64],
    error: &Error,
    decoded: bool,
) -> Option<Finding> {
    let kind = match error.kind() {
        ErrorKind::Damaged if decoded => return None,
        ErrorKind::Damaged => FindingKind::Chunk,
        _ => FindingKind::Unreadable,
    };
    Some(array.finding(kind, chunk, &format!("cannot be read: {error}")))
}
