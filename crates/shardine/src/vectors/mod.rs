//! Zarr Vectors: points, lines, graphs, skeletons and meshes in the cells of Zarr arrays.
//!
//! A store is a Zarr v3 group with the attribute `zarr_vectors`. It stays one for everything that
//! works on groups; [`VectorStore`] is how its geometry is seen. The bytes of cells and the
//! attributes are in `shardine_geometry::zarr_vectors`; all reading goes through [`Array`].
//!
//! ```no_run
//! use shardine::vectors::{GeometrySource, VectorQuery, VectorStore};
//!
//! let store = VectorStore::open("cells.zv")?;
//! let near = VectorQuery::new().bounds([0.0, 0.0, 0.0], [100.0, 100.0, 100.0]);
//! let mut rows = store.query(&near)?;
//! while let Some(batch) = rows.next_batch()? {
//!     println!("{} points", batch.vertices.num_rows());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Array`]: crate::Array

mod attributes;
mod batch;
mod by_cell;
mod by_object;
mod cells;
mod error;
mod grid_array;
mod groups;
mod info;
mod level;
mod links;
mod manifests;
mod objects;
mod parametric;
mod probe;
mod query;
mod row_map;
mod store;
mod told;
mod whole_level;

pub use error::VectorsError;
pub(crate) use grid_array::within_shard;
pub use info::{AttributeInfo, LevelInfo, VectorInfo};
pub(crate) use level::ValueType;
pub(crate) use manifests::Manifests;
pub use query::{AttributeFilter, Comparison, VectorQuery, VectorRows};
pub use shardine_geometry::{
    Axis, GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySink, GeometrySource,
    Links, OBJECT_ID,
};
pub use store::VectorStore;
pub use told::AbsentChunk;
pub(crate) use whole_level::{ChunkVertices, WholeLevel};
