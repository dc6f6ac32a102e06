//! Object stores: real servers, a network that fails, several processes.

#[path = "../common/mod.rs"]
mod common;

mod far_jobs;
mod remote;
mod remote_duel;
mod remote_encodings;
mod remote_parts;
mod remote_race;
mod vectors;
