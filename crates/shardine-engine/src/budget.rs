use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The memory that work in flight may use, shared by everything that runs concurrently.
#[derive(Debug)]
pub struct Budget {
    total: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// Number of waiting threads: a notification costs a system call even if nobody waits.
    waiting: usize,
}

/// A share of the budget, returned when dropped.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget of `total` bytes.
    pub fn new(total: u64) -> Arc<Self> {
        let state = Mutex::new(State { free: total, waiting: 0 });
        Arc::new(Self { total, state, freed: Condvar::new() })
    }

    /// The size of the whole budget in bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Waits until `bytes` are free. A request larger than the whole budget gets all of it, alone.
    ///
    /// The holder of a permit must not wait for another one; that rule prevents deadlocks.
    pub fn acquire(self: &Arc<Self>, bytes: u64) -> Permit {
        let bytes = bytes.min(self.total);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.free < bytes {
            state.waiting += 1;
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.free -= bytes;
        Permit { budget: Arc::clone(self), bytes }
    }

    /// Like [`acquire`](Self::acquire), but returns `None` instead of waiting.
    pub fn try_acquire(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        let bytes = bytes.min(self.total);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free = state.free.checked_sub(bytes)?;
        Some(Permit { budget: Arc::clone(self), bytes })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free += self.bytes;
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.budget.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn no_more_is_in_flight_than_the_budget_allows() {
        let budget = Budget::new(100);
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for i in 0..8 {
                let (budget, now, most) = (&budget, &now, &most);
                scope.spawn(move || {
                    for j in 0..50 {
                        let bytes = (i * 7 + j) % 60;
                        let _permit = budget.acquire(bytes);
                        most.fetch_max(
                            now.fetch_add(bytes, Ordering::SeqCst) + bytes,
                            Ordering::SeqCst,
                        );
                        std::thread::yield_now();
                        now.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 100);
        assert_eq!(budget.state.lock().unwrap().free, 100);
    }

    #[test]
    fn what_is_larger_than_the_budget_runs_alone() {
        let budget = Budget::new(10);
        drop(budget.acquire(1_000));
        assert_eq!(budget.state.lock().unwrap().free, 10);
    }
}
