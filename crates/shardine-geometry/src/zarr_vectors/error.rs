//! What can be wrong with a cell or a document.

/// Bytes of a cell that contradict the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// There are fewer bytes than the numbers among them ask for.
    #[error("{what} needs {needs} bytes, but there are {actual}")]
    Truncated {
        /// The part that is cut off.
        what: &'static str,
        /// How many bytes it needs, counted from the beginning.
        needs: u64,
        /// How many there are.
        actual: u64,
    },
    /// Bytes follow that belong to nothing.
    #[error("{extra} bytes follow {what}")]
    Trailing {
        /// What they follow.
        what: &'static str,
        /// How many.
        extra: u64,
    },
    /// The length is not a whole number of rows.
    #[error("{actual} bytes are no whole number of rows of {row} bytes")]
    PartialRow {
        /// The length of a row.
        row: u64,
        /// The length of all.
        actual: u64,
    },
    /// A number has no meaning in its place.
    #[error("{what} is {value}, {rule}")]
    Number {
        /// What the number stands for: `fragment 3, its first row`.
        what: String,
        /// The number.
        value: i64,
        /// What it must be.
        rule: &'static str,
    },
    /// A Draco stream cannot be read.
    #[error("its Draco stream: {0}")]
    Draco(String),
    /// More than the format can count.
    #[error("{actual} {what}, but the format counts to {limit}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        actual: u64,
        /// The largest number that can be written.
        limit: u64,
    },
}

/// The result of reading a cell.
pub(super) type PayloadResult<T> = Result<T, PayloadError>;

/// A document that does not say what it must.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{member}: {reason}")]
pub struct DocumentError {
    /// The member: `zarr_vectors.chunk_shape`.
    pub member: String,
    /// What is wrong with it.
    pub reason: String,
}

impl DocumentError {
    /// An error in `member`.
    pub fn new(member: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { member: member.into(), reason: reason.into() }
    }
}
