use std::io;

use crate::files::shown;
use crate::zarr::APPEND_MARKER;

/// Why planes cannot be appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The marker of an earlier append cannot be parsed.
    #[error("{APPEND_MARKER}, which records an interrupted append, is damaged")]
    DamagedMarker,
    /// An append of the same file was interrupted, and its planes can no longer be told from
    /// others.
    #[error(
        "an append of {name} to this array was interrupted, and something else has since changed \
         the array's shape from {} to {}",
        shown(was),
        shown(shape)
    )]
    Reshaped {
        /// The file.
        name: String,
        /// The array's shape before that append.
        was: Vec<u64>,
        /// Its shape now.
        shape: Vec<u64>,
    },
    /// The file is not the one whose append was interrupted.
    #[error("{name} has changed since an append of it was interrupted; {}", told(*planes))]
    FileChanged {
        /// The file.
        name: String,
        /// Planes of it in the array; `None` if its shape has changed since.
        planes: Option<u64>,
    },
    /// An append of another file, or along another axis, was interrupted.
    #[error("an append of {name} along axis {axis} was interrupted; {}", told(*planes))]
    Unfinished {
        /// That file.
        name: String,
        /// That axis.
        axis: usize,
        /// Planes of it in the array; `None` if its shape has changed since.
        planes: Option<u64>,
    },
    /// The elements of a stream have no known length.
    #[error("{name}: elements of variable length cannot be read from a stream")]
    VariableStream {
        /// The stream.
        name: String,
    },
    /// A stream cannot be read.
    #[error("{name}: {source}")]
    Stream {
        /// The stream.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A stream ends inside a plane; the planes before it are in the array.
    #[error(
        "{name}: ends inside a plane, after {bytes} of its {plane} bytes; appended the {} before \
         it",
        whole(*planes)
    )]
    InsidePlane {
        /// The stream.
        name: String,
        /// Bytes of the last plane.
        bytes: usize,
        /// Bytes in a plane.
        plane: usize,
        /// Whole planes before it.
        planes: u64,
    },
}

impl AppendError {
    /// What to do next, if anything.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::DamagedMarker | Self::Reshaped { .. } | Self::FileChanged { .. } => {
                "forget that append to keep what is there and append the whole file after it"
            }
            Self::Unfinished { .. } => "finish it first, or forget it to keep what is there",
            Self::VariableStream { .. } => "write them to a file and append that",
            Self::Stream { .. } | Self::InsidePlane { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

fn told(planes: Option<u64>) -> String {
    match planes {
        None => "the array's shape has changed since".to_owned(),
        Some(1) => "1 plane of it is in the array".to_owned(),
        Some(n) => format!("{n} planes of it are in the array"),
    }
}

fn whole(planes: u64) -> String {
    format!("{planes} whole plane{}", if planes == 1 { "" } else { "s" })
}
