//! The codecs against their promises: round trips, damage, limits, configurations, and the bytes
//! that numcodecs writes.

// Test support may panic like a test itself.
#![allow(clippy::unwrap_used, clippy::panic)]

mod arrays;
mod blosc_snappy;
mod configuration;
mod damage;
mod golden;
mod neuroglancer;
mod round_trip;
mod streams;
mod support;
