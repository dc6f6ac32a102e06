//! Folders of files, as they were at some moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Every file below a folder with its bytes, and every link with where it leads.
pub type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// A folder in memory where there is one, for tests that are not about the disk.
pub fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// Everything in a folder.
pub fn tree(folder: &Path) -> Tree {
    let (mut found, mut waiting) = (Tree::new(), vec![folder.to_path_buf()]);
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(name, format!("a link to {}", target.display()).into_bytes());
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Whether a tree has a link in it.
pub fn has_links(tree: &Tree) -> bool {
    tree.values().any(|bytes| bytes.starts_with(b"a link to "))
}

/// Writes the files of a tree.
pub fn restore(files: &Tree, to: &Path) {
    for (name, bytes) in files {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Fails unless both have the same files with the same bytes.
pub fn assert_same(found: &Tree, expected: &Tree, context: &str) {
    let names = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{context}");
    let differs = |name: &&PathBuf| found[*name] != expected[*name];
    assert_eq!(expected.keys().find(differs), None, "{context}: other bytes");
}

/// What lies below a folder that only a job or a writer at work should have there.
pub fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(".shardine") || name.ends_with(".tmp") {
                found.push(entry.path());
            }
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    found
}
