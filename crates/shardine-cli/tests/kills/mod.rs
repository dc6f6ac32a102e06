//! A plate, and processes that are killed while they work on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::ome::Files;

/// A folder in memory where there is one, for kills do not test the disk.
pub fn folder() -> TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Whether the plate is a large one.
pub fn is_large() -> bool {
    std::env::var_os("SHARDINE_PLATE").is_some()
}

pub fn plate() -> Files {
    let mut files = Files::default();
    match is_large() {
        false => files.plate("", &["A", "B"], &["1", "2", "3"], 2, 3),
        true => {
            let columns: Vec<String> = (1..=12).map(|column| column.to_string()).collect();
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            files.plate("", &["A", "B", "C", "D", "E", "F", "G", "H"], &columns, 4, 3);
        }
    }
    files.consolidated("");
    files
}

pub fn shardine(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardine"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    let output = shardine(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    output
}

/// Every file below a folder with its bytes. A link is none.
pub fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
                continue;
            }
            assert!(entry.file_type().unwrap().is_file(), "{} is a link", path.display());
            let bytes = fs::read(&path).unwrap();
            found.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
        }
    }
    found
}

/// Moments over the whole duration of a process, each at random in its part of it.
pub struct Moments {
    count: u64,
    next: u64,
    random: u64,
}

impl Moments {
    pub fn new(count: u64, seed: u64) -> Self {
        Self { count, next: 0, random: seed | 1 }
    }
}

impl Iterator for Moments {
    type Item = (u64, f64);

    fn next(&mut self) -> Option<(u64, f64)> {
        let moment = Some(self.next).filter(|next| *next < self.count)?;
        self.next += 1;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let part = moment as f64 + (self.random % 1000) as f64 / 1000.0;
        Some((moment, part / self.count as f64))
    }
}

/// Stops a process: every fourth is interrupted as by Ctrl-C, the others do not get to know.
pub fn stop(child: &mut Child, moment: u64) {
    if moment % 4 == 3 {
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    } else {
        child.kill().unwrap();
    }
}
