//! What must not be in the repository: traces of one machine, and unfinished work.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Attempt, Failure, Result, root};

/// Folders of generated files; so are Python environments of any name.
const MADE: &[&str] =
    &[".git", "target", "corpus", "artifacts", "node_modules", "__pycache__", ".servers"];

/// Paths that exist on one machine only. In two halves, so that this file itself is clean.
const MACHINE_PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Work that someone meant to come back to.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// The modules of the library from the bottom up: each uses only itself and those before it.
/// `error` is left out: it collects the errors of all of them.
const MODULES: &[&str] = &[
    "units",
    "codec_words",
    "location",
    "owner",
    "anchor",
    "array",
    "files",
    "ome",
    "physical",
    "set",
    "format",
    "zarr",
    "vectors",
    "precomputed",
    "wkw",
    "dataset",
    "plan",
    "builder",
    "jobs",
];

/// Checks every text file of the work tree and lists each offending line.
pub fn run() -> Result {
    let mut files = Vec::new();
    collect(&root(), &mut files)?;
    files.sort();
    let mut found = 0usize;
    let mut report = |file: &Path, line: usize, what: &str| {
        println!("{}:{line}: {what}", file.strip_prefix(root()).unwrap_or(file).display());
        found += 1;
    };
    for file in &files {
        let bytes = fs::read(file).attempt(file.display())?;
        // Golden shards and the like are not text.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for (line, content) in text.lines().enumerate() {
            if let Some(what) = offence(file, content) {
                report(file, line + 1, &what);
            }
        }
    }
    println!("{} files looked at", files.len());
    if found == 0 {
        return Ok(());
    }
    Err(Failure::new(format!("{found} lines that should not be committed, listed above")))
}

/// What is wrong with one line of a file, if anything is.
fn offence(file: &Path, line: &str) -> Option<String> {
    if let Some(path) = MACHINE_PATHS.iter().find(|path| has_absolute(line, path)) {
        return Some(format!("a path of one machine, {path}"));
    }
    if let Some(module) = looks_up(file, line) {
        return Some(format!("uses crate::{module}, which is a layer above"));
    }
    if file.extension().is_some_and(|extension| extension == "rs") {
        let word = UNFINISHED.iter().find(|word| line.contains(*word))?;
        return Some(format!("{word}: do it, or write down why not"));
    }
    None
}

/// The module that a line of the library's code uses although it is above the line's own.
fn looks_up(file: &Path, line: &str) -> Option<&'static str> {
    let inside = file.strip_prefix(root().join("crates/shardine/src")).ok()?;
    let own = Path::new(inside.iter().next()?).file_stem()?;
    let own = MODULES.iter().position(|module| own == *module)?;
    let code = line.split("//").next()?;
    let uses = |module: &str| {
        let path = format!("crate::{module}");
        code.match_indices(&path).any(|(at, _)| {
            let after = code[at + path.len()..].chars().next();
            !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    };
    MODULES[own + 1..].iter().find(|module| uses(module)).copied()
}

/// Whether `path` occurs in `line` at the beginning of a path, not inside a longer one.
fn has_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.}~".contains(c))
    })
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result {
    for entry in fs::read_dir(dir).attempt(dir.display())? {
        let entry = entry.attempt(dir.display())?;
        let kind = entry.file_type().attempt(entry.path().display())?;
        let name = entry.file_name();
        if kind.is_dir() {
            let environment = entry.path().join("pyvenv.cfg").exists();
            if !environment && !MADE.iter().any(|made| name == *made) {
                collect(&entry.path(), files)?;
            }
        } else if kind.is_file() && name != ".git" {
            // In a secondary work tree .git is a file that says where the main one is.
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_path_is_found_only_where_it_begins() {
        for path in MACHINE_PATHS {
            assert!(has_absolute(&format!("see {path}x"), path));
            assert!(has_absolute(&format!("\"{path}x\""), path));
            assert!(!has_absolute(&format!("tests{path}x"), path));
        }
    }

    #[test]
    fn unfinished_work_is_found_in_rust_only() {
        let line = format!("// {}: later", UNFINISHED[0]);
        assert!(offence(Path::new("a.rs"), &line).is_some());
        assert_eq!(offence(Path::new("a.md"), &line), None);
    }
}
