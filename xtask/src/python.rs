//! The Python package: built from the work tree, and tested.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Attempt, Cmd, Result, root, target_dir};
use crate::venv;

/// Where the package is written.
const PACKAGE: &str = "crates/shardine-python/python/shardine";

/// Runs the tests of the package, with a part of the random cases.
pub fn run() -> Result {
    let python = venv::ensure_python()?;
    let package = build()?;
    Cmd::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "crates/shardine-python"])
        .env("PYTHONPATH", package)
        .run()
}

/// Builds the package in the dev profile; returns the folder from which it can be imported.
pub fn build() -> Result<PathBuf> {
    // With the packages and features of the other steps, so that little is compiled again.
    Cmd::cargo("build --workspace --features shardine/ndarray --lib").run()?;
    let made = target_dir().join("python");
    if made.exists() {
        fs::remove_dir_all(&made).attempt(made.display())?;
    }
    copy(&root().join(PACKAGE), &made.join("shardine"))?;
    let library = target_dir().join("debug/lib_shardine.so");
    let module = made.join("shardine/_shardine.abi3.so");
    fs::copy(&library, module).attempt(library.display())?;
    Ok(made)
}

/// Copies the source files of a folder and of those below it.
fn copy(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to).attempt(to.display())?;
    for entry in fs::read_dir(from).attempt(from.display())? {
        let path = entry.attempt(from.display())?.path();
        let Some(name) = path.file_name() else { continue };
        let source = ["py", "pyi", "typed"];
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else if path.extension().is_some_and(|end| source.iter().any(|known| end == *known)) {
            fs::copy(&path, to.join(name)).attempt(path.display())?;
        }
    }
    Ok(())
}
