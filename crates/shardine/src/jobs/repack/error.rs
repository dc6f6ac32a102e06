use shardine_store::{Key, StoreError};

use crate::{EngineError, Error};

/// Why the chunks of an array cannot be repacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepackError {
    /// An option does not fit the array.
    #[error("{at}: {reason}")]
    Layout {
        /// The array.
        at: String,
        /// What does not fit.
        reason: String,
    },
    /// Only files can be exchanged atomically.
    #[error("{at} cannot be changed in place: its store cannot replace a whole array in one step")]
    NeedsTarget {
        /// The array.
        at: String,
    },
    /// The array has metadata of both versions, which share the chunks.
    #[error(
        "{at} has Zarr v2 metadata next to its zarr.json; programs that read it as v2 would no \
         longer find its chunks"
    )]
    BothVersions {
        /// The array.
        at: String,
    },
    /// The array is Zarr v2, and version 2 groups would not see a version 3 array.
    #[error("{at} is a Zarr v2 array, which has no shards")]
    ZarrV2 {
        /// The array.
        at: String,
    },
    /// Another job on the same array is under way.
    #[error("another job on {at} is running")]
    Busy {
        /// The array.
        at: String,
    },
    /// Others did not release the array.
    #[error(
        "{at} is in use by another program, which did not finish within {seconds} s; the new \
         array is built, but not in place yet"
    )]
    InUse {
        /// The array.
        at: String,
        /// How long the job waited.
        seconds: u64,
    },
    /// Readers and writers cannot be kept out while the array is replaced.
    #[error(
        "{at} is on a file system without reliable locks, so nothing keeps other programs from \
         using it while it is replaced"
    )]
    NoLocks {
        /// The array.
        at: String,
    },
    /// An earlier job with a different request was interrupted.
    #[error(
        "an earlier job on {at} with different options was interrupted{}",
        command.as_ref().map(|command| format!(": `{command}`")).unwrap_or_default()
    )]
    OtherJob {
        /// The array.
        at: String,
        /// What it requested.
        request: String,
        /// By which command it was begun, if that is known.
        command: Option<String>,
    },
    /// The marker of an interrupted job is invalid.
    #[error(
        "\"{marker}\", which records an interrupted job, does not match what is there: {reason}"
    )]
    Marker {
        /// The file or object.
        marker: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The array was written to meanwhile.
    #[error("{at} was changed while its chunks were being moved")]
    Changed {
        /// The array.
        at: String,
    },
    /// The same, at the very last moment: the old array is kept.
    #[error("{at} was changed just as it was being replaced; the old array is at {kept}")]
    ChangedAtCommit {
        /// The array.
        at: String,
        /// Where the old one is.
        kept: String,
    },
    /// The new array has fewer chunks than were moved: the old array is kept.
    #[error(
        "{at} has {after} chunks or objects, but {before} were written; the old array is at {kept}"
    )]
    Lost {
        /// The array.
        at: String,
        /// How many were made.
        before: u64,
        /// How many are there.
        after: u64,
        /// Where the old one is.
        kept: String,
    },
    /// Something else took the array's name when a job on it was interrupted: the array is kept.
    #[error(
        "an earlier job on {at} was interrupted, and something else was created in its place; the \
         old array is at {kept}"
    )]
    Displaced {
        /// The array.
        at: String,
        /// Where it is.
        kept: String,
    },
    /// There are more or fewer values than before.
    #[error("found {after} values, but {before} were moved")]
    Count {
        /// Values before.
        before: u64,
        /// Values after.
        after: u64,
    },
    /// A chunk differs from its source.
    #[error("chunk {chunk:?} in \"{object}\" differs from the one that was moved")]
    Differs {
        /// The new object.
        object: Key,
        /// The chunk's position in the grid of chunks.
        chunk: Vec<u64>,
    },
    /// The elements of the new array differ from those of the old one.
    #[error("the elements at {start:?} of shape {shape:?} differ from the old ones")]
    Elements {
        /// Where the box that differs begins.
        start: Vec<u64>,
        /// Its shape.
        shape: Vec<u64>,
    },
}

impl RepackError {
    /// What to do next, if anything.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Layout { .. } => return None,
            Self::NeedsTarget { .. } => "choose another location for the result".to_owned(),
            Self::BothVersions { .. } => {
                "remove the v2 metadata first, or choose another location for the result".to_owned()
            }
            Self::ZarrV2 { .. } => {
                "migrate it to version 3 first, or choose another location for the result"
                    .to_owned()
            }
            Self::Busy { .. } => "wait until it finishes".to_owned(),
            Self::InUse { .. } => {
                "run the same command again when that program has finished; what was built is \
                 kept"
                    .to_owned()
            }
            Self::NoLocks { .. } => {
                "use --exclusive if no other program is using it, or choose another location for \
                 the result"
                    .to_owned()
            }
            Self::OtherJob { .. } | Self::Marker { .. } => {
                "finish that job, or discard it and start over".to_owned()
            }
            Self::Changed { .. } => {
                "the array is unchanged; run the job again when nothing is writing to it".to_owned()
            }
            Self::ChangedAtCommit { .. } => {
                "repeat the latest changes, then remove the old array".to_owned()
            }
            Self::Lost { .. } => {
                "if nothing has been written to the new array, put the old one back; check this \
                 machine's disk"
                    .to_owned()
            }
            Self::Displaced { .. } => {
                "the earlier job is discarded; run the command again for what is there now"
                    .to_owned()
            }
            Self::Count { .. } | Self::Differs { .. } | Self::Elements { .. } => {
                "the old array is untouched; check this machine's memory and disk, then run the \
                 job again"
                    .to_owned()
            }
        })
    }
}

/// Whether an error may be caused by another program writing to the source meanwhile.
pub(in crate::jobs) fn is_stale(error: &Error) -> bool {
    matches!(
        error,
        Error::Repack(
            RepackError::Differs { .. } | RepackError::Elements { .. } | RepackError::Count { .. }
        ) | Error::Store(
            StoreError::Changed { .. }
                | StoreError::NotFound { .. }
                | StoreError::Damaged { .. }
                | StoreError::OutOfRange { .. }
        ) | Error::Engine(EngineError::Unstable { .. })
            | Error::Engine(EngineError::Shard { .. })
            | Error::Engine(EngineError::Decode { .. })
    )
}
