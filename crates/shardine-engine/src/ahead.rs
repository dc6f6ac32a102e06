//! Prefetches from a remote store, with many reads in flight.

use crate::tuning::AHEAD;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Numbered items, prefetched in the order in which they will be needed.
pub struct Ahead<'a, T> {
    fetch: &'a (dyn Fn(usize) -> T + Sync),
    count: usize,
    window: usize,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    next: usize,
    reading: HashSet<usize>,
    ready: HashMap<usize, T>,
    /// Requested before a reader thread got to them: the caller reads these itself.
    claimed: HashSet<usize>,
    taken: usize,
    stopped: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        let (reading, claimed) = (HashSet::new(), HashSet::new());
        Self { next: 0, reading, ready: HashMap::new(), claimed, taken: 0, stopped: false }
    }
}

/// Makes sure that nobody waits for an item that will never arrive.
struct Stop<'b, 'a, T> {
    ahead: &'b Ahead<'a, T>,
    always: bool,
}

impl<T> Drop for Stop<'_, '_, T> {
    fn drop(&mut self) {
        if self.always || thread::panicking() {
            let mut state = self.ahead.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.stopped = true;
            drop(state);
            self.ahead.changed.notify_all();
        }
    }
}

/// Runs `work` while `count` items are prefetched, up to `most` at a time. If `most` or `count` is
/// at most one, nothing is prefetched.
///
/// The threads are spawned for this call: they wait for responses and are not engine workers.
pub fn reading_ahead<T: Send, R>(
    most: usize,
    count: usize,
    fetch: &(dyn Fn(usize) -> T + Sync),
    work: impl FnOnce(Option<&Ahead<'_, T>>) -> R,
) -> R {
    match most.min(count) {
        0 | 1 => work(None),
        threads => with_readers(threads, count, fetch, work),
    }
}

/// Like [`reading_ahead`], with this many threads, or as many as can be spawned.
pub(crate) fn with_readers<T: Send, R>(
    threads: usize,
    count: usize,
    fetch: &(dyn Fn(usize) -> T + Sync),
    work: impl FnOnce(Option<&Ahead<'_, T>>) -> R,
) -> R {
    let (state, changed) = (Mutex::default(), Condvar::new());
    let window = threads.saturating_mul(AHEAD);
    let ahead = Ahead { fetch, count, window, state, changed };
    thread::scope(|scope| {
        let _stop = Stop { ahead: &ahead, always: true };
        let spawn =
            |_: &usize| thread::Builder::new().spawn_scoped(scope, || ahead.read_on()).is_ok();
        let any = (0..threads).take_while(spawn).count() > 0;
        work(any.then_some(&ahead))
    })
}

impl<T> Ahead<'_, T> {
    fn read_on(&self) {
        let _stop = Stop { ahead: self, always: false };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.stopped || state.next >= self.count {
                return;
            }
            if state.next >= state.taken.saturating_add(self.window) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let i = state.next;
            state.next += 1;
            if state.claimed.remove(&i) {
                continue;
            }
            state.reading.insert(i);
            drop(state);
            let fetched = (self.fetch)(i);
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.reading.remove(&i);
            state.ready.insert(i, fetched);
            self.changed.notify_all();
        }
    }

    /// Takes a prefetched item; `None` if the caller has to read it itself: no reader has started
    /// on it, it was taken before, or prefetching has stopped.
    ///
    /// Waits only for a read in flight, so a worker that failed cannot block it.
    pub fn take(&self, i: usize) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(fetched) = state.ready.remove(&i) {
                state.taken += 1;
                self.changed.notify_all();
                return Some(fetched);
            }
            if state.stopped || !state.reading.contains(&i) {
                if i >= state.next && state.claimed.insert(i) {
                    state.taken += 1;
                    self.changed.notify_all();
                }
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_chunk_is_read_once_and_no_more_than_a_window_ahead() {
        for most in [1, 2, 5] {
            let (reads, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let farthest = AtomicUsize::new(0);
            let fetch = |i: usize| {
                reads.fetch_add(1, Ordering::SeqCst);
                farthest
                    .fetch_max(i.saturating_sub(taken.load(Ordering::SeqCst)), Ordering::SeqCst);
                vec![i as u8]
            };
            reading_ahead(most, 100, &fetch, |ahead| {
                assert_eq!(ahead.is_some(), most > 1);
                let Some(ahead) = ahead else { return };
                for i in 0..100 {
                    assert_eq!(ahead.take(i).unwrap_or_else(|| fetch(i)), [i as u8]);
                    taken.fetch_add(1, Ordering::SeqCst);
                }
                // A caller that starts over reads the items itself.
                assert!(ahead.take(3).is_none() && ahead.take(100).is_none());
                assert_eq!(reads.load(Ordering::SeqCst), 100);
                assert!(farthest.load(Ordering::SeqCst) <= most * AHEAD);
            });
        }
    }

    #[test]
    fn work_that_ends_early_is_not_waited_for() {
        let fetch = |i: usize| {
            thread::sleep(Duration::from_millis(1));
            i
        };
        reading_ahead(4, usize::MAX, &fetch, |ahead| {
            assert!(ahead.unwrap().take(0).is_none_or(|first| first == 0));
        });
    }
}
