//! A disk that fails once, at each call that a verb makes to it, whether it reads or changes
//! something.
//!
//! Each verb is run once to count its calls, then once for each of them, which fails with EIO.
//! Either the verb reports the failure and the data is in its old or its new state, or the verb
//! succeeds and everything is as without the fault. Running the same command again then succeeds.
//! If there are many calls only some are tried, unless SHARDINE_EVERY_FAULT is set.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod ome_metadata;
mod ome_verbs;
mod pyramid_verbs;
mod vector_checks;
mod vector_levels;
mod vector_verbs;
mod verbs;
mod volume_verbs;

use disk::try_all;

#[test]
fn a_fault_while_arrays_are_looked_at_is_told() {
    try_all(&verbs::looking());
}

#[test]
fn a_fault_in_a_write_is_told_and_loses_nothing() {
    try_all(&verbs::writing());
}

#[test]
fn a_fault_in_a_job_on_arrays_is_told_and_loses_nothing() {
    try_all(&verbs::jobs());
}

#[test]
fn a_fault_in_repacking_is_told_and_loses_nothing() {
    try_all(&verbs::repacking());
}

#[test]
fn a_fault_with_volumes_is_told_and_loses_nothing() {
    try_all(&volume_verbs::all());
}

#[test]
fn a_fault_in_a_conversion_to_ome_zarr_is_told_and_loses_nothing() {
    try_all(&ome_verbs::conversions());
}

#[test]
fn a_fault_in_a_pyramid_is_told_and_loses_nothing() {
    disk::try_all(&pyramid_verbs::pyramids());
}

#[test]
fn a_fault_with_metadata_of_ome_zarr_is_told_and_loses_nothing() {
    try_all(&ome_metadata::ome());
}

#[test]
fn a_fault_while_geometry_is_written_is_told_and_never_leaves_a_store_without_some_rows() {
    try_all(&vector_verbs::all());
}

#[test]
fn a_fault_with_a_store_of_vectors_is_told_and_loses_nothing() {
    try_all(&vector_checks::vectors());
}

#[test]
fn a_fault_in_levels_of_geometry_is_told_and_loses_nothing() {
    try_all(&vector_levels::vectors());
}
