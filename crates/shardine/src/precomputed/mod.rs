//! Volumes in Neuroglancer's precomputed format.

mod contents;
mod documents;
mod encoding;
mod info;
pub(crate) mod kept;
pub(crate) mod key_values;
mod names;
mod value_folder;
mod volume;
mod volume_scale;
mod wrapped;

pub use documents::KeyFolders;
pub(crate) use documents::{Info, KeyFolder, Precomputed, read_info};
pub use encoding::ChunkEncoding;
pub(crate) use info::DATA_TYPES;
pub use info::{InfoError, NewScale, NewVolume, Scale, VolumeInfo};
pub use key_values::{KeyValueStore, KeyValues, ListedKey, PayloadKind, PutReport};
pub(crate) use names::{BoxNames, BoxObject, ShardName, ValueName, ValueNames, is_beside};
pub use value_folder::{FolderBeside, ObjectKind, StoredValues, ValueFolder};
pub(crate) use volume::{AXES, CHUNK_SIZES};
pub use volume::{INFO, StoredChunk, Volume};
pub(crate) use wrapped::{compressed_ending, compressed_endings, unwrapped};
