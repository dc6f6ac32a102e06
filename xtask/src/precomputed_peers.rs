//! Precomputed volumes that Shardine and other tools write and read, and what the others lose.

use crate::shell::{Cmd, Result, parallelism};
use crate::{differential, venv};

/// Always the same cases. The tools are large, so they have an environment of their own, made here.
pub fn run() -> Result {
    let python = venv::ensure_precomputed()?;
    Cmd::new(&python)
        .arg("peers/precomputed_check.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .args(["--cases", "210", "--seed", "1"])
        // cloud-volume sleeps most of the time.
        .args(["--jobs", &(2 * parallelism()).to_string()])
        .run()?;
    Cmd::new(&python)
        .arg("peers/precomputed_losses.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .run()
}
