//! A folder of shards, and what its values should be.

use std::sync::Arc;

use shardine_codec::{ChunkCodec, ElementSize};
use shardine_store::Key;

use crate::engine::Crew;
use crate::keyed::KeyedShards;
use crate::layout::Layout;
use crate::precomputed::key_values::PayloadKind;
use crate::precomputed::{ChunkEncoding, Scale, VolumeInfo};
use crate::shard::uint64::{Encoding, MortonCode};
use crate::{Array, Engine};

/// Memory for the indexes of a shard being checked.
const IN_FLIGHT: u64 = 4 << 20;

/// Shards of values by key.
#[derive(Clone)]
pub(crate) struct Folder {
    /// The document that describes them.
    pub info: Key,
    /// The location in the document.
    pub pointer: String,
    pub shards: Arc<KeyedShards>,
    pub payload: Payload,
}

/// What the values are.
#[derive(Clone)]
pub(crate) enum Payload {
    /// Chunks of a scale, numbered by position.
    Chunks(Arc<Chunks>),
    /// Something else.
    Values(PayloadKind),
}

/// The chunks of a scale.
pub(crate) struct Chunks {
    pub code: Option<MortonCode>,
    /// `None` if they cannot be decoded here.
    pub array: Option<Array>,
    pub grid: [u64; 3],
    scale: Scale,
    channels: u64,
    /// Bytes of a voxel.
    voxel: u64,
}

impl Chunks {
    pub fn new(info: &VolumeInfo, scale: &Scale, array: Option<Array>) -> Self {
        let element = match info.data_type().size() {
            ElementSize::Fixed(bytes) => bytes as u64,
            ElementSize::Variable => 0,
        };
        Self {
            code: scale.morton(),
            array,
            grid: scale.grid(),
            scale: scale.clone(),
            channels: info.channels(),
            voxel: element.saturating_mul(info.channels()),
        }
    }

    /// The position of the chunk with a number; `None` if there is none.
    pub fn cell(&self, key: u64) -> Option<[u64; 3]> {
        // A volume without voxels has no chunks.
        let cell = self.code?.decode(key)?;
        self.grid.iter().all(|&n| n > 0).then_some(cell)
    }

    /// The size of a raw, uncompressed chunk, if the scale's encoding is raw.
    pub fn raw_len(&self, cell: [u64; 3]) -> Option<u64> {
        if self.scale.encoding != ChunkEncoding::Raw {
            return None;
        }
        (0..3).try_fold(self.voxel, |bytes, axis| {
            let chunk = self.scale.chunk_size()[axis];
            let start = cell[axis].checked_mul(chunk)?;
            bytes.checked_mul(chunk.min(self.scale.size[axis].checked_sub(start)?))
        })
    }

    /// Whether bytes begin like the chunk's own encoding, where that can be recognized.
    pub fn is_encoded(&self, len: u64, head: &[u8]) -> bool {
        match self.scale.encoding {
            ChunkEncoding::CompressedSegmentation { .. } => {
                // The first channel begins after the offsets of all channels.
                let first = head.first_chunk().map(|word| u64::from(u32::from_le_bytes(*word)));
                len.is_multiple_of(4) && first == Some(self.channels)
            }
            ChunkEncoding::Jpeg { .. } => head.starts_with(&[0xFF, 0xD8, 0xFF]),
            ChunkEncoding::Png { .. } => head.starts_with(b"\x89PNG"),
            ChunkEncoding::Jxl => {
                head.starts_with(&[0xFF, 0x0A]) || head.starts_with(b"\0\0\0\x0CJXL ")
            }
            ChunkEncoding::Compresso => head.starts_with(b"cpso"),
            ChunkEncoding::Raw | ChunkEncoding::Other { .. } => false,
        }
    }

    /// The codec of a chunk, if it can be decoded here.
    pub fn codec(&self, cell: [u64; 3]) -> Option<&ChunkCodec> {
        let [x, y, z] = cell;
        match self.array.as_ref()?.chunks.layout_of(&[x, y, z, 0]) {
            Layout::Chunk(leaf) => Some(&leaf.codec),
            _ => None,
        }
    }

    /// The memory needed to decode a chunk.
    pub fn memory(&self) -> u64 {
        let chunk = self.scale.chunk_size();
        let voxels = chunk.iter().fold(self.voxel, |bytes, &n| bytes.saturating_mul(n));
        voxels.saturating_mul(2).max(1)
    }
}

impl Folder {
    pub fn data_encoding(&self) -> Encoding {
        self.shards.sharding.data_encoding
    }

    /// The chunk of a key, if keys are those of chunks.
    pub fn cell(&self, key: u64) -> Option<[u64; 3]> {
        match &self.payload {
            Payload::Chunks(chunks) => chunks.cell(key),
            Payload::Values(_) => None,
        }
    }

    pub fn is_mesh(&self) -> bool {
        matches!(self.payload, Payload::Values(PayloadKind::MultiresolutionMesh))
    }

    /// Whether unreferenced bytes may belong to the value after them.
    pub fn keeps_before(&self) -> bool {
        match self.payload {
            Payload::Chunks(_) => false,
            Payload::Values(kind) => kind.keeps_before(),
        }
    }

    /// The crew that checks `count` shards.
    pub fn crew(&self, engine: &Engine, count: usize, decode: bool) -> Crew {
        let store = &*self.shards.store;
        if store.read_cost().local && count >= engine.threads() {
            return Crew::Workers(engine.workers_within(self.memory().saturating_add(IN_FLIGHT)));
        }
        let piece = if decode { engine.max_merged_read() } else { 0 };
        Crew::Waiting(engine.at_once(store, IN_FLIGHT.saturating_add(piece)))
    }

    /// The memory needed to decode a value, as far as known.
    pub fn memory(&self) -> u64 {
        match &self.payload {
            Payload::Chunks(chunks) => chunks.memory(),
            Payload::Values(_) => 1 << 20,
        }
    }
}
