use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use nix::sys::stat::FileStat;

use crate::Version;

/// For this long after a change of a file, another change may leave it with the same times, since
/// the file system's clock ticks slowly.
const TICK: Duration = Duration::from_millis(50);

/// The same where times have no nanoseconds, as in old file systems.
const SLOW_TICK: Duration = Duration::from_secs(2);

/// The state of a file as reported by the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub device: u64,
    inode: u64,
    pub len: u64,
    /// Seconds and nanoseconds of the last change of the bytes.
    modified: (i64, i64),
    /// The same of the last change of bytes, name, links or mode.
    changed: (i64, i64),
}

impl Stamp {
    /// Whether the bytes behind an open descriptor are still those of `earlier`.
    ///
    /// The time of change is left out: it also moves when the file is renamed, linked or replaced.
    pub fn same_bytes(&self, earlier: &Self) -> bool {
        self.len == earlier.len && self.modified == earlier.modified
    }

    /// Whether any further change of the file, from `now` on, is guaranteed to show in its times.
    pub fn has_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let tick = if nanoseconds == 0 { SLOW_TICK } else { TICK };
        let (Ok(seconds), Ok(nanoseconds)) = (seconds.try_into(), nanoseconds.try_into()) else {
            return false;
        };
        let since = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanoseconds));
        // A time in the future proves nothing.
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.checked_sub(since).is_some_and(|age| age > tick)
    }

    /// Whether no other state of the file, from `now` on, can have the same times.
    ///
    /// Every write sets both times to the same tick of the kernel's clock. If they differ, one of
    /// them was set explicitly after the last write, as all code here does that finishes a file.
    pub fn is_telling(&self, now: SystemTime) -> bool {
        self.modified != self.changed || self.has_settled(now)
    }

    /// A value that changes with the bytes, but not with a second name of the file. The device
    /// number is left out: another machine that sees the same storage assigns a different one.
    pub fn of_bytes(&self) -> [u8; 32] {
        let (seconds, nanoseconds) = self.modified;
        let mut bytes = [0; 32];
        let numbers = [
            self.inode.to_le_bytes(),
            self.len.to_le_bytes(),
            seconds.to_le_bytes(),
            nanoseconds.to_le_bytes(),
        ];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number);
        }
        bytes
    }

    pub fn version(&self) -> Version {
        let Self { device, inode, len, modified, changed } = self;
        let text = format!(
            "{device:x}-{inode:x}-{len:x}-{:x}.{:x}-{:x}.{:x}",
            modified.0, modified.1, changed.0, changed.1
        );
        Version(text.into())
    }
}

/// When an object was changed, in seconds and nanoseconds since 1970. Comparable with those of other
/// objects in the same store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectTimes {
    /// When its bytes were written, as a program may set it: a copy may have the time of the original.
    pub modified: (i64, i64),
    /// When it came to its place, or anything about it was changed. No program can set it.
    pub changed: (i64, i64),
}

impl From<Stamp> for ObjectTimes {
    fn from(stamp: Stamp) -> Self {
        Self { modified: stamp.modified, changed: stamp.changed }
    }
}

impl From<&Metadata> for Stamp {
    fn from(m: &Metadata) -> Self {
        Self {
            device: m.dev(),
            inode: m.ino(),
            len: m.len(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        }
    }
}

// The widths of these fields differ between systems.
#[allow(clippy::unnecessary_cast, reason = "the fields have other widths on other systems")]
impl From<&FileStat> for Stamp {
    fn from(s: &FileStat) -> Self {
        Self {
            device: s.st_dev as u64,
            inode: s.st_ino as u64,
            len: s.st_size as u64,
            modified: (s.st_mtime as i64, s.st_mtime_nsec as i64),
            changed: (s.st_ctime as i64, s.st_ctime_nsec as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_settle_after_a_tick() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let settled = |changed| {
            Stamp { device: 1, inode: 1, len: 1, modified: (0, 0), changed }
                .has_settled(SystemTime::now())
        };
        let ago = |time: Duration| {
            let then = now - time;
            (then.as_secs() as i64, i64::from(then.subsec_nanos()).max(1))
        };
        assert!(settled(ago(Duration::from_secs(1))));
        assert!(!settled(ago(Duration::from_millis(1))));
        // A clock that only counts seconds has a longer tick.
        let seconds = now.as_secs() as i64;
        assert!(settled((seconds - 5, 0)) && !settled((seconds - 1, 0)));
        for later in [(seconds + 100, 7), (i64::MAX, i64::MAX), (i64::MIN, 0), (0, -1)] {
            assert!(!settled(later), "{later:?}");
        }
    }
}
