//! Programs from Debian and Ubuntu packages.

use std::path::Path;

use crate::shell::{Cmd, Failure, Result};

/// Makes sure that something provided by a package is there: installs the package if that is
/// possible without asking, otherwise says what to install.
///
/// Only `usable` decides. Costs one call if all is well.
pub fn ensure(what: &str, packages: &[&str], usable: impl Fn() -> bool) -> Result {
    if usable() {
        return Ok(());
    }
    let root_user = Cmd::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    if !(root_user && Path::new("/usr/bin/apt-get").exists()) {
        return Err(Failure::new(format!(
            "{what} is needed; on Debian and Ubuntu:\n  sudo apt-get install {}",
            packages.join(" ")
        )));
    }
    println!("{what} is not installed; installing it");
    let install = Cmd::new("apt-get")
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    if install.run().is_err() {
        // The package list may be older than the available packages.
        Cmd::new("apt-get").arg("update").run()?;
        install.run()?;
    }
    if usable() {
        return Ok(());
    }
    Err(Failure::new(format!("{what} is still not usable after installing {}", packages.join(" "))))
}
