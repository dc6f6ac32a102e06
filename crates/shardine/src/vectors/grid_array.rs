//! An array with one cell for each chunk of space.

use std::ops::ControlFlow;

use serde_json::{Map, Value};
use shardine_codec::{ElementSize, VariableElements};
use shardine_geometry::zarr_vectors::{
    ChunkCoords, DocumentError, GridDocument, PayloadError, chunk_key,
};

use super::error::VectorsError;
use super::store::{VectorStore, wrong};
use super::told::Told;
use crate::zarr::{ArrayNode, Node};
use crate::{Error, Location, Region};

/// The attribute with the list of chunks.
const LIST: &str = "nonempty_chunks";

/// An array with one cell for each chunk of space, and where it lies in that.
#[derive(Debug)]
pub(super) struct GridArray {
    /// Its path in the store: `0/vertices`.
    pub(super) path: String,
    pub(super) array: ArrayNode,
    grid: GridDocument,
    /// What is wrong with the list of its chunks, if it cannot be one.
    unreadable: Option<String>,
    store: Location,
}

/// Chunks of an array, and whether these are only said to be stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) chunks: Vec<ChunkCoords>,
    /// Whether they come from the list in the document of the array.
    pub(super) listed: bool,
}

impl GridArray {
    /// Opens the array at `path`, whose grid has `rank` axes; `None` if there is none.
    pub(super) fn open(
        store: &VectorStore,
        path: &str,
        rank: usize,
    ) -> Result<Option<Self>, Error> {
        match store.node(path) {
            Ok(node) => Self::of_node(store, path, node, rank).map(Some),
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The array that a node is, whose grid has `rank` axes.
    pub(super) fn of_node(
        store: &VectorStore,
        path: &str,
        node: Node,
        rank: usize,
    ) -> Result<Self, Error> {
        let location = &store.location;
        let wrong_node =
            |expected| wrong(location, VectorsError::Node { node: path.to_owned(), expected });
        let Node::Array(array) = node else { return Err(wrong_node("an array")) };
        if array.shape().len() != rank {
            return Err(wrong_node("an array with an axis for each of the store's"));
        }
        let unit = |shape: &[u64]| shape.iter().all(|len| *len == 1);
        if array.data_type().size() != ElementSize::Variable || !unit(array.chunk_shape()) {
            return Err(wrong_node("an array of bytes of variable length, in chunks of one"));
        }
        let (grid, unreadable) =
            read_grid(array.metadata().attributes(), rank).map_err(|source| {
                wrong(location, VectorsError::Document { node: path.to_owned(), source })
            })?;
        Ok(Self { path: path.to_owned(), array, grid, unreadable, store: location.clone() })
    }

    pub(super) fn attributes(&self) -> &Map<String, Value> {
        self.array.metadata().attributes()
    }

    /// The chunks that are stored, in the order in which they are best read: shard by shard.
    ///
    /// They come from the list of the array. Where there is none, or it cannot be right, or `doubt`
    /// says that lists of the level are wrong, they come from the indexes of shards or a listing of
    /// objects, and `told` says so. A strict query compares the two.
    pub(super) fn stored(&self, doubt: bool, told: &mut Told) -> Result<Stored, Error> {
        let why = self.why_not_listed();
        let listed = self.grid.nonempty.as_ref().filter(|_| why.is_none());
        if let (Some(chunks), false) = (listed, doubt || told.strict) {
            return Ok(Stored { chunks: self.in_order(chunks.clone()), listed: true });
        }
        let found = self.found()?;
        if let Some((why, wrong)) = why {
            let by = match self.array.shard_shape() {
                Some(_) => "indexes of shards",
                None => "a listing",
            };
            let note = format!("{} {why}: {} chunks found by {by}", self.path, found.len());
            match wrong {
                true => told.contradiction(note)?,
                false => told.note(note),
            }
        }
        let chunks = self.in_order(found);
        if let (Some(listed), true) = (listed, told.strict) {
            self.compare(listed, &chunks, told)?;
        }
        Ok(Stored { chunks, listed: false })
    }

    /// Compares what is listed with what is stored.
    fn compare(
        &self,
        listed: &[ChunkCoords],
        stored: &[ChunkCoords],
        told: &mut Told,
    ) -> Result<(), Error> {
        let mut sorted = stored.to_vec();
        sorted.sort_unstable();
        let lost = |chunk: &&ChunkCoords| sorted.binary_search(chunk).is_err();
        if let Some(chunk) = listed.iter().find(lost) {
            told.absent(&self.path, chunk_key(chunk))?;
        }
        let missing = |chunk: &&ChunkCoords| listed.binary_search(chunk).is_err();
        if let Some(chunk) = sorted.iter().find(missing) {
            let reason = format!("{} does not list chunk {}", self.path, chunk_key(chunk));
            told.contradiction(format!("{reason}, which is stored"))?;
        }
        Ok(())
    }

    /// Why the list cannot be used, and whether that is a fault.
    fn why_not_listed(&self) -> Option<(String, bool)> {
        if let Some(reason) = &self.unreadable {
            return Some((format!("has a list of its chunks that is none ({reason})"), true));
        }
        let Some(chunks) = &self.grid.nonempty else {
            return Some(("has no list of its chunks (nonempty_chunks)".to_owned(), false));
        };
        let outside = chunks.iter().find(|chunk| self.cell(chunk).is_none())?;
        Some((format!("lists chunk {}, which is outside", chunk_key(outside)), true))
    }

    /// The list of its chunks, in ascending order, as far as it can be read.
    pub(super) fn list(&self) -> Option<&[ChunkCoords]> {
        self.grid.nonempty.as_deref()
    }

    /// Whether a list leaves a chunk out.
    pub(super) fn leaves_out(&self, chunk: &ChunkCoords) -> bool {
        self.list().is_some_and(|list| list.binary_search(chunk).is_err())
    }

    /// The chunks for which something is stored, as objects and indexes have it.
    pub(super) fn found(&self) -> Result<Vec<ChunkCoords>, Error> {
        let objects = self.array.possible_objects()?;
        let mut chunks = Vec::new();
        let mut failed = None;
        let shard = self.array.shard_shape();
        if shard.is_none() {
            // A listing has them; a store that cannot list has to be asked for each.
            let cells = self.array.objects()?.into_iter().map(|object| object.cell);
            return Ok(cells.filter_map(|cell| self.grid.chunk(&cell)).collect());
        }
        self.array.each_shard(&objects, &mut |object, entries| {
            match entries {
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
                Ok(None) => {}
                Ok(Some(entries)) => {
                    let stored =
                        entries.entries.iter().enumerate().filter(|entry| entry.1.is_some());
                    chunks.extend(stored.filter_map(|(entry, _)| {
                        let cell = within_shard(&object.cell, &entries.grid, entry as u64)?;
                        let inside = cell.iter().zip(self.array.shape()).all(|(at, len)| at < len);
                        if inside { self.grid.chunk(&cell) } else { None }
                    }));
                }
            }
            ControlFlow::Continue(())
        });
        failed.map_or(Ok(chunks), Err)
    }

    /// Shard by shard, and in each in ascending order.
    fn in_order(&self, mut chunks: Vec<ChunkCoords>) -> Vec<ChunkCoords> {
        if let Some(shard) = self.array.shard_shape() {
            let origin = &self.grid.origin;
            let shard_of = |chunk: &ChunkCoords| -> ChunkCoords {
                let axes = chunk.iter().zip(origin).zip(shard);
                // Inside the grid, which is checked.
                axes.map(|((at, first), len)| (at - first) / (*len).max(1) as i64).collect()
            };
            chunks.sort_by_cached_key(|chunk| (shard_of(chunk), chunk.clone()));
        } else {
            chunks.sort_unstable();
        }
        chunks
    }

    pub(super) fn cell(&self, chunk: &[i64]) -> Option<smallvec::SmallVec<[u64; 4]>> {
        self.grid.cell(chunk, self.array.shape())
    }

    /// Reads the cells of chunks, in one call to the engine. A chunk outside the grid, or without
    /// anything stored, has no bytes.
    pub(super) fn read<'a>(
        &self,
        chunks: impl IntoIterator<Item = &'a ChunkCoords>,
    ) -> Result<VariableElements, Error> {
        // Neighbours along the last axis are read as one region.
        let mut regions: Vec<Region> = Vec::new();
        let mut run: Option<(smallvec::SmallVec<[u64; 4]>, u64)> = None;
        let region = |(start, count): (smallvec::SmallVec<[u64; 4]>, u64)| {
            let mut shape = smallvec::SmallVec::<[u64; 4]>::from_elem(1, start.len());
            if let Some(last) = shape.last_mut() {
                *last = count;
            }
            Region::of_box(&start, &shape)
        };
        let mut inside = Vec::new();
        for chunk in chunks {
            let cell = self.cell(chunk);
            inside.push(cell.is_some());
            let Some(cell) = cell else { continue };
            let follows = run.as_ref().is_some_and(|(start, count)| follows(start, *count, &cell));
            match &mut run {
                Some((_, count)) if follows => *count += 1,
                run => regions.extend(run.replace((cell, 1)).map(region)),
            }
        }
        regions.extend(run.map(region));
        let read = self.array.read_many_variable(&regions)?;
        if inside.iter().all(|inside| *inside) {
            return Ok(read);
        }
        let mut all = VariableElements::with_capacity(inside.len(), read.byte_len());
        let mut read = read.iter();
        for inside in inside {
            all.push(if inside { read.next().unwrap_or_default() } else { &[] });
        }
        Ok(all)
    }

    /// An error of the store.
    pub(super) fn wrong(&self, source: VectorsError) -> Error {
        wrong(&self.store, source)
    }

    /// An error in the bytes of a chunk.
    pub(super) fn damaged(&self, chunk: &[i64], source: PayloadError) -> Error {
        let (array, chunk) = (self.path.clone(), chunk_key(chunk));
        wrong(&self.store, VectorsError::Cell { array, chunk, source })
    }

    /// A chunk that contradicts another array.
    pub(super) fn contradicts(&self, chunk: &[i64], reason: impl Into<String>) -> Error {
        let (array, chunk, reason) = (self.path.clone(), chunk_key(chunk), reason.into());
        wrong(&self.store, VectorsError::Contradiction { array, chunk, reason })
    }
}

/// Reads what an array says of its cells. A list of chunks that is none is left out, and comes back
/// as the reason: what is stored can be found without it.
fn read_grid(
    attributes: &Map<String, Value>,
    rank: usize,
) -> Result<(GridDocument, Option<String>), DocumentError> {
    match GridDocument::read(attributes, rank) {
        Err(error) if error.member.starts_with(LIST) => {
            let mut others = attributes.clone();
            others.shift_remove(LIST);
            Ok((GridDocument::read(&others, rank)?, Some(error.to_string())))
        }
        grid => Ok((grid?, None)),
    }
}

fn follows(start: &[u64], count: u64, cell: &[u64]) -> bool {
    let (Some((last, before)), Some((next, outer))) = (start.split_last(), cell.split_last())
    else {
        return false;
    };
    before == outer && last.checked_add(count) == Some(*next)
}

/// The cell of entry `entry` of the shard at `place`, whose entries form `grid`.
pub(crate) fn within_shard(place: &[u64], grid: &[u64], mut entry: u64) -> Option<Vec<u64>> {
    let mut cell = vec![0; place.len()];
    for ((cell, place), len) in cell.iter_mut().zip(place).zip(grid).rev() {
        *cell = place.checked_mul(*len)?.checked_add(entry.checked_rem(*len)?)?;
        entry /= len;
    }
    Some(cell)
}
