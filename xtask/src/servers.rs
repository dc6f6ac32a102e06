//! The object storage servers that tests of remote stores run against.
//!
//! SeaweedFS is a Python package in its own environment, Azurite an npm package; both are below
//! `.servers`. The rest comes with the system. `crates/shardine-testbed` starts them.

use std::fs;

use crate::shell::{Attempt, Cmd, Failure, Result, root};
use crate::{debian, usage, venv};

pub fn main(args: &[String]) -> Result {
    match args.first() {
        Some(option) => Err(usage(format!("servers does not take \"{option}\""))),
        None => ensure(),
    }
}

/// Installs what is missing.
pub fn ensure() -> Result {
    // Debian installs nginx where only root's search path leads.
    debian::ensure("nginx", &["nginx"], || {
        ["nginx", "/usr/sbin/nginx"].iter().any(|nginx| Cmd::new(nginx).arg("-v").succeeds())
    })?;
    debian::ensure("openssl", &["openssl"], || Cmd::new("openssl").arg("version").succeeds())?;
    venv::ensure_servers()?;
    ensure_azurite()
}

fn ensure_azurite() -> Result {
    npm("peers/servers", ".servers", ".bin/azurite-blob")
}

/// Installs in a folder's `node_modules` what the lock file in another folder says; `package` is a
/// file that must exist afterwards.
///
/// As with Python environments, the list is kept next to what was installed from it, written last.
pub fn npm(lists: &str, folder: &str, package: &str) -> Result {
    const LISTS: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];
    debian::ensure("node with npm", &["nodejs", "npm"], || {
        Cmd::new("node").arg("--version").succeeds() && Cmd::new("npm").arg("--version").succeeds()
    })?;
    let (from, dir) = (root().join(lists), root().join(folder));
    let installed = dir.join("node_modules/.installed");
    let lock = from.join("package-lock.json");
    let wanted = fs::read(&lock).attempt(lock.display())?;
    let package = dir.join("node_modules").join(package);
    if fs::read(&installed).is_ok_and(|have| have == wanted) && package.exists() {
        println!("{folder}/node_modules is up to date with {lists}/package-lock.json");
        return Ok(());
    }
    fs::create_dir_all(&dir).attempt(dir.display())?;
    for list in LISTS {
        fs::copy(from.join(list), dir.join(list)).attempt(format_args!("cannot copy {list}"))?;
    }
    // None of the packages needs to run a script, so none may.
    Cmd::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        .arg("--prefix")
        .arg(&dir)
        .run()?;
    if !package.exists() {
        return Err(Failure::new(format!("npm installed no {}", package.display())));
    }
    fs::write(&installed, wanted)
        .attempt(format_args!("cannot mark {folder}/node_modules as complete"))
}
