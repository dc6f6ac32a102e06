//! A coarser level from a finer one.
//!
//! The vertices of a level are gathered in *bins*, boxes of equal size, and each bin with vertices
//! becomes one vertex: the mean of theirs. It counts as often as objects refer to it, so a vertex of
//! two objects weighs twice. Objects keep their order of vertices; two in a row that fall into one
//! bin become one. *Links* join each finer vertex to the one that it became part of.
//!
//! All of it is sorted outside of memory:
//!
//! ```text
//! vertices and uses of them, by bin         ->  means
//! means and what became part of them, by chunk of the mean  ->  cells, links to finer vertices
//! finer vertices, by chunk of their own     ->  links to coarser vertices
//! uses, in the order of objects             ->  manifests
//! ```

mod cells;
mod choose;
mod finish;
mod level;
mod share;
#[cfg(test)]
mod tests;

use super::ChunkCoords;
use super::build::space::Space;
use crate::GeometryError;
use crate::sort::{Sorter, Spool};

pub use choose::{choose_objects, kept_objects};
pub use level::{CoarseArray, CoarseLevel, CoarseObjects};
pub use share::CoarseShare;

/// The most memory that is asked for when little is allowed: a chunk of common size must fit.
const LEAST_MEMORY: u64 = 8 << 20;

/// How a level is made from a finer one.
#[derive(Debug, Clone, PartialEq)]
pub struct CoarseOptions {
    /// The edges of a bin.
    pub bin: Vec<f64>,
    /// The edges of a chunk of the finer level.
    pub fine_chunk: Vec<f64>,
    /// How many chunks of the finer level one of the new level has, along each axis.
    pub chunk_scale: Vec<u32>,
    /// Bytes of memory, about. The vertices of a bin, and those that became part of a chunk, must
    /// fit.
    pub memory: u64,
    /// Whether there are objects, and what counts are their uses of vertices.
    pub objects: bool,
}

/// The chunk of a finer vertex, as [`CoarseBuilder::chunk`] knows it.
#[derive(Debug, Clone, Copy)]
pub struct FineChunk(u128);

impl FineChunk {
    /// Its place in the order of chunks.
    pub fn order(self) -> u128 {
        self.0
    }
}

/// Gathers the vertices of a level to make a coarser one.
pub struct CoarseBuilder<'a> {
    spool: &'a dyn Spool,
    options: CoarseOptions,
    bins: Space,
    fine: Space,
    coarse: Space,
    memory: u64,
    by_bin: Sorter<'a>,
    row: Vec<u8>,
}

/// What a row of the first sort is.
const VERTEX: u8 = 0;
const USE: u8 = 1;
const BOTH: u8 = 2;

/// Bytes of a row of the first sort before the position: what it is, two numbers of 64 and of 128
/// bits.
const HEAD: usize = 1 + 16 + 8;

impl<'a> CoarseBuilder<'a> {
    /// Makes a level of this form.
    pub fn new(options: &CoarseOptions, spool: &'a dyn Spool) -> Result<Self, GeometryError> {
        let rank = options.fine_chunk.len();
        let scaled = options.fine_chunk.iter().zip(&options.chunk_scale);
        let chunk: Vec<f64> = scaled.map(|(edge, scale)| edge * f64::from(*scale)).collect();
        let memory = (options.memory / 4).max(LEAST_MEMORY);
        Ok(Self {
            spool,
            bins: Space::new(&options.bin, rank)?,
            fine: Space::new(&options.fine_chunk, rank)?,
            coarse: Space::new(&chunk, rank)?,
            memory,
            by_bin: Sorter::new(spool, HEAD + 4 * rank, memory),
            row: Vec::new(),
            options: options.clone(),
        })
    }

    /// A chunk of the finer level.
    pub fn chunk(&self, chunk: &[i64]) -> Result<FineChunk, GeometryError> {
        let far = || place("chunk", format!("{chunk:?} is too far away"));
        self.fine.key(chunk).map(FineChunk).ok_or_else(far)
    }

    /// Where the grid of the finer or of the new level begins if these are the smallest coordinates;
    /// `None` if they are no place.
    pub fn grid_origin(&self, of_finer: bool, low: &[f64]) -> Option<ChunkCoords> {
        let space = if of_finer { &self.fine } else { &self.coarse };
        let parts = low.iter().enumerate().map(|(axis, value)| space.part(axis, *value));
        let key = parts.into_iter().try_fold(0, |key, part| Some(space.join(key, part?)))?;
        (low.len() == space.rank()).then(|| space.chunk(key))
    }

    /// The chunk at a place in the order of chunks.
    pub fn coordinates(&self, order: u128) -> ChunkCoords {
        self.fine.chunk(order)
    }

    /// Adds a vertex of the finer level: row `row` of a chunk. Without objects it also counts;
    /// vertices then come chunk by chunk, in the order in which means are to be summed up.
    pub fn vertex(
        &mut self,
        chunk: FineChunk,
        row: u64,
        position: &[f32],
    ) -> Result<(), GeometryError> {
        let kind = if self.options.objects { VERTEX } else { BOTH };
        self.push(kind, chunk.0, row, position)
    }

    /// Adds a use of a vertex: vertex `at` of fragment `reference`, both counted through all
    /// manifests. May come in any order.
    pub fn used(&mut self, reference: u64, at: u64, position: &[f32]) -> Result<(), GeometryError> {
        self.push(USE, reference.into(), at, position)
    }

    fn push(
        &mut self,
        kind: u8,
        wide: u128,
        number: u64,
        position: &[f32],
    ) -> Result<(), GeometryError> {
        let bin = key_of(&self.bins, position.iter().copied())?;
        self.row.clear();
        self.row.push(kind);
        self.row.extend(wide.to_le_bytes());
        self.row.extend(number.to_le_bytes());
        self.row.extend(position.iter().flat_map(|value| value.to_le_bytes()));
        self.by_bin.push(bin, &self.row)
    }
}

/// The key of the box of `space` that a position lies in.
fn key_of(
    space: &Space,
    position: impl Iterator<Item = f32> + Clone,
) -> Result<u128, GeometryError> {
    let parts = position.clone().enumerate();
    parts
        .map(|(axis, value)| space.part(axis, value.into()))
        .try_fold(0, |key, part| part.map(|part| space.join(key, part)))
        .ok_or_else(|| {
            let shown: Vec<String> = position.map(|value| value.to_string()).collect();
            place("vertex", format!("({}) is no place that has a bin", shown.join(", ")))
        })
}

fn place(place: &str, reason: String) -> GeometryError {
    GeometryError::Invalid { format: "Zarr Vectors", place: place.to_owned(), reason }
}

/// Reads the numbers that a row consists of.
struct Fields<'r>(&'r [u8]);

impl<'r> Fields<'r> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        // Rows are as wide as they were written.
        let Some((taken, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *taken
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn u128(&mut self) -> u128 {
        u128::from_le_bytes(self.take())
    }

    /// The bytes of a position with `rank` coordinates.
    fn position(&mut self, rank: usize) -> &'r [u8] {
        self.0.split_at_checked(4 * rank).map_or(&[], |(position, rest)| {
            self.0 = rest;
            position
        })
    }
}

fn f32s(bytes: &[u8]) -> impl Iterator<Item = f32> + Clone + '_ {
    bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value))
}
