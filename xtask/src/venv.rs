//! The Python environments that hold the other Zarr implementations, and servers.

use std::fs;
use std::path::PathBuf;

use crate::debian;
use crate::shell::{Attempt, Cmd, Result, root};

/// Makes sure that `.venv` contains what `peers/requirements.txt` lists; returns its Python.
pub fn ensure() -> Result<PathBuf> {
    install(".venv", "peers/requirements.txt")
}

/// The same for the benchmark, which has its own environment.
pub fn ensure_bench() -> Result<PathBuf> {
    install(".venv-bench", "peers/bench/requirements.txt")
}

/// The same for the benchmark of pyramids.
pub fn ensure_bench_pyramid() -> Result<PathBuf> {
    install(".venv-pyramid", "peers/bench/pyramid-requirements.txt")
}

/// The same for the benchmark on a remote store.
pub fn ensure_bench_remote() -> Result<PathBuf> {
    install(".venv-remote", "peers/bench-remote/requirements.txt")
}

/// The same for the tests and the benchmark of precomputed volumes.
pub fn ensure_precomputed() -> Result<PathBuf> {
    install(".venv-precomputed", "peers/precomputed/requirements.txt")
}

/// The same for the tests of OME-Zarr.
pub fn ensure_ome() -> Result<PathBuf> {
    install(".venv-ome", "peers/ome/requirements.txt")
}

/// The same for the tests and the benchmark of Zarr Vectors.
pub fn ensure_vectors() -> Result<PathBuf> {
    install(".venv-vectors", "peers/vectors/requirements.txt")
}

/// The same for ome2024-ngff-challenge, which needs an early zarr-python 3.
pub fn ensure_challenge() -> Result<PathBuf> {
    install(".venv-challenge", "peers/ome/challenge-requirements.txt")
}

/// The same for the tests of the Python package.
pub fn ensure_python() -> Result<PathBuf> {
    install(".venv-python", "crates/shardine-python/tests/requirements.txt")
}

/// The same for the tests of geometry files.
pub fn ensure_geometry() -> Result<PathBuf> {
    install(".venv-geometry", "peers/geometry/requirements.txt")
}

/// The same for building wheels of the Python package.
pub fn ensure_wheel() -> Result<PathBuf> {
    install(".venv-wheel", "crates/shardine-python/wheel-requirements.txt")
}

/// The same for the object storage servers that come as Python packages.
pub fn ensure_servers() -> Result<PathBuf> {
    install(".servers/venv", "peers/servers/requirements.txt")
}

/// Makes sure that an environment contains what a list says; returns its Python.
///
/// The list is kept in the environment once all of it is installed. A later run compares the two
/// and starts over if they differ, so an environment is never a mixture of two lists or half of
/// one.
fn install(name: &str, list: &str) -> Result<PathBuf> {
    let requirements = root().join(list);
    let wanted = fs::read(&requirements).attempt(format_args!("cannot read {list}"))?;
    let dir = root().join(name);
    let python = dir.join("bin/python");
    let installed = dir.join("requirements.installed");
    if fs::read(&installed).is_ok_and(|have| have == wanted)
        && Cmd::new(&python).args(["-c", "import sys"]).succeeds()
    {
        println!("{name} is up to date with {list}");
        return Ok(python);
    }
    if dir.exists() {
        println!("{name} was made from another {list}; making it anew");
        fs::remove_dir_all(&dir).attempt(format_args!("cannot remove {name}"))?;
    }
    ensure_venv_module()?;
    Cmd::new("python3").args(["-m", "venv"]).arg(&dir).run()?;
    Cmd::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(&requirements)
        .run()?;
    fs::write(&installed, wanted).attempt(format_args!("cannot mark {name} as complete"))?;
    Ok(python)
}

/// Debian ships Python without the module that creates environments.
fn ensure_venv_module() -> Result {
    debian::ensure("python3 with its venv module", &["python3-venv"], || {
        Cmd::new("python3").args(["-c", "import venv, ensurepip"]).succeeds()
    })
}
