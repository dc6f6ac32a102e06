use shardine_geometry::GeometryError;

use crate::ErrorKind;

/// Why geometry cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteVectorsError {
    /// The rows cannot be read, or cannot be stored as requested.
    #[error("{input}: {source}")]
    Rows {
        /// Where they come from.
        input: String,
        /// What is wrong.
        source: Box<GeometryError>,
    },
    /// A shard cannot have the requested shape.
    #[error("a shard of {} chunks: {reason}", shown(shape))]
    Shard {
        /// The shape.
        shape: Vec<u64>,
        /// What is wrong.
        reason: String,
    },
    /// A codec is unknown, or does not apply to bytes.
    #[error("{reason}")]
    Codec {
        /// What is wrong.
        reason: String,
    },
    /// A column that is to be an attribute of objects does not exist.
    #[error("rows have no column {name:?} that could be an attribute of objects")]
    ObjectColumn {
        /// Its name.
        name: String,
    },
    /// Rows that memory has no room for cannot be kept in a folder.
    #[error("rows cannot be kept in \"{folder}\" while they are sorted: {source}")]
    Spool {
        /// The folder.
        folder: String,
        /// Why not.
        source: std::io::Error,
    },
}

fn shown(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

impl WriteVectorsError {
    /// What to do next, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Spool { .. } => Some("name a folder with enough room for all rows".to_owned()),
            Self::Shard { .. } => {
                Some("give one number for all axes, or one for each, from 1 on".to_owned())
            }
            Self::Rows { .. } | Self::Codec { .. } | Self::ObjectColumn { .. } => None,
        }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Spool { .. } => ErrorKind::Storage,
            Self::Rows { source, .. } if matches!(**source, GeometryError::Io(_)) => {
                ErrorKind::Storage
            }
            Self::Rows { .. }
            | Self::Shard { .. }
            | Self::Codec { .. }
            | Self::ObjectColumn { .. } => ErrorKind::Request,
        }
    }
}
