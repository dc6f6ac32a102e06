//! Clocks and memory of this process.

use std::fs;
use std::time::Instant;

use crate::Result;

/// Wall, user and system time at one moment.
pub struct Clock {
    start: Instant,
    user: f64,
    system: f64,
}

impl Clock {
    pub fn start() -> Self {
        let (user, system) = cpu();
        Self { start: Instant::now(), user, system }
    }

    /// Seconds since the start: wall, user, system.
    pub fn stop(self) -> (f64, f64, f64) {
        let wall = self.start.elapsed().as_secs_f64();
        let (user, system) = cpu();
        (wall, user - self.user, system - self.system)
    }
}

/// Seconds of all threads of this process so far: user, system.
pub fn cpu() -> (f64, f64) {
    // SAFETY: all-zero bytes are a valid rusage, which the call then fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// The resident memory from which growth is counted; the peak begins anew here.
pub fn reset_peak() -> Result<u64> {
    fs::write("/proc/self/clear_refs", "5")?;
    status("VmRSS:")
}

/// The most resident memory since [`reset_peak`].
pub fn peak() -> Result<u64> {
    status("VmHWM:")
}

fn status(field: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    let kibibytes: u64 = number.ok_or("no such line in /proc/self/status")?.parse()?;
    Ok(kibibytes * 1024)
}

/// The number below which a share of the sorted numbers lies.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}
