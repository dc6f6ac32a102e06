//! Work that waits for a far store: some of it at once, and what comes of it in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// What is done ahead of the piece whose turn it is, as a multiple of what is done at once: one slow answer does not
/// hold up the others.
pub(crate) const AHEAD: usize = 2;

/// Does `count` pieces of work, up to `most` at once, and hands over what comes of them in order.
///
/// `take` is called on the calling thread, which does all of it if there is no more than one at a time. The other
/// threads are made for this: they wait for answers, and are none of the engine's workers. After a break no piece is begun.
pub(crate) fn in_order<T: Send>(
    most: usize,
    count: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    take: &mut dyn FnMut(usize, T) -> ControlFlow<()>,
) {
    let threads = most.min(count);
    if threads < 2 || !with_threads(threads, count, work, take) {
        for i in 0..count {
            if take(i, work(i)).is_break() {
                return;
            }
        }
    }
}

/// An answer that is owed: if the work panics, nobody waits for it.
struct Owed<'a, T> {
    i: usize,
    answers: &'a mpsc::Sender<(usize, Option<T>)>,
    answer: Option<T>,
}

impl<T> Drop for Owed<'_, T> {
    fn drop(&mut self) {
        // Nobody takes an answer after a break.
        let _ = self.answers.send((self.i, self.answer.take()));
    }
}

/// Tells whether there were any threads to be had.
fn with_threads<T: Send>(
    threads: usize,
    count: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    take: &mut dyn FnMut(usize, T) -> ControlFlow<()>,
) -> bool {
    let (tasks, waiting) = mpsc::channel::<usize>();
    let (answers, arriving) = mpsc::channel();
    let (waiting, stopped) = (Mutex::new(waiting), AtomicBool::new(false));
    let run = |answers: mpsc::Sender<(usize, Option<T>)>| {
        loop {
            let task = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(i) = task else { break };
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let mut owed = Owed { i, answers: &answers, answer: None };
            owed.answer = Some(work(i));
        }
    };
    thread::scope(|scope| {
        // Moved in, so that they are gone before the threads are waited for, also if `take` panics.
        let (tasks, arriving) = (tasks, arriving);
        let start = || {
            let (answers, run) = (answers.clone(), &run);
            let thread = thread::Builder::new().name("shardine-far".to_owned());
            thread.spawn_scoped(scope, move || run(answers)).is_ok()
        };
        let started = (0..threads).take_while(|_| start()).count();
        if started == 0 {
            return false;
        }
        let ahead = started.saturating_mul(AHEAD);
        let (mut given, mut next) = (0, 0);
        let mut give = |next: usize| {
            while given < count && given < next.saturating_add(ahead) {
                // The receiver lives as long as the scope.
                let _ = tasks.send(given);
                given += 1;
            }
        };
        give(next);
        let mut early = BTreeMap::new();
        while next < count {
            let Ok((i, Some(answer))) = arriving.recv() else { break };
            early.insert(i, answer);
            while let Some(answer) = early.remove(&next) {
                if take(next, answer).is_break() {
                    stopped.store(true, Ordering::Relaxed);
                    return true;
                }
                next += 1;
                give(next);
            }
        }
        stopped.store(true, Ordering::Relaxed);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    #[test]
    fn what_comes_is_in_order_and_no_more_is_done_at_once_than_may_be() {
        for most in [0, 1, 2, 7, 100] {
            let (now, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = |i: usize| {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_micros((i as u64 * 37) % 400));
                now.fetch_sub(1, Ordering::SeqCst);
                i * 2
            };
            let mut taken = Vec::new();
            in_order(most, 50, &work, &mut |i, twice| {
                assert_eq!(twice, i * 2);
                taken.push(i);
                ControlFlow::Continue(())
            });
            assert_eq!(taken, (0..50).collect::<Vec<_>>());
            assert!(peak.into_inner() <= most.max(1));
        }
    }

    #[test]
    fn after_a_break_nothing_is_begun() {
        for most in [1, 4] {
            let begun = AtomicUsize::new(0);
            let mut taken = 0;
            in_order(most, 1000, &|_| begun.fetch_add(1, Ordering::SeqCst), &mut |i, _| {
                taken += 1;
                if i == 9 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(taken, 10);
            assert!(begun.into_inner() <= 10 + AHEAD * most);
        }
    }

    #[test]
    fn a_panic_ends_it() {
        let work = |i: usize| assert!(i != 5, "of no use");
        let run = || in_order(3, 100, &work, &mut |_, ()| ControlFlow::Continue(()));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        let take = || in_order(3, 100, &|i| i, &mut |_, _| panic!("of no use"));
        assert!(catch_unwind(AssertUnwindSafe(take)).is_err());
    }
}
