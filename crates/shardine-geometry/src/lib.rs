//! Geometry in columns: the one model that formats of vector data share.
//!
//! A set of geometry is of one [`GeometryKind`] and consists of *vertices* (a position and
//! attributes each), *links* between them (edges, or faces) and *objects* that vertices belong to.
//! A [`GeometrySchema`] describes the columns, and rows travel in [`GeometryBatch`]es of Arrow
//! arrays, so that a billion points never have to be in memory together, and never are objects of
//! the language.
//!
//! Nothing here touches a file or a store: readers take a [`std::io::Read`] where they need bytes.

pub mod files;
pub mod zarr_vectors;

mod error;
mod model;
mod plot;
mod sort;

pub use error::GeometryError;
pub use model::{
    Axis, GROUP, GeometryBatch, GeometryKind, GeometrySchema, GeometrySink, GeometrySource, Links,
    OBJECT_ID, TableSource,
};
pub use plot::Plot;
pub use sort::{Merge, Sorter, Spool, SpoolFile};
