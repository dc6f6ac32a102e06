//! The Python package: built from the work tree, and tested.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::venv;

/// Where the package is written.
const PACKAGE: &str = "crates/shardine-python/python/shardine";

/// The crate of the package.
const CRATE: &str = "crates/shardine-python";

/// Checks the types of the package and runs its tests, with a part of the random cases; installs it
/// into a new environment as README.md says, and runs the quick start there.
pub fn run() -> Result {
    let python = venv::ensure_python()?;
    let package = build()?;
    check_types(&python, &package)?;
    Cmd::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", CRATE])
        .env("PYTHONPATH", package)
        .run()?;
    quick_start()
}

/// mypy and pyright must agree with the annotations, and mypy's stubtest with the stubs of the
/// extension.
fn check_types(python: &Path, package: &Path) -> Result {
    let here = package.join("shardine");
    let examples = root().join("examples/python");
    Cmd::new(python)
        .args(["-m", "mypy", "--strict", "--no-warn-return-any", "--no-error-summary"])
        // Not all that may be installed beside the package is annotated.
        .args(["--disable-error-code", "import-untyped", "--cache-dir"])
        .arg(target_dir().join("mypy"))
        .arg(&here)
        .arg(&examples)
        .env("MYPYPATH", package)
        .run()?;
    Cmd::new(python)
        .args(["-m", "mypy.stubtest", "shardine._shardine", "--ignore-missing-stub", "--concise"])
        .arg("--ignore-disjoint-bases")
        .env("PYTHONPATH", package)
        .env("MYPYPATH", package)
        .run()?;
    // The same interpreter that has the packages which the annotations name.
    Cmd::new(python)
        .args(["-m", "pyright", "--pythonpath"])
        .arg(python)
        .arg("--level")
        .arg("error")
        .arg(here)
        .env("PYTHONPATH", package)
        .run()
}

/// Installs the package into a new environment by the line of README.md, and runs the program there.
///
/// In the dev profile, with what is compiled already.
fn quick_start() -> Result {
    let folder = target_dir().join("quick-start");
    if folder.exists() {
        fs::remove_dir_all(&folder).attempt(folder.display())?;
    }
    fs::create_dir_all(&folder).attempt(folder.display())?;
    Cmd::new("python3").args(["-m", "venv"]).arg(folder.join("venv")).run()?;
    let python = folder.join("venv/bin/python");
    Cmd::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("./{CRATE}"))
        .env("MATURIN_PEP517_ARGS", "--profile dev")
        .env("CARGO_TARGET_DIR", target_dir())
        .run()?;
    let program = Cmd::new(&python).arg(root().join(CRATE).join("quick_start.py")).output()?;
    if !program.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&program.stderr).trim().to_owned()));
    }
    let path = folder.join("quick_start.py");
    fs::write(&path, &program.stdout).attempt(path.display())?;
    let enter = "import os, runpy, sys; os.chdir(sys.argv[1]); runpy.run_path(sys.argv[2])";
    Cmd::new(&python).args(["-W", "error", "-c", enter]).arg(&folder).arg(&path).run()
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
    announce(&made)?;
    Ok(made)
}

/// Writes what an installation would have about the package, so that others find its entry points.
fn announce(made: &Path) -> Result {
    let project = root().join(CRATE).join("pyproject.toml");
    let project = fs::read_to_string(&project).attempt(project.display())?;
    let mut entries = String::new();
    for group in project.split("\n[project.entry-points.").skip(1) {
        let group = group.split("\n[").next().unwrap_or(group);
        let (name, lines) = group.split_once('\n').unwrap_or((group, ""));
        let name = name.trim_matches([']', '"']);
        // Without the quotes of TOML around what each name stands for.
        entries += &format!("[{name}]\n{}\n", lines.trim().replace('"', ""));
    }
    let about = made.join("shardine-0.dist-info");
    fs::create_dir_all(&about).attempt(about.display())?;
    let files = [
        ("METADATA", "Metadata-Version: 2.1\nName: shardine\nVersion: 0\n"),
        ("entry_points.txt", entries.as_str()),
    ];
    for (name, content) in files {
        let path = about.join(name);
        fs::write(&path, content).attempt(path.display())?;
    }
    Ok(())
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
