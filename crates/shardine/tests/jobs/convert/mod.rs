//! Volumes become groups of arrays and vice versa: with the same voxels, and chunks moved wherever
//! possible.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod far;
mod from_arrays;
mod refusals;
mod resume;
mod scene;
mod there_and_back;
