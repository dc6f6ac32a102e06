use crate::zarr::metadata::MetadataError;

/// Why a data set cannot be converted between Zarr and Neuroglancer's precomputed format.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A volume has no such axes.
    #[error("{at}: {reason}")]
    Axes {
        /// The array.
        at: String,
        /// What is wrong with its axes.
        reason: String,
    },
    /// A volume cannot have elements of this type.
    #[error("{at}: a volume cannot have the type {data_type}; it has one of {known}")]
    DataType {
        /// The array.
        at: String,
        /// Its type.
        data_type: String,
        /// What a volume can have.
        known: String,
    },
    /// The levels of a volume have the same type and the same channels.
    #[error("{at} has {has}, but {first} has {expected}; the levels of a volume are alike")]
    Levels {
        /// The array.
        at: String,
        /// What it has.
        has: String,
        /// The array that it is compared with.
        first: String,
        /// What that has.
        expected: String,
    },
    /// A group without arrays is no volume.
    #[error("{at} has no arrays, which would be the levels of a volume")]
    NoArrays {
        /// The group.
        at: String,
    },
    /// Something that was asked for does not fit.
    #[error("{at}: {reason}")]
    Layout {
        /// The array or scale.
        at: String,
        /// What does not fit.
        reason: String,
    },
    /// The metadata of a new array would not be legal.
    #[error("{at}: {source}")]
    Metadata {
        /// The scale.
        at: String,
        /// What is wrong.
        source: Box<MetadataError>,
    },
}

impl ConvertError {
    /// What to do next, where there is something to be said.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Axes { .. } => {
                "name the axes x, y, z and, where there are several, channel, in the metadata; of a group with other \
                 arrays, convert one array"
            }
            Self::DataType { .. } => "convert its elements to another type first",
            Self::Levels { .. } => "convert one of the arrays by itself",
            Self::NoArrays { .. } => "name a group whose arrays are levels, or one array",
            Self::Layout { .. } | Self::Metadata { .. } => return None,
        }
        .to_owned())
    }
}
