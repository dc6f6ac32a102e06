//! Zarr Vectors: what zarr-vectors and Shardine write, the other one reads, repacks and checks.

use crate::shell::{Cmd, Result, parallelism};
use crate::{differential, usage, value, venv};

/// What is read, repacked and checked of the stores of zarr-vectors.
const READ: &str = "read,variant,repack,verify,planted,parametric,draco";

/// A few cases, always the same.
pub fn run() -> Result {
    judge(&["--only", READ, "--short"].map(String::from))?;
    judge(&["--only", "write", "--cases", "24"].map(String::from))?;
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
