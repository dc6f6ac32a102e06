//! What can be wrong with a store of Zarr Vectors, or with what is asked of one.

use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{DocumentError, PayloadError};
use shardine_store::StoreError;

/// Why a store of Zarr Vectors cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsError {
    /// The group is not a store of Zarr Vectors.
    #[error("it is not a store of Zarr Vectors: it has no attribute \"zarr_vectors\"")]
    NotAStore,
    /// A document contradicts the format.
    #[error("{node}: {source}")]
    Document {
        /// The group or the array, by its path in the store; empty for the root.
        node: String,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// A reader has to know something that this one does not.
    #[error("reading it takes {}, which is not supported", tokens.join(", "))]
    Unsupported {
        /// What, in the words of the format.
        tokens: Vec<String>,
    },
    /// An array or a group is missing.
    #[error("{node} is missing")]
    Missing {
        /// Which one.
        node: String,
    },
    /// An array is not of the kind that the format has there.
    #[error("{node} must be {expected}")]
    Node {
        /// Which one.
        node: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A cell contradicts the format.
    #[error("{array}, chunk {chunk}: {source}")]
    Cell {
        /// The array, by its path in the store.
        array: String,
        /// The chunk: `-1.0.3`.
        chunk: String,
        /// What is wrong with its bytes.
        source: PayloadError,
    },
    /// Cells contradict each other.
    #[error("{array}, chunk {chunk}: {reason}")]
    Contradiction {
        /// The array, by its path in the store.
        array: String,
        /// The chunk.
        chunk: String,
        /// What does not fit together.
        reason: String,
    },
    /// The manifest of an object contradicts the format or the cells.
    #[error("object {object}: {reason}")]
    Object {
        /// The id of the object.
        object: i64,
        /// What is wrong.
        reason: String,
    },
    /// There is no such level.
    #[error("there is no level {level}: it has {}", levels(known))]
    NoLevel {
        /// The level that was asked for.
        level: u64,
        /// Those that exist.
        known: Vec<u64>,
    },
    /// Objects were asked for that do not exist.
    #[error("there is no {what} {id}")]
    NoSuch {
        /// `object` or `group`.
        what: &'static str,
        /// Its id.
        id: i64,
    },
    /// Parts of the store contradict each other, and the query was a strict one.
    #[error("{0}")]
    Strict(String),
    /// The question has no answer in this store.
    #[error("{0}")]
    Question(String),
    /// The store cannot be listed, and refuses to say whether a node exists.
    #[error("whether there is {node} cannot be found out: the store cannot list, and {source}")]
    Undecided {
        /// Which one.
        node: String,
        /// How it refuses.
        source: StoreError,
    },
    /// What was asked for does not fit into memory.
    #[error("it takes about {needs} bytes of memory at once, and {most} are allowed")]
    TooLarge {
        /// How many bytes.
        needs: u64,
        /// How many may be used.
        most: u64,
    },
    /// Columns could not be made.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

fn levels(known: &[u64]) -> String {
    match known {
        [] => "none".to_owned(),
        known => known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl VectorsError {
    /// What to do next, if that is not obvious.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Cell { .. } | Self::Contradiction { .. } | Self::Object { .. } => {
                Some("`shardine verify` lists everything that is wrong with the store")
            }
            Self::NoSuch { what: "object", .. } => {
                Some("`shardine vectors info` says how many objects there are")
            }
            Self::Strict(_) => Some(
                "without `--strict` the answer is what is stored; `shardine verify` lists what is wrong",
            ),
            Self::Undecided { .. } => Some(
                "let the server answer 404 for what it does not have, or allow listing; or write the \
                 names of all nodes into the store with `shardine consolidate`",
            ),
            Self::TooLarge { .. } => Some("allow more with `--memory`, or ask for less"),
            _ => None,
        }
    }
}
