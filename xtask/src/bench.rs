//! The benchmark: the engine beside other Zarr implementations and a floor.
//!
//! The work is done by the crate in `peers/bench`, a workspace of its own; here its parts are put in
//! place: the Python environment, the build, the folders.

use std::path::PathBuf;

use crate::shell::{Cmd, Result, root, shared_target_dir, target_dir};
use crate::{usage, value, venv};

/// The version of the runner must be that of the library in `peers/bench-instructions`.
const GUNGRAUN: &str = "0.20.0";

pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let mut out: Option<String> = None;
    let mut quick = false;
    let mut instructions = false;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--instructions" => instructions = true,
            "--quick" => quick = true,
            "--out" => out = Some(value(option, &mut rest)?),
            "--syscalls" => passed.push(option.clone()),
            "--only" | "--codec" | "--peers" | "--repeats" | "--min-seconds" => {
                passed.extend([option.clone(), value(option, &mut rest)?]);
            }
            _ => return Err(usage(format!("bench does not take \"{option}\""))),
        }
    }
    if instructions {
        return count_instructions();
    }
    let partial = quick || !passed.is_empty();
    let out = match out {
        // The caller's own folder counts from where the caller stands.
        Some(out) => std::path::absolute(&out).unwrap_or_else(|_| PathBuf::from(out)),
        // Only a full run is worth keeping in the repository.
        None if partial => target_dir().join("bench/report"),
        None => root().join("docs/bench"),
    };
    let python = venv::ensure_bench()?;
    Cmd::cargo("build --release --manifest-path peers/bench/Cargo.toml").run()?;
    let target = shared_target_dir().unwrap_or_else(|| root().join("peers/bench/target"));
    let mut drive = Cmd::new(target.join("release/shardine-bench")).arg("drive");
    if quick {
        drive = drive.arg("--quick");
    }
    drive
        .arg("--python")
        .arg(python)
        .arg("--worker")
        .arg(root().join("peers/bench/worker.py"))
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(out)
        .args(passed)
        .run()
}

/// Counts the instructions of hot paths under valgrind: the same on a busy machine as on a quiet one.
fn count_instructions() -> Result {
    let tools = target_dir().join("tools");
    let runner = tools.join("bin/gungraun-runner");
    let installed = Cmd::new(&runner).arg("--version").output();
    let wanted = installed.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(GUNGRAUN));
    if !wanted {
        println!(
            "gungraun-runner {GUNGRAUN} is not installed; building it under {}",
            tools.display()
        );
        Cmd::cargo("install gungraun-runner --locked --force --version")
            .arg(format!("={GUNGRAUN}"))
            .arg("--root")
            .arg(&tools)
            .run()?;
    }
    Cmd::cargo("bench --manifest-path peers/bench-instructions/Cargo.toml")
        .env("GUNGRAUN_RUNNER", &runner)
        .run()
}
