//! `shardine vectors`: points, lines, graphs and meshes.

pub mod info;
pub mod levels;
mod query;
mod write;

use clap::{Args, Subcommand};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::verify;

const EXAMPLES: &str = "\
Examples:
  shardine vectors info cells.zv
  shardine vectors query cells.zv --box 0:100,0:100,0:50
  shardine vectors query tracts.zv --ids 5,6 --json
  shardine vectors validate cells.zv
  shardine vectors write cells.zv cells.csv --kind points --chunk 100 --shard 8

A store of Zarr Vectors is a Zarr group, so `info`, `ls`, `copy` and `verify` work on it too.";

/// Look at geometry, query it, check it and write it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Vectors {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Info(info::Info),
    Query(query::Query),
    Write(write::Write),
    /// Check a store for damage, as `shardine verify` does
    Validate(verify::Verify),
}

pub fn run(args: &Vectors, machine: &Machine) -> Result<(), Failure> {
    match &args.action {
        Action::Info(args) => info::run(args, machine),
        Action::Query(args) => query::run(args, machine),
        Action::Write(args) => write::run(args, machine),
        Action::Validate(args) => verify::run(args, machine),
    }
}

/// How many vertices, in words.
fn vertices(count: u64) -> String {
    format!("{count} {}", if count == 1 { "vertex" } else { "vertices" })
}
