//! Reading and writing arrays and volumes: what is stored, what is asked of the store, what damage and races do.

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod corruption;
mod dataset;
mod files;
mod in_index;
mod in_place;
mod many_regions;
mod plan_sample;
mod precomputed;
mod races;
mod requests;
mod round_trip;
mod slices;
mod typed;
mod volume_objects;
mod wkw;
mod zarr_v2;
