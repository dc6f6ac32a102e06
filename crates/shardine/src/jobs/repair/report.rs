//! How to repair, and what was done.

use std::fmt;
use std::ops::Range;

use shardine_store::Key;

use crate::Location;
use crate::jobs::check::{Finding, FindingKind};

/// How to repair.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// Decode every chunk to find damage; without it only metadata and indexes are read.
    pub decode: bool,
    /// Where damaged bytes are kept: a folder that need not exist yet.
    pub set_aside: Location,
    /// Forget what was lost, now or earlier, so that `verify` no longer reports it.
    pub accept_loss: bool,
}

impl RepairOptions {
    /// Keeps damaged bytes at a location outside the data set.
    pub fn new(set_aside: Location) -> Self {
        Self { dry_run: false, decode: false, set_aside, accept_loss: false }
    }

    /// Sets whether to check everything and change nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets whether to accept all losses.
    pub fn accept_loss(mut self, accept_loss: bool) -> Self {
        self.accept_loss = accept_loss;
        self
    }

    /// Sets whether to decode every chunk.
    pub fn decode(mut self, decode: bool) -> Self {
        self.decode = decode;
        self
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What was done about a problem, or would be.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum RepairKind {
            $($(#[$doc])* $kind,)*
        }

        impl RepairKind {
            /// Its name, such as `chunk-set-aside`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// An interrupted in-place update is finished, or undone.
    Recovered = "recovered",
    /// A temporary file of a killed writer is removed.
    LeftoverRemoved = "leftover-removed",
    /// A shard has the last valid index found in it again, which is an older one.
    IndexRestored = "index-restored",
    /// The bytes of a chunk are set aside and its entry is empty.
    ChunkSetAside = "chunk-set-aside",
    /// A whole object is set aside.
    ObjectSetAside = "object-set-aside",
    /// A chunk that shared bytes with another now has its own.
    Separated = "separated",
    /// An unreadable index is removed from its shard; a copy of the shard is kept.
    IndexSetAside = "index-set-aside",
    /// A shard that was compressed as a file is replaced by its contents.
    Unwrapped = "unwrapped",
    /// The two objects of a shard in the older form are joined.
    Joined = "joined",
    /// Values or indexes of a shard are stored as `info` says.
    Recoded = "recoded",
    /// A key is where readers look for it.
    Moved = "moved",
    /// The keys of a shard are in order.
    Reordered = "reordered",
    /// `info` says how values are stored.
    InfoCorrected = "info-corrected",
    /// OME-Zarr metadata says what follows from the rest of the hierarchy.
    MetadataCorrected = "metadata-corrected",
    /// Consolidated metadata matches a node again.
    ConsolidatedRenewed = "consolidated-renewed",
    /// The record of losses is set aside.
    LossAccepted = "loss-accepted",
    /// The problem cannot be repaired here, and is left as it was.
    Left = "left",
}

impl fmt::Display for RepairKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A repair that was made, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Repair {
    /// What was done.
    pub kind: RepairKind,
    /// The object.
    pub object: Option<Key>,
    /// The object's position in the array's grid of shards.
    pub shard: Option<Vec<u64>>,
    /// The chunk's position in the array's grid of innermost chunks.
    pub chunk: Option<Vec<u64>>,
    /// The bytes of the object that are concerned.
    pub range: Option<Range<u64>>,
    /// Why, in one sentence.
    pub message: String,
    /// The name of the kept bytes in the `set_aside` folder.
    pub set_aside: Option<String>,
    /// Chunks, or values, that are lost by it: there is nothing to replace them. For an object
    /// without an index, as many as it has room for; for values whose keys are unknown, one.
    pub lost: u64,
    /// Chunks located by an older index: it proves where they belong, not that they are the newest.
    pub unproved: u64,
}

impl Repair {
    pub(super) fn new(kind: RepairKind, object: &Key, message: impl Into<String>) -> Self {
        Self::of(kind, &Finding::new(FindingKind::NotChecked, Some(object.clone()), message.into()))
    }

    pub(super) fn of(kind: RepairKind, finding: &Finding) -> Self {
        Self {
            kind,
            object: finding.object.clone(),
            shard: finding.shard.clone(),
            chunk: finding.chunk.clone(),
            range: finding.range.clone(),
            message: finding.message.clone(),
            set_aside: None,
            lost: 0,
            unproved: 0,
        }
    }
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairSummary {
    /// Problems that were repaired, or would be, without loss.
    pub mended: u64,
    /// Chunks or values lost by this repair or an earlier one, and not written since.
    pub lost: u64,
    /// Chunks restored from an older index, which may be outdated.
    pub unproved: u64,
    /// How many of both were accepted.
    pub accepted: u64,
    /// Problems that are left.
    pub left: u64,
    /// Bytes set aside.
    pub bytes_set_aside: u64,
    /// Repairs made, or problems left, beyond those reported one by one.
    pub untold: u64,
    /// The name of the format, if Shardine can only read it, so that all damage is left.
    pub only_read: Option<&'static str>,
}

impl RepairSummary {
    /// Whether nothing is left, lost or unproved.
    pub fn is_ok(&self) -> bool {
        self.left == 0 && self.lost == 0 && self.unproved == 0
    }
}
