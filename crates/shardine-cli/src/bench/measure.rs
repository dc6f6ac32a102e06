//! What one run costs: time, memory, and store calls.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use nix::sys::resource::{RLIM_INFINITY, Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike;
use shardine::store::{CountingStore, Counts, Store};

use crate::failure::Failure;

/// A store that counts its calls.
pub type CountedStore = CountingStore<Arc<dyn Store>>;

/// What a run of a workload cost.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub seconds: f64,
    /// User and system time of all threads; `None` where the system does not report it.
    pub cpu_seconds: Option<f64>,
    /// Bytes of the elements that were read or written.
    pub decoded_bytes: u64,
    pub counts: Counts,
    /// The seconds of each call.
    pub latencies: Vec<f64>,
    /// The peak memory of the process; `None` where the system does not report it.
    pub peak_rss: Option<u64>,
}

/// Measures a run, call by call: what happens between calls does not count.
#[derive(Debug)]
pub struct Meter {
    store: CountedStore,
    run: Run,
    /// Whether the peak was reset at the start of the run.
    peak_is_ours: bool,
}

impl Meter {
    pub fn start(store: &CountedStore) -> Self {
        store.reset();
        let run = Run { cpu_seconds: cpu_seconds().map(|_| 0.0), ..Run::default() };
        Self { store: store.clone(), run, peak_is_ours: reset_peak() }
    }

    /// Measures a call.
    pub fn time<T>(
        &mut self,
        call: impl FnOnce() -> Result<T, shardine::Error>,
    ) -> Result<T, Failure> {
        let cpu = cpu_seconds();
        let start = Instant::now();
        let result = call()?;
        let seconds = start.elapsed().as_secs_f64();
        let used = cpu_seconds().zip(cpu).map(|(after, before)| after - before);
        let run = &mut self.run;
        run.seconds += seconds;
        run.latencies.push(seconds);
        run.cpu_seconds = run.cpu_seconds.zip(used).map(|(sum, used)| sum + used);
        // The store records each call; taken away now, the records do not pile up.
        add(&mut run.counts, &self.store.counts());
        self.store.reset();
        Ok(result)
    }

    /// Counts bytes of elements read or written.
    pub fn decoded(&mut self, bytes: u64) {
        self.run.decoded_bytes += bytes;
    }

    pub fn stop(mut self) -> Run {
        self.run.peak_rss = if self.peak_is_ours { status("VmHWM:") } else { None };
        self.run
    }
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.opens += more.opens;
    sum.reads += more.reads;
    sum.bytes_read += more.bytes_read;
    sum.checks += more.checks;
    sum.creates += more.creates;
    sum.appends += more.appends;
    sum.bytes_appended += more.bytes_appended;
    sum.publishes += more.publishes;
    sum.deletes += more.deletes;
}

/// User and system time of all threads so far.
fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(micros as f64 / 1e6)
}

/// Resets the peak of memory; returns whether that worked.
fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// A field of the process status that the system reports, in bytes.
fn status(field: &str) -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, field)
}

/// Memory that this process could use without pushing other programs out, where the system reports
/// it.
pub fn available_memory() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok();
    let free = meminfo.and_then(|text| kibibytes(&text, "MemAvailable:"));
    let limits = [Resource::RLIMIT_AS, Resource::RLIMIT_DATA].map(|resource| {
        let (soft, _) = getrlimit(resource).ok()?;
        (soft != RLIM_INFINITY).then_some(soft)
    });
    free.into_iter().chain(limits.into_iter().flatten()).chain(group_limit()).min()
}

/// The lowest limit of the control groups that the process is in.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(path);
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    let limits = groups.filter_map(|group| fs::read_to_string(group.join("memory.max")).ok());
    // Without a limit the file says "max".
    limits.filter_map(|limit| limit.trim().parse().ok()).min()
}

fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The given quantile of the numbers; `None` if there are none.
pub fn quantile(numbers: &mut [f64], share: f64) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let last = numbers.len().checked_sub(1)?;
    let at = share * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(numbers[below] + (numbers[above] - numbers[below]) * (at - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!(quantile(&mut [3.0], 0.99), Some(3.0));
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&mut [4.0, 1.0, 2.0, 3.0], 0.5), Some(2.5));
        assert_eq!(quantile(&mut [1.0, 2.0], 1.0), Some(2.0));
    }

    #[test]
    fn lines_of_the_system_are_in_kibibytes() {
        let text = "VmPeak:\t  10 kB\nVmHWM:\t     12 kB\n";
        assert_eq!(kibibytes(text, "VmHWM:"), Some(12 * 1024));
        assert_eq!(kibibytes(text, "VmSwap:"), None);
    }
}
