//! The rules that a recommendation follows.

/// What decided a choice. The names are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Somebody has decided on the chunk.
    ChunkGiven,
    /// The chunks are of a size that needs no change: they are moved and not encoded anew.
    ChunkKept,
    /// The chunks are so small that finding them costs more than reading them.
    ChunkTooSmall,
    /// The chunks are so large that little can be read without much.
    ChunkTooLarge,
    /// About 64^3 elements, in a plane 512^2, at most 4 MiB.
    Chunk64,
    /// The whole array is one chunk.
    OneChunk,
    /// A chunk alone is as large as a shard should be.
    LargeChunks,
    /// Writers of one shard wait for each other; those of different chunks do not.
    ParallelWriters,
    /// A local disk holds up to a million chunks without trouble.
    FewLocalChunks,
    /// The shards are of a size that needs no change.
    ShardKept,
    /// 8 chunks per axis, the default for serving.
    EightPerAxis,
    /// As many chunks as come near a size, from 10 to 100 MB.
    TargetSize,
    /// All of the array in one shard is still no more than that.
    WholeArray,
    /// As many chunks as an index of 512 KiB can find.
    IndexLimit,
    /// As many chunks as are 1 GiB before compression, which some writers hold in memory.
    MemoryLimit,
    /// An index at the start, with a checksum, can be switched in one write.
    IndexStart,
    /// An index at the end is the default that every reader knows.
    IndexEnd,
    /// The index stays where it is.
    IndexKept,
}

impl Rule {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChunkGiven => "chunk-given",
            Self::ChunkKept => "chunk-kept",
            Self::ChunkTooSmall => "chunk-too-small",
            Self::ChunkTooLarge => "chunk-too-large",
            Self::Chunk64 => "chunk-64",
            Self::OneChunk => "one-chunk",
            Self::LargeChunks => "large-chunks",
            Self::ParallelWriters => "parallel-writers",
            Self::FewLocalChunks => "few-local-chunks",
            Self::ShardKept => "shard-kept",
            Self::EightPerAxis => "eight-per-axis",
            Self::TargetSize => "target-size",
            Self::WholeArray => "whole-array",
            Self::IndexLimit => "index-limit",
            Self::MemoryLimit => "memory-limit",
            Self::IndexStart => "index-start",
            Self::IndexEnd => "index-end",
            Self::IndexKept => "index-kept",
        }
    }
}

/// A choice, told by what decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Which rule.
    pub rule: Rule,
    /// The same for people, with the numbers that it was about: one line.
    pub reason: String,
}

impl Choice {
    pub(super) fn new(rule: Rule, reason: impl Into<String>) -> Self {
        Self { rule, reason: reason.into() }
    }
}
