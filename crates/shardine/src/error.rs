use shardine_codec::{CodecError, DataType, DataTypeError, ExtensionError, InvalidElement};
use shardine_engine::Error as EngineError;
use shardine_store::{Key, StoreError};

use crate::files::FileError;
use crate::jobs::{
    AppendError, CompareError, ConvertError, CopyError, ImportError, JobError, MigrateError,
    PyramidError, PyramidVectorsError, RepackError, WriteVectorsError,
};
use crate::layout::{EncodeError, LayoutError};
use crate::ome::OmeError;
use crate::physical::BoxError;
use crate::plan::ArrayLayoutError;
use crate::precomputed::InfoError;
use crate::selection::RegionError;
use crate::shard::uint64::ShardingError;
use crate::shard::wkw::WkwError;
use crate::vectors::VectorsError;
use crate::wkw::PropertiesError;
use crate::zarr::SliceError;
use crate::zarr::metadata::MetadataError;

/// Why an operation on an array or a group failed.
///
/// The variant says what is at fault; the message names the object, the shard, the chunk and the
/// bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The metadata document is not legal.
    #[error("{object}: {source}")]
    Metadata {
        /// The document's key.
        object: Key,
        /// What is wrong with it.
        source: Box<MetadataError>,
    },
    /// The codecs in the metadata cannot be used.
    #[error("{object}: {source}")]
    Layout {
        /// The document's key.
        object: Key,
        /// What is wrong with them.
        source: Box<LayoutError>,
    },
    /// The region or the buffer is wrong.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Elements were requested or given as values of a type that the array does not hold.
    #[error("{at} holds {}, not {asked}", held.name())]
    ElementType {
        /// Which array.
        at: String,
        /// The type of its elements.
        held: DataType,
        /// The Rust type.
        asked: &'static str,
    },
    /// A stored element is not a value of its type.
    #[error("{at}: {source}")]
    InvalidElement {
        /// Which array.
        at: String,
        /// Which element, and what is stored.
        source: InvalidElement,
    },
    /// There is no such data type.
    #[error(transparent)]
    DataType(#[from] DataTypeError),
    /// Planes cannot be written one after another as requested.
    #[error(transparent)]
    Slices(#[from] SliceError),
    /// Storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Chunks could not be read or written. Errors of the store and of regions are never in here.
    #[error(transparent)]
    Engine(EngineError),
    /// Part of it was lost, which a copy in another form could not record.
    #[error(
        "{at}: {} recorded by `repair` as lost or possibly old", chunks(*lost, *unproved)
    )]
    LostChunks {
        /// The array, or the folder.
        at: String,
        /// Chunks that are lost.
        lost: u64,
        /// Chunks that are as an older index had them.
        unproved: u64,
    },
    /// The metadata document is not the one that was read when the array was opened.
    #[error("the metadata of {at} has changed since the array was opened")]
    MetadataChanged {
        /// Which array.
        at: String,
    },
    /// Another data set, not a version of the one that was opened, has replaced it.
    #[error("{at} was replaced while it was in use")]
    Replaced {
        /// Which data set.
        at: String,
    },
    /// There is neither an array nor a group.
    #[error("there is no Zarr array or group at {at}")]
    NoNode {
        /// Where it was looked for.
        at: String,
    },
    /// A file that was to be checked as metadata has neither that of Zarr nor that of OME-Zarr.
    #[error("{at} has neither Zarr nor OME-Zarr metadata")]
    NoMetadata {
        /// The file.
        at: String,
    },
    /// The metadata names something that is not supported here, so that elements cannot be read.
    #[error("{at}: {reason}")]
    Unsupported {
        /// Which array.
        at: String,
        /// What is not supported, and what can be done all the same.
        reason: String,
    },
    /// There is no volume.
    #[error("there is no precomputed volume at {at}: it has no \"info\"")]
    NoVolume {
        /// Where it was looked for.
        at: String,
    },
    /// The `info` of a volume is not legal, or describes something that cannot be used.
    #[error("{object}: {source}")]
    Info {
        /// The document's key.
        object: Key,
        /// What is wrong with it.
        source: InfoError,
    },
    /// A volume has no such scale.
    #[error("{at} has no level {level}: it has {levels}, counted from 0")]
    NoLevel {
        /// Which volume.
        at: String,
        /// The level requested.
        level: usize,
        /// How many there are.
        levels: usize,
    },
    /// A scale with several copies of its data in chunks of different shapes cannot be written.
    #[error(
        "{at} stores {copies} copies of its data, in chunks of different shapes, and is \
         read-only: writing one copy would make them disagree"
    )]
    SeveralCopies {
        /// Which volume.
        at: String,
        /// How many.
        copies: usize,
    },
    /// Nothing says how a folder of shards is sharded.
    #[error("it is unknown how the keys of {at} are sharded: it has no \"info\" that describes it")]
    NoKeyValues {
        /// Where it was looked for.
        at: String,
    },
    /// The sharding of a folder cannot be understood.
    #[error("{object}: {source}")]
    Sharding {
        /// The document's key.
        object: Key,
        /// What is wrong with it.
        source: ShardingError,
    },
    /// A mesh cannot be stored without its fragments, which lie before its manifest.
    #[error(
        "key {key}: the manifest lists {} bytes of fragments, but {given} were given; a mesh is \
         stored with all its fragments",
        told.map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string())
    )]
    MeshWithoutFragments {
        /// Which key.
        key: u64,
        /// Bytes of fragments according to the manifest; `None` if the value is not a manifest.
        told: Option<u64>,
        /// Bytes of fragments that were given.
        given: u64,
    },
    /// Another append owns the end of the array.
    #[error("another append to {at} is running")]
    AppendUnderWay {
        /// Which array.
        at: String,
    },
    /// The end of the array is owned by an append that is either still running or was killed; it
    /// cannot be determined from here which.
    #[error("an append to {at} by {owner} is still running, or was killed")]
    AppendOwned {
        /// Which array.
        at: String,
        /// Its owner.
        owner: String,
    },
    /// Another append has taken over the end of the array, or the array has been replaced.
    #[error(
        "this append no longer owns the end of {at}: another append has taken over, or the array \
         was replaced"
    )]
    AppendLost {
        /// Which array.
        at: String,
    },
    /// A store of Zarr Vectors contradicts itself, or what was asked of it has no answer.
    #[error("{at}: {source}")]
    Vectors {
        /// Where the store is.
        at: String,
        /// What is wrong.
        source: Box<VectorsError>,
    },
    /// OME-Zarr metadata cannot be understood, or not be written in a version.
    #[error("the OME-Zarr metadata of {at}: {source}")]
    Ome {
        /// The group.
        at: String,
        /// What is wrong with it.
        source: Box<OmeError>,
    },
    /// The header of a webknossos-wrap data set contradicts the format.
    #[error("\"{object}\": {source}")]
    WkwHeader {
        /// The header.
        object: Key,
        /// What is wrong with it.
        source: WkwError,
    },
    /// A `datasource-properties.json` cannot be understood.
    #[error("\"{object}\": {source}")]
    WkwProperties {
        /// The document.
        object: Key,
        /// What is wrong with it.
        source: PropertiesError,
    },
    /// Nothing says how far a webknossos-wrap array extends.
    #[error(
        "{at} has an unknown extent: no datasource-properties.json gives it, and its store cannot \
         list files"
    )]
    NoExtent {
        /// Which array.
        at: String,
    },
    /// An array has more blocks than can be counted.
    #[error("{at} has 2^64 or more blocks of {edge} voxels along an edge")]
    TooManyBlocks {
        /// Which array.
        at: String,
        /// Voxels along an edge of a block.
        edge: u64,
    },
    /// Arrays of this format are read-only.
    #[error("{at} is stored as {format}, which can be read but not written")]
    OnlyRead {
        /// Which array.
        at: String,
        /// Its format.
        format: &'static str,
    },
    /// A region was given in coordinates, and the data set has none.
    #[error("{at} has no coordinates of its own: elements of {format} are counted from 0")]
    NoOrigin {
        /// Which data set.
        at: String,
        /// Its format.
        format: &'static str,
    },
    /// A box was given in physical coordinates, and the data set has none.
    #[error("{at} does not say where its elements are, so a box selects nothing in it")]
    NoPositions {
        /// Which data set.
        at: String,
    },
    /// A box in physical coordinates selects nothing, or means nothing in the data set.
    #[error("{at}: {source}")]
    Box {
        /// Which data set.
        at: String,
        /// What is wrong with it.
        source: Box<BoxError>,
    },
    /// There is a group where an array was requested.
    #[error("{at} is a group, not an array")]
    NotAnArray {
        /// Where.
        at: String,
    },
    /// There is an array where a group was requested.
    #[error("{at} is an array, not a group")]
    NotAGroup {
        /// Where.
        at: String,
    },
    /// A data set holds something that the job would not carry over, so the result would be
    /// incomplete.
    #[error("refusing to copy or repack {at} without {what}")]
    LeftOut {
        /// The data set.
        at: String,
        /// What it holds, by name.
        what: String,
    },
    /// Folders are nested deeper than in any hierarchy.
    #[error("{at} is nested more than {most} groups deep")]
    TooDeep {
        /// Where.
        at: String,
        /// The limit.
        most: usize,
    },
    /// Something already exists where a new array or group was to be created.
    #[error("{at} already exists")]
    Exists {
        /// Where.
        at: String,
    },
    /// There is a group where a new array was to be created. It is never overwritten: its contents
    /// would be lost too.
    #[error("there is a group at {at}, which an array cannot replace")]
    GroupExists {
        /// Where.
        at: String,
    },
    /// A job, a read or a write was stopped by its [`CancelToken`](crate::jobs::CancelToken).
    #[error("stopped")]
    Cancelled,
    /// A job cannot be run on its target now, or together with other processes.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A data set cannot be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The chunks of a data set cannot be repacked as requested.
    #[error(transparent)]
    Repack(#[from] RepackError),
    /// A data set cannot be converted as requested.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// A file of elements cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file cannot become an array.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Rows of geometry cannot be written.
    #[error(transparent)]
    WriteVectors(#[from] WriteVectorsError),
    /// Planes cannot be appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Two data sets cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A new array cannot be stored as requested.
    #[error(transparent)]
    ArrayLayout(#[from] ArrayLayoutError),
    /// A hierarchy cannot be migrated.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// The levels of an image cannot be made.
    #[error(transparent)]
    Pyramid(#[from] PyramidError),
    /// The levels of a Zarr Vectors store cannot be made.
    #[error(transparent)]
    PyramidVectors(#[from] PyramidVectorsError),
    /// The operation would change Zarr version 2 metadata, which is read-only.
    #[error("{at} has Zarr v2 metadata (\"{object}\"), which is never changed")]
    ZarrV2 {
        /// Which node.
        at: String,
        /// Its document, or one of them.
        object: Key,
    },
    /// The store cannot list, and there is no consolidated metadata that names the nodes of a
    /// group.
    #[error("the store cannot list the group {at}, which has no consolidated metadata")]
    UnlistedGroup {
        /// Where.
        at: String,
    },
    /// The store cannot list, and the grid of an array has room for too many objects to probe one
    /// by one.
    #[error(
        "the store cannot list the objects of {at}, and {objects} are too many to request one by \
         one"
    )]
    UnlistedObjects {
        /// Which array.
        at: String,
        /// How many may exist.
        objects: u64,
    },
    /// The URL cannot be used.
    #[error("\"{url}\": {reason}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// What to do next, if there is anything to suggest. It is addressed to users of the library; a
    /// program that knows a better way, such as an option, matches the variant.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(error) => engine_hint(error),
            Self::ElementType { held, .. } => Some(match held.rust_name() {
                Some(name) => format!("ask for {name}"),
                None => {
                    "no Rust type has such values; see read_elements and write_elements".to_owned()
                }
            }),
            Self::MetadataChanged { .. } => Some(
                "reopen the array, and let only one writer at a time change its shape".to_owned(),
            ),
            Self::Replaced { .. } => Some("reopen it, or run the same command again".to_owned()),
            Self::AppendUnderWay { .. } => Some("wait until it finishes".to_owned()),
            Self::AppendOwned { .. } => {
                Some("wait until it finishes, or take over if its process is dead".to_owned())
            }
            Self::AppendLost { .. } => Some("reopen the array to see its current shape".to_owned()),
            Self::NoNode { at } => {
                Some(format!("look for a zarr.json, .zarray or .zgroup in {at} or below it"))
            }
            Self::NoMetadata { .. } => {
                Some("name a zarr.json, a .zattrs or a file with the attributes of a group".to_owned())
            }
            Self::Unsupported { at, .. } => Some(format!(
                "read it with a library that supports it; `shardine info {at}` shows what can be \
                 read of it"
            )),
            Self::Vectors { source, .. } => source.hint().map(str::to_owned),
            Self::Ome { .. } => Some(
                "run `shardine verify --metadata-only` on it, which names all its faults".into(),
            ),
            Self::NotAnArray { at } => Some(format!("name one of the arrays below {at}")),
            Self::NoPositions { .. } => Some(
                "name the group of an OME-Zarr image and a level, not the level's array; or select \
                 elements by their indexes"
                    .to_owned(),
            ),
            Self::UnlistedGroup { .. } => Some(
                "name one of its arrays, or consolidate its metadata where it can be written"
                    .to_owned(),
            ),
            Self::UnlistedObjects { .. } => {
                Some("open it through a store that can list, or read only its metadata".to_owned())
            }
            Self::LeftOut { .. } => Some(
                "move it out of the data set, replace a link with its target, or rename it; see \
                 docs/links.md"
                    .to_owned(),
            ),
            Self::Exists { .. } => {
                Some("choose another location, or overwrite the existing array".to_owned())
            }
            Self::GroupExists { .. } => {
                Some("choose another location, or remove the group first".to_owned())
            }
            Self::Metadata { source, .. } if **source == MetadataError::ZarrV2 => Some(
                "Zarr v2 keeps its metadata in .zarray and .zgroup, not in zarr.json".to_owned(),
            ),
            Self::ZarrV2 { .. } => Some(
                "migrate it to Zarr v3 first, which leaves the chunks where they are".to_owned(),
            ),
            Self::Cancelled => Some("run the same command again to resume".to_owned()),
            Self::Job(error) => Some(error.hint()),
            Self::Copy(error) => error.hint(),
            Self::Repack(error) => error.hint(),
            Self::Convert(error) => error.hint(),
            Self::Migrate(error) => Some(error.hint()),
            Self::Pyramid(error) => error.hint(),
            Self::File(error) => error.hint(),
            Self::Import(error) => error.hint(),
            Self::WriteVectors(error) => error.hint(),
            Self::PyramidVectors(error) => error.hint(),
            Self::Append(error) => error.hint(),
            Self::Compare(error) => error.hint(),
            Self::LostChunks { at, .. } => Some(format!(
                "`shardine verify {at}` lists them; rewrite them, or accept the loss with \
                 `shardine repair --accept-loss`"
            )),
            _ => None,
        }
    }
}

impl Error {
    /// Whether a document was refused because it names what is not known here, and not because it is
    /// wrong.
    pub(crate) fn is_unsupported(&self) -> bool {
        match self {
            Self::Metadata { source, .. } => matches!(
                **source,
                MetadataError::ZarrV2
                    | MetadataError::UnknownFormat { .. }
                    | MetadataError::Member(ExtensionError::UnknownMember { .. })
                    | MetadataError::Unsupported { .. }
                    | MetadataError::DataType { reason: DataTypeError::Unknown { .. }, .. }
            ),
            Self::Layout { source, .. } => matches!(
                **source,
                LayoutError::Codec {
                    source: CodecError::Unknown { .. } | CodecError::Unsupported { .. },
                    ..
                }
            ),
            Self::Unsupported { .. } => true,
            _ => false,
        }
    }
}

fn engine_hint(error: &EngineError) -> Option<String> {
    match error {
        EngineError::Shard { object, .. } => Some(format!(
            "the other shards can still be read; rewrite the region of this shard, or restore \
             \"{object}\" from a copy"
        )),
        EngineError::Decode { chunk, .. } => Some(rewrite(chunk)),
        EngineError::Encode { chunk, source, .. } if matches!(**source, EncodeError::Old(_)) => {
            Some(rewrite(chunk))
        }
        EngineError::Strategy { .. } => Some(
            "let Shardine choose with the strategy auto, or create the array with crc32c after \
             bytes in its index codecs"
                .to_owned(),
        ),
        EngineError::Contention { .. } | EngineError::Unstable { .. } => {
            Some("try again when fewer writers are active".to_owned())
        }
        _ => None,
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => Self::Store(error),
            EngineError::Region(error) => Self::Region(error),
            EngineError::Cancelled => Self::Cancelled,
            EngineError::Callback(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => Self::Engine(EngineError::Callback(error)),
            },
            error => Self::Engine(error),
        }
    }
}

/// For callbacks passed to the engine: it returns their errors unchanged.
impl From<Error> for EngineError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => Self::Store(error),
            Error::Region(error) => Self::Region(error),
            Error::Engine(error) => error,
            Error::Cancelled => Self::Cancelled,
            error => Self::Callback(Box::new(error)),
        }
    }
}

fn chunks(lost: u64, unproved: u64) -> String {
    match lost.saturating_add(unproved) {
        1 => "1 chunk is".to_owned(),
        n => format!("{n} chunks are"),
    }
}

/// What to do about a damaged chunk.
fn rewrite(chunk: &[u64]) -> String {
    format!(
        "the other chunks can still be read; rewrite the whole of chunk {chunk:?} to replace it"
    )
}
