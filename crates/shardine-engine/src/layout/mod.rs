//! How a stored object is encoded: a chunk, or a shard of chunks, recursively.
//!
//! A [`Layout`] is the codec chain of an array bound to its chunk shape. It knows where things are
//! and converts between bytes and elements. It does no I/O, so the same code serves a whole shard
//! in memory, a chunk that was just read, and a shard inside a shard.

mod decode;
mod index_format;
mod plain;
mod resolve;
mod update;
mod update_plan;

use std::sync::{Arc, OnceLock};

use shardine_codec::strided::{Axes, Placement};
use shardine_codec::{ArraySpec, ArrayStages, ByteStages, ChunkCodec, ElementSize};

pub use decode::DecodeError;
pub use decode::{HANDLE, Target, VariableTable, advance, for_each_offset};
pub use index_format::IndexFormat;
pub use resolve::Configuration;
pub use resolve::LayoutError;
pub use update::EncodeError;
pub use update::{EncodeOptions, EncodedChunks, Outcome, SourceView, Update};
pub use update_plan::{Action, UpdatePlan};

use smallvec::SmallVec;

use crate::selection::{Axis, Selection};
use crate::shard::{ShardError, morton_order};

/// How a stored object, or an entry of a shard, is encoded.
#[derive(Debug, Clone)]
pub enum Layout {
    /// A chunk: decoded as a whole.
    Chunk(Box<Leaf>),
    /// A shard: an index and chunks that can be decoded individually.
    Shard(Box<ShardLayout>),
    /// Array-to-array codecs that need all elements together, in front of a shard.
    Staged(Box<StagedLayout>),
}

/// A chunk with the strides of its elements.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// How its elements become bytes.
    pub codec: ChunkCodec,
    /// Strides of the stored elements, by axis of the array.
    pub strides: Axes<usize>,
}

/// A shard.
#[derive(Debug, Clone)]
pub struct ShardLayout {
    /// Shape, type and fill value of the whole shard.
    pub spec: ArraySpec,
    /// Stored axis `i` is axis `order[i]` of the array.
    pub order: Vec<usize>,
    /// The shape of its chunks, by stored axis.
    pub chunk_shape: Vec<u64>,
    /// Chunks per shard, by stored axis.
    pub grid: Vec<u64>,
    /// How its index is encoded, and where it lies.
    pub index: IndexFormat,
    /// How each of its chunks is encoded.
    pub inner: Layout,
    /// Codecs that encode the shard as a whole, including its index.
    pub after: ByteStages,
    /// The entries in Morton order, computed on first use.
    pub morton: OnceLock<Arc<[u32]>>,
}

/// Codecs such as `delta` in front of a shard.
#[derive(Debug, Clone)]
pub struct StagedLayout {
    /// Shape, type and fill value before the codecs.
    pub spec: ArraySpec,
    /// The codecs.
    pub stages: ArrayStages,
    /// What is encoded after them.
    pub inner: Layout,
}

impl Layout {
    /// The shape, type and fill value of what is encoded.
    pub fn spec(&self) -> &ArraySpec {
        match self {
            Self::Chunk(leaf) => leaf.codec.spec(),
            Self::Shard(shard) => &shard.spec,
            Self::Staged(staged) => &staged.spec,
        }
    }

    /// The shard, if its chunks can be reached without decoding all of it.
    pub fn addressable(&self) -> Option<&ShardLayout> {
        match self {
            Self::Shard(shard) if shard.after.is_empty() => Some(shard),
            _ => None,
        }
    }

    /// Whether the encoded innermost chunks can be reached without decoding anything but indexes.
    pub fn is_addressable_throughout(&self) -> bool {
        match self {
            Self::Chunk(_) => true,
            Self::Shard(shard) => shard.after.is_empty() && shard.inner.is_addressable_throughout(),
            Self::Staged(_) => false,
        }
    }

    /// The object that holds an innermost chunk, and the entries that lead to it there.
    ///
    /// The inverse of [`chunk_coordinates`](Self::chunk_coordinates).
    pub fn find_chunk(&self, chunk: &[u64]) -> (Vec<u64>, SmallVec<[u32; 4]>) {
        let Self::Shard(shard) = self else { return (chunk.to_vec(), SmallVec::new()) };
        let (stored, inner) = shard.inner.find_chunk(&shard.to_stored(chunk));
        let axes = || stored.iter().zip(&shard.grid);
        let inside: Axes<u64> = axes().map(|(&i, &n)| i % n).collect();
        let cell: Axes<u64> = axes().map(|(&i, &n)| i / n).collect();
        let mut path = SmallVec::new();
        // A shard has fewer than 2^27 entries.
        path.push(shard.entry(&inside) as u32);
        path.extend(inner);
        (shard.to_array_order(&cell), path)
    }

    /// The shape of the innermost chunks, along the axes of the array.
    pub fn innermost_chunk_shape(&self) -> Vec<u64> {
        match self {
            Self::Chunk(leaf) => leaf.codec.spec().shape.clone(),
            Self::Shard(shard) => shard.to_array_order(&shard.inner.innermost_chunk_shape()),
            Self::Staged(staged) => staged.spec.shape.clone(),
        }
    }

    /// The position of the chunk at the end of a path of entries, in the array's grid of chunks of
    /// that depth.
    ///
    /// `cell` is the object's position in the grid of objects.
    pub fn chunk_coordinates(&self, cell: &[u64], path: &[u32]) -> Vec<u64> {
        let (Self::Shard(shard), [entry, rest @ ..]) = (self, path) else { return cell.to_vec() };
        let inside = shard.cell(*entry as usize);
        let stored = shard.to_stored(cell);
        let axes = stored.iter().zip(&shard.grid).zip(&inside);
        // The coordinates of a chunk outside the array may overflow.
        let place =
            |((&at, &grid), &i): ((&u64, &u64), &u64)| at.saturating_mul(grid).saturating_add(i);
        let stored: Vec<u64> = axes.map(place).collect();
        shard.to_array_order(&shard.inner.chunk_coordinates(&stored, rest))
    }

    /// Bytes that an element takes while it is moved: its own, or those of a handle.
    pub fn element_size(&self) -> usize {
        element_size(self.spec())
    }

    /// Bytes of all decoded elements, for memory accounting.
    pub fn decoded_len(&self) -> u64 {
        let n = self.spec().shape.iter().fold(1u64, |n, &d| n.saturating_mul(d));
        n.saturating_mul(self.element_size() as u64)
    }
}

/// The placement of the selected elements of a box, given the strides of its elements.
pub fn select(strides: &[usize], selection: &Selection) -> Placement {
    let axes = selection.axes.iter().zip(strides);
    let start = axes.clone().map(|(axis, &stride)| axis.start as usize * stride).sum();
    // A step is taken only if there is more than one element, and then it stays inside the box.
    let stride = |(axis, &stride): (&Axis, &usize)| {
        if axis.count > 1 { axis.step as usize * stride } else { stride }
    };
    Placement { start, strides: axes.map(stride).collect() }
}

/// Bytes that an element takes while it is read or written.
pub fn element_size(spec: &ArraySpec) -> usize {
    match spec.data_type.size() {
        ElementSize::Fixed(size) => size,
        ElementSize::Variable => HANDLE,
    }
}

impl ShardLayout {
    /// The number of chunks the shard has room for.
    pub fn chunks(&self) -> usize {
        self.index.chunks()
    }

    /// The entries in Morton order.
    pub fn morton(&self) -> Result<Arc<[u32]>, ShardError> {
        if let Some(order) = self.morton.get() {
            return Ok(Arc::clone(order));
        }
        let order = morton_order(&self.grid)
            .map_err(|_| ShardError::TooManyChunks { chunks: self.chunks() })?;
        Ok(Arc::clone(self.morton.get_or_init(|| order.into())))
    }

    /// The number of a chunk in the index.
    pub fn entry(&self, cell: &[u64]) -> usize {
        cell.iter().zip(&self.grid).fold(0, |n, (&i, &g)| n * g as usize + i as usize)
    }

    /// The chunk with this number, by stored axis.
    pub fn cell(&self, mut entry: usize) -> Axes<u64> {
        let mut cell: Axes<u64> = Axes::from_elem(0, self.grid.len());
        for (i, &g) in cell.iter_mut().zip(&self.grid).rev() {
            *i = entry as u64 % g;
            entry /= g as usize;
        }
        cell
    }

    /// Reorders values from array axes to stored axes.
    pub fn to_stored<T: Copy>(&self, by_axis: &[T]) -> Axes<T> {
        self.order.iter().map(|&k| by_axis[k]).collect()
    }

    /// Reorders values from stored axes to array axes.
    pub fn to_array_order<T: Copy + Default>(&self, stored: &[T]) -> Vec<T> {
        let mut by_axis = vec![T::default(); stored.len()];
        for (&k, &value) in self.order.iter().zip(stored) {
            by_axis[k] = value;
        }
        by_axis
    }

    /// The selection, by stored axis.
    pub fn selection_to_stored(&self, selection: &Selection) -> Selection {
        Selection { axes: self.order.iter().map(|&k| selection.axes[k]).collect() }
    }

    /// The placement, by stored axis.
    pub fn placement_to_stored(&self, place: &Placement) -> Placement {
        Placement { start: place.start, strides: self.to_stored(&place.strides) }
    }

    /// How much of the chunk at `cell` lies inside the array, given how much of the shard does.
    pub fn chunk_bounds(&self, cell: &[u64], shard_bounds: &[u64]) -> Axes<u64> {
        let axes = cell.iter().zip(&self.chunk_shape).zip(shard_bounds);
        axes.map(|((&i, &n), &bound)| n.min(bound.saturating_sub(i * n))).collect()
    }
}
