//! Parallel work whose results are delivered in order.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;

use crate::Engine;
use crate::ahead::with_readers;

/// Does `count` items of work that wait for a remote store, up to `most` in parallel, and delivers
/// the results in order.
///
/// `take` is called on the calling thread, which also does items that nobody has started; the other
/// threads are spawned for this call and are not engine workers. After a break no item is started.
pub fn in_order<T: Send>(
    most: usize,
    count: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    take: &mut dyn FnMut(usize, T) -> ControlFlow<()>,
) {
    // The caller is one of them.
    let helpers = most.min(count).saturating_sub(1);
    with_readers(helpers, count, work, |ahead| {
        for i in 0..count {
            let done = ahead.and_then(|ahead| ahead.take(i)).unwrap_or_else(|| work(i));
            if take(i, done).is_break() {
                return;
            }
        }
    });
}

/// Which threads do a batch of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crew {
    /// This many of the engine's workers: the work computes, or reads local files.
    Workers(usize),
    /// This many threads of their own: the work waits for a remote store.
    Waiting(usize),
}

impl Engine {
    /// How many workers may run in parallel if each needs this much memory.
    pub fn workers_within(&self, memory: u64) -> usize {
        let affordable = self.memory_in_flight() / memory.max(1);
        let threads = self.threads();
        usize::try_from(affordable).unwrap_or(threads).clamp(1, threads)
    }

    /// Does a batch of `count` items of work and delivers the results in order, on the calling
    /// thread.
    ///
    /// Workers' results are delivered once all of them are done, so those of the whole batch are
    /// held in memory.
    pub fn batch_in_order<T: Send>(
        &self,
        crew: Crew,
        count: usize,
        work: &(dyn Fn(usize, &mut Context) -> T + Sync),
        take: &mut dyn FnMut(usize, T),
    ) {
        let workers = match crew {
            Crew::Workers(workers) if workers > 1 => workers,
            Crew::Workers(most) | Crew::Waiting(most) => {
                let work = |i: usize| self.with_context(|context| work(i, context));
                return in_order(most, count, &work, &mut |i, done| {
                    take(i, done);
                    ControlFlow::Continue(())
                });
            }
        };
        let slots: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
        self.share(workers, count, &|i, context| {
            let done = work(i, context);
            *slots[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        });
        for (i, slot) in slots.into_iter().enumerate() {
            if let Some(done) = slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
                take(i, done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::AHEAD;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
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
