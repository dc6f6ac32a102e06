use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::RepackOutcome;
use crate::jobs::rebuild::Counts;
use crate::precomputed::{Scale, VolumeInfo};
use crate::shard::uint64::Sharding;

/// How a scale is to be sharded, given the volume and the scale; `None` makes every chunk an object.
pub type ShardingChoice =
    Arc<dyn Fn(&VolumeInfo, &Scale) -> Result<Option<Sharding>, String> + Send + Sync>;

/// How to pack the scales of a volume anew.
#[derive(Clone)]
#[non_exhaustive]
pub struct RepackVolumeOptions {
    /// How each scale is to be sharded.
    pub sharding: ShardingChoice,
    /// The only scale that changes; `None` for all.
    pub level: Option<usize>,
    /// Only tell what would be done.
    pub dry_run: bool,
    /// Give up what an earlier job has left unfinished.
    pub restart: bool,
    /// Nobody else uses the volume while it is replaced in place: for file systems without locks to rely on.
    pub exclusive: bool,
    /// How long others may take to be done before it is replaced in place; `None` is half a minute.
    pub wait: Option<Duration>,
    /// Compare all that was moved with what it was.
    pub check: bool,
}

impl RepackVolumeOptions {
    /// All scales sharded as this function says, checked.
    pub fn new(
        sharding: impl Fn(&VolumeInfo, &Scale) -> Result<Option<Sharding>, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            sharding: Arc::new(sharding),
            level: None,
            dry_run: false,
            restart: false,
            exclusive: false,
            wait: None,
            check: true,
        }
    }
}

impl fmt::Debug for RepackVolumeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepackVolumeOptions")
            .field("level", &self.level)
            .field("dry_run", &self.dry_run)
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// What became of a scale.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepackedScale {
    /// Its number.
    pub level: usize,
    /// Its key.
    pub key: String,
    /// How it is sharded now; `None` if it is not.
    pub sharding: Option<Sharding>,
    /// What was done.
    pub outcome: RepackOutcome,
    /// Chunks that were moved as they were.
    pub chunks_moved: u64,
    /// Chunks that were compressed or decompressed.
    pub chunks_recompressed: u64,
    /// Objects that were written.
    pub objects_written: u64,
    /// Objects that an earlier run had written.
    pub objects_kept: u64,
    /// Bytes that were written.
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
