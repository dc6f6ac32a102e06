use crate::ErrorKind;

/// Why the levels of a Zarr Vectors store cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PyramidVectorsError {
    /// The options make no sense, or not for this store.
    #[error("{at}: {reason}")]
    Factors {
        /// Which store.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// Stores of this kind have no coarser levels.
    #[error("{at} cannot have coarser levels: {reason}")]
    Unfit {
        /// Which store.
        at: String,
        /// Why not.
        reason: String,
    },
    /// The store has other levels already.
    #[error("{at} already has {levels} levels, which are not the ones asked for")]
    Exists {
        /// Which store.
        at: String,
        /// How many, with the finest.
        levels: usize,
    },
    /// The vertices of a bin, or what became part of a chunk, do not fit into memory.
    #[error(
        "level {level} of {at}: {bytes} bytes of vertices come together in one bin or chunk, and \
         there is room for {most}"
    )]
    TooLarge {
        /// Which store.
        at: String,
        /// Which level.
        level: u64,
        /// How many bytes they have while they are sorted.
        bytes: u64,
        /// How many there may be.
        most: u64,
    },
    /// Something that is not a level has the name of one.
    #[error("{at} is in the way: it is not a level of the store")]
    InTheWay {
        /// What.
        at: String,
    },
}

impl PyramidVectorsError {
    /// What to do next, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Factors { .. } => Some(
                "give numbers from 1 on, one for each level, or one for all of them".to_owned(),
            ),
            Self::Unfit { .. } => None,
            Self::Exists { .. } => Some("replace all of them with --overwrite".to_owned()),
            Self::TooLarge { .. } => {
                Some("allow more with --memory, or make bins grow more slowly".to_owned())
            }
            Self::InTheWay { .. } => Some("move or remove it".to_owned()),
        }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        ErrorKind::Request
    }
}
