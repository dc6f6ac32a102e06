//! Where the servers are installed.

use std::path::{Path, PathBuf};

use crate::{BedError, Result};

/// A program that `cargo xtask servers` installs.
pub(crate) struct Program {
    pub name: &'static str,
    /// The environment variable that may say where it is.
    pub variable: &'static str,
    /// Where it is installed, below the root of the workspace.
    pub installed: &'static str,
}

pub(crate) const WEED: Program =
    Program { name: "weed", variable: "SHARDINE_WEED", installed: ".servers/venv/bin/weed" };

pub(crate) const AZURITE: Program = Program {
    name: "azurite-blob",
    variable: "SHARDINE_AZURITE",
    installed: ".servers/node_modules/.bin/azurite-blob",
};

pub(crate) const NGINX: Program =
    Program { name: "nginx", variable: "SHARDINE_NGINX", installed: ".servers/nginx" };

impl Program {
    /// The path of the program: from the environment, the workspace, or the search path.
    pub fn find(&self) -> Result<PathBuf> {
        if let Some(path) = std::env::var_os(self.variable).filter(|path| !path.is_empty()) {
            return self.existing(PathBuf::from(path));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        if let Ok(path) = self.existing(root.join(self.installed)) {
            return Ok(path);
        }
        // Debian installs nginx where only root's search path leads.
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .chain([PathBuf::from("/usr/sbin")])
            .find_map(|folder| self.existing(folder.join(self.name)).ok())
            .ok_or_else(|| self.missing())
    }

    fn existing(&self, path: PathBuf) -> Result<PathBuf> {
        path.canonicalize().ok().filter(|path| path.is_file()).ok_or_else(|| self.missing())
    }

    fn missing(&self) -> BedError {
        BedError::Missing { program: self.name, variable: self.variable }
    }
}
