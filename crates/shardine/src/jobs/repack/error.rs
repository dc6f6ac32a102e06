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
    #[error("{at} cannot be changed in place: its store has no step that replaces a whole array")]
    NeedsTarget {
        /// The array.
        at: String,
    },
    /// The array has metadata of both versions, which share the chunks.
    #[error(
        "{at} has Zarr v2 metadata beside its zarr.json; whoever reads it by that would find no chunks any more"
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
    #[error("another job on {at} is under way")]
    Busy {
        /// The array.
        at: String,
    },
    /// Others did not release the array.
    #[error(
        "{at} is in use by another program, which did not end within {seconds} s; the new array is built, and not in its \
         place yet"
    )]
    InUse {
        /// The array.
        at: String,
        /// How long the job waited.
        seconds: u64,
    },
    /// Readers and writers cannot be kept out while the array is replaced.
    #[error(
        "{at} is on a file system without locks to rely on, so nothing keeps other programs away while it is replaced"
    )]
    NoLocks {
        /// The array.
        at: String,
    },
    /// An earlier job with a different request was interrupted.
    #[error(
        "an earlier job on {at} was interrupted, and it asked for something else{}",
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
        "\"{marker}\", which tells of a job that was interrupted, does not fit what is there: {reason}"
    )]
    Marker {
        /// The file or object.
        marker: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The array was written to meanwhile.
    #[error("{at} was changed while its chunks were moved")]
    Changed {
        /// The array.
        at: String,
    },
    /// The same, at the very last moment: the old array is kept.
    #[error(
        "{at} was changed in the moment in which it was replaced; the array as it was then is at {kept}"
    )]
    ChangedAtCommit {
        /// The array.
        at: String,
        /// Where the old one is.
        kept: String,
    },
    /// The new array has fewer chunks than were moved: the old array is kept.
    #[error(
        "{at} has {after} chunks or objects where {before} were made; the array as it was is at {kept}"
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
        "an earlier job on {at} was interrupted, and something else was made in its place; the array as it was is at {kept}"
    )]
    Displaced {
        /// The array.
        at: String,
        /// Where it is.
        kept: String,
    },
    /// There are more or fewer values than before.
    #[error("{after} values were found where {before} were moved")]
    Count {
        /// Values before.
        before: u64,
        /// Values after.
        after: u64,
    },
    /// A chunk differs from its source.
    #[error("chunk {chunk:?} in \"{object}\" is not what it was before it was moved")]
    Differs {
        /// The new object.
        object: Key,
        /// The chunk's position in the grid of chunks.
        chunk: Vec<u64>,
    },
    /// The elements of the new array differ from those of the old one.
    #[error("the elements from {start:?} on, of shape {shape:?}, are not what they were")]
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
            Self::NeedsTarget { .. } => "name another place for the result".to_owned(),
            Self::BothVersions { .. } => {
                "remove the v2 metadata first, or name another place for the result".to_owned()
            }
            Self::ZarrV2 { .. } => {
                "migrate it to version 3 first, or name another place for the result".to_owned()
            }
            Self::Busy { .. } => "wait for it".to_owned(),
            Self::InUse { .. } => {
                "run the same command again when that program has ended; what is built is kept".to_owned()
            }
            Self::NoLocks { .. } => {
                "give --exclusive if no other program uses it meanwhile, or name another place for the result".to_owned()
            }
            Self::OtherJob { .. } | Self::Marker { .. } => {
                "finish that job, or give it up by beginning anew".to_owned()
            }
            Self::Changed { .. } => {
                "the array is as it was; run the job again when nobody writes".to_owned()
            }
            Self::ChangedAtCommit { .. } => {
                "write the latest changes again, and remove the old array".to_owned()
            }
            Self::Lost { .. } => {
                "if nobody has written to the new array, put the old one back; check the disk of this machine"
                    .to_owned()
            }
            Self::Displaced { .. } => {
                "the earlier job is given up; give the command again for what has the name now"
                    .to_owned()
            }
            Self::Count { .. } | Self::Differs { .. } | Self::Elements { .. } => {
                "the old array is untouched; check the memory and the disk of this machine, and run the job again"
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
