//! The benchmark of repacking chunks: the command line tool compared with a plain copy and other
//! tools.
//!
//! The crate in `peers/bench` does the work; this prepares what it needs: a release build of the
//! command line tool, the Python environment, `zarrs_reencode`, the folders.

use std::path::Path;

use crate::bench::out_folder;
use crate::shell::{Cmd, Result, root, shared_target_dir, target_dir};
use crate::{usage, value, venv};

/// The release of zarrs_tools whose `zarrs_reencode` is compared with.
const ZARRS_TOOLS: &str = "0.8.1";

pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let mut out: Option<String> = None;
    let (mut partial, mut zarrs_takes_part) = (false, true);
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--repack" => {}
            "--out" => out = Some(value(option, &mut rest)?),
            "--rounds" => passed.extend([option.clone(), value(option, &mut rest)?]),
            "--size" | "--only" | "--peers" => {
                let value: String = value(option, &mut rest)?;
                partial |= value != "full";
                zarrs_takes_part &= option != "--peers" || value.contains("zarrs_reencode");
                passed.extend([option.clone(), value]);
            }
            _ => return Err(usage(format!("bench --repack does not take \"{option}\""))),
        }
    }
    let out = out_folder(out, partial);
    let python = venv::ensure_bench()?;
    let zarrs = target_dir().join("tools/bin/zarrs_reencode");
    if zarrs_takes_part {
        ensure_zarrs_reencode(&zarrs)?;
    }
    Cmd::cargo("build --release -p shardine-cli").run()?;
    Cmd::cargo("build --release --manifest-path peers/bench/Cargo.toml").run()?;
    let target = shared_target_dir().unwrap_or_else(|| root().join("peers/bench/target"));
    Cmd::new(target.join("release/shardine-bench"))
        .args(["repack", "drive", "--python"])
        .arg(python)
        .arg("--worker")
        .arg(root().join("peers/bench/repack_worker.py"))
        .arg("--shardine")
        .arg(target_dir().join("release/shardine"))
        .arg("--zarrs")
        .arg(zarrs)
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(out)
        .args(passed)
        .run()
}

/// Builds `zarrs_reencode` under the target folder, unless the wanted version is there.
fn ensure_zarrs_reencode(program: &Path) -> Result {
    let version = Cmd::new(program).arg("--version").output();
    let wanted = format!("zarrs_tools {ZARRS_TOOLS} ");
    if version.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).starts_with(&wanted)) {
        return Ok(());
    }
    println!("zarrs_reencode {ZARRS_TOOLS} is not there; building it, which takes some minutes");
    let tools = target_dir().join("tools");
    Cmd::cargo("install zarrs_tools --locked --bin zarrs_reencode --force --version")
        .arg(format!("={ZARRS_TOOLS}"))
        .arg("--root")
        .arg(&tools)
        // Not shared with our own: its dependencies are different.
        .env("CARGO_TARGET_DIR", tools.join("build"))
        .run()
}
