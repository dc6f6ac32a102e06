//! `shardine vectors`: geometry in chunks of space.

mod write;

use clap::{Args, Subcommand};

use crate::cli::Machine;
use crate::failure::Failure;

/// Write points, lines, graphs, skeletons and meshes as Zarr Vectors
#[derive(Debug, Args)]
pub struct Vectors {
    #[command(subcommand)]
    verb: VectorsVerb,
}

#[derive(Debug, Subcommand)]
enum VectorsVerb {
    Write(write::Write),
}

pub fn run(args: &Vectors, machine: &Machine) -> Result<(), Failure> {
    match &args.verb {
        VectorsVerb::Write(args) => write::run(args, machine),
    }
}
