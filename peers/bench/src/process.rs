//! A process from its start to its end, and until all that it wrote is on the disk.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Result;

/// What a process took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds from its start to its end.
    pub wall: f64,
    /// Seconds of `sync -f` after that.
    pub sync: f64,
    pub user: f64,
    pub system: f64,
    /// Resident memory at its peak, in bytes.
    pub peak: u64,
}

impl Usage {
    /// Seconds until all is on the disk.
    pub fn seconds(&self) -> f64 {
        self.wall + self.sync
    }

    pub fn cpu(&self) -> f64 {
        self.user + self.system
    }
}

/// Runs a command, then `sync -f` on the file system that it wrote to.
///
/// The kernel counts the memory of the process that starts another as that of the new process, up to
/// the moment in which the program is loaded. So the caller must be small itself: whatever takes memory
/// here is done by other processes.
pub fn measure(command: &mut Command, folder: &Path) -> Result<Usage> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage; both places are valid, and nobody else waits for
    // this child.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let id = libc::pid_t::try_from(child.id())?;
        while libc::wait4(id, &raw mut status, 0, &raw mut usage) < 0 {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error.into());
            }
        }
        usage
    };
    let wall = start.elapsed().as_secs_f64();
    if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
        return Err(format!("{command:?} failed; the run is void").into());
    }
    let start = Instant::now();
    sync(folder)?;
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(Usage {
        wall,
        sync: start.elapsed().as_secs_f64(),
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
        peak: u64::try_from(usage.ru_maxrss)? * 1024,
    })
}

/// Waits until all that was written to the file system of a folder is on the disk.
pub fn sync(folder: &Path) -> Result {
    run(Command::new("sync").arg("-f").arg(folder))
}

/// Runs a command that is not measured.
pub fn run(command: &mut Command) -> Result {
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{command:?} failed; the run is void").into());
    }
    Ok(())
}
