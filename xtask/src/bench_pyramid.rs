//! The benchmark of pyramids: the command line tool compared with other tools and a floor.
//!
//! The crate in `peers/bench` does the work; this prepares what it needs: a release build of the
//! command line tool, the Python environment, the folders.

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
            "--pyramid" => {}
            "--out" => out = Some(value(option, &mut rest)?),
            "--rounds" | "--slow-rounds" => {
                passed.extend([option.clone(), value(option, &mut rest)?]);
            }
            "--size" | "--peers" => {
                let value: String = value(option, &mut rest)?;
                partial |= value != "full";
                passed.extend([option.clone(), value]);
            }
            _ => return Err(usage(format!("bench --pyramid does not take \"{option}\""))),
        }
    }
    let python = venv::ensure_bench_pyramid()?;
    Cmd::cargo("build --release -p shardine-cli").run()?;
    Cmd::cargo("build --release --manifest-path peers/bench/Cargo.toml").run()?;
    let target = shared_target_dir().unwrap_or_else(|| root().join("peers/bench/target"));
    Cmd::new(target.join("release/shardine-bench"))
        .args(["pyramid", "drive", "--python"])
        .arg(python)
        .arg("--worker")
        .arg(root().join("peers/bench/pyramid_worker.py"))
        .arg("--shardine")
        .arg(target_dir().join("release/shardine"))
        .arg("--data")
        .arg(target_dir().join("bench"))
        .arg("--out")
        .arg(out_folder(out, partial))
        .args(passed)
        .run()
}
