//! The lower levels of an image: the command line beside a floor and other tools.
//!
//! As in `repack`, everyone runs as a process of its own, from its start until all is on the disk.

mod drive;
mod floor;
mod plan;
mod report;

use std::fs;
use std::path::Path;

use crate::Result;
use crate::runs::Record;

/// Runs one of the parts.
pub fn main(words: &[&str]) -> Result {
    match words {
        ["drive", options @ ..] => drive::main(options),
        ["report", runs, out] => report::write(&Record::load(Path::new(runs))?, Path::new(out)),
        ["floor", job] => {
            let reducing: floor::Reducing = serde_json::from_slice(&fs::read(job)?)?;
            reducing.run()
        }
        _ => Err("usage: pyramid drive OPTIONS | report RUNS OUT | floor JOB".into()),
    }
}
