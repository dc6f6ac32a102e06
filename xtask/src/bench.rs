//! The benchmark: the engine compared with other Zarr implementations and a floor.
//!
//! The crate in `peers/bench`, a workspace of its own, does the work; this prepares what it needs:
//! the Python environment, the build, the folders.

use std::path::PathBuf;

use crate::shell::{Cmd, Result, root, shared_target_dir, target_dir};
use crate::{
    bench_ome, bench_precomputed, bench_pyramid, bench_python, bench_remote, bench_repack,
    bench_vectors, instructions, usage, value, venv,
};

pub fn main(args: &[String]) -> Result {
    if args.iter().any(|option| option == "--instructions") {
        return instructions::main(args);
    }
    if args.iter().any(|option| option == "--remote") {
        return bench_remote::main(args);
    }
    if args.iter().any(|option| option == "--precomputed") {
        return bench_precomputed::main(args);
    }
    if args.iter().any(|option| option == "--ome") {
        return bench_ome::main(args);
    }
    if args.iter().any(|option| option == "--repack") {
        return bench_repack::main(args);
    }
    if args.iter().any(|option| option == "--pyramid") {
        return bench_pyramid::main(args);
    }
    if args.iter().any(|option| option == "--python") {
        return bench_python::main(args);
    }
    if args.iter().any(|option| option == "--vectors") {
        return bench_vectors::main(args);
    }
    let mut passed: Vec<String> = Vec::new();
    let mut out: Option<String> = None;
    let mut quick = false;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--quick" => quick = true,
            "--out" => out = Some(value(option, &mut rest)?),
            "--syscalls" => passed.push(option.clone()),
            "--only" | "--codec" | "--peers" | "--repeats" | "--min-seconds" => {
                passed.extend([option.clone(), value(option, &mut rest)?]);
            }
            _ => return Err(usage(format!("bench does not take \"{option}\""))),
        }
    }
    let partial = quick || passed.iter().any(|word| word != "--syscalls");
    let out = out_folder(out, partial);
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

/// Where a report goes.
pub fn out_folder(given: Option<String>, is_partial: bool) -> PathBuf {
    match given {
        // Relative to the caller's working directory.
        Some(out) => std::path::absolute(&out).unwrap_or_else(|_| PathBuf::from(out)),
        // Only a full run is worth keeping in the repository.
        None if is_partial => target_dir().join("bench/report"),
        None => root().join("docs/bench"),
    }
}
