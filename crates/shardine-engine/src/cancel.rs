//! Stops work from another thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// Stops a job, or reads and writes, from another thread or from a signal handler.
///
/// A job that holds the token ends before it begins its next object. Its data is then valid, and
/// running the same job again resumes it. Reads and writes stop if they are made inside
/// [`watch`](Self::watch).
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

thread_local! {
    /// The token that reads and writes begun by this thread watch.
    static WATCHED: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Puts the token back that was watched before.
struct Before(Option<CancelToken>);

impl Drop for Before {
    fn drop(&mut self) {
        WATCHED.set(self.0.take());
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops everything that holds or watches this token.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs `work`. Reads and writes of arrays that it makes on this thread fail once the token is
    /// cancelled: a read before its next chunk, a write before its next batch of chunks. Then every
    /// object is still old or new, as after any error.
    ///
    /// Requests to a remote store that are already under way are waited for.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let _before = Before(WATCHED.replace(Some(self.clone())));
        work()
    }

    /// The token that this thread watches.
    pub(crate) fn watched() -> Option<Self> {
        WATCHED.with_borrow(Clone::clone)
    }
}

/// An error if the token that a call watches is cancelled.
pub(crate) fn check(token: Option<&CancelToken>) -> Result<(), Error> {
    match token {
        Some(token) if token.is_cancelled() => Err(Error::Cancelled),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_token_is_watched_only_while_its_work_runs() {
        let (outer, inner) = (CancelToken::new(), CancelToken::new());
        let is = |token: &CancelToken| {
            CancelToken::watched().is_some_and(|watched| Arc::ptr_eq(&watched.0, &token.0))
        };
        assert!(CancelToken::watched().is_none());
        outer.watch(|| {
            assert!(is(&outer));
            inner.watch(|| assert!(is(&inner)));
            let panicked = catch_unwind(AssertUnwindSafe(|| inner.watch(|| panic!("of no use"))));
            assert!(panicked.is_err() && is(&outer));
        });
        assert!(CancelToken::watched().is_none());
    }
}
