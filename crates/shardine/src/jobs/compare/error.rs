/// Why two data sets cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A data set holds what is not walked, so that it might differ there.
    #[error("refusing to compare {at} without {what}")]
    LeftOut {
        /// The data set.
        at: String,
        /// What it holds, by name.
        what: String,
    },
    /// Values by key are no elements.
    #[error("{at} holds values by key, not an array")]
    KeyValues {
        /// Which data set.
        at: String,
    },
    /// A level was asked for, and neither data set has levels.
    #[error("neither {a} nor {b} has levels")]
    NoLevels {
        /// The first.
        a: String,
        /// The second.
        b: String,
    },
    /// A file has elements of a type that arrays do not have.
    #[error("{name}: has elements of type {descr}, which no array can hold")]
    FileType {
        /// The file.
        name: String,
        /// numpy's name of the type.
        descr: String,
    },
    /// A file does not say what its elements are.
    #[error("{name}: raw bytes have no recorded shape and type")]
    RawFile {
        /// The file.
        name: String,
    },
    /// A file could not be read.
    #[error("{name}: {reason}")]
    File {
        /// The file.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Objects are compared by listing them.
    #[error("the objects of {at} cannot be compared: its store cannot list them")]
    Unlisted {
        /// Which data set.
        at: String,
    },
    /// There is nothing to compare.
    #[error("there is nothing at {at}")]
    Nothing {
        /// Where.
        at: String,
    },
}

impl CompareError {
    /// What to do next, where there is something to be said.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::LeftOut { .. } => {
                "move it out of the data set, or replace a link with its target; see docs/links.md"
            }
            Self::KeyValues { .. } => "`shardine compare --bytes` compares the objects as stored",
            Self::NoLevels { .. } => "leave out the level",
            Self::RawFile { .. } => "use a .npy file",
            Self::Unlisted { .. } => "compare the elements, or copy the data set to files first",
            Self::FileType { .. } | Self::File { .. } | Self::Nothing { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
