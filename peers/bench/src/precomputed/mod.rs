//! Volumes in Neuroglancer's precomputed format: the engine beside other tools, and a floor.
//!
//! A volume of x, y, z in Fortran order has the bytes of one of z, y, x in C order. So everything
//! here has its axes as z, y, x, and the parts of the other benchmarks can be used: what they call
//! C order is a volume's Fortran order, and the other way round.

mod drive;
mod floor;
mod plan;
mod record;
mod report;
mod shardine;

use std::path::Path;

use crate::Result;

pub use floor::VolumeFloor;
pub use shardine::VolumeEngine;

/// Runs one of the parts.
pub fn main(words: &[&str]) -> Result {
    match words {
        ["drive", options @ ..] => drive::main(options),
        ["report", runs, out] => {
            report::write(&record::Record::load(Path::new(runs))?, Path::new(out))
        }
        _ => Err("usage: precomputed drive OPTIONS | report RUNS OUT".into()),
    }
}
