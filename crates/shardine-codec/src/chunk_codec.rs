//! The codec chain of a chunk that is not a shard.
/// Placeholder while the chain is being written.
#[derive(Debug)]
pub struct ChunkCodec;
/// Placeholder while the chain is being written.
#[derive(Debug)]
pub struct Decoded;
