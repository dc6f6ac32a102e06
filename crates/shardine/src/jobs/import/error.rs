use crate::files::shown;
use crate::zarr::CONVERT_MARKER;

/// Why a file does not become an array.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportError {
    /// Nothing says what is in the file.
    #[error("{name}: raw bytes do not tell their shape and type")]
    Undescribed {
        /// Which file.
        name: String,
    },
    /// The file has another shape than was said.
    #[error("{name}: has the shape {}, not {}", shown(found), shown(asked))]
    Shape {
        /// Which file.
        name: String,
        /// Its shape.
        found: Vec<u64>,
        /// As was said.
        asked: Vec<u64>,
    },
    /// No array can hold what is in the file.
    #[error("{name}: no array can hold its type, {descr}")]
    Type {
        /// Which file.
        name: String,
        /// numpy's name of it.
        descr: String,
    },
    /// The file lies in the folder that is to become an array, from which everything else is
    /// removed.
    #[error("{name} lies in {target}")]
    Inside {
        /// Which file.
        name: String,
        /// The array.
        target: String,
    },
    /// Another conversion to the same place was faster.
    #[error("another conversion to {at} has just begun")]
    Begun {
        /// Where.
        at: String,
    },
    /// What an earlier conversion has left cannot be understood.
    #[error("{CONVERT_MARKER} at {at} is damaged")]
    DamagedMarker {
        /// Where.
        at: String,
    },
    /// There is something that is not an array.
    #[error("{at} is not empty, and no array")]
    NotEmpty {
        /// Where.
        at: String,
    },
    /// A stream cannot be read again, so its conversion cannot be resumed.
    #[error("{at} is what is left of a conversion of a stream, which cannot be resumed")]
    LeftByStream {
        /// Where.
        at: String,
    },
    /// Another conversion of the same file is unfinished.
    #[error(
        "{at} is an unfinished conversion of {name} with other options, or the file has changed since"
    )]
    OtherOptions {
        /// Where.
        at: String,
        /// The file.
        name: String,
        /// By which command it was begun, if that is known.
        command: Option<String>,
    },
    /// A conversion of another file is unfinished.
    #[error("{at} is an unfinished conversion of {name}")]
    OtherFile {
        /// Where.
        at: String,
        /// That file.
        name: String,
        /// By which command it was begun, if that is known.
        command: Option<String>,
    },
}

impl ImportError {
    /// What to do next, where there is something to be said.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Undescribed { .. } => "say its shape and type",
            Self::Inside { .. } => "move it out of the array that is to be made",
            Self::NotEmpty { .. } => "choose another name",
            Self::DamagedMarker { .. } | Self::LeftByStream { .. } => {
                "overwrite what is there to start over"
            }
            Self::OtherOptions { .. } | Self::OtherFile { .. } => {
                "finish it with the options it began with, or overwrite what is there"
            }
            Self::Shape { .. } | Self::Type { .. } | Self::Begun { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
