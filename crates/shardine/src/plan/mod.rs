//! How an array is best cut into chunks and shards, and what follows from it.
//!
//! [`recommend`] knows rules of thumb and no store: what it is told of an array ([`Situation`]) decides, above all what chunks
//! of it take when they are encoded, which [`sample`] measures. It says of every choice which [`Rule`] made it.

mod chunk;
mod figures;
mod packing;
mod recommend;
mod rule;
mod sample;
mod sharding_request;
mod situation;
#[cfg(test)]
mod tests;
mod uint64;
mod wanted;

pub use chunk::chunk_shape;
pub use figures::{Figures, View};
pub use packing::chunks_per_shard_for;
pub use recommend::{Action, Recommendation, recommend};
pub use rule::{Choice, Rule};
pub use sample::{Sample, sample};
pub(crate) use sharding_request::{LevelSize, usual_data_encoding};
pub use sharding_request::{ShardingRequest, Unsaid, VolumePacking, chunk_bytes};
pub use situation::{Current, PlanError, Purpose, Situation};
pub use uint64::{ShardingPlan, recommended_sharding, sharding_for_box, sharding_for_size};
pub use wanted::Packing;
