use crate::zarr::metadata::MetadataError;

/// Why a data set cannot be converted to another format.
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
    /// Nothing in a data set could become an image.
    #[error("{at} has no arrays to become the levels of an image")]
    NoImage {
        /// The data set.
        at: String,
    },
    /// An image cannot have these axes, or they are not known.
    #[error("{at}: {reason}")]
    ImageAxes {
        /// The array or image.
        at: String,
        /// What is wrong with its axes.
        reason: String,
    },
    /// The arrays of a group are not levels of one image.
    #[error("{at}: its arrays are not levels of an image: {reason}")]
    NotLevels {
        /// The group.
        at: String,
        /// How they differ.
        reason: String,
    },
    /// An image does not allow the conversion.
    #[error("{at}: {reason}")]
    Image {
        /// The image.
        at: String,
        /// Why.
        reason: String,
    },
    /// OME-Zarr metadata is of a version that does not go with the version of Zarr.
    #[error("{at}: {reason}")]
    OtherVersion {
        /// The group.
        at: String,
        /// Which version it is of.
        reason: String,
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
                Self::NoImage { .. } => "name an array, or a group whose arrays are levels",
                Self::ImageAxes { .. } => "name the axes of the array, such as t, c, z, y, x",
                Self::OtherVersion { .. } => "convert it to OME-Zarr 0.4, which is Zarr version 2",
                Self::NotLevels { .. } => "convert one of the arrays on its own",
                Self::Metadata { source, .. }
                    if matches!(**source, MetadataError::NotInV2 { .. }) =>
                {
                    "choose other codecs, or Zarr version 3"
                }
                Self::Image { .. } | Self::Layout { .. } | Self::Metadata { .. } => return None,
            }
            .to_owned(),
        )
    }
}
