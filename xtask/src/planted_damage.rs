//! Deliberate damage to arrays of other implementations: `verify` must find it, and nothing else.

use crate::differential;
use crate::shell::{Cmd, Result, parallelism, root};

/// Plants damage and verifies, with the Python implementations and the binary already in place.
pub fn run() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/planted_damage.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .args(["--jobs", &parallelism().to_string()])
        .run()
}
