//! A bandwidth limit.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock;

/// What may pass immediately after a pause, so that short messages are not slowed down by the
/// clock.
const BURST: Duration = Duration::from_millis(10);

/// Makes callers wait so that no more than a number of bytes per second pass.
pub(crate) struct Pace {
    bytes_per_second: u64,
    /// When everything that has passed is paid for.
    paid: Mutex<Instant>,
}

impl Pace {
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), paid: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` have had the time to pass.
    pub fn pass(&self, bytes: usize) {
        let now = Instant::now();
        let until = {
            let mut paid = lock(&self.paid);
            let floor = now.checked_sub(BURST).unwrap_or(now);
            *paid = (*paid).max(floor)
                + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
            *paid
        };
        std::thread::sleep(until.saturating_duration_since(now));
    }
}
