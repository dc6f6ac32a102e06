//! Data sets become others of another format: with the same voxels, and chunks moved wherever
//! possible.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod far;
mod from_arrays;
mod ome_beside;
mod ome_levels;
mod ome_resume;
pub mod ome_scene;
mod ome_sources;
mod ome_versions;
mod positions;
mod refusals;
mod resume;
mod scene;
mod there_and_back;
mod zarr2;
