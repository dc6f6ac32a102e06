//! A bar on the terminal for work that takes long. None is drawn where standard error is not a
//! terminal, or with `--quiet`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardine::Engine;
use shardine::jobs::{JobContext, JobProgress};

use crate::{command, interrupt, said, units};

/// Speed and time left come from this much of the recent past.
const WINDOW: Duration = Duration::from_secs(30);

/// The window holds a sample for each of these.
const SAMPLE: Duration = Duration::from_millis(500);

/// A bar on standard error, cleared when it is finished.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    /// Whether positions are bytes.
    counts_bytes: bool,
    pace: Arc<Mutex<Pace>>,
}

impl Progress {
    /// Counts bytes up to `total`.
    pub fn bytes(what: &'static str, total: u64) -> Self {
        Self::new(what, total, true)
    }

    /// Counts steps up to `total`.
    pub fn things(what: &'static str, total: u64) -> Self {
        Self::new(what, total, false)
    }

    fn new(what: &'static str, total: u64, counts_bytes: bool) -> Self {
        let bar = ProgressBar::new(total).with_prefix(what);
        if said::is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let progress = Self { bar, counts_bytes, pace: Arc::default() };
        progress.style(total > 0);
        if !progress.is_hidden() {
            progress.bar.enable_steady_tick(SAMPLE);
        }
        progress
    }

    /// Draws a bar if the end is known.
    fn style(&self, has_end: bool) {
        let template =
            if has_end { "{prefix} [{wide_bar}] {percent}%{msg}" } else { "{prefix}{msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }

    /// Advances by `done`.
    pub fn add(&self, done: u64) {
        self.bar.inc(done);
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        self.show(done, total, if self.counts_bytes { done } else { 0 }, "");
    }

    /// Sets the position, with something to say behind it.
    pub fn set(&self, done: u64, total: u64, what: &str) {
        self.update(done, total, if self.counts_bytes { done } else { 0 }, what);
    }

    fn update(&self, done: u64, total: u64, bytes: u64, what: &str) {
        if (total > 0) != (self.bar.length() > Some(0)) {
            self.style(total > 0);
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.show(done, total, bytes, what);
    }

    /// Says how many bytes are done, how fast, and how long it will take.
    fn show(&self, done: u64, total: u64, bytes: u64, what: &str) {
        if self.is_hidden() {
            return;
        }
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let Rate { bytes: speed, left } = pace.at(Instant::now(), done, total, bytes);
        drop(pace);
        let mut parts = Vec::new();
        match (self.counts_bytes && total > 0, bytes) {
            (true, _) => parts.push(format!("of {}", units::size(total))),
            (false, 0) => {}
            (false, bytes) => parts.push(units::size(bytes)),
        }
        if let Some(speed) = speed.filter(|_| bytes > 0) {
            parts.push(format!("{}/s", units::size(speed)));
        }
        parts.extend(left.map(|left| format!("{} left", clock(left))));
        parts.extend(Some(what.to_owned()).filter(|what| !what.is_empty()));
        let gap = if self.counts_bytes || total == 0 { " " } else { ", " };
        let text = parts.join(", ");
        self.bar.set_message(if text.is_empty() { text } else { format!("{gap}{text}") });
    }

    /// Whether the bar is not drawn.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Runs something that writes to the terminal, with the bar out of the way.
    pub fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    /// What a job runs with that moves this bar and is stopped by Ctrl-C: the data is then valid,
    /// and the same command resumes.
    pub fn context(&self, engine: &Arc<Engine>) -> JobContext {
        self.watch(resumable(engine))
    }

    /// The same for a job that waits for a stream, which only the end of the program interrupts.
    pub fn context_of_stream(&self, engine: &Arc<Engine>) -> JobContext {
        self.watch(JobContext::new(engine))
    }

    fn watch(&self, context: JobContext) -> JobContext {
        if self.is_hidden() {
            return context;
        }
        let bar = self.clone();
        context.progress(move |now| bar.hear(&now))
    }

    /// Shows the progress of a job.
    pub fn hear(&self, now: &JobProgress) {
        self.update(now.job_done, now.job_total, now.bytes, &now.part);
    }

    /// Clears the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The context of a job that Ctrl-C stops and the same command resumes.
fn resumable(engine: &Arc<Engine>) -> JobContext {
    JobContext::new(engine).cancel(&interrupt::token()).command(&command::given())
}

/// How fast it goes.
#[derive(Debug, PartialEq)]
struct Rate {
    /// Bytes in a second.
    bytes: Option<u64>,
    /// Until the end.
    left: Option<Duration>,
}

/// The recent past: when, how much of the whole, and how many bytes.
#[derive(Debug, Default)]
struct Pace(VecDeque<(Instant, f64, u64)>);

impl Pace {
    fn at(&mut self, now: Instant, done: u64, total: u64, bytes: u64) -> Rate {
        let share = if total > 0 { done as f64 / total as f64 } else { 0.0 };
        if self.0.back().is_none_or(|(when, ..)| now.duration_since(*when) >= SAMPLE) {
            self.0.push_back((now, share, bytes));
        }
        // The oldest sample is at least a window old, as soon as there is one.
        while self.0.get(1).is_some_and(|(when, ..)| now.duration_since(*when) >= WINDOW) {
            self.0.pop_front();
        }
        let none = Rate { bytes: None, left: None };
        let Some(&(when, share_then, bytes_then)) = self.0.front() else { return none };
        let seconds = now.duration_since(when).as_secs_f64();
        if seconds < 1.0 {
            return none;
        }
        let speed = bytes.saturating_sub(bytes_then) as f64 / seconds;
        let gained = share - share_then;
        let left = (gained > 0.0).then(|| (1.0 - share).max(0.0) * seconds / gained);
        // A job that hardly moves has no end worth telling.
        let left = left.filter(|left| *left < 1e6).map(Duration::from_secs_f64);
        Rate { bytes: Some(speed as u64), left }
    }
}

/// A time as on a clock: `0:07`, `12:30`, `1:00:00`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_time_left_are_those_of_the_recent_past() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut rate = Rate { bytes: None, left: None };
        // A resumed job skips half of the work immediately, then does 1 % and 5 MB a second.
        for tenth in 0..=400u64 {
            let done = 500 + tenth;
            let now = start + Duration::from_millis(100 * tenth);
            rate = pace.at(now, done, 1000, 500_000 * tenth);
        }
        assert_eq!(rate.bytes, Some(5_000_000));
        let left = rate.left.unwrap().as_secs_f64();
        assert!((9.9..10.1).contains(&left), "{left}");
    }

    #[test]
    fn nothing_is_promised_in_the_first_second_or_without_an_end() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.at(start, 0, 10, 0), Rate { bytes: None, left: None });
        let soon = start + Duration::from_millis(900);
        assert_eq!(pace.at(soon, 9, 10, 9), Rate { bytes: None, left: None });
        let mut stream = Pace::default();
        stream.at(start, 0, 0, 0);
        let later = start + Duration::from_secs(2);
        assert_eq!(stream.at(later, 0, 0, 4), Rate { bytes: Some(2), left: None });
    }

    #[test]
    fn times_read_as_on_a_clock() {
        let clocks = [0.4, 7.0, 750.0, 3600.0].map(|s| clock(Duration::from_secs_f64(s)));
        assert_eq!(clocks, ["0:00", "0:07", "12:30", "1:00:00"]);
    }
}
