//! The benchmark on a remote store: the engine compared with other Zarr implementations on an S3
//! server that is far away.
//!
//! The crate in `peers/bench-remote`, a workspace of its own, does the work; this prepares what it
//! needs: the server, the Python environment, the build, the folders.

use std::path::PathBuf;

use crate::shell::{Cmd, Result, root, shared_target_dir, target_dir};
use crate::{usage, value, venv};

pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let mut out: Option<String> = None;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--remote" => {}
            "--quick" => passed.push(option.clone()),
            "--out" => out = Some(value(option, &mut rest)?),
            "--only" | "--peers" | "--repeats" | "--latency-ms" => {
                passed.extend([option.clone(), value(option, &mut rest)?]);
            }
            _ => return Err(usage(format!("bench --remote does not take \"{option}\""))),
        }
    }
    let out = match out {
        // Relative to the caller's working directory.
        Some(out) => std::path::absolute(&out).unwrap_or_else(|_| PathBuf::from(out)),
        // Only a full run is worth keeping in the repository.
        None if !passed.is_empty() => target_dir().join("bench/report"),
        None => root().join("docs/bench"),
    };
    venv::ensure_servers()?;
    let python = venv::ensure_bench_remote()?;
    Cmd::cargo("build --release --manifest-path peers/bench-remote/Cargo.toml").run()?;
    let target = shared_target_dir().unwrap_or_else(|| root().join("peers/bench-remote/target"));
    Cmd::new(target.join("release/shardine-bench-remote"))
        .arg("drive")
        .arg("--python")
        .arg(python)
        .arg("--worker")
        .arg(root().join("peers/bench-remote/worker.py"))
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(out)
        .args(passed)
        .run()
}
