//! Jobs on whole data sets: they lose nothing, resume, and refuse what would not be safe.

#[path = "../common/mod.rs"]
mod common;

mod compare;
mod convert;
mod copy;
mod copy_refusals;
mod copy_resume;
mod copy_volume;
mod copy_wkw;
mod losses;
mod migrate;
mod migrate_kills;
mod parts;
mod pyramid;
mod repack;
mod repack_renames;
mod repack_volume;
mod repair;
mod repair_ome;
mod repair_volume;
mod unfinished;
mod verify;
mod verify_nodes;
mod verify_ome;
mod verify_parts;
mod verify_volume;
