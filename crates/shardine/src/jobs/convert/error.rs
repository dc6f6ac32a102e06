use crate::zarr::metadata::MetadataError;

/// Why a data set cannot be converted between Zarr and Neuroglancer's precomputed format.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A volume cannot have these axes.
    #[error("{at}: {reason}")]
    Axes {
        /// The array.
        at: String,
        /// What is wrong with its axes.
        reason: String,
    },
    /// A volume cannot have elements of this type.
    #[error("{at}: a volume cannot have type {data_type}, only one of {known}")]
    DataType {
        /// The array.
        at: String,
        /// Its type.
        data_type: String,
        /// The types a volume can have.
        known: String,
    },
    /// The levels differ in type or channels, which a volume does not allow.
    #[error("{at} has {has}, but {first} has {expected}; the levels of a volume must be alike")]
    Levels {
        /// The array.
        at: String,
        /// What it has.
        has: String,
        /// The array that it is compared with.
        first: String,
        /// What the other has.
        expected: String,
    },
    /// A group without arrays cannot become a volume.
    #[error("{at} has no arrays to become the levels of a volume")]
    NoArrays {
        /// The group.
        at: String,
    },
    /// An option does not fit.
    #[error("{at}: {reason}")]
    Layout {
        /// The array or scale.
        at: String,
        /// What does not fit.
        reason: String,
    },
    /// The metadata of a new array would be invalid.
    #[error("{at}: {source}")]
    Metadata {
        /// The scale.
        at: String,
        /// What is wrong.
        source: Box<MetadataError>,
    },
}

impl ConvertError {
    /// What to do next, if anything.
    pub fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::Axes { .. } => {
                    "name the axes x, y, z and, if there are several channels, channel in the \
                 metadata; if the group has other arrays, convert just one array"
                }
                Self::DataType { .. } => "convert its elements to another type first",
                Self::Levels { .. } => "convert one of the arrays on its own",
                Self::NoArrays { .. } => "name a group whose arrays are levels, or a single array",
                Self::Layout { .. } | Self::Metadata { .. } => return None,
            }
            .to_owned(),
        )
    }
}
