//! Sharded chunk storage.

pub mod zarr;
