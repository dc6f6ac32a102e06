use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The first error among workers that run in parallel; the others stop when they see it.
#[derive(Debug)]
pub struct FirstError<E> {
    failed: AtomicBool,
    error: Mutex<Option<E>>,
}

impl<E> Default for FirstError<E> {
    fn default() -> Self {
        Self { failed: AtomicBool::new(false), error: Mutex::new(None) }
    }
}

impl<E> FirstError<E> {
    /// Whether a worker has failed, so that continuing is pointless.
    pub fn is_set(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Records a failure.
    pub fn set(&self, error: E) {
        self.failed.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// The first error, if there was one.
    pub fn into_result(self) -> Result<(), E> {
        match self.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The error so far. A caller that takes it must give up, as nobody else will see it again.
    pub fn check(&self) -> Result<(), E> {
        match self.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
