use serde::{Deserialize, Serialize};

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
    /// So many along each axis in a shard; one number holds for all axes. Ones alone mean no
    /// shards.
    ChunksPerShard(Vec<u64>),
    /// Shards of this shape, in elements.
    Shard(Vec<u64>),
    /// Shards of about so many bytes, by what the chunks of the array take. Where that is only
    /// known once they are packed, of shards in shards and of chunks that are re-encoded, a second
    /// job may find that other shards come nearer.
    TargetSize(u64),
}
