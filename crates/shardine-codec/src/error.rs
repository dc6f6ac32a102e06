use crate::data_type::DataTypeError;

/// Why a codec could not be set up or failed.
///
/// The variant says what is at fault: [`Configuration`](Self::Configuration) and
/// [`Unsupported`](Self::Unsupported) the metadata, [`Corrupt`](Self::Corrupt),
/// [`Size`](Self::Size), [`TooLarge`](Self::TooLarge) and [`Checksum`](Self::Checksum) the stored
/// bytes, [`Encode`](Self::Encode) what the caller passed in.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum CodecError {
    /// No codec with this name is known.
    #[error("unknown codec \"{name}\"")]
    Unknown {
        /// The name in the metadata.
        name: String,
    },
    /// The metadata configures the codec in a way that its specification does not allow.
    #[error("codec \"{codec}\": {reason}")]
    Configuration {
        /// The codec's name.
        codec: String,
        /// What is wrong.
        reason: String,
    },
    /// The codec is known but cannot be applied to this data type or shape.
    #[error("codec \"{codec}\" cannot be used here: {reason}")]
    Unsupported {
        /// The codec's name.
        codec: String,
        /// Why not.
        reason: String,
    },
    /// The encoded bytes are not what this codec produces.
    #[error("codec \"{codec}\" cannot decode {len} bytes: {reason}")]
    Corrupt {
        /// The codec's name.
        codec: &'static str,
        /// The number of encoded bytes.
        len: usize,
        /// What the decoder found.
        reason: String,
    },
    /// The decoded size differs from the size that the metadata implies.
    #[error("codec \"{codec}\" decoded to {actual} bytes, but {expected} were expected")]
    Size {
        /// The codec's name.
        codec: &'static str,
        /// What the array's metadata implies.
        expected: usize,
        /// What the bytes hold.
        actual: usize,
    },
    /// The decoded size exceeds the limit that the metadata implies.
    #[error("codec \"{codec}\" would decode to more than the limit of {limit} bytes")]
    TooLarge {
        /// The codec's name.
        codec: &'static str,
        /// The most that the array's metadata allows.
        limit: usize,
    },
    /// The memory for the result could not be allocated.
    #[error("codec \"{codec}\" could not allocate {bytes} bytes")]
    OutOfMemory {
        /// The codec's name.
        codec: &'static str,
        /// The number of bytes requested.
        bytes: usize,
    },
    /// A stored checksum does not match the stored bytes.
    #[error("codec \"{codec}\": stored checksum {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// The codec's name.
        codec: &'static str,
        /// As found after (or before) the data.
        stored: u32,
        /// As computed from the data.
        computed: u32,
    },
    /// The elements cannot be encoded.
    #[error("codec \"{codec}\" cannot encode: {reason}")]
    Encode {
        /// The codec's name.
        codec: &'static str,
        /// Why not.
        reason: String,
    },
    /// The data type or fill value is invalid.
    #[error(transparent)]
    DataType(#[from] DataTypeError),
}

impl CodecError {
    /// A [`Configuration`](Self::Configuration) error.
    pub fn configuration(codec: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Configuration { codec: codec.into(), reason: reason.into() }
    }

    /// An [`Unsupported`](Self::Unsupported) error.
    pub fn unsupported(codec: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Unsupported { codec: codec.into(), reason: reason.into() }
    }

    /// A [`Corrupt`](Self::Corrupt) error.
    pub fn corrupt(codec: &'static str, len: usize, reason: impl Into<String>) -> Self {
        Self::Corrupt { codec, len, reason: reason.into() }
    }
}

/// Why a member of a metadata document that names an extension, such as a codec, is refused.
///
/// `member` is its place in the document.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtensionError {
    /// A required member is missing.
    #[error("{member} is missing")]
    Missing {
        /// Its place.
        member: String,
    },
    /// A member has an invalid value.
    #[error("{member}: {reason}")]
    Invalid {
        /// Its place.
        member: String,
        /// What is wrong.
        reason: String,
    },
    /// A member is unknown, and nothing says that it may be ignored.
    #[error(
        "{member} is unknown; it may be an extension that this version does not support (a member \
         is ignored \
         only if it is an object with \"must_understand\": false)"
    )]
    UnknownMember {
        /// Its place.
        member: String,
    },
}

impl ExtensionError {
    pub(crate) fn invalid(member: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { member: member.into(), reason: reason.into() }
    }

    pub(crate) fn missing(member: impl Into<String>) -> Self {
        Self::Missing { member: member.into() }
    }
}
