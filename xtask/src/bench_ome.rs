//! The benchmark of converting OME-Zarr: the command line tool compared with a plain copy and other
//! tools.
//!
//! `peers/ome/bench.py` does the work; this prepares what it needs: a release build of the command
//! line tool, two Python environments, the folders.

use std::path::PathBuf;

use crate::shell::{Cmd, Result, root, target_dir};
use crate::{usage, value, venv};

pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let mut out: Option<String> = None;
    let mut small = false;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--ome" => {}
            "--out" => out = Some(value(option, &mut rest)?),
            "--rounds" => passed.extend([option.clone(), value(option, &mut rest)?]),
            "--size" => {
                let size: String = value(option, &mut rest)?;
                small |= size != "full";
                passed.extend([option.clone(), size]);
            }
            _ => return Err(usage(format!("bench --ome does not take \"{option}\""))),
        }
    }
    let out = match out {
        // Relative to the caller's working directory.
        Some(out) => std::path::absolute(&out).unwrap_or_else(|_| PathBuf::from(out)),
        // Only a full run is worth keeping in the repository.
        None if small => target_dir().join("bench/report"),
        None => root().join("docs/bench"),
    };
    let (python, challenge) = (venv::ensure_ome()?, venv::ensure_challenge()?);
    Cmd::cargo("build --release -p shardine-cli").run()?;
    Cmd::new(python)
        .arg(root().join("peers/ome/bench.py"))
        .arg("--shardine")
        .arg(target_dir().join("release/shardine"))
        .arg("--challenge")
        .arg(challenge.with_file_name("ome2024-ngff-challenge"))
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(out)
        .args(passed)
        .run()
}
