//! What can be wrong in a shard of values by key, and how it is reported.

use std::ops::Range;

use super::survey::Surveyed;
use crate::jobs::check::FindingKind;
use crate::shard::uint64::{KeyPlace, Sharding};

/// What is wrong with a shard, or with one of its indexes.
#[derive(Debug, Clone)]
pub(crate) enum ShardFault {
    Empty,
    Truncated {
        actual: u64,
        table: u64,
    },
    IndexRange {
        minishard: u64,
        start: u64,
        end: u64,
    },
    IndexOverlap {
        minishard: u64,
        other: u64,
        range: Range<u64>,
    },
    IndexTooLarge {
        minishard: u64,
        range: Range<u64>,
    },
    /// An index with too many keys to check one by one, some of which are bad.
    ManyBad {
        range: Range<u64>,
        reason: String,
    },
    Index {
        minishard: u64,
        range: Range<u64>,
        reason: String,
    },
}

impl ShardFault {
    /// Whether nothing of the shard can be read.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Empty | Self::Truncated { .. })
    }

    /// Whether not enough is known about the shard to change it.
    pub fn is_unsure(&self) -> bool {
        matches!(self, Self::IndexTooLarge { .. } | Self::ManyBad { .. })
    }

    /// The minishard whose index cannot be read.
    pub fn minishard(&self) -> Option<u64> {
        match self {
            Self::IndexRange { minishard, .. }
            | Self::IndexOverlap { minishard, .. }
            | Self::Index { minishard, .. } => Some(*minishard),
            _ => None,
        }
    }

    pub fn kind(&self) -> FindingKind {
        self.tell(0).0
    }

    pub fn tell(&self, len: u64) -> (FindingKind, Option<Range<u64>>, String) {
        match self {
            Self::Empty => (FindingKind::EmptyObject, Some(0..0), "it is empty".to_owned()),
            Self::Truncated { actual, table } => (
                FindingKind::Truncated,
                Some(0..*actual),
                format!(
                    "it has {actual} bytes, but the table of its minishards alone needs {table}"
                ),
            ),
            Self::IndexRange { minishard, start, end } => (
                FindingKind::Index,
                None,
                format!(
                    "the index of minishard {minishard} is recorded at bytes {start}..{end} after \
                     the table, in a shard of {len}"
                ),
            ),
            Self::IndexOverlap { minishard, other, range } => (
                FindingKind::Index,
                Some(range.clone()),
                format!("the index of minishard {minishard} overlaps that of minishard {other}"),
            ),
            Self::IndexTooLarge { minishard, range } => (
                FindingKind::NotChecked,
                Some(range.clone()),
                format!("the index of minishard {minishard} is too large to read"),
            ),
            Self::Index { range, reason, .. } | Self::ManyBad { range, reason } => {
                (FindingKind::Index, Some(range.clone()), reason.clone())
            }
        }
    }
}

/// What is wrong with a value, or with its entry.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    OutOfBounds,
    InIndex,
    Misplaced { place: KeyPlace },
    Duplicate,
    Shared { other: u64 },
    Overlap { other: u64, of: Range<u64> },
    NoBytes,
    OutsideArray,
    Size { expected: u64 },
    NotGzip,
    Undecodable { reason: String },
    TooLarge { reason: String },
    NoManifest,
    Fragments { need: u64 },
}

impl Fault {
    pub fn kind(&self) -> FindingKind {
        match self {
            Self::OutOfBounds => FindingKind::EntryOutOfBounds,
            Self::InIndex => FindingKind::EntryInIndex,
            Self::Misplaced { .. } => FindingKind::MisplacedKey,
            Self::Duplicate => FindingKind::DuplicateKey,
            Self::Shared { .. } => FindingKind::SharedBytes,
            Self::Overlap { .. } => FindingKind::Overlap,
            Self::NoBytes => FindingKind::ZeroLengthEntry,
            Self::OutsideArray => FindingKind::EntryOutsideArray,
            Self::Size { .. } => FindingKind::ChunkSize,
            Self::NotGzip | Self::Undecodable { .. } => FindingKind::Chunk,
            Self::TooLarge { .. } => FindingKind::NotChecked,
            Self::NoManifest => FindingKind::MeshManifest,
            Self::Fragments { .. } => FindingKind::MeshFragments,
        }
    }

    pub fn tell(&self, of: &Surveyed, sharding: &Sharding, len: u64) -> String {
        let (key, minishard) = (of.entry.key, of.minishard);
        let said = match self {
            Self::OutOfBounds => {
                let (start, bytes) = (of.entry.start, of.entry.len);
                format!("starts at byte {start} and has {bytes}, in a shard of {len}")
            }
            Self::InIndex => "reaches into the table or an index of a minishard".to_owned(),
            Self::Misplaced { place } => format!(
                "is in minishard {minishard}, but belongs in minishard {} of {}: no reader finds \
                 it",
                place.minishard,
                sharding.shard_name(place.shard)
            ),
            Self::Duplicate => {
                format!("has another value earlier in minishard {minishard}")
            }
            Self::Shared { other } => format!("refers to the same bytes as key {other}"),
            Self::Overlap { other, of } => {
                format!("overlaps key {other}, which is at bytes {of:?}")
            }
            Self::NoBytes => "is empty, but nothing encodes to zero bytes".to_owned(),
            Self::OutsideArray => "is not a chunk of the grid".to_owned(),
            Self::Size { expected } => {
                format!("has {} bytes, but a chunk there encodes to {expected}", of.entry.len)
            }
            Self::NotGzip => "is not gzip, although `info` says so".to_owned(),
            Self::Undecodable { reason } | Self::TooLarge { reason } => reason.clone(),
            Self::NoManifest => "is not the manifest of a mesh".to_owned(),
            Self::Fragments { need } => format!(
                "is a manifest of {need} bytes of fragments, which are not before it: there is \
                 something else, or nothing"
            ),
        };
        format!("key {key} {said}")
    }
}
