//! Whether the chunks of a scale match its `info`: if most of them do not, the `info` is wrong.

use crate::jobs::check::FindingKind;
use crate::jobs::check::keyed::{Fault, Survey};

/// How well the chunks of a scale match its `info`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Agreement {
    /// Chunks whose bytes were checked, or whose position was not in the grid.
    looked: u64,
    /// Chunks of the wrong size.
    sizes: u64,
    /// Chunks that cannot be decoded.
    undecodable: u64,
    /// Chunks outside the grid, which is a different one if `info` has wrong sizes.
    outside: u64,
}

impl Agreement {
    /// For chunks that are single objects.
    pub fn of_objects(looked: u64) -> Self {
        Self { looked, ..Self::default() }
    }

    /// For the chunks of a shard.
    pub fn of(survey: &Survey) -> Self {
        let mut found = Self::default();
        for surveyed in &survey.entries {
            match surveyed.fault.as_deref() {
                None => {}
                Some(Fault::OutsideArray) => found.outside += 1,
                Some(fault)
                    if matches!(fault.kind(), FindingKind::ChunkSize | FindingKind::Chunk) =>
                {
                    found.fail(fault.kind());
                }
                Some(_) => continue,
            }
            found.looked += 1;
        }
        found
    }

    /// Adds the chunks of another shard.
    pub fn add(&mut self, other: Self) {
        self.looked += other.looked;
        self.sizes += other.sizes;
        self.undecodable += other.undecodable;
        self.outside += other.outside;
    }

    /// Counts a checked chunk as a mismatch.
    pub fn fail(&mut self, kind: FindingKind) {
        match kind {
            FindingKind::ChunkSize => self.sizes += 1,
            FindingKind::Chunk => self.undecodable += 1,
            _ => {}
        }
    }

    /// The evidence against `info`, if that is more likely wrong than the chunks.
    pub fn against_info(&self) -> Option<String> {
        let failed = self.sizes + self.undecodable;
        let others = failed + self.outside;
        let most_sizes = self.sizes > 0 && (self.sizes + self.outside) * 2 > self.looked;
        let disagrees = others >= 2 && failed > 0 && (most_sizes || others >= self.looked);
        disagrees.then(|| {
            format!(
                "{others} of {} chunks are not what `info` says, so `info` is probably wrong; \
                 they were left as they are",
                self.looked
            )
        })
    }
}
