use crate::files::shown;
use crate::zarr::CONVERT_MARKER;

/// Why a file cannot be imported.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportError {
    /// Nothing says what is in the file.
    #[error("{name}: raw bytes have no recorded shape and type")]
    Undescribed {
        /// Which file.
        name: String,
    },
    /// The file does not have the requested shape.
    #[error("{name}: has shape {}, not {}", shown(found), shown(asked))]
    Shape {
        /// Which file.
        name: String,
        /// Its shape.
        found: Vec<u64>,
        /// The requested shape.
        asked: Vec<u64>,
    },
    /// No array can hold the file's type.
    #[error("{name}: no array can hold its type, {descr}")]
    Type {
        /// Which file.
        name: String,
        /// numpy's name for the type.
        descr: String,
    },
    /// The file lies in the folder that is to become an array, from which everything else is
    /// removed.
    #[error("{name} is inside {target}")]
    Inside {
        /// Which file.
        name: String,
        /// The array.
        target: String,
    },
    /// Another conversion to the same location began first.
    #[error("another conversion to {at} has just started")]
    Begun {
        /// Where.
        at: String,
    },
    /// The marker of an earlier conversion cannot be parsed.
    #[error("{CONVERT_MARKER} at {at} is damaged")]
    DamagedMarker {
        /// Where.
        at: String,
    },
    /// Something that is not an array is there.
    #[error("{at} is not empty and is not an array")]
    NotEmpty {
        /// Where.
        at: String,
    },
    /// A stream cannot be read again, so its conversion cannot be resumed.
    #[error("{at} is an unfinished conversion of a stream, which cannot be resumed")]
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
    /// What to do next, if anything.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Undescribed { .. } => "give its shape and type",
            Self::Inside { .. } => "move it out of the new array",
            Self::NotEmpty { .. } => "choose another name",
            Self::DamagedMarker { .. } | Self::LeftByStream { .. } => {
                "overwrite what is there to start over"
            }
            Self::OtherOptions { .. } | Self::OtherFile { .. } => {
                "finish it with the options it was started with, or overwrite what is there"
            }
            Self::Shape { .. } | Self::Type { .. } | Self::Begun { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
