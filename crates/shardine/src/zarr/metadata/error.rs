use shardine_codec::{DataTypeError, ExtensionError};

/// Why a metadata document is refused.
///
/// `member` is the place in the document, such as `chunk_grid.configuration.chunk_shape[1]`.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum MetadataError {
    /// The document is too long to be metadata.
    #[error("metadata document has {len} bytes, more than the limit of {limit}")]
    TooLarge {
        /// How long it is.
        len: usize,
        /// The most that is read.
        limit: usize,
    },
    /// The document is not JSON, or not a JSON object.
    #[error("metadata document is not a JSON object: {reason}")]
    NotJson {
        /// What the parser found, and where.
        reason: String,
    },
    /// The document is of Zarr version 2, whose metadata is different.
    #[error("this is a Zarr v2 document in place of a v3 one")]
    ZarrV2,
    /// The document is of an unknown version.
    #[error("zarr_format is {found}; only 3 is supported")]
    UnknownFormat {
        /// The member's value.
        found: String,
    },
    /// A member is missing or unknown, or has an illegal value.
    #[error(transparent)]
    Member(#[from] ExtensionError),
    /// An extension that is required to read the array is unknown.
    #[error("{member} \"{name}\" is not supported: {reason}")]
    Unsupported {
        /// Its place.
        member: String,
        /// Its name.
        name: String,
        /// What is supported instead.
        reason: String,
    },
    /// Version 2 has nothing that means the same.
    #[error("{member} \"{name}\" has no equivalent in Zarr v2: {reason}")]
    NotInV2 {
        /// Its place.
        member: String,
        /// Its name.
        name: String,
        /// What version 2 has.
        reason: String,
    },
    /// The data type or the fill value is not legal.
    #[error("{member}: {reason}")]
    DataType {
        /// Its place.
        member: String,
        /// What is wrong.
        reason: DataTypeError,
    },
}

impl MetadataError {
    pub(crate) fn invalid(member: impl Into<String>, reason: impl Into<String>) -> Self {
        ExtensionError::Invalid { member: member.into(), reason: reason.into() }.into()
    }

    pub(super) fn missing(member: impl Into<String>) -> Self {
        ExtensionError::Missing { member: member.into() }.into()
    }

    pub(super) fn unknown(member: impl Into<String>) -> Self {
        ExtensionError::UnknownMember { member: member.into() }.into()
    }
}
