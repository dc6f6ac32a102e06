//! The benchmark of the Python package: the workloads of the benchmark, from Python.

use std::fs;

use crate::bench::out_folder;
use crate::shell::{Attempt, Cmd, Result, root, shared_target_dir, target_dir};
use crate::{usage, value, venv};

/// All from Python but the engine itself, whose figures stand beside.
const PEERS: &str = "shardine,shardine-python,tensorstore,zarr-python+zarrs,zarr-python";

/// The rows that all of them run in.
const WORKLOADS: &str = "W1,W2,W2b,W2F,W3,W4,W4b,W5,W6,W7";

pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let (mut out, mut quick) = (None, false);
    let mut only = WORKLOADS.to_owned();
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--python" => {}
            "--quick" => quick = true,
            "--out" => out = Some(value(option, &mut rest)?),
            "--only" => only = value(option, &mut rest)?,
            "--codec" | "--repeats" | "--min-seconds" => {
                passed.extend([option.clone(), value(option, &mut rest)?]);
            }
            _ => return Err(usage(format!("bench --python does not take \"{option}\""))),
        }
    }
    if !passed.iter().any(|word| word == "--codec") {
        passed.extend(["--codec".to_owned(), "zstd,lz4,none".to_owned()]);
    }
    let partial = quick || only != WORKLOADS;
    let out = out_folder(out, partial);
    fs::create_dir_all(&out).attempt(format_args!("cannot make {}", out.display()))?;
    let python = venv::ensure_bench()?;
    install(&python)?;
    Cmd::cargo("build --release --manifest-path peers/bench/Cargo.toml").run()?;
    let target = shared_target_dir().unwrap_or_else(|| root().join("peers/bench/target"));
    let mut drive = Cmd::new(target.join("release/shardine-bench")).arg("drive");
    if quick {
        drive = drive.arg("--quick");
    }
    drive
        .arg("--python")
        .arg(&python)
        .arg("--worker")
        .arg(root().join("peers/bench/worker.py"))
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(&out)
        .args(["--peers", PEERS, "--only", &only, "--runs", "python-runs.json"])
        .args(passed)
        .run()?;
    Cmd::new(&python)
        .arg(root().join("peers/bench/python_report.py"))
        .arg(out.join("python-runs.json"))
        .arg(out.join("python.md"))
        .arg("--command")
        .arg(format!("cargo xtask bench {}", args.join(" ")))
        .run()
}

/// Installs the package as a user would, built with optimisations.
fn install(python: &std::path::Path) -> Result {
    Cmd::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--force-reinstall", "--no-deps"])
        .arg(root().join("crates/shardine-python"))
        .run()
}
