//! Volumes in Neuroglancer's precomputed format.

mod as_zarr;
mod encoding;
mod info;
mod names;
mod volume;
mod volume_scale;
mod wrapped;

pub use encoding::ChunkEncoding;
pub(crate) use info::DATA_TYPES;
pub use info::{InfoError, NewScale, NewVolume, Scale, VolumeInfo};
pub(crate) use names::BoxNames;
pub(crate) use volume::{AXES, CHUNK_SIZES, axis_names};
pub use volume::{INFO, StoredChunk, Volume};
pub(crate) use wrapped::{WrappedStore, compressed_ending};
