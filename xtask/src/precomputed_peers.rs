//! Precomputed volumes that Shardine and other tools write and read, and what the others lose.

use crate::shell::{Cmd, Result, parallelism};
use crate::{differential, usage, value, venv};

/// Cases in the test; a longer run is `cargo xtask differential --precomputed`.
const CASES: &str = "90";

/// Always the same cases.
pub fn run() -> Result {
    check(CASES, "1")
}

/// A given number of cases, from a given seed.
pub fn main(args: &[String]) -> Result {
    let (mut cases, mut seed) = ("240".to_owned(), "1".to_owned());
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--precomputed" => {}
            "--cases" => cases = value(option, &mut rest)?,
            "--seed" => seed = value(option, &mut rest)?,
            _ => {
                let reason = format!("differential --precomputed does not take \"{option}\"");
                return Err(usage(reason));
            }
        }
    }
    check(&cases, &seed)
}

/// The tools are large, so they have their own environment, created here.
fn check(cases: &str, seed: &str) -> Result {
    let python = venv::ensure_precomputed()?;
    Cmd::new(&python)
        .arg("peers/precomputed_check.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .args(["--cases", cases, "--seed", seed])
        // cloud-volume sleeps most of the time.
        .args(["--jobs", &(2 * parallelism()).to_string()])
        .run()?;
    Cmd::new(&python)
        .arg("peers/precomputed_losses.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .run()
}
