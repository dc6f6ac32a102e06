//! The codecs against their promises: round trips, damage, limits, configurations, and the bytes
//! that numcodecs writes.

// What helps a test may panic as the test itself does.
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
