//! Whose fault an error is.

use shardine_engine::Error as EngineError;
use shardine_store::StoreError;

use crate::Error;
use crate::jobs::{CompareError, CopyError, JobError, PyramidError, RepackError};
use crate::layout::EncodeError;
use crate::vectors::VectorsError;

/// Whose fault an error is, and so what a program can do about it.
///
/// Stable where variants of [`Error`] may be added: a program that retries, or maps errors to exit
/// statuses or exceptions, matches on this. Opening, reading and listing fail with
/// [`NotFound`](Self::NotFound), [`Damaged`](Self::Damaged), [`Request`](Self::Request),
/// [`Unsupported`](Self::Unsupported), [`Race`](Self::Race) or [`Storage`](Self::Storage); only
/// what writes also with [`Exists`](Self::Exists) or [`Busy`](Self::Busy), and only what has or
/// watches a [`CancelToken`](crate::jobs::CancelToken) with [`Cancelled`](Self::Cancelled).
///
/// ```
/// use shardine::{Array, ErrorKind};
///
/// let error = Array::open("no/such/array").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such data set, level or object.
    NotFound,
    /// Stored data contradicts its format. Restore or repair it.
    Damaged,
    /// The call asks for something that makes no sense here. Change the call.
    Request,
    /// The data is sound, but this library, or the store, cannot do that.
    Unsupported,
    /// Something is already there.
    Exists,
    /// Another process is working on it, or was killed while it did. Wait, or take over.
    Busy,
    /// It was changed by someone else in the meantime. Try again.
    Race,
    /// A disk, a network or a server failed. The data is as it was.
    Storage,
    /// The caller stopped it. The same call resumes.
    Cancelled,
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => of_store(error),
            Self::Engine(error) => of_engine(error),
            Self::NoNode { .. }
            | Self::NoMetadata { .. }
            | Self::NoVolume { .. }
            | Self::NoLevel { .. }
            | Self::NoKeyValues { .. } => ErrorKind::NotFound,
            Self::Metadata { .. }
            | Self::Layout { .. }
            | Self::Info { .. }
            | Self::Sharding { .. }
            | Self::Ome { .. }
            | Self::WkwHeader { .. }
            | Self::WkwProperties { .. }
            | Self::LostChunks { .. } => ErrorKind::Damaged,
            Self::MetadataChanged { .. } | Self::Replaced { .. } | Self::AppendLost { .. } => {
                ErrorKind::Race
            }
            Self::AppendUnderWay { .. } | Self::AppendOwned { .. } => ErrorKind::Busy,
            Self::Exists { .. } | Self::GroupExists { .. } => ErrorKind::Exists,
            Self::OnlyRead { .. }
            | Self::SeveralCopies { .. }
            | Self::ZarrV2 { .. }
            | Self::NoExtent { .. }
            | Self::UnlistedGroup { .. }
            | Self::UnlistedObjects { .. } => ErrorKind::Unsupported,
            Self::Vectors { source, .. } => of_vectors(source),
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Job(error) => of_job(error),
            Self::Copy(error) => of_copy(error),
            Self::Repack(error) => of_repack(error),
            Self::Compare(error) => of_compare(error),
            Self::Pyramid(error) => of_pyramid(error),
            Self::WriteVectors(error) => error.kind(),
            Self::PyramidVectors(error) => error.kind(),
            _ => ErrorKind::Request,
        }
    }
}

fn of_vectors(error: &VectorsError) -> ErrorKind {
    match error {
        VectorsError::Document { .. }
        | VectorsError::Missing { .. }
        | VectorsError::Node { .. }
        | VectorsError::Cell { .. }
        | VectorsError::Contradiction { .. }
        | VectorsError::Object { .. }
        | VectorsError::Strict(_) => ErrorKind::Damaged,
        VectorsError::Unsupported { .. } => ErrorKind::Unsupported,
        VectorsError::Undecided { source, .. } => of_store(source),
        VectorsError::NoLevel { .. } | VectorsError::NoSuch { .. } => ErrorKind::NotFound,
        VectorsError::NotAStore
        | VectorsError::Question(_)
        | VectorsError::TooLarge { .. }
        | VectorsError::Geometry(_) => ErrorKind::Request,
    }
}

fn of_store(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::NotFound { .. } => ErrorKind::NotFound,
        StoreError::OutOfRange { .. }
        | StoreError::TooLarge { .. }
        | StoreError::Damaged { .. } => ErrorKind::Damaged,
        StoreError::Changed { .. } | StoreError::Conflict { .. } => ErrorKind::Race,
        StoreError::Unsupported { .. }
        | StoreError::LinkedFolder { .. }
        | StoreError::Unlisted { .. } => ErrorKind::Unsupported,
        StoreError::Io { .. } => ErrorKind::Storage,
        _ => ErrorKind::Request,
    }
}

fn of_engine(error: &EngineError) -> ErrorKind {
    match error {
        EngineError::Store(error) => of_store(error),
        EngineError::Shard { .. } | EngineError::Decode { .. } => ErrorKind::Damaged,
        EngineError::Encode { source, .. } if matches!(**source, EncodeError::Old(_)) => {
            ErrorKind::Damaged
        }
        EngineError::Contention { .. } | EngineError::Unstable { .. } => ErrorKind::Race,
        EngineError::Strategy { .. } | EngineError::Unlisted { .. } => ErrorKind::Unsupported,
        EngineError::Unfinished { .. } | EngineError::Threads { .. } => ErrorKind::Storage,
        _ => ErrorKind::Request,
    }
}

fn of_job(error: &JobError) -> ErrorKind {
    match error {
        JobError::Busy { .. }
        | JobError::Owned { .. }
        | JobError::PartsMissing { .. }
        | JobError::TasksMissing { .. } => ErrorKind::Busy,
        JobError::SourceChanged { .. } => ErrorKind::Race,
        JobError::Report { .. } => ErrorKind::Damaged,
        _ => ErrorKind::Request,
    }
}

fn of_copy(error: &CopyError) -> ErrorKind {
    match error {
        CopyError::Nothing { .. } => ErrorKind::NotFound,
        CopyError::SourceChanged { .. } => ErrorKind::Race,
        CopyError::JustBegun { .. } => ErrorKind::Busy,
        CopyError::Marker { .. } => ErrorKind::Damaged,
        CopyError::Unlisted { .. } => ErrorKind::Unsupported,
        CopyError::Length { .. } | CopyError::Content { .. } => ErrorKind::Storage,
        _ => ErrorKind::Request,
    }
}

fn of_pyramid(error: &PyramidError) -> ErrorKind {
    match error {
        PyramidError::Exists { .. } | PyramidError::InTheWay { .. } => ErrorKind::Exists,
        PyramidError::OldVersion { .. }
        | PyramidError::NeedsFiles { .. }
        | PyramidError::NoTimes { .. }
        | PyramidError::Method { .. } => ErrorKind::Unsupported,
        PyramidError::Changed { .. } | PyramidError::Unsettled { .. } => ErrorKind::Race,
        PyramidError::Memory { .. } | PyramidError::Misfit { .. } => ErrorKind::Storage,
        _ => ErrorKind::Request,
    }
}

fn of_compare(error: &CompareError) -> ErrorKind {
    match error {
        CompareError::Nothing { .. } => ErrorKind::NotFound,
        CompareError::LeftOut { .. }
        | CompareError::KeyValues { .. }
        | CompareError::Unlisted { .. }
        | CompareError::FileType { .. } => ErrorKind::Unsupported,
        CompareError::File { .. } => ErrorKind::Storage,
        CompareError::NoLevels { .. } | CompareError::RawFile { .. } => ErrorKind::Request,
    }
}

fn of_repack(error: &RepackError) -> ErrorKind {
    match error {
        RepackError::Busy { .. } | RepackError::InUse { .. } => ErrorKind::Busy,
        RepackError::Changed { .. }
        | RepackError::ChangedAtCommit { .. }
        | RepackError::Displaced { .. } => ErrorKind::Race,
        RepackError::Marker { .. } => ErrorKind::Damaged,
        RepackError::NeedsTarget { .. } | RepackError::NoLocks { .. } => ErrorKind::Unsupported,
        RepackError::Lost { .. }
        | RepackError::Count { .. }
        | RepackError::Differs { .. }
        | RepackError::Elements { .. } => ErrorKind::Storage,
        _ => ErrorKind::Request,
    }
}
