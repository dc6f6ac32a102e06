//! Processes and their folders.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Result;

/// Sends a signal to a process.
pub fn signal(process: u32, signal: i32) {
    // SAFETY: takes two numbers and touches no memory of this process.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

/// Whether a file is one that the store creates for itself.
pub fn is_own(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(shardine::store::is_own_file)
}

/// This program with other arguments.
pub fn this(arguments: &[String]) -> Result<Command> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

pub fn start(arguments: &[String]) -> Result<Child> {
    this(arguments)?.spawn().map_err(|e| format!("cannot start a child: {e}"))
}

/// A folder in memory if possible, since kills do not test the disk; every so often one on disk all
/// the same.
pub fn folder(on_disk: bool) -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let made = match !on_disk && memory.is_dir() {
        true => tempfile::Builder::new().prefix("shardine-torture-").tempdir_in(memory),
        false => tempfile::Builder::new().prefix("shardine-torture-").tempdir(),
    };
    made.or_else(|_| TempDir::new()).map_err(|e| format!("cannot make a folder: {e}"))
}

/// All files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// A journal below a folder, in use or set aside.
pub fn journal(folder: &Path) -> Option<PathBuf> {
    let is_journal = |path: &PathBuf| is_own(path) && path.extension() != Some("tmp".as_ref());
    files(folder).into_iter().find(is_journal)
}

/// Waits until a condition holds; returns whether it did within the limit.
pub fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Waits for a child; kills it if that takes too long.
pub fn finish(mut child: Child, limit: Duration) -> Result<bool> {
    let mut status = None;
    wait_until(limit, || {
        status = child.try_wait().ok().flatten();
        status.is_some()
    });
    let Some(status) = status else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("a child did not end within {limit:?}"));
    };
    Ok(status.success())
}

/// The words of a line.
pub fn words(line: &str) -> Vec<String> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
