//! What a power failure, or a full or broken disk, leaves of shards that were being changed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod disk;
mod failures;
mod faults;
mod journals;
mod large;
mod readers;
mod scene;
