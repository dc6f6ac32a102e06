//! Whether the chunks of a scale are what `info` says: if most of them are not, it is `info` that is wrong.

use crate::jobs::check::FindingKind;
use crate::jobs::check::keyed::{Fault, Survey};

/// How the chunks of a scale agree with its `info`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Agreement {
    /// Chunks whose bytes were looked at, or whose place was not in the grid.
    looked: u64,
    /// Chunks of other sizes than they should have.
    sizes: u64,
    /// Chunks that cannot be decoded.
    undecodable: u64,
    /// Chunks outside the grid, which is another one if `info` has wrong sizes.
    outside: u64,
}

impl Agreement {
    /// Of chunks that are objects.
    pub fn of_objects(looked: u64) -> Self {
        Self { looked, ..Self::default() }
    }

    /// Of the chunks of a shard.
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

    /// With the chunks of another shard.
    pub fn add(&mut self, other: Self) {
        self.looked += other.looked;
        self.sizes += other.sizes;
        self.undecodable += other.undecodable;
        self.outside += other.outside;
    }

    /// Counts a chunk that was looked at as one that is not what it should be.
    pub fn fail(&mut self, kind: FindingKind) {
        match kind {
            FindingKind::ChunkSize => self.sizes += 1,
            FindingKind::Chunk => self.undecodable += 1,
            _ => {}
        }
    }

    /// What speaks against `info`, if it is rather that than the chunks.
    pub fn against_info(&self) -> Option<String> {
        let failed = self.sizes + self.undecodable;
        let others = failed + self.outside;
        let most_sizes = self.sizes > 0 && (self.sizes + self.outside) * 2 > self.looked;
        let disagrees = others >= 2 && failed > 0 && (most_sizes || others >= self.looked);
        disagrees.then(|| {
            format!(
                "{others} of {} chunks are not what `info` says, so it is probably wrong itself; nothing was done about them",
                self.looked
            )
        })
    }
}
