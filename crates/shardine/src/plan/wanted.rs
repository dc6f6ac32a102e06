use serde::{Deserialize, Serialize};

/// The size of shards that are asked for without any other word, in bytes.
pub const DEFAULT_SHARD_BYTES: u64 = 64 << 20;

/// How chunks are packed into objects.
///
/// ```
/// use shardine::Packing;
/// let packing = Packing::ChunksPerShard(vec![8]);
/// assert_eq!(serde_json::to_string(&packing)?, r#"{"chunks_per_shard":[8]}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Packing {
    /// As they are.
    #[default]
    Keep,
    /// Each is an object of its own.
    Unsharded,
    /// This many along each axis in a shard; a single number holds for all axes. All ones means no
    /// shards.
    ChunksPerShard(Vec<u64>),
    /// Shards of this shape, in elements.
    Shard(Vec<u64>),
    /// Shards of about this many bytes, based on the encoded size of the array's chunks. Where that
    /// is only known after packing (nested shards, re-encoded chunks), a second job may find that
    /// other shards come closer.
    TargetSize(u64),
}
