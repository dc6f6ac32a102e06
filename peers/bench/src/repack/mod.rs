//! Packing chunks in another way: the command line beside a plain copy, other tools, and for
//! encoding anew a floor.
//!
//! Everyone runs as a process of its own, from its start until all is on the disk. The driver stays
//! small; what takes memory here (data, checks) is done by processes too.

mod drive;
mod floor;
mod options;
mod plan;
pub mod report;

use std::fs;
use std::path::Path;

use crate::Result;
use crate::block::Triple;
use crate::chunks;
use crate::runs::Record;

/// Runs one of the parts.
pub fn main(words: &[&str]) -> Result {
    match words {
        ["drive", options @ ..] => drive::main(options),
        ["report", runs, out] => {
            report::write(&Record::load(Path::new(runs))?, Path::new(out))
        }
        ["volume", path, shape] => volume(Path::new(path), shape),
        ["compare", one, other] => chunks::compare(Path::new(one), Path::new(other)),
        ["floor", job] => {
            let recoding: floor::Recoding = serde_json::from_slice(&fs::read(job)?)?;
            recoding.run()
        }
        _ => Err("usage: repack drive OPTIONS | report RUNS OUT | volume FILE SHAPE | compare ARRAY ARRAY | floor JOB".into()),
    }
}

/// Makes the image that all arrays hold.
pub fn volume(path: &Path, shape: &str) -> Result {
    let shape: Vec<u64> =
        shape.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
    let shape: Triple = shape.try_into().map_err(|_| "a volume has three axes")?;
    let unfinished = path.with_extension("unfinished");
    crate::volume::image(&unfinished, shape)?;
    Ok(fs::rename(unfinished, path)?)
}
