//! Chunks are repacked: the elements stay, and so do the encoded chunks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod any;
mod batches;
mod beside;
mod chunks;
mod config;
mod exchanged;
mod hierarchies;
mod left;
mod refusals;
mod scene;
mod vectors;
mod writers;
