//! The rules that a recommendation follows.

/// What decided a choice. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// The caller chose the chunk shape.
    ChunkGiven,
    /// The chunk size is fine, so chunks are moved and not re-encoded.
    ChunkKept,
    /// The chunks are so small that finding them costs more than reading them.
    ChunkTooSmall,
    /// The chunks are so large that small reads fetch far too much.
    ChunkTooLarge,
    /// About 64^3 elements, in a plane 512^2, at most 4 MiB.
    Chunk64,
    /// The whole array is one chunk.
    OneChunk,
    /// A chunk alone is as large as a shard should be.
    LargeChunks,
    /// Writers of one shard wait for each other; those of different chunks do not.
    ParallelWriters,
    /// A local disk handles up to a million chunks easily.
    FewLocalChunks,
    /// The shard size is fine.
    ShardKept,
    /// 8 chunks per axis, the default for serving.
    EightPerAxis,
    /// As many chunks as get close to a size, from 10 to 100 MB.
    TargetSize,
    /// The whole array fits into one shard of that size.
    WholeArray,
    /// As many chunks as an index of 512 KiB can find.
    IndexLimit,
    /// As many chunks as fit into 1 GiB before compression, which some writers hold in memory.
    MemoryLimit,
    /// An index at the start, with a checksum, can be switched in one write.
    IndexStart,
    /// An index at the end is the default that every reader knows.
    IndexEnd,
    /// The index stays where it is.
    IndexKept,
    /// Chunks of space have so few vertices that finding them costs more than reading them.
    FewVertices,
    /// Chunks of space have so many vertices that small boxes read far too much.
    ManyVertices,
    /// Chunks of space need not be divided into bins.
    NoBins,
    /// Chunks of space have so many vertices that bins help to skip most of them.
    BinDivides,
    /// The bins are fine.
    BinKept,
    /// The bins have so few vertices that they cost more than they save.
    BinTooSmall,
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
            Self::FewVertices => "few-vertices",
            Self::ManyVertices => "many-vertices",
            Self::NoBins => "no-bins",
            Self::BinDivides => "bin-divides",
            Self::BinKept => "bin-kept",
            Self::BinTooSmall => "bin-too-small",
        }
    }
}

/// A choice, and what decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Which rule.
    pub rule: Rule,
    /// The reason for display, with the numbers involved: one line.
    pub reason: String,
}

impl Choice {
    pub(super) fn new(rule: Rule, reason: impl Into<String>) -> Self {
        Self { rule, reason: reason.into() }
    }
}
