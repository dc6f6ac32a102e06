//! What can be wrong with geometry.

/// Rows that contradict the model or the file that they come from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A file of rows, or rows themselves, break a rule of their format.
    #[error("{format}, {place}: {reason}")]
    Invalid {
        /// The format: `CSV`, `PLY`.
        format: &'static str,
        /// Where in the input: `line 7`, `column x`.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// What was asked for cannot be expressed in a format.
    #[error("{format} cannot hold {what}")]
    CannotHold {
        /// The format.
        format: &'static str,
        /// What it has no place for.
        what: String,
    },
    /// The rows that belong together do not fit into memory.
    #[error(
        "{bytes} bytes of rows belong together, which is more than the {most} there is room for"
    )]
    GroupTooLarge {
        /// The key that the rows share.
        key: u128,
        /// How many bytes they have.
        bytes: u64,
        /// How many there may be.
        most: u64,
    },
    /// The Arrow library refused rows.
    #[error("rows cannot be arranged in columns: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Rows that memory has no room for cannot be kept elsewhere.
    #[error("{0}")]
    Spool(std::io::Error),
    /// The side that gives or takes rows failed with an error of its own.
    #[error(transparent)]
    Side(Box<dyn std::error::Error + Send + Sync>),
}
