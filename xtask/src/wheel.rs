//! `cargo xtask wheel`: wheels of the Python package that other machines can install.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::{usage, value, venv};

/// The oldest system that a wheel is for: glibc 2.17, as in CentOS 7.
const COMPATIBILITY: &str = "manylinux2014";

/// The crate of the package.
const CRATE: &str = "crates/shardine-python";

pub fn main(args: &[String]) -> Result {
    let mut profile = "release".to_owned();
    let mut target: Option<String> = None;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--profile" => profile = value(option, &mut rest)?,
            "--target" => target = Some(value(option, &mut rest)?),
            _ => return Err(usage(format!("wheel does not take \"{option}\""))),
        }
    }
    let wheel = build(&profile, target.as_deref())?;
    println!("the wheel is {}", wheel.display());
    Ok(())
}

/// Builds a wheel; returns its path. maturin refuses to name it so if it needs a newer system: it
/// looks at the symbols and libraries that the extension asks for.
fn build(profile: &str, target: Option<&str>) -> Result<PathBuf> {
    let python = venv::ensure_wheel()?;
    let out = target_dir().join("wheels");
    fs::create_dir_all(&out).attempt(format_args!("cannot make {}", out.display()))?;
    let before = wheels(&out)?;
    let tools = python.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut maturin = Cmd::new(tools.join("maturin"))
        // zig is found by the environment that it is installed in.
        .env("VIRTUAL_ENV", tools.parent().unwrap_or(&tools))
        .env("PATH", path_with(&tools)?)
        .args(["build", "--zig", "--compatibility", COMPATIBILITY, "--profile", profile])
        .arg("--manifest-path")
        .arg(root().join(CRATE).join("Cargo.toml"))
        .arg("--out")
        .arg(&out);
    if let Some(target) = target {
        maturin = maturin.args(["--target", target]);
    }
    maturin.run()?;
    let made = wheels(&out)?;
    let newest = made.iter().find(|wheel| !before.contains(wheel)).or_else(|| {
        // One of the same name was replaced.
        made.iter().max_by_key(|wheel| fs::metadata(wheel).and_then(|found| found.modified()).ok())
    });
    let wheel = newest.cloned().ok_or_else(|| Failure::new("maturin has made no wheel"))?;
    let name = wheel.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    if !name.contains("-abi3-") || !name.contains(COMPATIBILITY) {
        return Err(Failure::new(format!("{name}: is not an abi3 wheel for {COMPATIBILITY}")));
    }
    Ok(wheel)
}

fn wheels(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).attempt(format_args!("cannot list {}", folder.display()))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == "whl")).collect())
}

/// The search path with a folder before all others.
fn path_with(folder: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).attempt("cannot extend PATH")
}
