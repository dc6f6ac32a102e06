use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::jobs::RepackOutcome;
use crate::jobs::frame::Part;
use crate::jobs::rebuild::{Counts, OutOptions};
use crate::jobs::repack::RepackCheck;
use crate::plan::{ShardingRequest, ValueSizes};
use crate::shard::uint64::Sharding;

/// How to repack the scales of a volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepackVolumeOptions {
    /// How each scale is to be sharded.
    pub sharding: ShardingRequest,
    /// The only scale that changes; `None` for all.
    pub level: Option<usize>,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Abandon what an earlier job has left unfinished.
    pub restart: bool,
    /// Nobody else uses the volume while it is replaced in place: for file systems without reliable
    /// locks.
    pub exclusive: bool,
    /// How long to wait for others to finish before it is replaced in place; `None` means half a
    /// minute.
    pub wait: Option<Duration>,
    /// Compare everything that was moved with its source.
    pub check: bool,
    /// With a target: assume that the process writing it is dead, where that cannot be checked.
    pub take_over: bool,
    /// With a target: the part of the work this process does; `None` for all of it.
    pub part: Option<Part>,
}

impl RepackVolumeOptions {
    /// Shards all scales like this, and checks the result. An `Option<Sharding>` is one sharding
    /// for all, or no shards.
    pub fn new(sharding: impl Into<ShardingRequest>) -> Self {
        Self {
            sharding: sharding.into(),
            level: None,
            dry_run: false,
            restart: false,
            exclusive: false,
            wait: None,
            check: true,
            take_over: false,
            part: None,
        }
    }

    /// The options for writing to another location.
    pub(in crate::jobs) fn out(&self) -> OutOptions {
        OutOptions {
            restart: self.restart,
            take_over: self.take_over,
            part: self.part,
            check: Some(if self.check { RepackCheck::Bytes } else { RepackCheck::None }),
            ..OutOptions::default()
        }
    }
}

/// What was done to a scale.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepackedScale {
    /// Its number.
    pub level: usize,
    /// Its key.
    pub key: String,
    /// How it is sharded now; `None` if it is not.
    pub sharding: Option<Sharding>,
    /// The measurement that decided the data encoding, if it was not given.
    pub measured: Option<ValueSizes>,
    /// What happened to it.
    pub outcome: RepackOutcome,
    /// Chunks moved unchanged.
    pub chunks_moved: u64,
    /// Chunks compressed or decompressed.
    pub chunks_recompressed: u64,
    /// Objects written.
    pub objects_written: u64,
    /// Objects an earlier run had written.
    pub objects_kept: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl RepackedScale {
    pub(super) fn new(
        level: usize,
        key: &str,
        sharding: Option<Sharding>,
        outcome: RepackOutcome,
    ) -> Self {
        Self {
            level,
            key: key.to_owned(),
            sharding,
            measured: None,
            outcome,
            chunks_moved: 0,
            chunks_recompressed: 0,
            objects_written: 0,
            objects_kept: 0,
            bytes_written: 0,
        }
    }

    pub(super) fn add(&mut self, counts: &Counts) {
        self.chunks_moved += counts.moved;
        self.chunks_recompressed += counts.recompressed;
        self.objects_written += counts.written;
        self.objects_kept += counts.kept;
        self.bytes_written += counts.bytes;
    }
}
