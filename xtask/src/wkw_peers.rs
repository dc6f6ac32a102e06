//! Data sets that the wkw package writes, read by Shardine.

use crate::shell::{Cmd, Result};
use crate::{differential, venv};

/// Always the same cases. The package is in the environment of the tools for volumes.
pub fn run() -> Result {
    Cmd::new(venv::ensure_precomputed()?)
        .arg("peers/wkw_check.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .args(["--cases", "90", "--seed", "1"])
        .run()
}
