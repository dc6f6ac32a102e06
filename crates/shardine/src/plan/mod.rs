//! Recommends how to divide an array into chunks and shards, and shows what follows from it.
//!
//! [`recommend`] applies rules of thumb and accesses no store: everything depends on the
//! [`Situation`] it is given, above all on the encoded size of chunks, which [`sample`] measures.
//! It names the [`Rule`] behind every choice.

mod advice;
mod array_layout;
mod chunk;
mod figures;
mod packing;
mod recommend;
mod rule;
mod sample;
mod shapes;
mod sharding_request;
mod situation;
mod stored_cells;
#[cfg(test)]
mod tests;
mod uint64;
mod value_sizes;
mod vectors;
mod volume_layout;
mod wanted;

pub use advice::{ArrayAdvice, VectorAdvice, VolumeAdvice};
pub(crate) use array_layout::chunk_grid;
pub use array_layout::{ArrayLayout, ArrayLayoutError, FillChoice, LayoutPart};
pub use chunk::chunk_shape;
pub use figures::{Figures, ObjectCount, View};
pub use packing::chunks_per_shard_for;
pub(crate) use packing::chunks_per_shard_in_turn;
pub use recommend::{Action, Recommendation, recommend};
pub use rule::{Choice, Rule};
pub(crate) use sample::sample_of_source;
pub use sample::{Sample, sample};
pub use shapes::{element_bytes, shard_shape};
pub(crate) use sharding_request::{LevelSize, usual_data_encoding};
pub use sharding_request::{ShardingRequest, Unsaid, VolumePacking, chunk_bytes};
pub use situation::{Current, PlanError, Purpose, Situation};
pub use stored_cells::{StoredCells, stored_cells};
pub use uint64::{ShardingPlan, recommended_sharding, sharding_for_box, sharding_for_size};
pub use value_sizes::ValueSizes;
pub(crate) use value_sizes::measure_values;
pub use vectors::{VectorFigures, VectorRecommendation, VectorSituation, recommend_vectors};
pub(crate) use volume_layout::usual_kind;
pub use volume_layout::{VolumeLayout, VolumeLayoutError};
pub use wanted::{DEFAULT_SHARD_BYTES, Packing};
