//! The comparison with other Zarr implementations: they must read what we write, and vice versa.

use std::path::PathBuf;

use crate::shell::{Attempt, Cmd, Failure, Result, parallelism, root, shared_target_dir};
use crate::{precomputed_peers, test, usage, value, venv};

/// How many random cases to compare, and which.
pub struct Run {
    pub cases: u32,
    pub seed: u64,
    pub jobs: usize,
}

impl Run {
    /// What `cargo xtask test` compares: always the same cases, so that a failure is due to the
    /// change.
    pub fn short() -> Self {
        Self { cases: 120, seed: 1, jobs: parallelism() }
    }

    /// Compares, with peers and binary already in place.
    pub fn run(&self) -> Result {
        Cmd::new(root().join(".venv/bin/python"))
            .arg("peers/differential.py")
            .arg("--shardine")
            .arg(cli()?)
            .arg("--zarrs-peer")
            .arg(zarrs_peer())
            .args(["--cases", &self.cases.to_string()])
            .args(["--seed", &self.seed.to_string()])
            .args(["--jobs", &self.jobs.to_string()])
            .run()
    }
}

pub fn main(args: &[String]) -> Result {
    if args.iter().any(|option| option == "--precomputed") {
        return precomputed_peers::main(args);
    }
    let mut run = Run { cases: 500, ..Run::short() };
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--cases" => run.cases = value(option, &mut rest)?,
            "--seed" => run.seed = value(option, &mut rest)?,
            "--jobs" => run.jobs = value(option, &mut rest)?,
            _ => return Err(usage(format!("differential does not take \"{option}\""))),
        }
    }
    build_cli()?;
    venv::ensure()?;
    build_zarrs_peer()?;
    run.run()
}

/// Has zarr-python read while planes are appended, with it and the binary already in place.
pub fn append_peers() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/append_check.py")
        .arg("--shardine")
        .arg(cli()?)
        .run()
}

/// Lets zarr-python and TensorStore read structured arrays in both spellings, with them and the
/// binary already in place.
pub fn struct_peers() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/struct_check.py")
        .arg("--shardine")
        .arg(cli()?)
        .run()
}

/// Has xarray and zarr-python judge metadata that they rely on, with them and the binary already in
/// place.
pub fn xarray_peers() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/xarray_check.py")
        .arg("--shardine")
        .arg(cli()?)
        .run()
}

/// Has zarr-python write arrays of version 2, and compares what is read from them before and after
/// `migrate`.
pub fn zarr_v2() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/zarr_v2.py")
        .arg("--shardine")
        .arg(cli()?)
        .args(["--cases", "220", "--seed", "1"])
        .args(["--jobs", &parallelism().to_string()])
        .run()
}

/// Has zarr-python and TensorStore read what is written as version 2, with them and the binary
/// already in place.
pub fn zarr_v2_write() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/zarr_v2_write.py")
        .arg("--shardine")
        .arg(cli()?)
        .run()
}

/// Has numpy create and read the converted files, and zarr-python the arrays, with both and the
/// binary already in place.
pub fn convert_peers() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/convert_check.py")
        .arg("--shardine")
        .arg(cli()?)
        .run()
}

/// Has TensorStore and zarr-python judge conversions between Zarr and precomputed volumes, with
/// them and the binary already in place.
pub fn convert_volume_peers() -> Result {
    Cmd::new(root().join(".venv/bin/python"))
        .arg("peers/volume_convert_check.py")
        .arg("--shardine")
        .arg(cli()?)
        .args(["--cases", "150", "--seed", "1"])
        .run()
}

/// Builds the command line tool as the differential tests use it.
pub fn build_cli() -> Result {
    test::build()
}

/// The binary that [`build_cli`] has left next to our own.
///
/// Cargo puts the binaries of one profile into one folder; our own location is right whatever
/// target folder or target triple is configured.
pub fn cli() -> Result<PathBuf> {
    let this = std::env::current_exe().attempt("cannot tell where xtask itself is")?;
    let cli = this.with_file_name("shardine");
    if cli.exists() {
        return Ok(cli);
    }
    Err(Failure::new(format!("{} is not there; run `cargo xtask` itself", cli.display())))
}

fn zarrs_peer_target() -> PathBuf {
    shared_target_dir().unwrap_or_else(|| root().join("peers/zarrs-peer/target"))
}

fn zarrs_peer() -> PathBuf {
    zarrs_peer_target().join("release/zarrs-peer")
}

/// Builds the driver of the `zarrs` crate. A release build, since nobody debugs it here.
pub fn build_zarrs_peer() -> Result {
    Cmd::cargo("build --release --locked --manifest-path peers/zarrs-peer/Cargo.toml --target-dir")
        .arg(zarrs_peer_target())
        .run()
}
