//! A server process that does not outlive its parent.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::error::Attempt as _;
use crate::{BedError, Result};

/// How long a server may take to start; a machine that is compiling at the same time is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of a log is shown.
const LOG_TAIL: usize = 4096;

/// What to run.
pub(crate) struct Launch<'a> {
    pub server: &'static str,
    pub program: &'a Path,
    pub args: Vec<OsString>,
    pub env: Vec<(&'static str, String)>,
    /// Files that the server leaves outside its folder.
    pub sockets: Vec<String>,
}

/// A running server and its folder. Dropping it kills the server and removes the folder.
pub(crate) struct Process {
    server: &'static str,
    watchdog: Child,
    log: PathBuf,
    folder: TempDir,
}

impl Process {
    /// Starts a server whose data is in `folder`.
    pub fn start(folder: TempDir, launch: Launch<'_>) -> Result<Self> {
        let log = folder.path().join("log");
        let watchdog = Command::new("sh")
            .arg("-c")
            .arg(include_str!("watchdog.sh"))
            .arg("watchdog")
            .arg(folder.path())
            .arg(&log)
            .arg(launch.sockets.join(" "))
            .arg(launch.program)
            .args(launch.args)
            .envs(launch.env)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the process group of the test must not end the watchdog before it has
            // cleaned up.
            .process_group(0)
            .spawn()
            .attempt(format!("cannot start {}", launch.server))?;
        Ok(Self { server: launch.server, watchdog, log, folder })
    }

    /// Waits until `ready` succeeds; its error says what is wrong.
    pub fn wait(
        &mut self,
        mut ready: impl FnMut() -> std::result::Result<(), String>,
    ) -> Result<()> {
        let start = Instant::now();
        loop {
            let ended = self.watchdog.try_wait().attempt("cannot look after a process")?;
            if let Some(status) = ended {
                return Err(BedError::Ended {
                    server: self.server,
                    status: status.to_string(),
                    log: self.log_tail(),
                });
            }
            let waited = start.elapsed();
            match ready() {
                Ok(()) => return Ok(()),
                Err(last) if waited > PATIENCE => {
                    let log = self.log_tail();
                    return Err(BedError::NotReady { server: self.server, waited, last, log });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The folder of the server, for files that belong to it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log_tail(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let tail = bytes.get(bytes.len().saturating_sub(LOG_TAIL)..).unwrap_or_default();
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // When its input ends, the watchdog stops the server.
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// Starts a server, again with other ports if it exits immediately: one of them may have been
/// taken.
pub(crate) fn retried<T>(mut start: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match start() {
            Err(BedError::Ended { .. }) if attempts < 3 => {}
            other => return other,
        }
    }
}

/// A folder for a server.
pub(crate) fn folder(server: &str) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("shardine-{server}-"))
        .tempdir()
        .attempt("cannot make a temporary folder")
}
