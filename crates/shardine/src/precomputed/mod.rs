//! Volumes in Neuroglancer's precomputed format.

mod encoding;
mod info;
mod names;
mod volume;
mod wrapped;

pub use encoding::ChunkEncoding;
pub(crate) use info::DATA_TYPES;
pub use info::{InfoError, NewScale, NewVolume, Scale, VolumeInfo};
pub(crate) use names::BoxNames;
pub(crate) use volume::{AXES, VolumeScale, resolved};
pub use volume::{INFO, StoredChunk, Volume};
pub(crate) use wrapped::{WrappedStore, compressed_ending, compressed_endings};
