//! OME-Zarr: documents, and hierarchies that other implementations write and judge.

use std::path::Path;

use crate::shell::{Attempt, Cmd, Failure, Result, parallelism, root};
use crate::{differential, usage, value, venv};

/// The package whose dependency carries the suites of the specification.
const SUITES: &str = "peers/ome-suites/Cargo.toml";

/// Makes sure that the peers and the suites of the specification are there.
pub fn ensure() -> Result {
    venv::ensure_ome()?;
    Cmd::cargo("fetch --locked --manifest-path").arg(root().join(SUITES)).run()
}

/// The suites that a registry has, and the cases of our own.
pub fn suites() -> Result {
    ensure()?;
    judge_documents(None)
}

/// Hierarchies that other implementations write and judge; always the same.
pub fn hierarchies() -> Result {
    Cmd::new(venv::ensure_ome()?)
        .arg("peers/ome_check.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .args(["--jobs", &parallelism().to_string()])
        .run()
}

/// The same documents and the suites of a clone of the specification's repository.
pub fn main(args: &[String]) -> Result {
    let mut from: Option<String> = None;
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--from" => from = Some(value(option, &mut rest)?),
            _ => return Err(usage(format!("ome-suites does not take \"{option}\""))),
        }
    }
    let Some(from) = from else {
        return Err(usage("ome-suites needs --from FOLDER"));
    };
    let from = std::path::absolute(&from).attempt(&from)?;
    if !from.is_dir() {
        return Err(Failure::new(format!("{} is not a folder", from.display())));
    }
    ensure()?;
    differential::build_cli()?;
    judge_documents(Some(&from))
}

fn judge_documents(clone: Option<&Path>) -> Result {
    let mut command = Cmd::new(venv::ensure_ome()?)
        .arg("peers/ome_suites.py")
        .arg("--shardine")
        .arg(differential::cli()?)
        .arg("--manifest")
        .arg(root().join(SUITES));
    if let Some(clone) = clone {
        command = command.arg("--from").arg(clone);
    }
    command.run()
}
