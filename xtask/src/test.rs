//! `cargo xtask test`: everything a change must pass, in the order that finds mistakes soonest.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::{
    differential, docs, hygiene, planted_damage, precomputed_peers, repack_peers, servers, torture,
    usage, value, venv, wkw_peers,
};

/// One thing that must hold.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", about: "the code is formatted", run: fmt },
    Step {
        name: "hygiene",
        about: "nothing of one machine, nothing unfinished",
        run: hygiene::run,
    },
    Step { name: "clippy", about: "no compiler or lint warnings", run: clippy },
    Step {
        name: "docs",
        about: "the documentation has no warnings, the public surface is the one that is listed",
        run: docs::check,
    },
    Step { name: "build", about: "the command line builds", run: differential::build_cli },
    Step {
        name: "servers",
        about: "the object storage servers are installed",
        run: servers::ensure,
    },
    Step { name: "test", about: "unit, property, integration and documentation tests", run: test },
    Step { name: "fuzz-smoke", about: "the fuzz targets survive their seeds", run: fuzz_smoke },
    Step { name: "venv", about: "the Python implementations are installed", run: python },
    Step {
        name: "planted-damage",
        about: "verify finds damage in arrays of other implementations",
        run: planted_damage::run,
    },
    Step {
        name: "zarrs-peer",
        about: "the driver of the zarrs crate builds",
        run: differential::build_zarrs_peer,
    },
    Step {
        name: "differential",
        about: "random arrays read the same in every implementation",
        run: || differential::Run::short().run(),
    },
    Step {
        name: "zarr-v2",
        about: "arrays of Zarr v2 read the same, also after migrate",
        run: differential::zarr_v2,
    },
    Step {
        name: "append-peers",
        about: "zarr-python reads each plane that was appended",
        run: differential::append_peers,
    },
    Step {
        name: "xarray-peers",
        about: "xarray sees what is appended, and masks the same values after migrate and convert",
        run: differential::xarray_peers,
    },
    Step {
        name: "convert-peers",
        about: "numpy and zarr-python agree with what is converted",
        run: differential::convert_peers,
    },
    Step {
        name: "convert-volume-peers",
        about: "TensorStore and zarr-python agree with volumes that are converted",
        run: differential::convert_volume_peers,
    },
    Step {
        name: "repack-peers",
        about: "others read what was packed anew, of arrays that others have written",
        run: repack_peers::run,
    },
    Step {
        name: "precomputed-peers",
        about: "other tools read precomputed volumes alike, and what they lose is found",
        run: precomputed_peers::run,
    },
    Step {
        name: "wkw-peers",
        about: "what the wkw package writes is read alike",
        run: wkw_peers::run,
    },
    Step {
        name: "torture",
        about: "killed and racing writers leave every shard old or new",
        run: torture::short,
    },
    Step {
        name: "mix",
        about: "jobs in place beside readers, writers, verify, repair and copy",
        run: torture::short_mix,
    },
];

pub fn main(args: &[String]) -> Result {
    let mut only: Vec<String> = Vec::new();
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--list" => {
                STEPS.iter().for_each(|step| println!("{:14} {}", step.name, step.about));
                return Ok(());
            }
            "--only" => only.push(value(option, &mut rest)?),
            _ => return Err(usage(format!("test does not take \"{option}\""))),
        }
    }
    if let Some(name) = only.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        return Err(usage(format!("there is no step \"{name}\"; see `cargo xtask test --list`")));
    }
    let chosen: Vec<&Step> = STEPS
        .iter()
        .filter(|step| only.is_empty() || only.iter().any(|name| name == step.name))
        .collect();
    run(&chosen)
}

/// Runs the steps up to the first that fails. The last line is the count, for people and for scripts.
fn run(steps: &[&Step]) -> Result {
    let start = Instant::now();
    let mut passed = 0;
    let mut failure = None;
    for step in steps {
        println!("\n=== {}/{} {}: {}", passed + 1, steps.len(), step.name, step.about);
        let step_start = Instant::now();
        let result = (step.run)();
        let seconds = step_start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("--- {}: ok, {seconds:.1} s", step.name);
                passed += 1;
            }
            Err(error) => {
                println!("--- {}: FAILED after {seconds:.1} s", step.name);
                failure = Some((step.name, error));
                break;
            }
        }
    }
    let failed = usize::from(failure.is_some());
    let skipped = steps.len() - passed - failed;
    println!();
    if let Some((name, error)) = &failure {
        println!("{name}: {error}");
        println!("this step alone: cargo xtask test --only {name}");
        println!("{skipped} later steps were not run");
    }
    println!("{:.0} s in all", start.elapsed().as_secs_f64());
    println!("{passed} passed, {failed} failed");
    if failure.is_some() { Err(Failure::already_told()) } else { Ok(()) }
}

fn fmt() -> Result {
    component("fmt", "rustfmt")?;
    Cmd::cargo("fmt --all --check").run()?;
    for manifest in other_workspaces()? {
        Cmd::cargo("fmt --check --manifest-path").arg(manifest).run()?;
    }
    Ok(())
}

/// The manifests that `--all` and `--workspace` do not reach.
fn other_workspaces() -> Result<Vec<PathBuf>> {
    let mut manifests = vec![root().join("fuzz/Cargo.toml")];
    let peers = root().join("peers");
    for entry in fs::read_dir(&peers).attempt(peers.display())? {
        let manifest = entry.attempt(peers.display())?.path().join("Cargo.toml");
        if manifest.exists() {
            manifests.push(manifest);
        }
    }
    manifests.sort();
    Ok(manifests)
}

fn clippy() -> Result {
    component("clippy", "clippy")?;
    Cmd::cargo("clippy --workspace --all-targets --features shardine/ndarray -- -D warnings").run()
}

/// Fails with what to install if a part of the Rust toolchain is missing.
fn component(subcommand: &str, name: &str) -> Result {
    if Cmd::new("cargo").arg(subcommand).arg("--version").succeeds() {
        return Ok(());
    }
    Err(Failure::new(format!("cargo {subcommand} is missing:\n  rustup component add {name}")))
}

fn test() -> Result {
    Cmd::cargo("test --workspace --features shardine/ndarray").run()
}

/// Lints the fuzz targets and runs them on their seeds, without libFuzzer.
///
/// In the workspace's own target folder, where most dependencies have been
/// compiled already.
fn fuzz_smoke() -> Result {
    Cmd::cargo("clippy --all-targets --manifest-path fuzz/Cargo.toml --target-dir")
        .arg(target_dir())
        .args(["--", "-D", "warnings"])
        .run()?;
    Cmd::cargo("test --manifest-path fuzz/Cargo.toml --target-dir").arg(target_dir()).run()
}

fn python() -> Result {
    venv::ensure().map(|_| ())
}
