//! Volumes in Neuroglancer's precomputed format.

mod encoding;
mod info;
mod names;
mod volume;
mod wrapped;

pub use encoding::ChunkEncoding;
pub use info::{InfoError, NewScale, NewVolume, Scale, VolumeInfo};
pub(crate) use names::BoxNames;
pub use volume::{INFO, StoredChunk, Volume};
pub(crate) use wrapped::{WrappedStore, compressed_ending};
