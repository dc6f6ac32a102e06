//! Programs that come as packages of Debian and Ubuntu.

use std::path::Path;

use crate::shell::{Cmd, Failure, Result};

/// Makes sure that something which a package brings is there: installs the package if that can be
/// done without asking, else says what to install.
///
/// Only `usable` decides. It costs one call if all is well.
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
        // The list of packages may be older than the packages on offer.
        Cmd::new("apt-get").arg("update").run()?;
        install.run()?;
    }
    if usable() {
        return Ok(());
    }
    Err(Failure::new(format!("{what} is still not usable after installing {}", packages.join(" "))))
}
