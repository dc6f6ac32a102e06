//! What follows from the shapes of chunks and shards.

use super::packing::ENTRY;
use super::situation::{Situation, count};

/// Bytes of the checksum after the index.
const CHECKSUM: u64 = 4;

/// What it costs to show a part of an array, with nothing cached and in the worst alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// What is shown, in elements.
    pub shape: Vec<u64>,
    /// Chunks that overlap it.
    pub chunks: u64,
    /// Objects that hold these chunks.
    pub objects: u64,
    /// Requests of a reader that merges those of one shard: one for each index and one for the
    /// chunks of each shard.
    pub least_requests: u64,
    /// Requests of a reader that merges nothing: one for each index and one for each chunk.
    pub most_requests: u64,
    /// Bytes of these chunks and indexes.
    pub bytes: u64,
}

/// Where a number of objects comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectCount {
    /// What is stored was counted.
    Counted,
    /// It follows from what was counted and from a sample.
    Estimated,
    /// Nothing is known but what the grid has room for.
    Room,
}

/// What an array amounts to if it is packed in a given way.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Chunks that the array has room for.
    pub chunks: u64,
    /// Shards, or chunks without shards, that it has room for.
    pub cells: u64,
    /// How many of them are stored objects. A shard without chunks is not stored.
    pub objects: u64,
    /// How that is known.
    pub object_count: ObjectCount,
    /// Bytes of a chunk before compression.
    pub chunk_bytes: u64,
    /// Bytes of an encoded chunk.
    pub encoded_chunk_bytes: u64,
    /// Average bytes of an object, not counting its absent chunks.
    pub object_bytes: u64,
    /// Bytes of an object whose chunks are all present and as large as the largest measured.
    pub largest_object_bytes: u64,
    /// Bytes of a shard's index; 0 without shards.
    pub index_bytes: u64,
    /// Bytes of all objects.
    pub stored_bytes: u64,
    /// A screen along the last two axes.
    pub screen: View,
    /// A box along the last three axes; `None` if there are fewer.
    pub volume: Option<View>,
    /// Memory of a streaming writer, as in this library: one chunk per thread, before and after
    /// encoding, and an index twice.
    pub streaming_memory: u64,
    /// Memory of a writer that builds an object in memory: before and after encoding.
    pub whole_memory: u64,
}

impl Figures {
    pub(super) fn new(situation: &Situation, chunk: &[u64], shard: Option<&[u64]>) -> Self {
        let object = shard.unwrap_or(chunk);
        let per_shard: Vec<u64> = object.iter().zip(chunk).map(|(&s, &c)| s / c.max(1)).collect();
        let (chunks, cells) = (count(&situation.grid(chunk)), count(&situation.grid(object)));
        let in_object = count(&per_shard);
        let index_bytes = match shard {
            Some(_) => in_object.saturating_mul(ENTRY).saturating_add(CHECKSUM),
            None => 0,
        };
        let share = situation.share();
        let encoded = situation.encoded(chunk);
        let packed =
            |chunks: u64, each: u64| index_bytes.saturating_add(chunks.saturating_mul(each));
        // Edge objects have chunks outside the array, which are never stored.
        let present = chunks as f64 * share;
        let payload = (present * encoded as f64) as u64;
        let (objects, object_count) = match &situation.stored {
            None => (cells, ObjectCount::Room),
            Some(stored) => match stored.packed(object) {
                Some(objects) => (objects.min(cells), ObjectCount::Counted),
                // No more than there are chunks, each in one by itself.
                None if share < 1.0 => ((present.ceil() as u64).min(cells), ObjectCount::Estimated),
                None => (cells, ObjectCount::Room),
            },
        };
        let stored_bytes = payload.saturating_add(objects.saturating_mul(index_bytes));
        let object_bytes = stored_bytes.checked_div(objects).unwrap_or(0);
        let largest = situation.largest(chunk);
        let inside: Vec<u64> =
            per_shard.iter().zip(situation.grid(chunk)).map(|(&n, grid)| n.min(grid)).collect();
        let raw = situation.raw(chunk);
        let rank = situation.shape.len();
        let view = |lengths: &[u64]| {
            view(situation, lengths, chunk, shard.map(|shard| (shard, index_bytes)), encoded)
        };
        let screen_axes = rank.min(2);
        Self {
            chunks,
            cells,
            objects,
            object_count,
            chunk_bytes: raw,
            encoded_chunk_bytes: encoded,
            object_bytes,
            largest_object_bytes: packed(count(&inside), largest),
            index_bytes,
            stored_bytes,
            screen: view(&situation.screen[2 - screen_axes..]),
            volume: (rank >= 3).then(|| view(&[situation.view; 3])),
            streaming_memory: raw
                .saturating_add(largest)
                .saturating_mul(situation.threads.max(1))
                .saturating_add(index_bytes.saturating_mul(2)),
            whole_memory: situation.raw(object).saturating_add(packed(in_object, encoded)),
        }
    }
}

/// The cost of showing a box along the last axes.
fn view(
    situation: &Situation,
    lengths: &[u64],
    chunk: &[u64],
    shard: Option<(&[u64], u64)>,
    encoded: u64,
) -> View {
    let rank = situation.shape.len();
    let mut shape = vec![1u64; rank];
    for (wanted, &length) in shape.iter_mut().rev().zip(lengths.iter().rev()) {
        *wanted = length.max(1);
    }
    for (wanted, &length) in shape.iter_mut().zip(&situation.shape) {
        *wanted = (*wanted).min(length);
    }
    // A box that begins with the last element of a cell.
    let touched = |cell: &[u64]| {
        let axes = shape.iter().zip(cell).zip(&situation.shape);
        let counts: Vec<u64> = axes
            .map(|((&wanted, &cell), &length)| match wanted {
                0 => 0,
                wanted => {
                    let most = (wanted - 1).div_ceil(cell.max(1)).saturating_add(1);
                    most.min(length.div_ceil(cell.max(1)))
                }
            })
            .collect();
        count(&counts)
    };
    let chunks = touched(chunk);
    let (objects, indexes, index_bytes) = match shard {
        Some((shard, index)) => {
            let shards = touched(shard);
            (shards, shards, shards.saturating_mul(index))
        }
        None => (chunks, 0, 0),
    };
    View {
        chunks,
        objects,
        least_requests: objects.saturating_add(indexes),
        most_requests: chunks.saturating_add(indexes),
        bytes: chunks.saturating_mul(encoded).saturating_add(index_bytes),
        shape,
    }
}
