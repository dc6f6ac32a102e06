//! Files of geometry that Shardine and other programs write and read.

use crate::shell::{Cmd, Result, target_dir};
use crate::{test, venv};

/// Builds the example that converts files, and lets the other programs judge it.
pub fn run() -> Result {
    let python = venv::ensure_geometry()?;
    test::build_example("geometry_files")?;
    Cmd::new(python)
        .arg("peers/geometry_files_check.py")
        .arg("--driver")
        .arg(target_dir().join("debug/examples/geometry_files"))
        .run()
}
