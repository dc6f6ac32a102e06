//! Work that waits for a far store: some of it at once, and what comes of it in order.

use std::ops::ControlFlow;

use super::ahead::reading_ahead;
/// Does `count` pieces of work, up to `most` at once, and hands over what comes of them in order.
///
/// `take` is called on the calling thread, which does pieces too that nobody has begun with. After a break no piece is begun.
pub fn in_order<T: Send>(
    most: usize,
    count: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    take: &mut dyn FnMut(usize, T) -> ControlFlow<()>,
) {
    let helpers = most.saturating_sub(1);
    reading_ahead(helpers, count, work, |ahead| {
        for i in 0..count {
            let done = ahead.and_then(|ahead| ahead.take(i)).unwrap_or_else(|| work(i));
            if take(i, done).is_break() {
                return;
            }
        }
    });
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
