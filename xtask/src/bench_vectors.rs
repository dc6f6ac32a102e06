//! The benchmark of Zarr Vectors: the command line tool compared with zarr-vectors, or alone on up to
//! `--points N`.
//!
//! `peers/vectors/bench.py` does the work; this prepares what it needs: a release build of the
//! command line tool, the Python environment, the folders.

use std::path::PathBuf;

use crate::shell::{Cmd, Result, root, target_dir};
use crate::{usage, value, venv};

pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let mut out: Option<String> = None;
    let mut partial = false;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--vectors" => {}
            "--out" => out = Some(value(option, &mut rest)?),
            "--rounds" | "--limit" | "--points" | "--compared" => {
                let number: u64 = value(option, &mut rest)?;
                // A trial with few points.
                partial |= option == "--compared" || option == "--points" && number < 1_000_000;
                passed.extend([option.clone(), number.to_string()]);
            }
            "--only" => {
                partial = true;
                passed.extend([option.clone(), value(option, &mut rest)?]);
            }
            _ => return Err(usage(format!("bench --vectors does not take \"{option}\""))),
        }
    }
    let out = match out {
        // Relative to the caller's working directory.
        Some(out) => std::path::absolute(&out).unwrap_or_else(|_| PathBuf::from(out)),
        // Only a full run is worth keeping in the repository.
        None if partial => target_dir().join("bench/report"),
        None => root().join("docs/bench"),
    };
    let python = venv::ensure_vectors()?;
    Cmd::cargo("build --release -p shardine-cli").run()?;
    Cmd::new(python)
        .args(["peers/vectors/bench.py", "drive", "--shardine"])
        .arg(target_dir().join("release/shardine"))
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(out)
        .args(passed)
        .run()
}
