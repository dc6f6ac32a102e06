//! Stores of Zarr Vectors: what zarr-vectors wrote is read as it was given, damage is named, and no
//! more is read than a query needs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod beside;
mod damage;
mod golden;
mod kinds;
mod lists;
mod queries;
mod requests;
mod rules;
