//! Jobs of the command line that are killed at random moments: the data is whole at each of them,
//! and the same command finishes what was begun.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod convert;
mod migrate;
#[path = "../../../shardine/tests/common/ome.rs"]
#[allow(dead_code, reason = "shared with the tests of the library")]
mod ome;
mod plate;
mod program;
mod pyramid;
mod repack;
#[path = "../../../shardine/tests/common/trees.rs"]
#[allow(dead_code, reason = "shared with the tests of the library")]
mod trees;
mod vectors;
mod vectors_pyramid;
