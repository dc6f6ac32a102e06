//! Arrays of other implementations are repacked, and read by these and by zarrita.

use std::fs;

use crate::differential;
use crate::servers::npm;
use crate::shell::{Attempt, Cmd, Result, parallelism, root};

/// The folder of zarrita and the script that reads with it.
const FOLDER: &str = ".servers/zarrita";

/// Always the same cases, with the Python environment already in place.
pub fn run() -> Result {
    ensure_zarrita()?;
    let (from, to) = (root().join("peers/zarrita/read.mjs"), root().join(FOLDER).join("read.mjs"));
    fs::copy(from, to).attempt("cannot copy read.mjs")?;
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/repack_check.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .arg("--zarrita")
        .arg(root().join(FOLDER))
        .args(["--cases", "110", "--seed", "1"])
        .args(["--jobs", &parallelism().to_string()])
        .run()
}

/// Installs zarrita, unless it is there.
pub fn ensure_zarrita() -> Result {
    npm("peers/zarrita", FOLDER, "zarrita/package.json")
}
