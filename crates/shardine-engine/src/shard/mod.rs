//! Shards as pure bytes: where the chunks lie, and how the index records it.

mod gaps;
mod index;
mod order;
mod scan;
pub mod uint64;
pub mod wkw;

pub use gaps::Gaps;
pub use index::{IndexLocation, MAX_CHUNKS_PER_SHARD, ShardError, ShardIndex};
pub use order::WriteOrder;
pub use order::morton_order;
pub use scan::ChecksumScan;
