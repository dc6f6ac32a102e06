//! Writers that are killed, and writers that race: what they leave behind must be correct.

use std::path::PathBuf;

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::{test, usage, value, venv};

/// Kills at a step in the run of `cargo xtask test`. Some more come at random times.
const RUNS: u32 = 300;

pub fn main(args: &[String]) -> Result {
    let (mut minutes, mut seed, mut mix) = (10.0f64, 1u64, false);
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--minutes" => minutes = value(option, &mut rest)?,
            "--seed" => seed = value(option, &mut rest)?,
            "--mix" => mix = true,
            _ => return Err(usage(format!("torture does not take \"{option}\""))),
        }
    }
    let python = venv::ensure()?;
    Cmd::cargo("build --release --package shardine-torture --package shardine-cli").run()?;
    if mix {
        let program = target_dir().join("release/shardine-torture");
        let shardine = target_dir().join("release/shardine");
        return run_mix(program, shardine, minutes, seed, python);
    }
    Cmd::new(target_dir().join("release/shardine-torture"))
        .args(["run", "--minutes", &minutes.to_string(), "--seed", &seed.to_string(), "--python"])
        .arg(python)
        .run()
}

/// Everything concurrently with jobs in place.
fn run_mix(
    program: PathBuf,
    shardine: PathBuf,
    minutes: f64,
    seed: u64,
    python: PathBuf,
) -> Result {
    Cmd::new(program)
        .args(["mix", "--minutes", &minutes.to_string(), "--seed", &seed.to_string(), "--shardine"])
        .arg(shardine)
        .arg("--python")
        .arg(python)
        .run()
}

/// A minute of it, with binaries of the same profile as our own.
pub fn short_mix() -> Result {
    test::build()?;
    let python = root().join(".venv/bin/python");
    run_mix(beside_us("shardine-torture")?, beside_us("shardine")?, 1.0, 1, python)
}

/// Always the same kills, with the Python environment already in place.
pub fn short() -> Result {
    test::build()?;
    Cmd::new(beside_us("shardine-torture")?)
        .args(["run", "--runs", &RUNS.to_string(), "--python"])
        .arg(root().join(".venv/bin/python"))
        .run()
}

/// A binary of the same profile as our own.
fn beside_us(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().attempt("cannot tell where xtask itself is")?;
    let binary = this.with_file_name(name);
    if binary.exists() {
        return Ok(binary);
    }
    Err(Failure::new(format!("{} is not there; run `cargo xtask` itself", binary.display())))
}
