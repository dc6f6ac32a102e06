//! Data sets written by the wkw package, read by Shardine.

use crate::shell::{Cmd, Result};
use crate::{differential, venv};

/// Always the same cases. The package is in the environment of the volume tools.
pub fn run() -> Result {
    Cmd::new(venv::ensure_precomputed()?)
        .arg("peers/wkw_check.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .args(["--cases", "90", "--seed", "1"])
        .run()
}
