//! The Python environments that hold the other Zarr implementations.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Attempt, Cmd, Failure, Result, root};

/// Makes `.venv` hold what `peers/requirements.txt` lists; returns its Python.
pub fn ensure() -> Result<PathBuf> {
    install(".venv", "peers/requirements.txt")
}

/// The same for the benchmark, which has an environment of its own.
pub fn ensure_bench() -> Result<PathBuf> {
    install(".venv-bench", "peers/bench/requirements.txt")
}

/// Makes an environment hold what a list says; returns its Python.
///
/// The list is kept in the environment once all of it is installed. A later run
/// compares the two and starts over when they differ, so an environment is
/// never a mixture of two lists or half of one.
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

/// Debian ships Python without the part that makes environments.
fn ensure_venv_module() -> Result {
    let usable = || Cmd::new("python3").args(["-c", "import venv, ensurepip"]).succeeds();
    if usable() {
        return Ok(());
    }
    let root_user = Cmd::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    if !(root_user && Path::new("/usr/bin/apt-get").exists()) {
        return Err(Failure::new(
            "python3 with its venv module is needed; on Debian and Ubuntu:\n  \
             sudo apt-get install python3-venv",
        ));
    }
    let install = Cmd::new("apt-get")
        .args(["install", "-y", "--no-install-recommends", "python3-venv"])
        .env("DEBIAN_FRONTEND", "noninteractive");
    if install.run().is_err() {
        // The list of packages may be older than the packages on offer.
        Cmd::new("apt-get").arg("update").run()?;
        install.run()?;
    }
    if usable() {
        return Ok(());
    }
    Err(Failure::new("python3 still cannot make environments after installing python3-venv"))
}
