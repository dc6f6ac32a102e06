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
    /// Forget what was lost, now or earlier: `verify` no longer reports it.
    pub accept_loss: bool,
}

impl RepairOptions {
    /// Keeps damaged bytes at a place that is not part of the data set.
    pub fn new(set_aside: Location) -> Self {
        Self { dry_run: false, decode: false, set_aside, accept_loss: false }
    }

    /// With everything looked at and nothing changed, or not.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// With all that is lost accepted, or not.
    pub fn accept_loss(mut self, accept_loss: bool) -> Self {
        self.accept_loss = accept_loss;
        self
    }

    /// With every chunk decoded or not.
    pub fn decode(mut self, decode: bool) -> Self {
        self.decode = decode;
        self
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What was done about something, or would be.
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
    /// A change in place that was interrupted is finished, or undone.
    Recovered = "recovered",
    /// A temporary file of a killed writer is removed.
    LeftoverRemoved = "leftover-removed",
    /// A shard has the last valid index again that was found in it, which is an older one.
    IndexRestored = "index-restored",
    /// The bytes of a chunk are set aside and its entry is empty.
    ChunkSetAside = "chunk-set-aside",
    /// An object is set aside whole.
    ObjectSetAside = "object-set-aside",
    /// A chunk that shared bytes with another one has bytes of its own.
    Separated = "separated",
    /// An index that cannot be read is gone from its shard, which is kept as it was.
    IndexSetAside = "index-set-aside",
    /// A shard that was compressed as a file is the shard that was in it.
    Unwrapped = "unwrapped",
    /// The two objects of a shard in its older form are one.
    Joined = "joined",
    /// Values or indexes of a shard are stored as `info` says.
    Recoded = "recoded",
    /// A key is where readers look for it.
    Moved = "moved",
    /// The keys of a shard are in order.
    Reordered = "reordered",
    /// `info` says how values are stored.
    InfoCorrected = "info-corrected",
    /// The record of what was lost is set aside.
    LossAccepted = "loss-accepted",
    /// It cannot be mended here, and is as it was.
    Left = "left",
}

impl fmt::Display for RepairKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Repair {
    /// What was done.
    pub kind: RepairKind,
    /// To which object.
    pub object: Option<Key>,
    /// The place of the object in the array's grid of shards.
    pub shard: Option<Vec<u64>>,
    /// The place of the chunk in the array's grid of innermost chunks.
    pub chunk: Option<Vec<u64>>,
    /// The bytes of the object that it concerns.
    pub range: Option<Range<u64>>,
    /// Why, in one sentence.
    pub message: String,
    /// The name under which bytes were kept in the folder for them.
    pub set_aside: Option<String>,
    /// Chunks, or values, that are lost by it: nothing is there to be put in their place. Of an object without an index
    /// as many as it has room for; of values whose keys nobody knows, one.
    pub lost: u64,
    /// Chunks whose place an older index tells: it proves where they belong, not that they are the newest.
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

/// What came of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairSummary {
    /// Things that were mended, or would be, without anything being lost.
    pub mended: u64,
    /// Chunks or values that are lost, by this repair or an earlier one, and have not been written since.
    pub lost: u64,
    /// Chunks that are as an older index had them, and may be old.
    pub unproved: u64,
    /// Of both, what was accepted as it is.
    pub accepted: u64,
    /// Damage that is left as it was.
    pub left: u64,
    /// Bytes that were set aside.
    pub bytes_set_aside: u64,
    /// Things that were done, or left, beyond those that were told one by one.
    pub untold: u64,
    /// The name of the format, if data sets of it are only read, so that all damage is left.
    pub only_read: Option<&'static str>,
}

impl RepairSummary {
    /// Whether nothing is left, lost or unproved.
    pub fn is_ok(&self) -> bool {
        self.left == 0 && self.lost == 0 && self.unproved == 0
    }
}
