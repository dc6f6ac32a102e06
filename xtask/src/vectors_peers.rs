//! Zarr Vectors: what zarr-vectors and Shardine write, the other one reads, repacks and checks.

use crate::shell::{Cmd, Result, parallelism};
use crate::{differential, usage, value, venv};

/// What is read, repacked and checked of the stores of zarr-vectors. The judge also has variants of
/// stores, planted damage, parametric objects and skeletons that were streamed; those need rules of
/// vectors in `verify`, and answers that are not there yet.
const READ: &str = "read,repack,verify,points,points-objects,points-bins,points-attribute,\
                    points-both,lines,polylines,streamlines,graph,graph-objects,skeleton,mesh,\
                    mesh-objects";

/// What zarr-vectors reads of stores that are written here. Lines are left out, whose other columns
/// the judge takes for attributes of objects, and graphs whose rows are not sorted by object.
const WRITTEN: &str = "write,points,points-objects,points-bins,polylines,streamlines,graph,\
                       skeleton,mesh,mesh-objects,swc";

/// A few cases, always the same.
pub fn run() -> Result {
    judge(&["--only", READ, "--short"].map(String::from))?;
    judge(&["--only", WRITTEN, "--cases", "20"].map(String::from))?;
    // Each kind that has coarser levels, against those of zarr-vectors.
    judge(&["--only", "pyramid", "--short"].map(String::from))
}

/// `cargo xtask vectors-peers`: as many cases as are asked for.
pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--cases" | "--seed" | "--case" | "--jobs" => {
                let number: u64 = value(option, &mut rest)?;
                passed.extend([option.clone(), number.to_string()]);
            }
            "--only" => passed.extend([option.clone(), value(option, &mut rest)?]),
            "--keep" | "--list" => passed.push(option.clone()),
            _ => return Err(usage(format!("vectors-peers does not take \"{option}\""))),
        }
    }
    differential::build_cli()?;
    judge(&passed)
}

fn judge(options: &[String]) -> Result {
    Cmd::new(venv::ensure_vectors()?)
        .arg("peers/vectors_check.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .args(["--jobs", &parallelism().to_string()])
        .args(options)
        .run()
}
