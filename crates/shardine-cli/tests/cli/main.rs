//! The built program, run as its users run it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod append;
mod attrs;
mod bench;
mod compare;
mod consolidate;
mod convert;
mod convert_ome;
mod convert_volume;
mod copy;
mod create;
mod inspect;
mod interop;
mod limits;
mod links;
mod migrate;
mod ome;
mod ome_box;
#[path = "../../../shardine/tests/common/ome.rs"]
#[allow(dead_code, reason = "shared with the tests of the library")]
mod ome_fixtures;
mod ome_hierarchy;
mod ome_support;
mod parts;
mod places;
mod plan;
mod refusals;
mod region;
mod repair;
mod round_trip;
mod sparse;
mod support;
mod unsupported;
mod value_folders;
mod vectors;
mod verify;
mod volume;
mod zarr_v2;
