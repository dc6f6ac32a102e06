//! The benchmark of precomputed volumes: the engine compared with other tools and a floor.
//!
//! The crate in `peers/bench` does the work; this prepares what it needs: the Python environment,
//! the build, the folders.

use crate::bench::out_folder;
use crate::shell::{Cmd, Result, root, shared_target_dir, target_dir};
use crate::{usage, value, venv};

pub fn main(args: &[String]) -> Result {
    let mut passed: Vec<String> = Vec::new();
    let mut out: Option<String> = None;
    let mut partial = false;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--precomputed" => {}
            "--out" => out = Some(value(option, &mut rest)?),
            "--rounds" => passed.extend([option.clone(), value(option, &mut rest)?]),
            "--quick" => {
                partial = true;
                passed.push(option.clone());
            }
            "--only" | "--peers" => {
                partial = true;
                passed.extend([option.clone(), value(option, &mut rest)?]);
            }
            _ => return Err(usage(format!("bench --precomputed does not take \"{option}\""))),
        }
    }
    let out = out_folder(out, partial);
    let python = venv::ensure_precomputed()?;
    Cmd::cargo("build --release --manifest-path peers/bench/Cargo.toml").run()?;
    let target = shared_target_dir().unwrap_or_else(|| root().join("peers/bench/target"));
    Cmd::new(target.join("release/shardine-bench"))
        .args(["precomputed", "drive", "--python"])
        .arg(python)
        .arg("--worker")
        .arg(root().join("peers/bench/precomputed_worker.py"))
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(out)
        .args(passed)
        .run()
}
