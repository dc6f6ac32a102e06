use shardine_codec::{DataTypeError, ExtensionError};

/// Why a metadata document is refused.
///
/// `member` is the place in the document, such as `chunk_grid.configuration.chunk_shape[1]`.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum MetadataError {
    /// The document is too long to be metadata.
    #[error("metadata document has {len} bytes, more than the {limit} that are read")]
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
    /// The document is of Zarr version 2, whose metadata is another.
    #[error("this is a document of Zarr version 2 in the place of one of version 3")]
    ZarrV2,
    /// The document is of a version that is not known.
    #[error("zarr_format is {found}; only 3 is known here")]
    UnknownFormat {
        /// The member's value.
        found: String,
    },
    /// A member that every document of its kind has is not there.
    #[error("{member} is missing")]
    Missing {
        /// Its place.
        member: String,
    },
    /// A member has a value that it cannot have.
    #[error("{member}: {reason}")]
    Invalid {
        /// Its place.
        member: String,
        /// What is wrong.
        reason: String,
    },
    /// A member is not known, and nothing says that it may be ignored.
    #[error(
        "{member} is not known; it may be an extension that this version does not have (a member is ignored \
         only if it is an object with \"must_understand\": false)"
    )]
    UnknownMember {
        /// Its place.
        member: String,
    },
    /// An extension that the array cannot be read without is not known.
    #[error("{member} \"{name}\" is not supported: {reason}")]
    Unsupported {
        /// Its place.
        member: String,
        /// What it is called.
        name: String,
        /// What is supported instead.
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
        Self::Invalid { member: member.into(), reason: reason.into() }
    }

    pub(super) fn missing(member: impl Into<String>) -> Self {
        Self::Missing { member: member.into() }
    }
}

impl From<ExtensionError> for MetadataError {
    fn from(error: ExtensionError) -> Self {
        match error {
            ExtensionError::Missing { member } => Self::Missing { member },
            ExtensionError::UnknownMember { member } => Self::UnknownMember { member },
            ExtensionError::Invalid { member, reason } => Self::Invalid { member, reason },
            error => Self::Invalid { member: "extension".into(), reason: error.to_string() },
        }
    }
}
