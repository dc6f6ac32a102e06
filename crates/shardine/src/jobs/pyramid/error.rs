use shardine_codec::DownsampleError;

/// Why the levels of an image cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PyramidError {
    /// There is no image.
    #[error("{at} is not an OME-Zarr image: {found}")]
    NotAnImage {
        /// Where.
        at: String,
        /// What is there.
        found: String,
    },
    /// The version of the metadata is only read.
    #[error("{at} is OME-Zarr {version}, which is only read")]
    OldVersion {
        /// Which image.
        at: String,
        /// Its version.
        version: String,
    },
    /// There is no level to be made.
    #[error("{at} needs no more levels: {reason}")]
    Nothing {
        /// Which image.
        at: String,
        /// Why.
        reason: String,
    },
    /// The factors make no sense for the image.
    #[error("{at}: {reason}")]
    Factors {
        /// Which image.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// The levels cannot be stored as requested.
    #[error("the levels of {at} cannot be stored as requested: {reason}")]
    Layout {
        /// Which image.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// The elements cannot be reduced.
    #[error("{at}: {source}")]
    Method {
        /// Which array.
        at: String,
        /// Why not.
        source: DownsampleError,
    },
    /// The image has lower levels already.
    #[error("{at} already has {levels} levels")]
    Exists {
        /// Which image.
        at: String,
        /// How many, with the finest.
        levels: usize,
    },
    /// Something that is not a level of the image has the path of a level.
    #[error("{at} is in the way: it is not a level of the image")]
    InTheWay {
        /// What.
        at: String,
    },
    /// The store cannot exchange the old levels for new ones.
    #[error("the levels of {at} cannot be replaced in this store")]
    NeedsFiles {
        /// Which image.
        at: String,
    },
    /// The finest level was changed while the others were made from it.
    #[error("{at} was changed while levels were made from it")]
    Changed {
        /// Which array.
        at: String,
    },
    /// A level is not what the method and factors would make of the one before it.
    #[error("level {level} of {at} cannot be updated: {reason}")]
    Unrelated {
        /// Which image.
        at: String,
        /// Which level.
        level: usize,
        /// Why not.
        reason: String,
    },
    /// The metadata names a method that is not known here.
    #[error("the levels of {at} were made with the method \"{kind}\", which is not known")]
    UnknownMethod {
        /// Which image.
        at: String,
        /// The name.
        kind: String,
    },
    /// The store does not say when objects were changed.
    #[error("the store of {at} does not say when objects were changed")]
    NoTimes {
        /// Which image.
        at: String,
    },
    /// An array was changed each time that a level was made from it.
    #[error("gave up on {at}: it kept changing")]
    Unsettled {
        /// Which array.
        at: String,
    },
    /// There is not enough memory.
    #[error("there is not enough memory for a block of {shape:?} elements")]
    Memory {
        /// The shape of the block.
        shape: Vec<u64>,
    },
    /// Parts of a block do not fit together. This is a bug.
    #[error("the parts of a block of {shape:?} elements do not fit together")]
    Misfit {
        /// The shape of the block.
        shape: Vec<u64>,
    },
}

impl PyramidError {
    /// What to do next.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotAnImage { at, .. } => format!(
                "name an image, such as a field of a well or a label image; `shardine ls -r {at}` \
                 shows what is there"
            ),
            Self::OldVersion { .. } => {
                "convert it to a newer version first, with `shardine convert --to ome-zarr`".into()
            }
            Self::Nothing { .. } => return None,
            Self::Factors { .. } => {
                "give one factor for each axis of the array, or for each axis in space".into()
            }
            Self::Layout { .. } => "leave out the options that concern chunks and shards".into(),
            Self::Method { .. } => "use --method stride, which works for every type".into(),
            Self::Exists { .. } => {
                "renew what has changed with --update, or rebuild all of them with --overwrite"
                    .into()
            }
            Self::InTheWay { .. } => "move or remove it".into(),
            Self::NeedsFiles { .. } => {
                "renew them with --update, which changes objects one by one, or copy the image \
                 without them"
                    .into()
            }
            Self::Changed { .. } => "run it again when nothing is changing the array".into(),
            Self::Unrelated { .. } => "rebuild the levels with --overwrite".into(),
            Self::UnknownMethod { .. } => {
                "name the method with --method, or rebuild the levels with --overwrite".into()
            }
            Self::NoTimes { .. } => {
                "say what has changed with --region, in elements of the finest level".into()
            }
            Self::Unsettled { .. } => "run it again when fewer writers are active".into(),
            Self::Memory { .. } => "use fewer threads, or smaller chunks".into(),
            Self::Misfit { .. } => "report this as a bug, with the metadata of the image".into(),
        })
    }
}
