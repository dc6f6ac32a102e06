//! Zarr arrays and groups.

pub mod metadata;
